"""How far the constant of a Poisson model may be off where counts vary more than the model says."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import nbinom, poisson

from dpcape.statistics.count_residuals import centred_residuals

# Factors by which the variance of a negative binomial count exceeds its mean.
_FACTORS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.4, 1.7, 2.0, 3.0, 4.0)
# Below this rate counts are mostly zeros and ones, which cannot show how much they vary.
_LEAST_RATE = 0.5
# There this factor is allowed for, whatever residuals say. Shifts hardly change below the smallest rate.
_UNSEEN_FACTOR, _SMALLEST_RATE = 1.2, 1e-3
# Shifts at higher rates are smaller than at this one.
_LARGEST_RATE = 200.0
_MARGIN = 1.25


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
        return _MARGIN * _figures(max(level, _SMALLEST_RATE), _UNSEEN_FACTOR)[1]
    found = 0.0
    for rate in (min(max(level / 2, _LEAST_RATE), _LARGEST_RATE), min(level, _LARGEST_RATE)):
        ratios, shifts = np.array([_figures(rate, factor) for factor in _FACTORS]).T
        rising = int(np.argmax(ratios)) + 1
        if ratio > ratios[rising - 1]:
            return math.inf
        found = max(found, float(np.interp(ratio, ratios[:rising], shifts[:rising])))
    return _MARGIN * found


def _figures(rate: float, factor: float) -> tuple[float, float]:
    """Return the mean square of bounded residuals in units of their covariance, and the shift of the logarithm."""
    counts = np.arange(math.ceil(rate + 12 * math.sqrt(rate * factor) + 40 * factor + 20), dtype=np.float64)
    chance = poisson.pmf(counts, rate) if factor == 1 else nbinom.pmf(counts, rate / (factor - 1), 1 / factor)
    residuals, covariances = centred_residuals(counts, np.full(len(counts), rate))
    covariance = float(covariances[0])
    return float(chance @ residuals**2) / covariance, -float(chance @ residuals) / (covariance * math.sqrt(rate))
