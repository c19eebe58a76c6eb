"""Templates and stylesheet of all pages."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, select_autoescape


@cache
def environment() -> Environment:
    """Return the Jinja environment of the package's templates, with HTML escaping."""
    return Environment(
        loader=PackageLoader("dpcape.pages"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )


def stylesheet() -> str:
    """Return the stylesheet of pages: colours as variables (light, dark, print), text, tables, figures and the card.

    A template of this package writes ``{% include "style.css" %}`` instead.
    """
    return environment().get_template("style.css").render()


# Okabe and Ito's palette, which colour-blind readers can distinguish; line styles distinguish curves in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8c8c8c")
