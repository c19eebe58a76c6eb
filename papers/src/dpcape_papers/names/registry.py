"""All names, in the order of the page."""

from __future__ import annotations

import difflib

from dpcape.core.errors import InvalidParameter
from dpcape_papers.names.algorithms import ALGORITHMS
from dpcape_papers.names.name import PaperName
from dpcape_papers.names.schemes import SCHEMES

NAMES: dict[str, PaperName] = {entry.name: entry for entry in (*SCHEMES, *ALGORITHMS)}


def find_name(name: str) -> PaperName:
    """Return the entry of a name; capitals, spaces and hyphens do not matter."""
    known = {_plain(entry): entry for entry in NAMES}
    if _plain(name) in known:
        return NAMES[known[_plain(name)]]
    near = [known[found] for found in difflib.get_close_matches(_plain(name), known, n=3)]
    remedy = f"Did you mean {' or '.join(near)}?" if near else "dpcape papers lists the names."
    raise InvalidParameter("NAME", f"be one of {', '.join(NAMES)}", repr(name), remedy)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
