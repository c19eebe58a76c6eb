"""Render the two docstring sections of our own, and leave inherited routing methods out.

Napoleon renders numpydoc sections. *Privacy* and *Edge cases* become plain rubrics, and |x| stays a norm instead of a
substitution.
"""

from __future__ import annotations

import re
from typing import Any

SECTIONS = ["Privacy", "Edge cases"]
# What reStructuredText must not read: literals, roles and examples.
_KEPT = re.compile(r"(``.*?``|:\w+:`.*?`)")
# "H. Imtiaz" would begin a lettered list.
_INITIAL = re.compile(r"^(\s*[A-Z])\. ")


def plain(line: str) -> str:
    """Return a line in which |x| and initials are text."""
    if line.lstrip().startswith((">>>", "...", "..")):
        return line
    pieces = _KEPT.split(line)
    pieces[::2] = [piece.replace("|", "\\|") for piece in pieces[::2]]
    return _INITIAL.sub(r"\1\\. ", "".join(pieces))


def quiet_figures(gallery_conf: Any, fname: str) -> None:
    """Give every picture of the gallery the same plain look."""
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "figure.figsize": (6.4, 3.8),
            "figure.dpi": 120,
            "savefig.dpi": 120,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [plain(line) for line in lines]


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    routing = re.fullmatch(r"set_\w+_request|get_metadata_routing", name)
    return True if routing else None


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx, before Napoleon reads the docstrings."""
    app.setup_extension("sphinx.ext.napoleon")
    app.config.napoleon_custom_sections = SECTIONS
    app.config.napoleon_google_docstring = False
    app.config.napoleon_use_ivar = True
    app.config.napoleon_use_rtype = False
    app.connect("autodoc-process-docstring", _process, priority=100)
    app.connect("autodoc-skip-member", _skip)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": True}
