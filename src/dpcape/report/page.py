"""One self-contained HTML page: text, tables, inline pictures, the guarantee, and the numbers as JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup
from matplotlib.figure import Figure

from dpcape._version import __version__
from dpcape.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Picture:
    """A figure with the words for those who cannot see it."""

    figure: Figure
    alt: str
    caption: str


@dataclass(frozen=True)
class Table:
    """A table whose first row names the columns."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass
class Section:
    """A heading with paragraphs, pictures and tables, in this order."""

    title: str
    text: Sequence[str] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = field(default_factory=tuple)


def write_page(
    path: Path,
    *,
    title: str,
    lead: str,
    sections: Sequence[Section],
    guarantee: Guarantee | None,
    data: Mapping[str, Any],
) -> None:
    """Write the page; closes its figures."""
    environment = Environment(
        loader=PackageLoader("dpcape.report"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = [
        {
            "title": section.title,
            "text": section.text,
            "tables": section.tables,
            "pictures": [
                {"svg": Markup(svg_of(picture.figure)), "alt": picture.alt, "caption": picture.caption}
                for picture in section.pictures
            ],
        }
        for section in sections
    ]
    page = environment.get_template("page.html").render(
        title=title,
        lead=lead,
        sections=shown,
        guarantee=guarantee,
        version=__version__,
        # "</" would end the script element that carries the numbers.
        data=Markup(json.dumps(data, indent=1).replace("</", "<\\/")),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page, encoding="utf-8")


def svg_of(figure: Figure) -> str:
    """Return a figure as inline SVG whose text and lines follow the page's colour scheme."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "dpcape", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # Black is the page's ink, so that dark mode works; the page sets the size.
    svg = re.sub(r"#000000|\bblack\b", "currentColor", svg)
    for name in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {name}="[^"]*"', r"\1", svg, count=1)
    return svg
