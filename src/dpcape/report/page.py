"""Self-contained HTML page: text, tables, inline figures, the privacy card, and the numbers as JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markupsafe import Markup
from matplotlib.figure import Figure

from dpcape.core._version import __version__
from dpcape.guarantee.card import Card, card_html, card_of
from dpcape.guarantee.guarantee import Guarantee
from dpcape.pages.style import environment
from dpcape.pages.svg import svg_of
from dpcape.tables import Table


@dataclass(frozen=True)
class Picture:
    """Figure with alternative text and caption.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
        The figure; it is closed when the page is written.
    alt : str
        Alternative text for screen readers.
    caption : str
        Caption below the figure.
    wide : bool
        Whether the figure takes a row of its own.
    """

    figure: Figure
    alt: str
    caption: str
    wide: bool = False


@dataclass
class ReportSection:
    """Section of a page: a heading with paragraphs, figures and tables, in this order.

    Attributes
    ----------
    title : str
        Heading.
    text : sequence of str
        Paragraphs.
    pictures : sequence of Picture
        Figures.
    tables : sequence of Table
        Tables.
    tone : str
        "warning" to highlight the section; otherwise empty.
    quotes : sequence of str
        Texts that readers may copy.
    """

    title: str
    text: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = field(default_factory=tuple)
    tone: str = ""
    quotes: Sequence[str] = ()

    @property
    def anchor(self) -> str:
        """Identifier of the section within the page."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "section"


def write_page(
    path: Path,
    *,
    title: str,
    lead: str,
    sections: Sequence[ReportSection],
    guarantee: Guarantee | None,
    data: Mapping[str, object],
    card: Card | None = None,
    details: Sequence[ReportSection] = (),
    facts: Sequence[tuple[str, str]] = (),
    kind: str = "Report",
    banner: str = "",
) -> None:
    """Write a page and close its figures.

    Parameters
    ----------
    path : Path
        File to write; missing folders are created.
    title : str
        Title of the page.
    lead : str
        Summary in one or two sentences.
    sections : sequence of ReportSection
        Sections with the results; the privacy card follows them.
    guarantee : Guarantee or None
        Guarantee of the result; None for a page without a card.
    data : mapping
        Numbers of the page, embedded as JSON.
    card : Card or None
        Card with more than the guarantee (releases, ledger); None makes it from the guarantee.
    details : sequence of ReportSection
        Sections after the card.
    facts : sequence of tuple of str
        Labels and values under the title.
    kind : str
        Kind of page, in small letters above the title.
    banner : str
        Notice at the top of the page.
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
            # "<" could end the script element that contains the numbers.
            data=Markup(json.dumps(_finite(data), indent=1, allow_nan=False).replace("<", "\\u003c")),
        )
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


class _Shown:
    """Converter of sections to template values; identifiers are unique within a page."""

    def __init__(self) -> None:
        self._anchors: dict[str, int] = {}
        self._n_figures = 0

    def section(self, section: ReportSection) -> dict[str, object]:
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

    def _picture(self, picture: Picture) -> dict[str, object]:
        self._n_figures += 1
        svg = svg_of(picture.figure, alt=picture.alt, prefix=f"f{self._n_figures}-")
        return {"svg": Markup(svg), "caption": picture.caption, "wide": picture.wide}


def _finite(value: object) -> object:
    """Return plain values with None for infinity and NaN, which JSON cannot represent."""
    if isinstance(value, Mapping):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
