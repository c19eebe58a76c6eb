"""Lower bounds on epsilon from the hits and false alarms of an attack."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from dpcape.core.arrays import FloatArray
from dpcape.core.privacy.gaussian import epsilon_of

N_THRESHOLDS = 16


@dataclass(frozen=True)
class Bounds:
    """Lower bounds on epsilon.

    Attributes
    ----------
    epsilon : float
        Bound from hits and false alarms only, valid for any noise.
    gaussian_epsilon : float
        Bound from the largest mu they refute; sharper, but it refutes the Gaussian accounting, not (epsilon, delta)
        itself.
    """

    epsilon: float
    gaussian_epsilon: float


def lower_bounds(still: FloatArray, moved: FloatArray, *, delta: float, alpha: float) -> Bounds:
    """Return lower bounds that are all true except with probability ``alpha``.

    Uses one-sided Clopper-Pearson limits with ``alpha`` divided among all thresholds and both kinds of error.
    Thresholds come from a tenth of the trials, which is not counted.
    """
    apart = len(still) // 10
    spread = np.std(still[:apart])
    thresholds = np.median(still[:apart]) + spread * np.linspace(0.0, 3.0, N_THRESHOLDS)
    tail = alpha / (2 * N_THRESHOLDS)
    epsilon, mu = 0.0, 0.0
    for threshold in thresholds:
        most_wrong = _most(int((still[apart:] > threshold).sum()), len(still) - apart, tail)
        least_right = _least(int((moved[apart:] > threshold).sum()), len(moved) - apart, tail)
        if least_right > delta:
            epsilon = max(epsilon, math.log((least_right - delta) / most_wrong))
        if least_right > 0 and most_wrong < 1:
            mu = max(mu, float(special.ndtri(least_right) - special.ndtri(most_wrong)))
    return Bounds(epsilon=epsilon, gaussian_epsilon=epsilon_of(delta, mu) if mu > 0 else 0.0)


def _most(count: int, n_trials: int, tail: float) -> float:
    return float(stats.beta.isf(tail, count + 1, n_trials - count)) if count < n_trials else 1.0


def _least(count: int, n_trials: int, tail: float) -> float:
    return float(stats.beta.ppf(tail, count, n_trials - count + 1)) if count else 0.0
