"""All names, in the order of the page."""

from __future__ import annotations

import difflib

from dpcape.core.errors import InvalidParameter
from dpcape_papers.names.algorithms import ALGORITHMS
from dpcape_papers.names.name import PaperName
from dpcape_papers.names.schemes import SCHEMES

# Names of the authors' programs and of the literature.
OTHER_NAMES = {"capeotd": "capeAGN", "functionalmechanism": "capeFM"}
NAMES: dict[str, PaperName] = {entry.name: entry for entry in (*SCHEMES, *ALGORITHMS)}


def find_name(name: str) -> PaperName:
    """Return the entry of a name; capitals, spaces and hyphens do not matter; a unique beginning suffices."""
    known = {_plain(entry): entry for entry in NAMES} | OTHER_NAMES
    wanted = _plain(name)
    begun = [entry for plain, entry in known.items() if wanted and plain.startswith(wanted)]
    if wanted in known or len(begun) == 1:
        return NAMES[known.get(wanted, begun[0])]
    near = [known[found] for found in difflib.get_close_matches(_plain(name), known, n=3)]
    remedy = f"Did you mean {' or '.join(near)}?" if near else "dpcape papers lists the names."
    raise InvalidParameter("NAME", f"be one of {', '.join(NAMES)}", repr(name), remedy)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
