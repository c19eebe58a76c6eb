"""The code blocks of the documentation, as the tests see them.

A comment directly before a block says what is special about it::

    <!-- not run: reason -->     cannot run here; the reason says why, or which test plays it
    <!-- file: study.toml -->    written to a file of this name instead of being run

and a comment ``<!-- hidden sh`` or ``<!-- hidden python`` holds lines that are run and not shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_GENERATED = ("docs/_build/", "docs/gallery/", "docs/api/generated/")

_FENCE = re.compile(r"^(?P<ticks>`{3,})(?P<language>[^`]*)$")
_COMMENT = re.compile(r"^<!-- (?P<word>not run|file): (?P<text>.+) -->$")
_HIDDEN = re.compile(r"^<!-- hidden (?P<language>sh|python)$")


@dataclass(frozen=True)
class Block:
    """A block of a page: shown or hidden, to be run, written to a file, or left alone for a stated reason."""

    page: str
    line: int
    language: str
    text: str
    reason: str = ""
    file: str = ""

    @property
    def where(self) -> str:
        """Say where the block is."""
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Return every page written by hand, relative to the project."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    names = [path.relative_to(ROOT).as_posix() for path in found]
    return sorted(name for name in names if not name.startswith(_GENERATED))


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page in order."""
    return blocks_in((ROOT / page).read_text(encoding="utf-8"), page)


def text_outside_blocks(page: str) -> str:
    """Return a page without its fenced blocks and hidden lines."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for block in blocks_of(page):
        text = text.replace(block.text, "")
    return text


def blocks_in(text: str, page: str) -> list[Block]:
    """Return the blocks of a text in order."""
    lines = text.splitlines()
    blocks: list[Block] = []
    number = 0
    while number < len(lines):
        fence, hidden = _FENCE.match(lines[number]), _HIDDEN.match(lines[number])
        if fence:
            end = _next(lines, number, fence["ticks"])
            said = _said(lines, number)
            body = "\n".join(lines[number + 1 : end]) + "\n"
            blocks.append(Block(page, number + 1, fence["language"].strip(), body, **said))
            number = end
        elif hidden:
            end = _next(lines, number, "-->")
            blocks.append(Block(page, number + 1, hidden["language"], "\n".join(lines[number + 1 : end]) + "\n"))
            number = end
        number += 1
    return blocks


def _next(lines: list[str], start: int, mark: str) -> int:
    for number in range(start + 1, len(lines)):
        if lines[number].rstrip() == mark:
            return number
    raise AssertionError(f"line {start + 1} opens a block that {mark} never closes")


def _said(lines: list[str], number: int) -> dict[str, str]:
    comment = _COMMENT.match(lines[number - 1].strip()) if number else None
    if comment is None:
        return {}
    return {"reason" if comment["word"] == "not run" else "file": comment["text"]}
