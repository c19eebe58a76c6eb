"""Figures of a summary from pooled counts: what stands in the rows of Table 1."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import msgspec
import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.facts import PublicColumn
from dpcape.estimators.table_one import COUNT, DEVIATION, MEAN, MISSING, QUANTILE, RECORDS, SHARE
from dpcape.postprocessing.group_summaries import (
    CellCounts,
    Interval,
    Level,
    Pooled,
    deviation_and_interval,
    deviation_noise,
    mean_and_interval,
    mean_noise,
    quantile_and_interval,
    share_interval,
    share_noise,
    shown_counts,
    size_interval,
)
from dpcape.statistics.cells import CATEGORY, encoding


@dataclass(frozen=True)
class Figure:
    """One figure of one group: variable, statistic and level, its value, interval and noise (NaN where not known)."""

    key: tuple[str, str, str]
    value: float
    ends: Interval
    noise: float = math.nan


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    key: tuple[str, str, str]
    values: list[float]
    ends: list[Interval]
    noises: list[float]


@dataclass(frozen=True)
class Sized:
    """Public number of records and confidence."""

    n_records: float
    level: Level


def side_by_side(by_group: Sequence[Sequence[Figure]]) -> list[Row]:
    """Return the rows of a column from its figures for every group."""
    return [
        Row(
            same[0].key,
            [figure.value for figure in same],
            [figure.ends for figure in same],
            [figure.noise for figure in same],
        )
        for same in zip(*by_group, strict=True)
    ]


def unit_covariance(column: PublicColumn, weight: float, bins: int) -> FloatArray:
    """Return the covariance of the counts of a column under noise of scale 1; one array for all columns alike."""
    return _unit_covariance(msgspec.structs.replace(column, name="", low=0.0, high=0.0), weight, bins)


@lru_cache(maxsize=32)
def _unit_covariance(column: PublicColumn, weight: float, bins: int) -> FloatArray:
    rows = encoding(column, bins)
    covariance = np.asarray(np.linalg.inv(rows @ rows.T) / weight**2, dtype=np.float64)
    covariance.flags.writeable = False
    return covariance


def group_names(by: Sequence[PublicColumn]) -> dict[str, bool]:
    """Return the names of all groups, levels or combinations of them, and whether nothing is missing in each."""
    levels = [[*column.levels, MISSING] for column in by]
    if len(by) == 1:
        return {level: level != MISSING for level in levels[0]}
    return {
        ", ".join(f"{column.name}={level}" for column, level in zip(by, chosen, strict=True)): MISSING not in chosen
        for chosen in product(*levels)
    }


def range_of(column: PublicColumn) -> tuple[float, float]:
    """Return the public range of a column; 0 and 1 for a category, whose figures are shares."""
    return (0.0, 1.0) if column.kind == CATEGORY else (column.low, column.high)


def row_of_sizes(counts: Pooled, level: Level, n_records: float, *, grouped: bool) -> Row:
    """Return the row of the numbers of records."""
    sizes = [n_records, *counts.sizes.tolist()] if grouped else [n_records]
    # The number of all records is public.
    ends, noises = [(n_records, n_records)], [0.0]
    if grouped:
        ends += [size_interval(size, counts.variance, level, n_records) for size in counts.sizes.tolist()]
        noises += [math.sqrt(max(counts.variance, 0.0))] * len(counts.sizes)
    return Row(("", RECORDS, ""), [min(max(size, 0.0), n_records) for size in sizes], ends, noises)


def figures_of(column: PublicColumn, counts: CellCounts, sized: Sized, quantiles: Sequence[float]) -> Iterator[Figure]:
    """Yield the figures of one column for one group."""
    if column.kind == CATEGORY:
        yield from _of_levels(column, counts, sized)
    else:
        yield from _of_range(column, counts, sized, quantiles)
    yield _count(column, counts, -1, MISSING, sized)


def _of_levels(column: PublicColumn, counts: CellCounts, sized: Sized) -> Iterator[Figure]:
    present = counts.present
    size = max(present.size, 1.0)
    for cell, level in enumerate(column.levels):
        yield _count(column, counts, cell, level, sized)
        ends = share_interval(present, cell, sized.level)
        share = min(max(float(present.counts[cell]) / size, ends[0]), ends[1])
        yield Figure((column.name, SHARE, level), share, ends, share_noise(present, cell))


def _of_range(column: PublicColumn, counts: CellCounts, sized: Sized, quantiles: Sequence[float]) -> Iterator[Figure]:
    present = counts.present
    width = (column.high - column.low) / (len(present.counts) - 1)

    def original(value: float) -> float:
        return column.low + width * value

    for q in quantiles:
        value, ends = quantile_and_interval(present, q, sized.level)
        yield Figure((column.name, QUANTILE, f"{q:g}"), original(value), (original(ends[0]), original(ends[1])))
    if column.kind == "date":
        return
    value, ends = mean_and_interval(present, sized.level)
    noise = width * mean_noise(present)
    yield Figure((column.name, MEAN, ""), original(value), (original(ends[0]), original(ends[1])), noise)
    value, ends = deviation_and_interval(present, sized.level)
    noise = width * deviation_noise(present)
    yield Figure((column.name, DEVIATION, ""), width * value, (width * ends[0], width * ends[1]), noise)


def _count(column: PublicColumn, counts: CellCounts, cell: int, level: str, sized: Sized) -> Figure:
    count, variance = float(counts.counts[cell]), float(counts.covariance[cell, cell])
    ends = size_interval(count, variance, sized.level, sized.n_records)
    shown = min(max(count, 0.0), sized.n_records)
    return Figure((column.name, COUNT, level), shown, ends, math.sqrt(max(variance, 0.0)))


def cell_names(column: PublicColumn, n_cells: int) -> list[str]:
    """Return the levels of a category, or the knots of a range, and missing."""
    if column.kind == CATEGORY:
        return [*column.levels, MISSING]
    knots = np.linspace(column.low, column.high, n_cells - 1)
    return [*(f"{knot:.10g}" for knot in knots), MISSING]


def drawn_counts(column: PublicColumn, counts: CellCounts) -> FloatArray:
    """Return counts that are not negative."""
    present = counts.present.counts
    shown = np.maximum(present, 0.0) if column.kind == CATEGORY else shown_counts(present)
    return np.append(shown, max(float(counts.counts[-1]), 0.0))
