"""Turn the house's docstrings into reStructuredText, and leave inherited routing methods out.

Docstrings follow numpydoc with two sections of our own, *Privacy* and *Edge cases*. A parameter and its meaning may
stand on one line, ``name : type — meaning``, or the meaning may be indented below. Napoleon and numpydoc know neither
the sections nor the dash, and print ``components_`` without its underscore.
"""

from __future__ import annotations

import re
from typing import Any

_LISTS = ("Parameters", "Attributes")
_RULE = re.compile(r"^-{3,}\s*$")
_ENTRY = re.compile(r"^(?P<names>[A-Za-z_][\w, *]*?) : (?P<type>.*?)(?: — (?P<meaning>.*))?$")
# Two attributes on one line: ``x_weights_ : (...), y_weights_ : (...)``.
_SECOND = re.compile(r"(?<=\)), (?=[a-z_]+_ : )")
# What is a type and not a sentence: used where an entry has no dash.
_TYPE = re.compile(
    r"^(?:\(.*\)|int|float|str|bool|bytes|array\b.*|mapping.*|list of \w+|[A-Z]\w+)(?: or .*| \| \w+)?\.?$"
)
# "H. Imtiaz" would begin a lettered list.
_INITIAL = re.compile(r"^([A-Z])\. ")


def rendered(lines: list[str]) -> list[str]:
    """Return the reStructuredText of a docstring."""
    result: list[str] = []
    for title, body in _sections(lines):
        if title:
            result += ["", f".. rubric:: {title}", ""]
        result += _list(body) if title in _LISTS else [_plain(line) for line in body]
    return result


def _sections(lines: list[str]) -> list[tuple[str, list[str]]]:
    """Part a docstring at its underlined titles."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    skip = False
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if skip:
            skip = False
        elif line.strip() and _RULE.match(following):
            parts.append((line.strip(), []))
            skip = True
        else:
            parts[-1][1].append(line)
    return parts


def _list(body: list[str]) -> list[str]:
    """Return the entries of a section as a definition list."""
    result: list[str] = []
    for line in (part for whole in body for part in _SECOND.split(whole)):
        entry = _ENTRY.match(line)
        if entry:
            result += _entry(entry)
        else:
            # Meanings go on below their entry, indented or not.
            result.append(f"    {_plain(line.strip())}" if line.strip() else "")
    return result


def _entry(entry: re.Match[str]) -> list[str]:
    kind, meaning = entry["type"], entry["meaning"]
    if meaning is None and not _TYPE.match(kind):
        kind, meaning = "", kind
    names = ", ".join(f"``{name.strip()}``" for name in entry["names"].split(","))
    term = f"{names} : {_plain(kind.rstrip('.'))}" if kind else names
    return ["", term.replace("_ ", "\\_ "), f"    {_plain(meaning or '')}".rstrip() or "    \\"]


def _plain(line: str) -> str:
    """Keep |x|, initials and trailing underscores what they are."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    pieces = re.split(r"(``.*?``|:\w+:`.*?`)", line)
    for index in range(0, len(pieces), 2):
        pieces[index] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", pieces[index].replace("|", "\\|"))
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
    lines[:] = rendered(lines)


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    routing = re.fullmatch(r"set_\w+_request|get_metadata_routing", name)
    return True if routing else None


def setup(app: Any) -> dict[str, Any]:
    """Register with Sphinx."""
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-skip-member", _skip)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
