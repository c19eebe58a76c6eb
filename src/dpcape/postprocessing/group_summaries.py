"""Table 1 from released counts: sizes, shares, means, standard deviations and quantiles, with intervals.

Counts come with independent noise of known covariance. Group sizes are pooled over columns, and the total is public.
Intervals of shares, means and quantiles are found by inverting tests, which need no division by a noisy count. They are
about the population that the records are a sample of; those of sizes are about the records.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import ndtri, stdtrit

from dpcape.core.arrays import BoolArray, FloatArray, IntArray

Interval = tuple[float, float]
# A covariance, and the cache of its cumulative sums.
_Noise = tuple[FloatArray, dict[int, FloatArray]]

# Positions tried within a bin for the ends of the interval of a quantile.
_STEPS = 16
# Below this z-score, a group size is too noisy to divide by, and the noise of a ratio is not estimated.
_CLEAR = 4.0


@dataclass(frozen=True)
class CellCounts:
    """Counts in the cells of one column for one group, or for all records.

    Attributes
    ----------
    counts : (C,) array
        Unbiased counts, which may be negative; the last cell is that of missing values.
    covariance : (C, C) array
        Covariance of their noise.
    known : dict
        Covariances of cumulative counts, by the number of cells; shared by all counts of the same covariance.
    """

    counts: FloatArray
    covariance: FloatArray
    known: dict[int, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    @property
    def present(self) -> CellCounts:
        """The cells of values that are not missing."""
        return CellCounts(self.counts[:-1], self.covariance[:-1, :-1], self.known)

    @property
    def cumulative(self) -> FloatArray:
        """Covariance of the cumulative counts; the sum of no cells comes first."""
        n_cells = len(self.counts)
        if n_cells not in self.known:
            covariance = np.zeros((n_cells + 1, n_cells + 1))
            np.cumsum(np.cumsum(self.covariance, axis=0), axis=1, out=covariance[1:, 1:])
            self.known[n_cells] = covariance
        return self.known[n_cells]

    @property
    def size(self) -> float:
        """Number of records."""
        return float(self.counts.sum())

    def of(self, weights: FloatArray) -> tuple[float, float]:
        """Return a weighted sum of the counts and the variance of its noise."""
        return float(weights @ self.counts), float(weights @ self.covariance @ weights)


@dataclass(frozen=True)
class Pooled:
    """Counts of all columns that agree on the sizes of the groups.

    Attributes
    ----------
    sizes : (G,) array
        Sizes of the groups; they add up to the public number of records.
    variance : float
        Variance of the noise of each size.
    groups : tuple of tuple of CellCounts
        Counts by column and group.
    total : tuple of CellCounts
        Counts by column, over all groups.
    """

    sizes: FloatArray
    variance: float
    groups: tuple[tuple[CellCounts, ...], ...]
    total: tuple[CellCounts, ...]


def pooled(parts: Sequence[FloatArray], units: Sequence[FloatArray], *, n_records: float, scale: float) -> Pooled:
    """Return the least-squares counts, given that every column has the same groups and that the total is public.

    Parameters
    ----------
    parts : sequence of (G, C_j) array
        Raw counts of every column.
    units : sequence of (C_j, C_j) array
        Covariances of the cells of one group under noise of scale 1.
    n_records : float
        Public number of records.
    scale : float
        Scale of the noise, in records.
    """
    n_groups = len(parts[0])
    along = [unit.sum(axis=1) for unit in units]
    spreads = np.array([entry.sum() for entry in along])
    own = np.array([part.sum(axis=1) for part in parts])
    together = 1 / (1 / spreads).sum()
    sizes = together * (own / spreads[:, np.newaxis]).sum(axis=0)
    sizes = sizes + (n_records - sizes.sum()) / n_groups
    variance = together * (1 - 1 / n_groups)
    groups, totals = [], []
    # Columns of the same encoding and weight have the same noise.
    noises: dict[int, tuple[_Noise, _Noise]] = {}
    for part, unit, gain, spread, size in zip(parts, units, along, spreads, own, strict=True):
        moved = part + np.outer(sizes - size, gain / spread)
        if id(unit) not in noises:
            given_size = unit - np.outer(gain, gain) / spread
            covariance = scale**2 * (given_size + variance * np.outer(gain, gain) / spread**2)
            noises[id(unit)] = (covariance, {}), (scale**2 * n_groups * given_size, {})
        of_group, of_total = noises[id(unit)]
        groups.append(tuple(CellCounts(row, *of_group) for row in moved))
        totals.append(CellCounts(moved.sum(axis=0), *of_total))
    return Pooled(sizes, scale**2 * variance, tuple(groups), tuple(totals))


@dataclass(frozen=True)
class Level:
    """How sure intervals are.

    Attributes
    ----------
    confidence : float
        Probability with which an interval contains its quantity.
    """

    confidence: float

    @property
    def z(self) -> float:
        """Two-sided quantile of the normal distribution."""
        return float(ndtri(0.5 + self.confidence / 2))

    def t(self, size: float) -> float:
        """Two-sided quantile of Student's distribution for a mean of so many records."""
        return float(stdtrit(max(size - 1, 1.0), 0.5 + self.confidence / 2))


def size_interval(size: float, variance: float, level: Level, n_records: float) -> Interval:
    """Return an interval of the number of records in a cell or group."""
    half_width = level.z * math.sqrt(max(variance, 0.0))
    # The number of all records is public, and noise can take a count beyond it, or below zero. The nearest possible
    # count is no farther from the true one, so an interval around it covers as often, and never shrinks to a point.
    nearest = min(max(size, 0.0), n_records)
    return max(nearest - half_width, 0.0), min(nearest + half_width, n_records)


def share_interval(present: CellCounts, cell: int, level: Level) -> Interval:
    """Return an interval of the share of a level among values that are not missing.

    A share p is kept if count - p size is no larger than its standard deviation allows, sampling included. For exact
    counts that is Wilson's interval.
    """
    of_cell, of_all = np.zeros(len(present.counts)), np.ones(len(present.counts))
    of_cell[cell] = 1.0
    (count, count_variance), (size, size_variance) = present.of(of_cell), present.of(of_all)
    cross = float(of_cell @ present.covariance @ of_all)
    sampled = max(size, 1.0)
    square = level.z**2
    return _between_roots(
        size**2 - square * size_variance + square * sampled,
        -2 * count * size + 2 * square * cross - square * sampled,
        count**2 - square * count_variance,
        (0.0, 1.0),
    )


def mean_and_interval(present: CellCounts, level: Level) -> tuple[float, Interval]:
    """Return the mean and its interval, in bins from the lower end of the range.

    Sharing a value between two knots keeps the mean as it is.
    """
    n_bins = len(present.counts) - 1
    knots = np.arange(n_bins + 1.0)
    (moment, moment_variance), (size, size_variance) = present.of(knots), present.of(np.ones(n_bins + 1))
    mean = min(max(moment / size, 0.0), float(n_bins)) if size > 0 else n_bins / 2
    cross = float(knots @ present.covariance @ np.ones(n_bins + 1))
    squares, noise = present.of((knots - mean) ** 2)
    sampled = max(squares, 0.0) + math.sqrt(max(noise, 0.0))
    square = level.t(size) ** 2
    ends = _between_roots(
        size**2 - square * size_variance,
        -2 * moment * size + 2 * square * cross,
        moment**2 - square * (moment_variance + sampled),
        (0.0, float(n_bins)),
    )
    return mean, ends


def share_noise(present: CellCounts, cell: int) -> float:
    """Return the standard deviation of the noise in the share of a level, to first order; NaN if noise hides it."""
    of_cell = np.zeros(len(present.counts))
    of_cell[cell] = 1.0
    return _ratio_noise(present, of_cell)


def mean_noise(present: CellCounts) -> float:
    """Return the standard deviation of the noise in the mean, in bins, to first order; NaN if noise hides it."""
    return _ratio_noise(present, np.arange(float(len(present.counts))))


def deviation_noise(present: CellCounts) -> float:
    """Return the standard deviation of the noise in the standard deviation, in bins; NaN if noise hides it."""
    knots = np.arange(float(len(present.counts)))
    squares = (knots - float(knots @ present.counts) / present.size) ** 2 if present.size > 0 else knots
    noise = _ratio_noise(present, squares)
    variance = float(squares @ present.counts) / present.size - 1 / 6 if present.size > 0 else 0.0
    return noise / (2 * math.sqrt(variance)) if variance > _CLEAR * noise else math.nan


def _ratio_noise(present: CellCounts, weights: FloatArray) -> float:
    """Return the standard deviation of the noise in a mean of weights over records."""
    size, variance = present.of(np.ones(len(present.counts)))
    if not size > _CLEAR * math.sqrt(max(variance, 0.0)):
        return math.nan
    mean = float(weights @ present.counts) / size
    if not weights.min() <= mean <= weights.max():
        # The figure is at an end of its range, so noise does not change it.
        return math.nan
    return math.sqrt(max(present.of(weights - mean)[1], 0.0)) / size


def deviation_and_interval(present: CellCounts, level: Level) -> tuple[float, Interval]:
    """Return the standard deviation and its interval, in bins.

    Sharing a value between two knots at distances t and 1 - t adds t (1 - t) to its square: between 0 and 1/4, and 1/6
    where values are spread evenly. The estimate takes 1/6 away; the interval allows for all of it.
    """
    n_bins = len(present.counts) - 1
    knots, most = np.arange(n_bins + 1.0), (n_bins / 2) ** 2
    size = present.size
    if not size > 1:
        return 0.0, (0.0, math.sqrt(most))
    mean = min(max(float(knots @ present.counts) / size, 0.0), float(n_bins))
    gradient = (knots - mean) ** 2
    variance = float(gradient @ present.counts) / size
    noise = present.of((gradient - variance) / size)[1]
    fourth, around = present.of(gradient**2)
    fourth = max(3 * max(variance, 0.0) ** 2, (fourth + math.sqrt(max(around, 0.0))) / size)
    sampled = max(fourth - variance**2, 0.0) / size
    half_width = level.t(size) * math.sqrt(max(noise, 0.0) + sampled)
    # The mean is noisy too, and its square lowers the variance by as much: extend the upper end.
    curved = level.t(size) ** 2 * present.of((knots - mean) / size)[1]
    low, high = variance - 0.25 - half_width, variance + half_width + max(curved, 0.0)
    ends = math.sqrt(min(max(low, 0.0), most)), math.sqrt(min(max(high, 0.0), most))
    return min(max(math.sqrt(max(variance - 1 / 6, 0.0)), ends[0]), ends[1]), ends


def quantile_and_interval(present: CellCounts, q: float, level: Level) -> tuple[float, Interval]:
    """Return a quantile and its interval, in bins from the lower end of the range.

    The counts of the knots up to m add up to the average of the distribution function F over bin m. If the quantile
    lies at x in bin m, F is at most q before and at least q after it, at least the average of the bin before, and at
    most that of the bin after: A[m-1] <= q <= A[m+1], and x A[m-1] + (1 - x) q <= A[m] <= x q + (1 - x) A[m+1]. A point
    is kept if none of the four is refuted at a quarter of the error, so the interval holds for every distribution,
    lumps included; even without noise it is up to one and a half bins wide. The estimate within it is that of a smooth
    distribution.

    Parameters
    ----------
    present : CellCounts
        Counts at the knots.
    q : float
        Between 0 and 1.
    level : Level
        Confidence.
    """
    n_bins = len(present.counts) - 1
    if not present.size > 0:
        return n_bins / 2, (0.0, float(n_bins))
    points = _kept_points(present, q, level)
    ends = (float(points[0]), float(points[-1])) if len(points) else (0.0, float(n_bins))
    return min(max(_smooth_quantile(present.counts, q), ends[0]), ends[1]), ends


def _kept_points(present: CellCounts, q: float, level: Level) -> FloatArray:
    """Return the points at which the quantile may lie, in bins."""
    n_bins = len(present.counts) - 1
    # Cumulative counts, beginning with 0 before the first knot: row i + 1 is bin i.
    sums = np.concatenate([[0.0], np.cumsum(present.counts)])
    covariance = present.cumulative

    def holds(*inequalities: _Combination) -> BoolArray:
        z = -float(ndtri((1 - level.confidence) / 4))
        satisfied = [entry.value(sums) >= -z * entry.deviation(sums, covariance) for entry in inequalities]
        every: BoolArray = np.logical_and.reduce(satisfied)
        return every

    bins = np.arange(1, n_bins + 1)
    one, all_knots = np.ones(n_bins), np.full(n_bins, n_bins + 1)
    bins = bins[
        holds(
            _Combination((all_knots, bins - 1), (q * one, -one)), _Combination((bins + 1, all_knots), (one, -q * one))
        )
    ]
    knots = np.repeat(bins, _STEPS + 1)
    x = np.tile(np.linspace(0.0, 1.0, _STEPS + 1), len(bins))
    one, all_knots = np.ones(len(x)), np.full(len(x), n_bins + 1)
    above = _Combination((all_knots, knots + 1, knots), (x * q, 1 - x, -one))
    below = _Combination((knots, knots - 1, all_knots), (one, -x, -(1 - x) * q))
    return (knots - 1 + x)[holds(above, below)]


@dataclass(frozen=True)
class _Combination:
    """Weighted sums of cumulative counts, one per point."""

    knots: tuple[IntArray, ...]
    weights: tuple[FloatArray, ...]

    def value(self, sums: FloatArray) -> FloatArray:
        value: FloatArray = np.zeros(len(self.weights[0]))
        for weight, knot in zip(self.weights, self.knots, strict=True):
            value += weight * sums[knot]
        return value

    def deviation(self, sums: FloatArray, covariance: FloatArray) -> FloatArray:
        """Return the standard deviation of noise and sampling together."""
        noise = self._squared(lambda first, second: covariance[first, second])
        # Indicators of "up to" are nested: the product of two is the smaller one.
        squares = self._squared(lambda first, second: sums[np.minimum(first, second)])
        sampled = np.maximum(squares - self.value(sums) ** 2 / max(float(sums[-1]), 1.0), 0.0)
        # Where noise hides the variance, use one standard deviation of a count plus one record.
        hidden = 1.0 + math.sqrt(max(float(np.diagonal(covariance).max()), 0.0))
        return np.sqrt(np.maximum(noise, 0.0) + sampled + hidden)

    def _squared(self, product: Callable[[IntArray, IntArray], FloatArray]) -> FloatArray:
        terms = list(zip(self.weights, self.knots, strict=True))
        total: FloatArray = np.zeros(len(self.weights[0]))
        for weight, knot in terms:
            total += weight**2 * product(knot, knot)
        for (weight, knot), (other, other_knot) in combinations(terms, 2):
            total += 2 * weight * other * product(knot, other_knot)
        return total


def shown_counts(present: FloatArray) -> FloatArray:
    """Return counts to be drawn: not negative, from cumulative counts that do not fall."""
    size = max(float(present.sum()), 0.0)
    cumulative = np.clip(isotonic_regression(np.cumsum(present)).x, 0.0, size)
    return np.diff(cumulative, prepend=0.0)


def _smooth_quantile(counts: FloatArray, q: float) -> float:
    """Return the quantile of a distribution function that is a parabola in every bin.

    Its averages over the bin, the one before and the one after are as counted.
    """
    n_bins = len(counts) - 1
    size = float(counts.sum())
    rising = np.clip(isotonic_regression(np.cumsum(counts)).x, 0.0, size)
    before, at_knot, after = np.concatenate([[0.0], rising[:-2]]), rising[:-1], rising[1:]
    x = np.linspace(0.0, 1.0, _STEPS, endpoint=False)[:, np.newaxis]
    values = at_knot + (after - before) / 2 * (x - 0.5) + (after - 2 * at_knot + before) / 2 * ((x - 0.5) ** 2 - 1 / 12)
    curve = np.maximum.accumulate(np.append(values.T.ravel(), size))
    at = int(np.searchsorted(curve, q * size))
    if at == 0:
        return 0.0
    low, high = curve[at - 1], curve[min(at, len(curve) - 1)]
    part = (q * size - low) / (high - low) if high > low else 0.0
    return min((at - 1 + part) / _STEPS, float(n_bins))


def _between_roots(square: float, linear: float, constant: float, domain: Interval) -> Interval:
    """Return where a quadratic is not positive, within ``domain``; all of it if nothing can be excluded."""
    inside = linear**2 - 4 * square * constant
    if not square > 0 or inside < 0:
        return domain
    root = math.sqrt(inside)
    low, high = (-linear - root) / (2 * square), (-linear + root) / (2 * square)
    return min(max(low, domain[0]), domain[1]), min(max(high, domain[0]), domain[1])
