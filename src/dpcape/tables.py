"""Tables of texts, in columns of plain text, Markdown and LaTeX, and figures and intervals in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray

NOT_ESTIMABLE = "not estimable"
"""Shown instead of an interval that is unbounded on both sides."""
# Longest cell that stays on one line; a fingerprint of an identity has 39 characters.
_ONE_LINE = 40
_NUMBER = re.compile(r"^[<>~ +\-]*[\d.,]+(e[+-]?\d+)?( ?%)?$")
_TEX = {**{mark: f"\\{mark}" for mark in "&%$#_{}"}, "\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
_TEX |= {"^": r"\textasciicircum{}", "†": r"\dag{}"}
_LARGEST_WEIGHTS, _WEIGHT_ROWS = 6, 12


@dataclass(frozen=True)
class Table:
    """Table of texts.

    Attributes
    ----------
    header : sequence of str
        Names of the columns.
    rows : sequence of sequence of str
        Cells, row by row; the first cell names the row.
    caption : str
        Caption above the table.
    are_words : bool
        Whether cells are words, which plain text aligns to the left.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    are_words: bool = False

    @property
    def numeric(self) -> list[bool]:
        """Whether each column contains only numbers, which are right-aligned; never true for the first."""
        columns = zip(*self.rows, strict=True) if self.rows else ([] for _ in self.header)
        return [index > 0 and _are_numbers(column) for index, column in enumerate(columns)]

    @property
    def is_compact(self) -> bool:
        """Whether every cell fits on one line; such a table scrolls instead of breaking its cells."""
        return all(len(cell) <= _ONE_LINE for row in self.rows for cell in row)

    def text(self) -> str:
        """Return the table in columns of plain text."""
        lines = [list(self.header), *map(list, self.rows)]
        widths = [max(len(row[at]) for row in lines) for at in range(len(self.header))]
        cells = [
            [cell.ljust(width) if at == 0 or self.are_words else cell.rjust(width) for at, cell, width in columns]
            for columns in (zip(range(len(row)), row, widths, strict=True) for row in lines)
        ]
        return "\n".join([*([self.caption] if self.caption else []), *("  ".join(row).rstrip() for row in cells)])

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *self.rows]
        table = "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in lines)
        return f"{self.caption}\n\n{table}" if self.caption else table

    def latex(self) -> str:
        """Return the table as a LaTeX tabular with rules of the package booktabs."""
        lines = [" & ".join(map(tex, row)) + r" \\" for row in (self.header, *self.rows)]
        begin = rf"\begin{{tabular}}{{l{'r' * (len(self.header) - 1)}}}"
        table = [begin, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}"]
        return "\n".join([*([tex(self.caption) + r"\par"] if self.caption else []), *table])


def largest_weights(values: FloatArray, names: Sequence[str], row: str, *, by_number: bool) -> Table:
    """Return a table of the largest weights of each row of a matrix.

    Parameters
    ----------
    values : array of shape (rows, columns)
        The weights; the first rows are shown.
    names : sequence of str
        Names of the columns.
    row : str
        What the rows are.
    by_number : bool
        Whether columns have no names, only numbers.
    """
    rows = []
    for at, weights in enumerate(values[:_WEIGHT_ROWS], start=1):
        order = np.argsort(-np.abs(weights), kind="stable")[:_LARGEST_WEIGHTS]
        rows.append([str(at), ", ".join(f"{names[index]} ({weights[index]:+.3g})" for index in order)])
    cut = f"The first {len(rows)} of {len(values)} are shown." if len(values) > len(rows) else ""
    return Table(
        [row, f"features with the largest weights{', by number' if by_number else ''}"], rows, cut, are_words=True
    )


def interval(low: float | str, high: float | str, digits: int = 4, *, decimals: int | None = None) -> str:
    """Return an interval in words: open on one side, or not estimable if it is on both; empty for none.

    Parameters
    ----------
    low, high : float or str
        Ends; those of a ratio, which cannot be negative, are open from 0 to infinity.
    digits : int
        Number of significant digits.
    decimals : int or None
        Number of decimals instead.
    """
    first, last = (
        f"{end:.{decimals}f}" if decimals is not None and isinstance(end, float) else short(end, digits)
        for end in (low, high)
    )
    if high == math.inf:
        return NOT_ESTIMABLE if low in (-math.inf, 0.0) else f"{first} or more"
    if low == -math.inf:
        return f"{last} or less"
    return f"{first} to {last}" if first and last else ""


def short(value: float | str, digits: int = 4) -> str:
    """Return a figure with few digits; an empty text for NaN."""
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else f"{value:.{digits}g}"


def tex(text: str) -> str:
    """Return a text with marks of LaTeX escaped."""
    return "".join(_TEX.get(letter, letter) for letter in text)


def _are_numbers(cells: Sequence[str]) -> bool:
    filled = [cell for cell in cells if cell not in ("", "...")]
    return bool(filled) and all(_NUMBER.match(cell) for cell in filled)
