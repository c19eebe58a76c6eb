"""Matplotlib figures as inline SVG that follows a page's colours."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import matplotlib as mpl
import matplotlib.pyplot as plt
from markupsafe import escape
from matplotlib.figure import Figure

from dpcape.pages.style import COLOURS


def svg_of(figure: Figure, alt: str = "", prefix: str = "") -> str:
    """Return a figure as inline SVG whose text and lines follow the page's colour scheme; closes the figure.

    Parameters
    ----------
    figure : Figure
        The Matplotlib figure.
    alt : str
        Text alternative for readers who cannot see the picture.
    prefix : str
        Prefix of identifiers, which must differ between pictures of one page.
    """
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "dpcape", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # Without links to other sites, and without styles that would affect the rest of the page.
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    return _named(_identified(_coloured(svg), prefix), alt)


def _coloured(svg: str) -> str:
    """Replace black by the page's text colour and the palette by its variables."""
    svg = _in_tags(_recoloured, svg)
    for name in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {name}="[^"]*"', r"\1", svg, count=1)
    return svg


def _in_tags(change: Callable[[str], str], svg: str) -> str:
    """Change only tags: text may contain the word "black", or something like an identifier."""
    return re.sub(r"<[^>]*>", lambda found: change(found[0]), svg)


def _recoloured(tag: str) -> str:
    tag = re.sub(r"#000000|\bblack\b", "currentColor", tag)
    for index, colour in enumerate(COLOURS, start=1):
        tag = re.sub(re.escape(colour), f"var(--series-{index}, {colour.lower()})", tag, flags=re.IGNORECASE)
    # The page sets size and typeface.
    return re.sub(r"font: (\d+px) [^;\"]*", r"font-size: \1", tag)


def _identified(svg: str, prefix: str) -> str:
    """Prefix the identifiers that are referred to, and drop the others."""
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))

    def keep(found: re.Match[str]) -> str:
        return f' id="{prefix}{found[1]}"' if found[1] in used else ""

    def change(tag: str) -> str:
        return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", re.sub(r' id="([^"]*)"', keep, tag))

    return _in_tags(change, svg)


def _named(svg: str, alt: str) -> str:
    if not alt:
        return svg
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)
    return re.sub(r"(<svg[^>]*>)", lambda found: f"{found[1]}<title>{escape(alt)}</title>", svg, count=1)
