"""Templates and the stylesheet all pages share."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, select_autoescape


@cache
def environment() -> Environment:
    """Return the environment of the package's templates; HTML is escaped."""
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


# Okabe and Ito's palette: told apart by colour-blind readers; line styles tell the curves apart in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8c8c8c")
