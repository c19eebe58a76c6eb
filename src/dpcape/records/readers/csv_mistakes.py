"""What is wrong with a CSV file, and in which line; nothing of what a cell holds is said.

A line's number may depend on records, so these messages stay at the site, as every InvalidParameter does.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from dpcape.core.errors import DamagedFile, InvalidParameter

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def check_header(path: Path, names: Sequence[str], delimiter: str) -> None:
    """Refuse a file without a header, and one whose cells are separated by something else than its name says."""
    if not names:
        got = "an empty line or file"
        raise InvalidParameter("the first line", "name the columns", got, "Export it again.").at(f"{path.name}, line 1")
    if len(set(names)) != len(names):
        raise InvalidParameter(f"Column names in {path.name}", "be unique", "duplicates", "Rename them.")
    if len(names) != 1:
        return
    counts = {mark: names[0].count(mark) for mark in _DELIMITERS if mark != delimiter}
    separator = max(counts, key=lambda mark: counts[mark])
    if counts[separator]:
        must = f"be separated by {_DELIMITERS[delimiter]}"
        raise InvalidParameter("cells", must, _DELIMITERS[separator], _remedy(separator)).at(f"{path.name}, line 1")


def _remedy(separator: str) -> str:
    if separator == "\t":
        return "Name the file .tsv, or export it with commas."
    if separator == ";":
        return "Export it with commas between cells, and points in decimal numbers."
    return "Export it with commas between cells; a name that ends in .tsv stands for tabs."


def wrong_length(path: Path, line: int, n_cells: int, n_names: int) -> InvalidParameter:
    """Return the error for a line with more or fewer cells than the header."""
    hint = " A decimal comma makes two cells of one number: write points." if n_cells > n_names else ""
    must = f"have the same number of cells as the header ({n_names})"
    remedy = f"Put quotation marks around cells that hold a comma, or export the file again.{hint}"
    return InvalidParameter("every line", must, n_cells, remedy).at(f"{path.name}, line {line}")


def no_number(where: str, name: str, cell: str) -> InvalidParameter:
    """Return the error for a cell that is no number; ``where`` names file and line."""
    must, got, remedy = "hold numbers", "text", "Correct the file, or declare the column's levels."
    if _DECIMAL_COMMA.fullmatch(cell):
        must, got, remedy = f"{must} with a decimal point", "a decimal comma", "Export the file with points."
    return InvalidParameter(f"column {name!r}", must, got, remedy).at(where)


def not_utf8(path: Path, stream: IO[bytes]) -> InvalidParameter:
    """Return the error for a file that is not UTF-8, with the first line that is not."""
    line, kind = 1, "another encoding, perhaps Latin-1 or Windows-1252"
    for line, content in enumerate(stream, start=1):
        if line == 1 and content.startswith(_UTF_16):
            kind = "UTF-16"
            break
        try:
            content.decode("utf-8")
        except UnicodeDecodeError:
            break
    refused = InvalidParameter("the file", "be encoded in UTF-8", kind, "Export it as 'CSV UTF-8'.")
    return refused.at(f"{path.name}, line {line}")


def malformed(path: Path, line: int) -> DamagedFile:
    """Return the error for a file that is no table, such as one with a quotation mark that is never closed."""
    remedy = "Look for a quotation mark that is not closed, or export it again."
    refused = DamagedFile("the file could not be read", "it is not a CSV table", remedy)
    return refused.at(f"{path.name}, line {line}")
