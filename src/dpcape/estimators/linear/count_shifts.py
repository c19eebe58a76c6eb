"""Bias of the coefficients of a Poisson model when counts are overdispersed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import nbinom, poisson

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.statistics.count_residuals import centred_residuals

# Variance-to-mean ratios of negative binomial counts.
_FACTORS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0, 3.0, 4.0)
# Below this rate counts are mostly zeros and ones, from which overdispersion cannot be estimated.
_LEAST_RATE = 0.5
# Variance-to-mean ratio assumed there, whatever the residuals show. Shifts hardly change below the smallest rate.
_UNSEEN_FACTOR, _SMALLEST_RATE = 1.2, 1e-3
# Shifts at higher rates are smaller than at this one.
_LARGEST_RATE = 200.0
_MARGIN = 1.25
# Safety factor for log rates that are not normally distributed, which leave a larger remainder.
_REST_MARGIN = 1.6
# Limits on the standard deviation of log rates, so that single counts do not dominate; grid points per unit, and extent
# of the grid in standard deviations.
_LEAST_SPREAD, _MOST_SPREAD, _PER_UNIT, _FARTHEST = 0.25, 2.0, 8, 2.5


@dataclass(frozen=True)
class SlopeShift:
    """How far slopes may be off: the shift of the logarithm of a rate as a line in that logarithm, and the rest.

    Attributes
    ----------
    part : float
        Largest steepness of that line: by this part of itself a slope may be larger or smaller.
    rest : float
        Root mean square of what the line leaves, over records with their weights.
    """

    part: float
    rest: float


def count_shift(ratio: float, level: float) -> float:
    """Return by how much the logarithm of a rate may be above what bounded residuals say.

    Residuals are clipped, and counts that vary more than a Poisson model says are skewed: the mean of the clipped
    residual falls below zero. The shift is that of negative binomial counts whose clipped residuals vary as released;
    of rare counts, that of a variance 1.2 times the mean.

    Parameters
    ----------
    ratio : float
        Upper estimate of the mean square of the bounded residuals, in units of their covariance with counts.
    level : float
        A typical rate.
    """
    if not math.isfinite(ratio):
        return math.inf
    if level < _LEAST_RATE:
        return _MARGIN * float(_figures(max(level, _SMALLEST_RATE))[1, _FACTORS.index(_UNSEEN_FACTOR)])
    largest = 0.0
    for rate in (min(max(level / 2, _LEAST_RATE), _LARGEST_RATE), min(level, _LARGEST_RATE)):
        ratios, shifts = _figures(rate)
        rising = int(np.argmax(ratios)) + 1
        if ratio > ratios[rising - 1]:
            return math.inf
        largest = max(largest, float(np.interp(ratio, ratios[:rising], shifts[:rising])))
    return _MARGIN * largest


def slope_shift(ratio: float, level: float, spread: float) -> SlopeShift:
    """Return how far slopes may be off where counts vary more than a Poisson model says.

    The shift of :func:`count_shift` depends on the rate. Were it the same for all records, the constant would take all
    of it; a shift in proportion to the linear predictor changes every slope by the same part. Counts are taken as
    negative binomial, with a variance of the mean times a factor that is the same for all, or that exceeds 1 in
    proportion to the mean; the worse of both counts. The factor is such that residuals vary as released; of rare
    counts, 1.2.

    Parameters
    ----------
    ratio : float
        Upper estimate of the mean square of the bounded residuals, in units of their covariance with counts.
    level : float
        A typical rate.
    spread : float
        Standard deviation of the logarithm of the rate.
    """
    spread = min(max(spread, _LEAST_SPREAD), _MOST_SPREAD)
    centre = math.log(min(max(level, _SMALLEST_RATE), _LARGEST_RATE)) - spread**2 / 2
    reach = _FARTHEST * spread
    grid = np.arange(math.ceil((centre - reach) * _PER_UNIT), math.floor((centre + reach) * _PER_UNIT) + 1)
    sizes = [_worst(_of_law(grid, centre, spread, level, grows=grows), ratio, level) for grows in (False, True)]
    part, rest = (max(both) for both in zip(*sizes, strict=True))
    return SlopeShift(_MARGIN * part, _REST_MARGIN * rest)


def _worst(figures: FloatArray, ratio: float, level: float) -> tuple[float, float]:
    """Return part and rest at the factor that residuals show, or that is allowed for."""
    ratios, *sizes = figures
    if level < _LEAST_RATE:
        at = _FACTORS.index(_UNSEEN_FACTOR)
        return float(sizes[0][at]), float(sizes[1][at])
    rising = int(np.argmax(ratios)) + 1
    part, rest = (float(np.interp(ratio, ratios[:rising], np.maximum.accumulate(size[:rising]))) for size in sizes)
    return part, rest


def _of_law(grid: IntArray, centre: float, spread: float, level: float, *, grows: bool) -> FloatArray:
    """Return the mean ratio, the steepness of the shift and the rest of it for every factor at the level, (3, F)."""
    logs = grid / _PER_UNIT
    rates = np.exp(logs)
    squares, shifts, covariances = np.moveaxis(np.array([_row(int(point)) for point in grid]), 1, 0)
    chances = np.exp(-(((logs - centre) / spread) ** 2) / 2) * np.minimum(rates / level, 1.0)
    weights = chances * covariances[:, 0]
    weights /= weights.sum()
    x = logs - weights @ logs
    figures = []
    for factor in _FACTORS:
        own = 1 + (factor - 1) * (rates / level if grows else np.ones(len(rates)))
        square, shift = _between(own, squares), _between(own, shifts)
        steepness = float(weights @ (x * shift)) / float(weights @ x**2)
        rest = shift - weights @ shift - steepness * x
        figures.append((float(weights @ square), abs(steepness), math.sqrt(float(weights @ rest**2))))
    return np.array(figures).T


@lru_cache(maxsize=256)
def _row(point: int) -> FloatArray:
    """Return ratios, shifts and covariances for all factors, at a point of the grid of logarithms of rates, (3, F)."""
    rate = min(max(math.exp(point / _PER_UNIT), _SMALLEST_RATE), _LARGEST_RATE)
    _, covariance = centred_residuals(np.zeros(1), np.array([rate]))
    row = np.vstack([_figures(rate), np.full(len(_FACTORS), covariance[0])])
    row.flags.writeable = False
    return row


def _between(factors: FloatArray, values: FloatArray) -> FloatArray:
    """Interpolate each row of values, given at :data:`_FACTORS`, at the row's own factor, as ``np.interp`` does."""
    ends = np.array(_FACTORS)
    inside = np.clip(factors, ends[0], ends[-1])
    at = np.clip(np.searchsorted(ends, inside, side="right") - 1, 0, len(ends) - 2)
    rows = np.arange(len(values))
    low, high = values[rows, at], values[rows, at + 1]
    return np.where(
        inside == ends[-1], values[:, -1], (high - low) / (ends[at + 1] - ends[at]) * (inside - ends[at]) + low
    )


def _figures(rate: float) -> FloatArray:
    """Return mean squares of bounded residuals in units of their covariance, and shifts of the logarithm, (2, F)."""
    lengths = [math.ceil(rate + 12 * math.sqrt(rate * factor) + 40 * factor + 20) for factor in _FACTORS]
    counts = np.arange(max(lengths), dtype=np.float64)
    residuals, covariances = centred_residuals(counts, np.full(len(counts), rate))
    covariance, root = float(covariances[0]), math.sqrt(rate)
    figures = []
    # Evaluate all negative binomial distributions in one call: SciPy's call costs more than the computation.
    above = np.array(_FACTORS[1:])[:, np.newaxis]
    chances = np.vstack([poisson.pmf(counts, rate), nbinom.pmf(counts, rate / (above - 1), 1 / above)])
    for length, chance in zip(lengths, chances, strict=True):
        own, weights = residuals[:length], chance[:length]
        figures.append((float(weights @ own**2) / covariance, -float(weights @ own) / (covariance * root)))
    return np.array(figures).T
