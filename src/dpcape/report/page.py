"""One self-contained HTML page: text, tables, inline pictures, the privacy card, and the numbers as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup
from matplotlib.figure import Figure

from dpcape._version import __version__
from dpcape.guarantee.card import Card, card_html, card_of
from dpcape.guarantee.guarantee import Guarantee
from dpcape.pages.style import environment
from dpcape.pages.svg import svg_of

__all__ = ["Picture", "ReportSection", "Table", "svg_of", "write_page"]

# A fingerprint of an identity has 39 letters.
_ONE_LINE = 40
_NUMBER = re.compile(r"^[<>~ +\-]*[\d.,]+(e[+-]?\d+)?( ?%)?$")


@dataclass(frozen=True)
class Picture:
    """A figure with the words for those who cannot see it; ``wide`` pictures take a row of their own."""

    figure: Figure
    alt: str
    caption: str
    wide: bool = False


@dataclass(frozen=True)
class Table:
    """A table whose first row names the columns."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers only, and so is set flush right; the first one names the rows."""
        columns = zip(*self.rows, strict=True) if self.rows else ([] for _ in self.header)
        return [index > 0 and _are_numbers(column) for index, column in enumerate(columns)]

    @property
    def is_compact(self) -> bool:
        """Whether every cell is short enough for one line; such a table scrolls rather than break its cells."""
        return all(len(cell) <= _ONE_LINE for row in self.rows for cell in row)


@dataclass
class ReportSection:
    """A heading with paragraphs, pictures and tables, in this order.

    ``tone`` is "warning" for what must not be overlooked, else empty; ``quotes`` are texts to copy.
    """

    title: str
    text: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = field(default_factory=tuple)
    tone: str = ""
    quotes: Sequence[str] = ()

    @property
    def anchor(self) -> str:
        """The section's place on the page."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "section"


def write_page(
    path: Path,
    *,
    title: str,
    lead: str,
    sections: Sequence[ReportSection],
    guarantee: Guarantee | None,
    data: Mapping[str, Any],
    card: Card | None = None,
    details: Sequence[ReportSection] = (),
    facts: Sequence[tuple[str, str]] = (),
    kind: str = "Report",
    banner: str = "",
) -> None:
    """Write the page; closes its figures.

    Parameters
    ----------
    title, lead : str
        What the page is about, in a line and in a sentence or two.
    sections : sequence of ReportSection
        What was found; the card comes after them.
    guarantee : Guarantee or None
        None for a page without a card.
    data : mapping
        The page's numbers, kept inside as JSON.
    card : Card or None
        A card that says more than the guarantee alone (releases, ledger); made from the guarantee if None.
    details : sequence of ReportSection
        Sections after the card.
    facts : Sequence[tuple[str, str]]
        Labelled facts under the title.
    kind : str
        What sort of page it is, in small letters above the title.
    banner : str
        What must be read before anything else.
    """
    if card is None and guarantee is not None:
        card = card_of(guarantee)
    shown = _Shown()
    page = (
        environment()
        .get_template("page.html")
        .render(
            title=title,
            lead=lead,
            kind=kind,
            banner=banner,
            facts=facts,
            sections=[shown.section(section) for section in sections],
            card=card,
            card_html=Markup(card_html(card, notebook=False, level=2)) if card is not None else "",
            details=[shown.section(section) for section in details],
            version=__version__,
            data=Markup(_script_json(data)),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


class _Shown:
    """Turns sections into what the template needs; figures and anchors differ on one page."""

    def __init__(self) -> None:
        self._anchors: dict[str, int] = {}
        self._n_figures = 0

    def section(self, section: ReportSection) -> dict[str, Any]:
        count = self._anchors[section.anchor] = self._anchors.get(section.anchor, 0) + 1
        return {
            "title": section.title,
            "anchor": section.anchor if count == 1 else f"{section.anchor}-{count}",
            "text": section.text,
            "tone": section.tone,
            "quotes": section.quotes,
            "tables": section.tables,
            "pictures": [self._picture(picture) for picture in section.pictures],
        }

    def _picture(self, picture: Picture) -> dict[str, Any]:
        self._n_figures += 1
        svg = svg_of(picture.figure, alt=picture.alt, prefix=f"f{self._n_figures}-")
        return {"svg": Markup(svg), "caption": picture.caption, "wide": picture.wide}


def _are_numbers(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell not in ("", "...")]
    return bool(filled) and all(_NUMBER.match(cell) for cell in filled)


def _script_json(data: Mapping[str, Any]) -> str:
    # "<" could end the script element that carries the numbers.
    return json.dumps(_finite(data), indent=1, allow_nan=False).replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    """Replace what JSON cannot say."""
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
