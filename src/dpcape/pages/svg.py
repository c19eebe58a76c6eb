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
    svg = _in_tags(_recoloured, re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL))
    for name in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {name}="[^"]*"', r"\1", svg, count=1)
    svg = _identified(svg, prefix)
    if not alt:
        return svg
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)
    return re.sub(r"(<svg[^>]*>)", lambda match: f"{match[1]}<title>{escape(alt)}</title>", svg, count=1)


def _in_tags(change: Callable[[str], str], svg: str) -> str:
    """Change only tags: text may contain the word "black", or something like an identifier."""
    return re.sub(r"<[^>]*>", lambda match: change(match[0]), svg)


def _recoloured(tag: str) -> str:
    """Replace black by the page's text colour and the palette by its variables."""
    tag = re.sub(r"#000000|\bblack\b", "currentColor", tag)
    for index, colour in enumerate(COLOURS, start=1):
        tag = re.sub(re.escape(colour), f"var(--series-{index}, {colour.lower()})", tag, flags=re.IGNORECASE)
    # The page sets size and typeface.
    return re.sub(r"font: (\d+px) [^;\"]*", r"font-size: \1", tag)


def _identified(svg: str, prefix: str) -> str:
    """Prefix the identifiers that are referred to, and drop the others."""
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))

    def keep(match: re.Match[str]) -> str:
        return f' id="{prefix}{match[1]}"' if match[1] in used else ""

    def change(tag: str) -> str:
        return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", re.sub(r' id="([^"]*)"', keep, tag))

    return _in_tags(change, svg)
