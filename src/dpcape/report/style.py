"""Templates and the stylesheet all pages share."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, select_autoescape


@cache
def environment() -> Environment:
    """Return the environment of the package's templates; HTML is escaped."""
    return Environment(
        loader=PackageLoader("dpcape.report"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )


def stylesheet() -> str:
    """Return the stylesheet of pages: colours as variables (light, dark, print), text, tables, figures and the card.

    A template of this package writes ``{% include "style.css" %}`` instead.
    """
    return environment().get_template("style.css").render()
