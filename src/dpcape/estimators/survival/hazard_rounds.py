"""Rounds of proportional hazards: Newton steps from released scores and curvature, and intervals after the last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.estimators.survival.hazards import LARGEST_SPREAD, Baseline
from dpcape.statistics.hazard_scores import HazardMeans, curvature_weights, score_weights

# Typical relative deviation of the true curvature from the expected one, against which its noise is weighed.
_USUAL, _LEAST_EIGENVALUE = 0.5, 0.2
# Largest step of one round, and of the last one for which intervals are given, in standard deviations.
_LARGEST_STEP, LAST_STEP = 1.5, 0.5
# Part of what noise reaches that the smallest eigenvalue of the curvature must exceed.
CLEARANCE = 0.5
# Largest noise of the curvature in any direction, relative to the curvature there. Below that, columns that almost
# determine each other, or a range that is much too wide, would now and then be taken for columns with small effects.
_WEAKEST = 0.45
_ONE_SIDED = 1.4
# Assumed remaining movement relative to the last step, unless steps are observed to shrink more slowly.
_FURTHER = 0.2


@dataclass(frozen=True)
class Round:
    """One round: where the scores were taken, and what was released.

    Attributes
    ----------
    means : HazardMeans
        Scores and curvature, over the limit.
    limit : float
        Number of expected events at which follow-up ends.
    noise : float
        Standard deviation of the noise of a unit of the release.
    n_records : float
        Number of records.
    baseline : Baseline
        Hazard of all records.
    spread : (width,) array
        Standard deviations of the columns of rows: parameters are per so many standard deviations, in inverse.
    """

    means: HazardMeans
    limit: float
    noise: float
    n_records: float
    baseline: Baseline
    spread: FloatArray

    @property
    def _width(self) -> int:
        return len(self.means.scores) - 2

    @property
    def scores(self) -> FloatArray:
        """Mean scores."""
        return self.limit * self.means.scores

    @property
    def score_noise(self) -> FloatArray:
        """Standard deviations of their noise."""
        return self.limit * self.noise / score_weights(self._width)

    @property
    def curvature_noise(self) -> FloatArray:
        """Standard deviations of the curvature's noise on the diagonal; off it, times sqrt(1/2)."""
        return self.limit * self.noise / curvature_weights(self._width)

    @property
    def expected_root(self) -> FloatArray:
        """Square roots of the expected diagonal of the curvature."""
        along = float(np.sqrt((self.baseline.trend**2).mean()))
        return math.sqrt(self.baseline.rate) * np.append([1.0, max(along, 0.3)], self.spread)

    @property
    def curvature(self) -> FloatArray:
        """Curvature, over its expected diagonal."""
        expected_root = self.expected_root
        return self.limit * self.means.curvature / np.outer(expected_root, expected_root)

    @property
    def reach(self) -> float:
        """Largest eigenvalue that noise alone reaches in the curvature, over its expected diagonal."""
        expected_root = self.expected_root
        relative = (self.curvature_noise / np.outer(expected_root, expected_root)) ** 2
        return math.sqrt(2 * float(relative.sum(axis=1).max()))

    @property
    def _weakness(self) -> float:
        """Largest ratio of the noise of the curvature along an eigenvector to the eigenvalue; infinite below zero."""
        expected_root = self.expected_root
        values, vectors = np.linalg.eigh(self.curvature)
        squares, relative = vectors**2, (self.curvature_noise / np.outer(expected_root, expected_root)) ** 2
        along = np.sqrt(((squares.T @ relative) * squares.T).sum(axis=1))
        return float((along / values).max()) if values[0] > 0 else math.inf

    @property
    def is_clear(self) -> bool:
        """Whether the curvature is above its noise, in every direction."""
        least = float(np.linalg.eigvalsh(self.curvature)[0])
        return least > CLEARANCE * self.reach and self._weakness < _WEAKEST

    def inverse(self, *, last: bool) -> FloatArray:
        """Return the inverse curvature: as released in the last round, else weighed with what is expected."""
        expected_root, curvature = self.expected_root, self.curvature
        if not (last and self.is_clear):
            weight = self.reach**2
            curvature = (curvature * _USUAL**2 + weight * np.eye(len(curvature))) / (_USUAL**2 + weight)
        values, vectors = np.linalg.eigh(curvature)
        least = 0.0 if last and self.is_clear else _LEAST_EIGENVALUE
        inverse: FloatArray = (vectors / np.maximum(values, least)) @ vectors.T / np.outer(expected_root, expected_root)
        return inverse

    def size_of(self, step: FloatArray) -> float:
        """Return how far a step moves hazards on the logarithmic scale, in standard deviations."""
        return float(np.linalg.norm(step * self.expected_root)) / math.sqrt(self.baseline.rate)

    def step(self, *, last: bool = False) -> FloatArray:
        """Return the step to the next parameters."""
        step: FloatArray = self.inverse(last=last) @ self.scores
        size = self.size_of(step)
        return step if size <= _LARGEST_STEP else step * (_LARGEST_STEP / size)

    def variance_of(self, slopes: FloatArray) -> float:
        """Return the variance of log hazards over records: columns have a variance of 1, and correlate as released."""
        constant, crossed = float(self.means.curvature[0, 0]), self.means.curvature[0, 2:]
        second = constant * self.means.curvature[2:, 2:] - np.outer(crossed, crossed)
        correlations = np.eye(self._width)
        # Where noise hides the curvature, columns count as unrelated.
        if self.is_clear and np.diagonal(second).min() > 0:
            deviations = np.sqrt(np.diagonal(second))
            correlations = np.clip(second / np.outer(deviations, deviations), -1.0, 1.0)
        own = slopes * self.spread
        return min(max(float(own @ correlations @ own), 0.0), LARGEST_SPREAD)

    def _errors(self) -> tuple[FloatArray, FloatArray]:
        """Return the covariances of the scores by sampling and by noise."""
        expected_root = self.expected_root
        sampling = (
            (self.curvature + self.reach * np.eye(len(expected_root)))
            * np.outer(expected_root, expected_root)
            / self.n_records
        )
        return sampling, np.diag(self.score_noise**2)

    def chance_of(self, *, last: bool = False) -> FloatArray:
        """Return the covariance of a step by noise and sampling of the scores alone."""
        inverse = self.inverse(last=last)
        return inverse @ np.add(*self._errors()) @ inverse

    def covariance(self, step: FloatArray, further: float = _FURTHER) -> tuple[FloatArray, FloatArray]:
        """Return the covariance of the parameters after the last step, and the part that is noise; else infinite.

        With A the released curvature, E its noise and n noise and sampling of the scores, the error of the step e is
        A^(-1) (n - E e), whatever E is: it does not matter that the inverse is of a noisy matrix. The variance of a
        score at the true hazards is its curvature; A may be too small by what noise reaches.

        Parameters
        ----------
        step : (2 + width,) array
            The last step.
        further : float
            What further rounds would move, relative to it.
        """
        if not self.is_clear or self.size_of(step) > LAST_STEP:
            nothing = np.full((len(step), len(step)), np.inf)
            return nothing, nothing
        inverse, entries = self.inverse(last=True), self.curvature_noise**2
        sampling, errors = self._errors()
        squares = step**2 + np.diag(inverse @ (errors + sampling) @ inverse)
        # If noise made the curvature too large, the step is too short by the same factor and understates the error.
        longer = 1 / (1 - _ONE_SIDED * self._weakness) ** 2
        errors = errors + longer * (np.diag(entries @ squares) + entries * np.outer(step, step)) / 2
        noise = inverse @ errors @ inverse
        return inverse @ sampling @ inverse + noise + further**2 * np.outer(step, step), noise


def further_of(rounds: Sequence[Round], steps: Sequence[FloatArray]) -> float:
    """Return what further rounds would move, relative to the last step: by how much steps shrank, beyond chance.

    Newton's steps shrink fast if the curvature is that of the scores. It is not for columns of long tails, whose rows
    are shortened, or for complete records whose hazards are not those of all: then every step has a part of the one
    before.

    Parameters
    ----------
    rounds : sequence of Round
        The last two rounds.
    steps : sequence of (2 + width,) array
        Their steps.
    """
    before, last = (entry.expected_root[2:] * step[2:] for entry, step in zip(rounds, steps, strict=True))
    scale = rounds[1].expected_root[2:]
    chance = rounds[0].chance_of() + rounds[1].chance_of(last=True)
    by_chance = float(scale**2 @ np.diag(chance)[2:])
    beyond_chance = math.sqrt(max(float(last @ last) - by_chance, 0.0))
    return min(max(_FURTHER, beyond_chance / max(float(np.linalg.norm(before)), 1e-300)), 1.0)
