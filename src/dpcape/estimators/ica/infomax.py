"""Infomax: natural-gradient steps from released gradients (dissertation, algorithm 6.1, steps 13 to 20)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.statistics.infomax_scores import MOST_CONDITION, condition

# An unmixing matrix of whitened data has entries near one; beyond this the rate was too large.
_LARGEST_WEIGHT = 50.0


# Factor of the rate when a step reverses the previous one.
_SLOWER = 0.8


def opposes(change: FloatArray, last: FloatArray) -> bool:
    """Return whether the angle between a change and the last one exceeds 120 degrees."""
    return float((change * last).sum()) < -0.5 * float(np.linalg.norm(change) * np.linalg.norm(last))


@dataclass
class Infomax:
    """State of an infomax run at the aggregator.

    The result is the average of the iterates of the second half, in which the noise of individual rounds averages out.
    If weights diverge, the run restarts at half the rate; the rounds already made are not returned.

    If a step reverses most of the previous one, the rate is reduced: too large a rate otherwise ends in a cycle of two
    iterates. Independent noise does not cause such a pattern.

    Attributes
    ----------
    n_components : int
        Number of components.
    n_iter : int
        Number of rounds, fixed in advance.
    rate : float
        Current step size.
    unmixing : array of shape (n_components, n_components)
        Current unmixing matrix of whitened data.
    bias : array of shape (n_components,)
        Current bias of the sources.
    done : int
        Number of rounds made.
    """

    n_components: int
    n_iter: int
    rate: float
    unmixing: FloatArray = field(init=False)
    bias: FloatArray = field(init=False)
    done: int = 0
    _sum: FloatArray = field(init=False)
    _n_averaged: int = 0
    _last: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self._restart()

    def step(self, gradient: FloatArray, bias_gradient: FloatArray) -> float:
        """Take one step; return the squared norm of the change of the unmixing matrix."""
        change = self.rate * gradient
        if opposes(change, self._last):
            self.rate *= _SLOWER
        self._last = change
        self.unmixing, self.bias = self.unmixing + change, self.bias + self.rate * bias_gradient
        self.done += 1
        if self._ran_away():
            self.rate /= 2
            self._restart()
        elif 2 * self.done > self.n_iter:
            self._sum, self._n_averaged = self._sum + self.unmixing, self._n_averaged + 1
        return float((change**2).sum())

    def result(self) -> FloatArray:
        """Return the averaged unmixing matrix, or the last one if the run ended before averaging began."""
        return self._sum / self._n_averaged if self._n_averaged else self.unmixing

    def _ran_away(self) -> bool:
        """Return whether weights are so large or ill-conditioned that sites might refuse them."""
        if not np.isfinite(self.unmixing).all() or np.abs(self.unmixing).max() > _LARGEST_WEIGHT:
            return True
        return condition(self.unmixing) > 0.9 * MOST_CONDITION or np.abs(self.bias).max() > _LARGEST_WEIGHT

    def _restart(self) -> None:
        n = self.n_components
        self.unmixing, self.bias = np.eye(n), np.zeros(n)
        self._sum, self._n_averaged = np.zeros((n, n)), 0
        self._last = np.zeros((n, n))
