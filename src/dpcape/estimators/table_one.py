"""Table 1 in words: the figures of a fitted summary, arranged as papers print them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpcape.core.arrays import AnyArray
from dpcape.results import iso_date

if TYPE_CHECKING:
    from dpcape.estimators.summary import Summary

MISSING, ALL = "missing", "all"
RECORDS, QUANTILE, MEAN, DEVIATION, COUNT, SHARE = "records", "quantile", "mean", "sd", "count", "share"
FLAG = "†"
FLAGGED = f"{FLAG} Imprecise: the interval takes more than 10% of the range."
_SAMPLED = "in the population that these records are a sample of"
_WITHIN = f"of values that are not missing, moved into their public range, {_SAMPLED}"
IN_UNITS, COUNTED = (QUANTILE, MEAN, DEVIATION), (RECORDS, COUNT)
ESTIMANDS = {
    RECORDS: "number of these records, overall and in the group",
    COUNT: "number of these records at the level, or with a missing value",
    SHARE: f"share of the level among values that are not missing, {_SAMPLED}",
    QUANTILE: f"quantile {_WITHIN}",
    MEAN: f"mean {_WITHIN}",
    DEVIATION: f"standard deviation {_WITHIN}",
}
NARROW = 0.1
"""Share of its range that the interval of a mean may take without a flag."""


def compact_rows(model: Summary) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table as papers print it: median [quartiles], mean (SD), counts and shares.

    Groups of records whose group is missing are left to the last rows.
    """
    shown = _shown_groups(model)
    header = ["", *(str(model.groups_[at]) for at in shown)]
    rows = [["records", *(_number(model, 0, at) for at in shown)]]
    for name, kind in _variables(model):
        rows += list(_of_category(model, name, shown) if kind == "category" else _of_number(model, name, kind, shown))
    blanks = [""] * (len(shown) - 1)
    for at in range(len(model.groups_)):
        if at not in shown:
            rows.append([f"records in group {model.groups_[at]}", _number(model, 0, at), *blanks])
    return header, rows


def interval_rows(model: Summary) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of all figures with their intervals."""
    shown = _shown_groups(model)
    header = ["figure", *(str(model.groups_[at]) for at in shown)]
    rows = [[_title(model, row), *(_with_interval(model, row, at) for at in shown)] for row in range(len(model.rows_))]
    return header, rows


def _of_number(model: Summary, name: str, kind: str, shown: Sequence[int]) -> Iterator[list[str]]:
    """Yield the rows of a number or date."""
    row_of = _rows_of(model, name)
    quantiles = sorted((float(level), row) for (statistic, level), row in row_of.items() if statistic == QUANTILE)
    middle = min(quantiles, key=lambda entry: abs(entry[0] - 0.5))
    others = [entry for entry in quantiles if entry != middle]
    title = "median" if middle[0] == 0.5 else f"{100 * middle[0]:g}% quantile"
    spread = f" [{', '.join(f'{100 * q:g}%' for q, _ in others)}]" if others else ""

    def cell(at: int) -> str:
        ends = f" [{', '.join(_number(model, row, at) for _, row in others)}]" if others else ""
        return f"{_number(model, middle[1], at)}{ends}{_flag(model, middle[1], at)}"

    yield [f"{name}, {title}{spread}", *(cell(at) for at in shown)]
    if kind == "number":
        mean, deviation = row_of[MEAN, ""], row_of[DEVIATION, ""]
        yield [
            f"{name}, mean (SD)",
            *(f"{_number(model, mean, at)} ({_number(model, deviation, at)}){_flag(model, mean, at)}" for at in shown),
        ]
    yield [f"{name}, missing", *(_number(model, row_of[COUNT, MISSING], at) for at in shown)]


def _of_category(model: Summary, name: str, shown: Sequence[int]) -> Iterator[list[str]]:
    """Yield the rows of a category."""
    for (statistic, level), row in _rows_of(model, name).items():
        if statistic != COUNT:
            continue
        if level == MISSING:
            yield [f"{name}, missing", *(_number(model, row, at) for at in shown)]
            continue
        share = _rows_of(model, name)[SHARE, level]
        yield [
            f"{name}: {level}, n (%)",
            *(f"{_number(model, row, at)} ({100 * model.table_[share, at]:.1f}%)" for at in shown),
        ]


def _rows_of(model: Summary, name: str) -> dict[tuple[str, str], int]:
    """Return the row of each figure of a variable, by statistic and level."""
    return {
        (str(statistic), str(level)): row
        for row, (variable, statistic, level) in enumerate(model.rows_)
        if variable == name and statistic != RECORDS
    }


def _variables(model: Summary) -> list[tuple[str, str]]:
    return [(str(name), str(kind)) for name, kind in model.variables_]


def _shown_groups(model: Summary) -> list[int]:
    """Return the groups that are columns of the table: those in which nothing is missing."""
    return [int(at) for at in np.flatnonzero(model.complete_)]


def _title(model: Summary, row: int) -> str:
    variable, statistic, level = (str(entry) for entry in model.rows_[row])
    if statistic == RECORDS:
        return RECORDS
    if statistic == QUANTILE:
        return f"{variable}, median" if float(level) == 0.5 else f"{variable}, {100 * float(level):g}% quantile"
    return f"{variable}, {statistic}" if not level else f"{variable}: {level}, {statistic}"


def is_date(model: Summary, row: int) -> bool:
    """Return whether the figures of a row are days since 1970."""
    variable, statistic, _ = model.rows_[row]
    return dict(_variables(model)).get(str(variable)) == "date" and statistic == QUANTILE


def _number(model: Summary, row: int, at: int) -> str:
    """Return a figure with as many digits as its interval supports."""
    low, high = model.interval_[:, row, at]
    return _text(model, row, float(model.table_[row, at]), float(high - low) / 2)


def _text(model: Summary, row: int, value: float, half_width: float) -> str:
    if is_date(model, row):
        return iso_date(value)
    statistic = str(model.rows_[row][1])
    if statistic in (RECORDS, COUNT):
        return f"{max(value, 0.0):.0f}"
    if statistic == SHARE:
        return f"{100 * value:.1f}%"
    decimals = 3 if half_width <= 0 else min(max(1 - math.floor(math.log10(half_width)), 0), 6)
    return f"{value:.{decimals}f}"


def _with_interval(model: Summary, row: int, at: int) -> str:
    low, high = (float(end) for end in model.interval_[:, row, at])
    half_width = (high - low) / 2
    return f"{_number(model, row, at)} ({_text(model, row, low, half_width)} to {_text(model, row, high, half_width)})"


def _flag(model: Summary, row: int, at: int) -> str:
    """Return the mark of a figure whose interval takes much of the range."""
    names = [name for name, _ in _variables(model)]
    low, high = model.ranges_[names.index(str(model.rows_[row][0]))]
    first, last = model.interval_[:, row, at]
    return FLAG if last - first > NARROW * (high - low) else ""


def as_text_array(rows: Sequence[Sequence[str]]) -> AnyArray:
    """Return texts as an array that can be saved."""
    return np.array([list(row) for row in rows], dtype=np.str_)
