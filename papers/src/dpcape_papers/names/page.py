"""Generator of the table of docs/papers/index.md: ``python -m dpcape_papers.names.page docs/papers/index.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from dpcape_papers.names.name import PaperName
from dpcape_papers.names.registry import NAMES

BEGIN, END = "<!-- names: begin -->", "<!-- names: end -->"
# Two columns fit a phone.
_HEAD = "| In the paper, in dpcape | For a user, and what is corrected |\n|---|---|"


def names_text() -> str:
    """Return the table of names, and a section with an example for each."""
    table = "\n".join([_HEAD, *(_line(entry) for entry in NAMES.values())])
    return "\n\n".join([table, "## An example of each", *(_section(entry) for entry in NAMES.values())])


def renewed(page: str) -> str:
    """Return the page with the part between the markers replaced."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{names_text()}\n\n{END}{tail}"


def anchor(name: str) -> str:
    """Return the anchor of a heading."""
    return name.lower().replace(" ", "-")


def _line(entry: PaperName) -> str:
    classes = ", ".join(f"`{one.rpartition('.')[2]}`" for one in entry.uses.split(", "))
    name = f"[{entry.name}](#{anchor(entry.name)}): [{classes}]({entry.page})"
    return f"| {name} | **{entry.consequence.capitalize()}.** {entry.corrected} |"


def _section(entry: PaperName) -> str:
    said = f"*{entry.source}.* {entry.consequence.capitalize()}: {entry.follows}"
    claims = ", ".join(f"[{key}](claims.md#{key})" for key in entry.claims)
    more = {
        "As published": f"`{entry.baseline}`" if entry.baseline else "",
        "Figures": ", ".join(f"`{one}`" for one in entry.figures),
        "Claims": claims,
    }
    listed = " ".join(f"{title}: {text}." for title, text in more.items() if text)
    return "\n\n".join([f"### {entry.name}", said, f"```python\n{entry.example}\n```", *([listed] if listed else [])])


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(renewed(target.read_text(encoding="utf-8")), encoding="utf-8")
