"""The privacy card as HTML, for the terminal and as plain text, all with the same content."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpcape.guarantee.card_content import Card, Odds, card_of, percent
from dpcape.guarantee.card_ledger import Part, Spent

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Card", "Odds", "Part", "Spent", "card_html", "card_of", "card_terminal", "card_text"]

_TERMINAL_COLOURS = {"verified": "green", "conditional": "yellow", "published": "yellow", "none": "red"}
# Width of the bar: a card fits a terminal of 80 columns.
_BAR = 24


def card_html(card: Card, *, notebook: bool = True, level: int = 3) -> str:
    """Return the card as HTML that loads nothing.

    Parameters
    ----------
    card : Card
        The card's content.
    notebook : bool
        True for a card with its own style; False inside a page with the shared stylesheet.
    level : int
        Level of the card's heading; those of its parts are one deeper.
    """
    from markupsafe import Markup

    from dpcape.guarantee.card_pictures import guess_picture, ledger_picture, test_picture
    from dpcape.pages.style import environment

    pictures = {
        "guess": guess_picture(card.odds) if card.odds else Markup(""),
        "test": test_picture(card.odds) if card.odds else Markup(""),
        "ledger": ledger_picture(card.spent) if card.spent else Markup(""),
    }
    template = environment().get_template("card.html")
    return template.render(card=card, pictures=pictures, notebook=notebook, level=level)


def card_text(card: Card, width: int = 88) -> str:
    """Return the card as plain text."""
    head = [f"PRIVACY CARD: {card.status}", *_wrapped(card.headline, width), *_wrapped(card.reason, width, "  ")]
    return "\n\n".join("\n".join(lines) for lines in (head, *(_part_lines(card, part, width) for part in card.parts)))


def card_terminal(card: Card) -> RenderableType:
    """Return the card for ``rich.print``."""
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    colour = _TERMINAL_COLOURS.get(card.tone, "red")
    body: list[RenderableType] = [Text(card.headline, style="bold"), Text(card.reason, style="dim")]
    for part in card.parts:
        body += [Text(), Text(part.title, style="bold"), *_part_renderables(card, part)]
    title = Text(f" Privacy card: {card.status} ", style=f"bold {colour}")
    return Panel(Group(*body), title=title, title_align="left", border_style=colour, padding=(0, 2))


def scale_line(odds: Odds) -> str:
    """Return the card's picture as one line of text."""
    filled = min(_BAR, max(1, round(_BAR * (odds.right - 0.5) / 0.5)))
    bar = "=" * filled + "-" * (_BAR - filled)
    return f"50% coin toss [{bar}] certain 100%: at most {percent(odds.right)}"


def _part_lines(card: Card, part: Part, width: int) -> list[str]:
    lines = [part.title]
    for sentence in part.sentences:
        lines += _wrapped(sentence, width, "  ")
    if card.odds and part is card.parts[0]:
        lines.append("  " + scale_line(card.odds))
    for point in part.points:
        lines += _wrapped(point, width, "    ", first="  - ")
    return lines + _table_lines(part)


def _table_lines(part: Part) -> list[str]:
    if not part.table:
        return []
    widths = [max(map(len, column)) for column in zip(*part.table, strict=True)]
    return [
        "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in part.table
    ]


def _part_renderables(card: Card, part: Part) -> list[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    shown: list[RenderableType] = [Text(sentence) for sentence in part.sentences]
    if card.odds and part is card.parts[0]:
        shown.append(Text(scale_line(card.odds), style="cyan"))
    if part.points:
        shown.append(_listed(part.points))
    if part.table:
        table = Table(*part.table[0], box=None, pad_edge=False, header_style="dim")
        for row in part.table[1:]:
            table.add_row(*map(Text, row))
        shown.append(table)
    return shown


def _listed(points: Sequence[str]) -> RenderableType:
    """Return points behind dashes; a point keeps its indent when it wraps."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 1))
    for point in points:
        grid.add_row("-", Text(point))
    return grid


def _wrapped(text: str, width: int, indent: str = "", *, first: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
