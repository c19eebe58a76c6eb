"""Draws ``house.svg``, the rooms of dpcape in their layers, from the import contract.

Run ``python docs/pictures/house.py`` after a change of the contract; it also writes the table in ``architecture.md``.
"""

from __future__ import annotations

import ast
import configparser
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "dpcape"
WIDTH, GAP, HEIGHT, STEP, MARGIN = 920, 10, 50, 74, 16
FOUNDATIONS = ("__main__", "_version")


def layers() -> list[list[str]]:
    """Return the rooms of each line of the contract, from top to bottom."""
    contract = configparser.ConfigParser()
    contract.read(ROOT / ".importlinter", encoding="utf-8")
    lines = contract["importlinter:contract:layers"]["layers"].split("\n")
    found = [[room.strip() for room in line.split("|")] for line in lines if line.strip()]
    return [[room for room in rooms if room not in FOUNDATIONS] for rooms in found if rooms != ["__main__"]]


def n_lines(room: str) -> int:
    """Return how many lines of Python a room has."""
    path = PACKAGE / room
    files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def purpose(room: str) -> str:
    """Return the first line of a room's docstring."""
    path = PACKAGE / room / "__init__.py"
    file = path if path.exists() else (PACKAGE / room).with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or room).splitlines()[0]


def _box(room: str, x: float, y: float, width: float) -> str:
    middle = x + width / 2
    return (
        f"<g><title>{escape(purpose(room))}</title>"
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" rx="6"/>'
        f'<text x="{middle:.1f}" y="{y + 22}" class="name">{escape(room)}</text>'
        f'<text x="{middle:.1f}" y="{y + 39}" class="size">{n_lines(room):,} lines</text></g>'
    )


def drawn() -> str:
    """Return the picture as SVG; colours follow the page it stands in."""
    rows = layers()
    height = 2 * MARGIN + STEP * len(rows) - (STEP - HEIGHT)
    boxes = []
    for number, rooms in enumerate(rows):
        width = (WIDTH - 2 * MARGIN - GAP * (len(rooms) - 1)) / len(rooms)
        y = MARGIN + STEP * number
        boxes += [_box(room, MARGIN + index * (width + GAP), y, width) for index, room in enumerate(rooms)]
        if number:
            boxes.append(f'<path d="M {WIDTH / 2} {y - 20} v 13 m -5 -6 l 5 6 l 5 -6" class="arrow"/>')
    listed = "; ".join(" and ".join(rooms) for rooms in rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="Rooms of dpcape from top to bottom: {escape(listed)}.">\n'
        "<style>rect{fill:none;stroke:currentColor;stroke-opacity:.45}"
        "text{fill:currentColor;text-anchor:middle;font-family:system-ui,sans-serif}"
        ".name{font-size:14px;font-weight:600}.size{font-size:11px;fill-opacity:.75}"
        ".arrow{fill:none;stroke:currentColor;stroke-opacity:.6}</style>\n" + "\n".join(boxes) + "\n</svg>\n"
    )


def table() -> str:
    """Return the rooms as a Markdown table, from top to bottom."""
    lines = ["| room | what is in it |", "|---|---|"]
    lines += [f"| `{room}` | {purpose(room)} |" for rooms in layers() for room in rooms]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawn(), encoding="utf-8")
    page = ROOT / "docs" / "architecture.md"
    before, _, rest = page.read_text(encoding="utf-8").partition("<!-- rooms -->\n")
    _, _, after = rest.partition("<!-- end of rooms -->\n")
    page.write_text(f"{before}<!-- rooms -->\n{table()}<!-- end of rooms -->\n{after}", encoding="utf-8")
