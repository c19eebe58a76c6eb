"""Names of the papers as the command line shows them."""

from __future__ import annotations

import json
import shutil
import textwrap
from dataclasses import asdict

from dpcape_papers.names.name import PaperName
from dpcape_papers.names.registry import NAMES, find_name


def shown_list(*, as_json: bool) -> str:
    """Return all names with their classes and consequences."""
    if as_json:
        return json.dumps([asdict(entry) for entry in NAMES.values()])
    width = max(len(name) for name in NAMES)
    lines = [f"{entry.name:<{width}}  {entry.uses} ({entry.consequence})" for entry in NAMES.values()]
    return "\n".join([*lines, "", "For a name's example and corrections, run: dpcape papers NAME"])


def shown_name(name: str, *, as_json: bool) -> str:
    """Return everything about one name."""
    entry = find_name(name)
    if as_json:
        return json.dumps({**asdict(entry), "example": entry.example})
    texts = {
        "Where": entry.source,
        "In dpcape": entry.uses,
        "Corrected": entry.corrected,
        "For you": f"{entry.consequence}: {entry.follows}",
        "Published": entry.baseline,
    }
    head = [_filled(title, text) for title, text in texts.items() if text]
    return "\n".join([entry.name, *head, "", textwrap.indent(entry.example, "    "), "", *_further(entry)])


def _further(entry: PaperName) -> list[str]:
    """Return the commands that lead on."""
    lines = [f"dpcape mechanisms --claim {key}" for key in entry.claims]
    if entry.figures:
        lines.append(f"dpcape reproduce {' '.join(entry.figures)} --quick --out out")
    return ["See also:", *(f"  {line}" for line in lines)] if lines else []


def _filled(title: str, text: str) -> str:
    width = min(shutil.get_terminal_size().columns, 120)
    start = f"  {title:<10}"
    return textwrap.fill(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_on_hyphens=False,
        break_long_words=False,
    )
