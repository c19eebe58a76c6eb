"""The length of logistic coefficients from that of least squares: post-processing.

For features spread elliptically (a Gaussian is enough), y = 0 or 1 and P(y = 1) = s(t) with t = c + w'x,
Stein's lemma gives cov(x, y) = E[s'(t)] cov(x) w: least squares finds the direction of w, shortened by
E[s'(t)]. With t normal of mean m and variance v this leaves two equations for (m, v),

    E[s(t)] = P(y = 1)    and    v E[s'(t)]^2 = variance of the least-squares fit,

and the length is 1 / E[s'(t)]. At m = 0 this is the scaled least squares of Erdogdu (2016).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

# Spread of the log-odds beyond which data of bounded size do not tell lengths apart.
_LARGEST_SPREAD = 12.0
_LEAST_PROBABILITY = 1e-6
_NODES = np.linspace(-8.5, 8.5, 1361)
_MASSES = np.exp(-(_NODES**2) / 2)
_MASSES /= _MASSES.sum()


def logistic_scale(variance: float, probability: float) -> tuple[float, float]:
    """Return the factor that turns least-squares coefficients into logistic ones, and the mean log-odds.

    Parameters
    ----------
    variance : of the least-squares fit to labels 0 and 1, around its mean.
    probability : mean label; noise may have put it outside [0, 1].
    """
    share = min(max(probability, _LEAST_PROBABILITY), 1 - _LEAST_PROBABILITY)
    low, high = 0.0, _LARGEST_SPREAD
    # spread * slope grows with the spread, so bisection finds the root, or the largest spread.
    for _ in range(60):
        middle = (low + high) / 2
        _, slope = _mean_and_slope(middle, share)
        low, high = (middle, high) if middle * slope < np.sqrt(max(variance, 0.0)) else (low, middle)
    offset, slope = _mean_and_slope(low, share)
    return 1 / slope, offset


def _mean_and_slope(spread: float, share: float) -> tuple[float, float]:
    """Return the mean of normal log-odds that gives this share of ones, and E[s'(t)] there."""
    # The share lies between those of the extreme log-odds.
    centre = float(np.log(share / (1 - share)))
    low, high = centre - 9 * spread - 1, centre + 9 * spread + 1
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _expected(middle, spread) < share else (low, middle)
    ones: NDArray[np.float64] = expit(low + spread * _NODES)
    return low, float(_MASSES @ (ones * (1 - ones)))


def _expected(mean: float, spread: float) -> float:
    return float(_MASSES @ expit(mean + spread * _NODES))
