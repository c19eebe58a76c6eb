"""Norm of logistic coefficients from least-squares coefficients.

For elliptically distributed features (such as Gaussian ones), y = 0 or 1 and P(y = 1) = s(t) with t = c + w'x,
Stein's lemma gives cov(x, y) = E[s'(t)] cov(x) w: least squares finds the direction of w, scaled by
E[s'(t)]. With t normal of mean m and variance v this leaves two equations for (m, v),

    E[s(t)] = P(y = 1)    and    v E[s'(t)]^2 = variance of the least-squares fit,

and the factor is 1 / E[s'(t)]. At m = 0 this is the scaled least squares of Erdogdu (2016).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from dpcape.core.arrays import FloatArray

# Spread of the log-odds beyond which bounded records do not determine the norm.
_LARGEST_SPREAD = 6.0
_LEAST_PROBABILITY = 1e-6
_NODES = np.linspace(-8.5, 8.5, 681)
_MASSES = np.exp(-(_NODES**2) / 2)
_MASSES /= _MASSES.sum()


def logistic_scale(variance: float, probability: float, *, noise: float = 0.0) -> tuple[float, float]:
    """Return the factor that turns least-squares coefficients into logistic ones, and the mean log-odds.

    Parameters
    ----------
    variance : float
        Variance of the least-squares fit to labels 0 and 1, around its mean.
    probability : float
        Mean label; with noise it may lie outside [0, 1].
    noise : float
        Standard deviation of the noise on ``probability``, which is kept at least that far from 0 and 1.
    """
    margin = min(max(noise, _LEAST_PROBABILITY), 0.25)
    share = min(max(probability, margin), 1 - margin)
    wanted = math.sqrt(max(variance, 0.0))
    # spread * slope grows with the spread: one root, or none up to the largest spread.
    largest = _LARGEST_SPREAD * _mean_and_slope(_LARGEST_SPREAD, share)[1]
    spread = _LARGEST_SPREAD
    if wanted < largest:
        spread = brentq(lambda t: t * _mean_and_slope(t, share)[1] - wanted, 0.0, _LARGEST_SPREAD, xtol=1e-10)
    offset, slope = _mean_and_slope(spread, share)
    return 1 / slope, offset


def _mean_and_slope(spread: float, share: float) -> tuple[float, float]:
    """Return the mean of normal log-odds that gives this share of ones, and E[s'(t)] there."""
    # The share lies between those of the extreme log-odds.
    centre = math.log(share / (1 - share))
    reach = 9 * spread + 1
    ends = centre - reach, centre + reach
    mean = brentq(lambda m: float(_MASSES @ expit(m + spread * _NODES)) - share, *ends, xtol=1e-11)
    ones: FloatArray = expit(mean + spread * _NODES)
    return mean, float(_MASSES @ (ones * (1 - ones)))
