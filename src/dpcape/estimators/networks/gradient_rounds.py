"""Steps along released gradients: a running average of them, and an average of the later weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtri

from dpcape.core.arrays import FloatArray
from dpcape.core.statistic import Statistic
from dpcape.estimators.estimator import effective_share
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.verdicts import Verdict, of_strengths
from dpcape.statistics.gradients import LARGEST_WEIGHT

# The weights of this last part of the rounds are averaged.
_AVERAGED = 0.5
# False-alarm probability of a verdict.
_ERROR = 0.05
_NOT_ACCURACY = "accuracy must be measured on other rows"
# Records times mu, and rounds, at which the step of a model was chosen (docs/analyses/network.md). With less, steps are
# shorter: what noise moves the weights by grows with step times rounds over records times mu.
_USUAL_SIGNAL, _USUAL_ROUNDS, _POWER = 13_000.0, 60, 2 / 3
WEIGHT = "weight of the trained network; a weight by itself estimates nothing, only predictions have a meaning"
"""Estimand of a network's weights."""


def public_step(default: float, *, clip: float, n_rounds: int, noise_scale: float) -> float:
    """Return the factor of a gradient in a step, by a rule on public numbers.

    Parameters
    ----------
    default : float
        Step for clip 1, 60 rounds and 13,000 for records times mu, or more.
    clip : float
        Largest norm of a record's gradient.
    n_rounds : int
        Number of rounds.
    noise_scale : float
        Standard deviation of the noise on an entry of a released mean gradient; 0 for none.
    """
    if noise_scale == 0:
        return default / clip
    # Records times mu, pooled: the noise of one of n rounds has scale 2 clip sqrt(n) / (records mu).
    signal = 2 * clip * math.sqrt(n_rounds) / noise_scale
    shortened = _USUAL_ROUNDS / n_rounds * math.pow(signal / _USUAL_SIGNAL, _POWER)
    return default / clip * min(1.0, shortened)


@dataclass(frozen=True)
class Descent:
    """Result of steps along released gradients.

    Attributes
    ----------
    weights : array
        Average of the weights of the later rounds.
    lengths : list of float
        Lengths of the mean of the gradients released so far, round by round.
    """

    weights: FloatArray
    lengths: list[float]

    def verdicts(self, federation: Federation, private: Allowance, *, clip: float) -> list[Verdict]:
        """Return the verdict on the direction of training, from the lengths of the mean gradients so far."""
        share = effective_share(federation, private.releases[-1].survivors)
        reached = gradient_of_noise(
            len(self.weights),
            len(self.lengths),
            scale=private.releases[-1].scale / private.valid,
            sampling=clip * math.sqrt(share),
        )
        ratio = max(self.lengths[rounds - 1] / length for rounds, length in reached.items())
        judged = of_strengths(["direction of training"], [ratio], 1.0, what="mean gradient")
        return [replace(entry, reason=f"{entry.reason}; {_NOT_ACCURACY}") for entry in judged]


def descended(
    private: Allowance,
    start: FloatArray,
    gradient: Callable[[FloatArray], Statistic[Any, FloatArray]],
    *,
    step: Callable[[float], float],
    momentum: float,
) -> Descent:
    """Take one step per release that is left, and return the average of the later weights.

    Parameters
    ----------
    private : Allowance
        The right to the releases.
    start : array
        Public initial weights, in one vector.
    gradient : callable
        Function from weights to the statistic that is released in a round.
    step : callable
        Function from the noise scale of a round, which is public, to the factor of the averaged gradient in its step.
    momentum : float
        Share of the earlier gradients in the running average.
    """
    weights, average, total = start, np.zeros_like(start), np.zeros_like(start)
    late_sum, n_averaged, n_rounds = np.zeros_like(start), 0, private.left
    first_averaged = n_rounds - math.ceil(_AVERAGED * n_rounds)
    lengths = []
    for number in range(n_rounds):
        released = private.mean(gradient(weights))
        total = total + released
        lengths.append(float(np.linalg.norm(total)) / (number + 1))
        average = momentum * average + (1 - momentum) * released
        factor = step(private.releases[-1].scale)
        weights = np.clip(weights - factor * average, -LARGEST_WEIGHT, LARGEST_WEIGHT)
        # Averaging the later iterates removes much of their noise (Polyak and Juditsky 1992).
        if number >= first_averaged:
            late_sum, n_averaged = late_sum + weights, n_averaged + 1
    return Descent(late_sum / n_averaged, lengths)


def gradient_of_noise(n_weights: int, n_rounds: int, *, scale: float, sampling: float) -> dict[int, float]:
    """Return the length that the mean gradient of the first 1, 2, 4, ... rounds has by noise and sampling alone.

    Some of them is longer in 5% of studies at most. The mean of N contributions that are at most clip long, and whose
    expectation is zero, is longer than (1 + sqrt(2 log(1/a))) clip / sqrt(N) in the share a of samples at most
    (McDiarmid); the mean over rounds is not longer than the longest.

    Parameters
    ----------
    n_weights : int
        Entries of a gradient.
    n_rounds : int
        Number of rounds.
    scale : float
        Standard deviation of the noise of each entry in one round.
    sampling : float
        The clip over the root of the effective number of records.
    """
    numbers = [2**power for power in range(n_rounds.bit_length())]
    level = _ERROR / 2 / len(numbers)
    noise, sampled = scale * math.sqrt(float(chdtri(n_weights, level))), 1 + math.sqrt(-2 * math.log(level))
    return {number: noise / math.sqrt(number) + sampled * sampling for number in numbers}
