"""Residuals of counts that are bounded and have mean zero under the Poisson model, and their curvature.

With r = (y - rate) / sqrt(rate) and h = r moved into [-k, k], h minus its mean under the model is bounded, and has mean
zero if the model is right (Cantoni and Ronchetti 2001). All moments follow from the distribution function.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, pdtr

from dpcape.core.arrays import FloatArray

RESIDUAL_CLIP = 2.0
"""k: Pearson residuals are moved into [-k, k]."""
LARGEST_RESIDUAL = 2.125
"""Bound of a centred residual: the mean of h is between -1/8 and 0, and whatever is computed is moved into this."""

# Logarithms of k! for k = 0, 1, ...
_LOG_FACTORIALS: FloatArray = gammaln(np.arange(1.0, 1025.0))
_HALF_LOG_CIRCLE = math.log(2 * math.pi) / 2


def centred_residuals(counts: FloatArray, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return h minus its mean, at most :data:`LARGEST_RESIDUAL` in absolute value, and the covariance of h and r.

    The covariance is between 0 and 1 and at least the variance of h, because h and r - h both grow with the count.

    Parameters
    ----------
    counts : (N,) array
        Counts, not negative.
    rates : (N,) array
        Positive finite rates.
    """
    root = np.sqrt(rates)
    # Counts in (below, above] have residuals that are not clipped.
    below, above = np.ceil(rates - RESIDUAL_CLIP * root) - 1, np.floor(rates + RESIDUAL_CLIP * root)
    logs = np.log(rates)
    at_below, at_above = _density(below, rates, logs), _density(above, rates, logs)
    up_to_below, up_to_above = _distribution(below, rates), _distribution(above, rates)
    mean = RESIDUAL_CLIP * (1 - up_to_above - up_to_below) + root * (at_below - at_above)
    # Sums of y (y - 1), y and 1 over these counts; F(x - 1) and F(x - 2) follow from F(x) and densities.
    inside = up_to_above - up_to_below
    one_less = inside - at_above + at_below
    two_less = one_less + (at_below * np.maximum(below, 0.0) - at_above * np.maximum(above, 0.0)) / rates
    second, first = rates**2 * two_less, rates * one_less
    square = (second + (1 - 2 * rates) * first) / rates + rates * inside
    covariance = RESIDUAL_CLIP * root * (at_below + at_above) + square
    residuals = np.clip((counts - rates) / root, -RESIDUAL_CLIP, RESIDUAL_CLIP) - mean
    return np.clip(residuals, -LARGEST_RESIDUAL, LARGEST_RESIDUAL), np.clip(covariance, 0.0, 1.0)


def _density(count: FloatArray, rates: FloatArray, logs: FloatArray) -> FloatArray:
    """Return the probability of a count; zero of a negative one."""
    chances = np.exp(count * logs - rates - _log_factorial(np.maximum(count, 0.0)))
    return np.where(count >= 0, chances, 0.0)


def _log_factorial(count: FloatArray) -> FloatArray:
    """Return the logarithm of the factorial of whole numbers that are not negative, by Stirling's series if large."""
    known: FloatArray = _LOG_FACTORIALS.take(count.astype(np.intp), mode="clip")
    above = np.maximum(count, 1.0)
    series = (above + 0.5) * np.log(above) - above + _HALF_LOG_CIRCLE + (1 / 12 - 1 / (360 * above**2)) / above
    return np.where(count < len(_LOG_FACTORIALS), known, series)


def _distribution(count: FloatArray, rates: FloatArray) -> FloatArray:
    """Return the probability of at most this count; zero of a negative one."""
    return np.where(count >= 0, pdtr(np.maximum(count, 0.0), rates), 0.0)
