r"""Survival curves and tests of their difference from counts of events and of ends of follow-up in bins of time.

In bin k, :math:`d_k` records have their event and :math:`c_k` leave follow-up without one; :math:`n_k` are at risk when
it begins. The cumulative hazard of the bin is :math:`d_k / (d_k + c_k) \log(n_k / n_{k+1})`, exact if events and other
ends keep their proportion within the bin, and the curve is :math:`S_k = \exp(-\sum_{j \le k} h_j)`. With
:math:`m_k = (n_k + n_{k+1}) / 2` and :math:`x_k = (d_k + c_k) / (2 m_k)` that hazard is
:math:`(d_k / m_k) \,\mathrm{artanh}(x_k) / x_k`: the life table's :math:`d_k / m_k` but for second order. Noise
in a count of one bin is large, and small in cumulative counts; the number at risk in the middle of a bin is nearly
uncorrelated with the count in it, so that noise leaves little bias.

Where in its bin a record left follow-up is not known. If all leave before the events, the hazard is
:math:`\log((n - c) / (n - c - d))`, and if all leave after them, :math:`\log(n / (n - d))`; any other order is between.
Intervals allow for both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import chdtrc

from dpcape.core.arrays import FloatArray
from dpcape.postprocessing.group_summaries import CellCounts, Level

# Below this z-score, a number at risk is too noisy to divide by.
_CLEAR = 4.0
# z-score from which a cumulative hazard is precise enough to show how the variance grows.
_SEEN = 3.0


@dataclass(frozen=True)
class Curve:
    """Survival of one group at the ends of the bins.

    Attributes
    ----------
    survival : (K,) array
        Shares without the event, not increasing.
    low, high : (K,) array
        Ends of their intervals, for one time at a time.
    at_risk : (K,) array
        Numbers at risk after each bin, not negative.
    at_risk_scale : (K,) array
        Standard deviations of their noise.
    noise_scale : (K,) array
        Standard deviations of the noise of the shares, to first order; NaN where noise hides the number at risk.
    """

    survival: FloatArray
    low: FloatArray
    high: FloatArray
    at_risk: FloatArray
    at_risk_scale: FloatArray
    noise_scale: FloatArray


@dataclass(frozen=True)
class _Bins:
    """Linear functions of the counts: events, ends of follow-up, numbers at risk before and in the middle of bins."""

    events: FloatArray
    ended: FloatArray
    before: FloatArray
    middle: FloatArray

    @property
    def after(self) -> FloatArray:
        """Numbers at risk after each bin."""
        return self.before - self.events - self.ended


def _bins(n_cells: int) -> _Bins:
    """Return the functions as matrices, (K, cells): K cells of events, K of ends, one beyond the last, one missing."""
    n_bins = (n_cells - 2) // 2
    cells = np.eye(n_cells)
    events, ended = cells[:n_bins], cells[n_bins : 2 * n_bins]
    leaving = events + ended
    present = np.ones(n_cells)
    present[-1] = 0.0
    before = present - np.vstack([np.zeros(n_cells), np.cumsum(leaving, axis=0)[:-1]])
    return _Bins(events, ended, before, before - leaving / 2)


def curve_of(counts: CellCounts, level: Level) -> Curve:
    """Return the survival curve of a group with intervals of the population's curve, for each time.

    A share p is kept if the estimate differs from it by no more than sampling, p (1 - p) / n, and noise, in proportion
    to p, allow; n is the number of records without censoring that would have the same variance. From the first bin on
    whose number at risk noise may hide, nothing is known but that the curve does not rise.

    Parameters
    ----------
    counts : CellCounts
        Counts: K of events, K of ends of follow-up, one of records beyond the last bin, one of missing values.
    level : Level
        Confidence.
    """
    at = _bins(len(counts.counts))
    spreads = _spreads(counts, at.after)
    n_known = _n_known(counts, at, spreads)
    survival, low, high = (np.zeros(len(at.events)) for _ in range(3))
    noise = np.full(len(survival), math.nan)
    if n_known:
        estimate, low[:n_known], high[:n_known], noise[:n_known] = _known_part(counts, at, n_known, level)
        # The nearest shares that do not rise.
        survival[:n_known] = isotonic_regression(np.clip(estimate, 0.0, 1.0), increasing=False).x
    high[n_known:] = high[n_known - 1] if n_known else 1.0
    survival[n_known:] = survival[n_known - 1] if n_known else 0.5
    after = np.maximum(at.after @ counts.counts, 0.0)
    return Curve(np.clip(survival, low, high), low, high, after, spreads, noise)


def _known_part(
    counts: CellCounts, at: _Bins, n_known: int, level: Level
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return estimates, both ends of their intervals, and the scale of their noise for the first bins."""
    first = slice(n_known)
    events, ended = (at.events @ counts.counts)[first], (at.ended @ counts.counts)[first]
    before, after = (at.before @ counts.counts)[first], (at.after @ counts.counts)[first]
    hazards, gradient = _hazards(counts, at, first)
    hazard = np.cumsum(hazards)
    noise = _variances(counts, gradient)
    records = _records_without_censoring(events, before, after, hazard, noise)
    less, more = _order_bounds(np.maximum(events, 0.0), np.maximum(ended, 0.0), before)
    low, _ = _ends(np.exp(-hazard - np.cumsum(more)), records, noise, level)
    _, high = _ends(np.exp(-hazard + np.cumsum(less)), records, noise, level)
    return np.exp(-hazard), low, high, np.exp(-hazard) * np.sqrt(np.maximum(noise, 0.0))


def _hazards(counts: CellCounts, at: _Bins, first: slice) -> tuple[FloatArray, FloatArray]:
    """Return the hazard of each bin, and the gradient of the cumulative hazard with respect to the counts."""
    leaving = at.events[first] + at.ended[first]
    events, middle = (at.events @ counts.counts)[first], (at.middle @ counts.counts)[first]
    part = (leaving @ counts.counts) / (2 * middle)
    curved, slope = _artanh_ratio(part)
    of_part = (leaving / 2 - part[:, np.newaxis] * at.middle[first]) / middle[:, np.newaxis]
    of_rate = (at.events[first] - (events / middle)[:, np.newaxis] * at.middle[first]) / middle[:, np.newaxis]
    rate = events / middle
    gradient = np.cumsum(curved[:, np.newaxis] * of_rate + (rate * slope)[:, np.newaxis] * of_part, axis=0)
    return rate * curved, gradient


def _artanh_ratio(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return artanh(x) / x and its derivative, for numbers between -1 and 1."""
    tiny = np.abs(x) < 1e-3
    safe = np.where(tiny, 0.5, x)
    ratio = np.arctanh(safe) / safe
    slope = (1 / (1 - safe**2) - ratio) / safe
    return np.where(tiny, 1 + x**2 / 3, ratio), np.where(tiny, 2 * x / 3, slope)


def _order_bounds(events: FloatArray, ended: FloatArray, before: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return by how much the hazard of a bin may be less, and more, for the order of events and other ends in it.

    Where other ends may leave nobody at risk, there is no upper bound.
    """
    leaving = events + ended
    with np.errstate(divide="ignore", invalid="ignore"):
        expected = np.where(leaving > 0, events / leaving * -np.log1p(-np.minimum(leaving / before, 1.0)), 0.0)
        least = -np.log1p(-np.minimum(events / before, 1.0))
        most = np.where(leaving < before, -np.log1p(-events / np.maximum(before - ended, events)), np.inf)
        most = np.where(events > 0, most, 0.0)
    less = np.where(np.isfinite(expected), np.maximum(expected - least, 0.0), 0.0)
    more = np.where(
        np.isfinite(most) & np.isfinite(expected), np.maximum(most - expected, 0.0), np.where(events > 0, np.inf, 0.0)
    )
    return less, more


def _records_without_censoring(
    events: FloatArray, before: FloatArray, after: FloatArray, hazard: FloatArray, noise: FloatArray
) -> FloatArray:
    """Return how many uncensored records have Greenwood's variance: between those at risk and those at the start."""
    greenwood = np.cumsum(events / (before * after))
    with np.errstate(divide="ignore", invalid="ignore"):
        records = np.expm1(hazard) / greenwood
    # Where noise hides the events, use the number at risk.
    hidden = ~(hazard > _SEEN * np.sqrt(noise)) | ~np.isfinite(records) | (records <= 0)
    records = np.where(hidden, before, records)
    return np.clip(records, np.maximum(before, 1.0), max(float(before[0]), 1.0))


def _ends(estimate: FloatArray, records: FloatArray, noise: FloatArray, level: Level) -> tuple[FloatArray, FloatArray]:
    """Return the shares p with (estimate - p)^2 <= z^2 (p (1 - p) / n + noise p^2), from 0 to 1."""
    square = level.z**2
    lead = 1 + square / records - square * noise
    linear = 2 * estimate + square / records
    root = np.sqrt(np.maximum(linear**2 - 4 * lead * estimate**2, 0.0))
    low = 2 * estimate**2 / np.where(linear + root > 0, linear + root, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.where(lead > 0, (linear + root) / (2 * lead), np.inf)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _spreads(counts: CellCounts, functions: FloatArray) -> FloatArray:
    return np.sqrt(np.maximum(_variances(counts, functions), 0.0))


def _variances(counts: CellCounts, functions: FloatArray) -> FloatArray:
    variances: FloatArray = ((functions @ counts.covariance) * functions).sum(axis=1)
    return variances


def _n_known(counts: CellCounts, at: _Bins, spreads: FloatArray) -> int:
    """Return the number of bins before the first that may leave nobody at risk, as far as noise lets one tell.

    The number at risk in the middle of a bin is the mean of those before and after it, so it is clear of noise if they
    are.
    """
    start = at.before[:1]
    values = np.append(start @ counts.counts, at.after @ counts.counts)
    hidden = np.flatnonzero((values < _CLEAR * np.append(_spreads(counts, start), spreads)) | (values < 1.0))
    return max(int(hidden[0]) - 1, 0) if len(hidden) else len(spreads)


def median_of(curve: Curve, times: FloatArray) -> tuple[float, tuple[float, float]]:
    """Return the time by which half of a group has its event, and its interval; infinite where it is not reached.

    The median is later than every time up to which the curve's intervals are above one half, and not later than a time
    from which on they are below it. The time of the median itself is among those at which its interval contains one
    half, so the confidence of one time is that of the median.

    Parameters
    ----------
    curve : Curve
        Curve at the ends of bins.
    times : (K + 1,) array
        Beginning of the first bin and ends of all bins.
    """
    above, below = curve.low > 0.5, curve.high < 0.5
    n_above = int(np.argmin(above)) if not above.all() else len(above)
    n_below = int(np.argmin(below[::-1])) if not below.all() else len(below)
    low = float(times[n_above])
    high = float(times[len(times) - n_below]) if n_below else math.inf
    return min(max(_crossing(curve.survival, times), low), high), (low, high)


def _crossing(survival: FloatArray, times: FloatArray) -> float:
    """Return where the curve, drawn straight within bins, falls to one half."""
    values = np.append(1.0, survival)
    at = np.flatnonzero(values <= 0.5)
    if not len(at):
        return math.inf
    before, after = values[at[0] - 1], values[at[0]]
    share = (before - 0.5) / (before - after)
    return float(times[at[0] - 1] + share * (times[at[0]] - times[at[0] - 1]))


@dataclass(frozen=True)
class LogRankTest:
    """Test of whether groups have the same hazards.

    Attributes
    ----------
    observed, expected : (G,) array
        Events of each group, and how many there would be if all groups had the same hazards.
    statistic : float
        Its chi^2, sampling and noise included.
    freedom : int
        Degrees of freedom.
    p_value : float
        Probability of a larger statistic among groups with the same hazards.
    n_bins : int
        Number of bins of time that were compared: up to the first in which noise may hide a group.
    """

    observed: FloatArray
    expected: FloatArray
    statistic: float
    freedom: int
    p_value: float
    n_bins: int


def log_rank(groups: Sequence[CellCounts]) -> LogRankTest:
    """Return the log-rank test of groups whose counts have independent noise.

    Events of a group are compared with its share of those at risk in the middle of each bin. Where in a bin records
    leave follow-up moves that share; the statistic is reduced by the most that this can do.

    Parameters
    ----------
    groups : sequence of CellCounts
        Counts of at least two groups.
    """
    at = _bins(len(groups[0].counts))
    n_known = min(_n_known(group, at, _spreads(group, at.after)) for group in groups)
    freedom = len(groups) - 1
    if n_known == 0:
        return LogRankTest(np.zeros(len(groups)), np.zeros(len(groups)), 0.0, freedom, 1.0, 0)
    first = slice(n_known)
    counts = np.array([group.counts for group in groups])
    events, middle, ended = counts @ at.events[first].T, counts @ at.middle[first].T, counts @ at.ended[first].T
    shares, together = middle / middle.sum(axis=0), events.sum(axis=0)
    excess = (events - together * shares).sum(axis=1)
    sampled = np.diag((together * shares).sum(axis=1)) - np.einsum("gk,k,hk->gh", shares, together, shares)
    # Change in a group's excess with its own counts in a bin; each group's share of it is subtracted below.
    moved = at.events[first] - (together / middle.sum(axis=0))[:, np.newaxis] * at.middle[first]
    covariance = _nonnegative(sampled)
    for position, group in enumerate(groups):
        own = np.zeros((len(groups), 1))
        own[position] = 1.0
        gradient = (own - shares) @ moved
        covariance = covariance + gradient @ group.covariance @ gradient.T
    unknown = (np.maximum(together, 0.0) * _share_bounds(middle, np.maximum(ended, 0.0))).sum(axis=1)
    inverse = np.linalg.pinv(covariance[:-1, :-1], hermitian=True)
    distance = math.sqrt(max(float(excess[:-1] @ inverse @ excess[:-1]), 0.0))
    reduced = float(unknown[:-1] @ np.sqrt(np.maximum(np.diagonal(inverse), 0.0)))
    statistic = max(distance - reduced, 0.0) ** 2
    observed = events.sum(axis=1)
    return LogRankTest(observed, observed - excess, statistic, freedom, float(chdtrc(freedom, statistic)), n_known)


def _share_bounds(middle: FloatArray, ended: FloatArray) -> FloatArray:
    """Return how far a group's share of those at risk may be from that in the middle of the bin."""
    others, others_ended = middle.sum(axis=0) - middle, ended.sum(axis=0) - ended
    shares = middle / (middle + others)
    least = np.maximum(middle - ended / 2, 0.0)
    fewest = least / (least + others + others_ended / 2)
    most = (middle + ended / 2) / (middle + ended / 2 + np.maximum(others - others_ended / 2, 0.0))
    bounds: FloatArray = np.maximum(shares - fewest, most - shares)
    return bounds


def _nonnegative(matrix: FloatArray) -> FloatArray:
    """Return the matrix without negative eigenvalues, which noise may cause."""
    values, vectors = np.linalg.eigh(matrix)
    nonnegative: FloatArray = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return nonnegative
