"""Proportional hazards from releases: the hazard of all records together, Newton steps and intervals.

The model is piecewise exponential: between some times the hazard of a record is exp(level + trend s + beta . u) times
that of all records together, s a public trend along time. Bins of about equal numbers of events, with exact times
inside, differ from Cox's partial likelihood by up to 1% of a coefficient where hazards fall steeply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dpcape.arrays import BoolArray, FloatArray
from dpcape.statistics.followed_columns import ColumnMeans
from dpcape.statistics.hazard_scores import HazardMeans, curvature_weights, score_weights

_MOST_BINS = 24
# A bin has so many times the noise of its events.
_CLEAR = 10.0
_LIMITS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
_LEAST_RATE, _LEAST_SD = 0.01, 0.01
# How far from the expected curvature the true one usually is, relatively; its noise is weighed against that.
_USUAL, _LEAST_EIGENVALUE = 0.5, 0.2
# Largest step of one round, and of the last one for which intervals are given, in standard deviations.
_LARGEST_STEP, LAST_STEP = 1.5, 0.5
# Part of what noise reaches that the smallest eigenvalue of the curvature must exceed.
CLEARANCE = 0.5
_FURTHER = 0.2
GRAIN = 0.01
"""Relative standard error for what hazards that are constant within bins of time do to a coefficient."""


class Baseline(NamedTuple):
    """Hazard of all records together.

    Attributes
    ----------
    edges : (K + 1,) array
        Beginning of the first bin and ends of all bins, as places in the range of time.
    hazards : (K,) array
        Events per record at risk and unit of place.
    trend : (K,) array
        How hazards fall because records of high hazard leave first, from -1 to 1.
    rate : float
        Share of records with an event.
    """

    edges: FloatArray
    hazards: FloatArray
    trend: FloatArray
    rate: float

    def moved(self, level: float, trend: float) -> FloatArray:
        """Return hazards with a level and a trend on the logarithmic scale."""
        return np.asarray(self.hazards * np.exp(np.clip(level + trend * self.trend, -20.0, 20.0)))


def baseline_of(counts: FloatArray, *, noise: float, horizon: float) -> Baseline:
    """Return the hazard of all records in bins of about equal numbers of events.

    Parameters
    ----------
    counts : (2 K + 2,) array
        Records by cell: events in K equal bins, other ends in each, followed beyond the last, missing.
    noise : float
        Standard deviation of the noise of one count.
    horizon : float
        End of the last bin, as a place in the range of time.
    """
    n_bins = len(counts) // 2 - 1
    events, ended, present = counts[:n_bins], counts[n_bins : 2 * n_bins], float(counts[:-1].sum())
    width = horizon / n_bins
    leaving = np.cumsum(events + ended)
    at_risk = np.maximum(present - leaving + (events + ended) / 2, 1.0) * width
    least = max(float(events.sum()) / _MOST_BINS, _CLEAR * noise)
    ends, held = [], 0.0
    for at in range(n_bins):
        held += float(events[at])
        if held >= least:
            ends.append(at + 1)
            held = 0.0
    ends = [*ends[:-1], n_bins] if ends else [n_bins]
    starts = [0, *ends[:-1]]
    seen = np.array([max(float(events[a:b].sum()), 0.5) for a, b in zip(starts, ends, strict=True)])
    exposed = np.array([float(at_risk[a:b].sum()) for a, b in zip(starts, ends, strict=True)])
    rate = min(max(float(seen.sum()) / max(present, 1.0), _LEAST_RATE), 1.0)
    edges, hazards = width * np.array([0.0, *ends]), seen / exposed
    return Baseline(edges, hazards, _trend(hazards * np.diff(edges), seen), rate)


def _trend(steps: FloatArray, seen: FloatArray) -> FloatArray:
    """Return the shape in which hazards of a group fall because records of high hazard leave first, from -1 to 1.

    It falls with the share that would have had their event without other ends of follow-up: that in the middle of
    every bin, around the mean of events.
    """
    middle = 1 - np.exp(-np.cumsum(steps) + steps / 2)
    centred = middle - float(middle @ seen) / float(seen.sum())
    largest = float(np.abs(centred).max())
    found: FloatArray = centred / largest if largest > 0 else centred
    return found


def limit_of(baseline: Baseline, *, noise: float, length: float, n_records: float) -> float:
    """Return after how many expected events follow-up ends: the number with the least expected variance.

    Parameters
    ----------
    baseline : Baseline
        Hazard of all records.
    noise : float
        Standard deviation of the noise of a mean score, for a limit of 1 and rows in the unit ball.
    length : float
        Length to which rows are shortened.
    n_records : float
        Number of records.
    """
    whole = float(baseline.hazards @ np.diff(baseline.edges))

    def variance(limit: float) -> float:
        kept = (1 - math.exp(-min(whole, limit))) / (1 - math.exp(-whole)) * baseline.rate
        return 1 / (n_records * kept) + (limit * length * noise / kept) ** 2

    return min(_LIMITS, key=variance)


class Standard(NamedTuple):
    """Centre and standard deviation of the columns of a design."""

    centre: FloatArray
    sd: FloatArray


def standard_of(means: ColumnMeans, is_number: BoolArray, is_two_levels: BoolArray, *, noise: float) -> Standard:
    """Return centre and standard deviation of the columns, as far as noise shows them.

    Parameters
    ----------
    means : ColumnMeans
        Means over all records.
    is_number, is_two_levels : (width,) array of bool
        Which columns are numbers in a range, and which are -1 or 1.
    noise : float
        Standard deviation of the noise of a mean.
    """
    complete = max(means.complete, 1e-3)
    centre = np.clip(means.means / complete, -1.0, 1.0)
    # A square of -1 or 1 is 1, that of 0 or 1 is itself.
    squares = np.where(is_two_levels, 1.0, np.maximum(centre, 0.0))
    squares[is_number] = means.squares / complete
    variance = np.maximum(squares - centre**2, max(_LEAST_SD**2, noise / complete))
    return Standard(centre, np.sqrt(np.minimum(variance, 1.0)))


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
    length : float
        Length to which rows were shortened: parameters are per so many standard deviations.
    """

    means: HazardMeans
    limit: float
    noise: float
    n_records: float
    baseline: Baseline
    length: float

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
    def usual(self) -> FloatArray:
        """Square roots of the expected diagonal of the curvature."""
        spread = float(np.sqrt((self.baseline.trend**2).mean()))
        shape = [1.0, max(spread, 0.3), *[1 / self.length] * self._width]
        return math.sqrt(self.baseline.rate) * np.array(shape)

    @property
    def curvature(self) -> FloatArray:
        """Curvature, over its expected diagonal."""
        usual = self.usual
        found: FloatArray = self.limit * self.means.curvature / np.outer(usual, usual)
        return found

    @property
    def reach(self) -> float:
        """Largest eigenvalue that noise alone reaches in the curvature, over its expected diagonal."""
        usual = self.usual
        relative = (self.curvature_noise / np.outer(usual, usual)) ** 2
        return math.sqrt(2 * float(relative.sum(axis=1).max()))

    @property
    def is_clear(self) -> bool:
        """Whether the curvature is above its noise."""
        return float(np.linalg.eigvalsh(self.curvature)[0]) > CLEARANCE * self.reach

    def inverse(self, *, last: bool) -> FloatArray:
        """Return the inverse curvature: as released in the last round, else weighed with what is expected."""
        usual, found = self.usual, self.curvature
        if not (last and self.is_clear):
            weight = self.reach**2
            found = (found * _USUAL**2 + weight * np.eye(len(found))) / (_USUAL**2 + weight)
        values, vectors = np.linalg.eigh(found)
        least = 0.0 if last and self.is_clear else _LEAST_EIGENVALUE
        inverse: FloatArray = (vectors / np.maximum(values, least)) @ vectors.T / np.outer(usual, usual)
        return inverse

    def size_of(self, step: FloatArray) -> float:
        """Return how far a step moves hazards on the logarithmic scale, in standard deviations."""
        return float(np.linalg.norm(step * self.usual)) / math.sqrt(self.baseline.rate)

    def step(self, *, last: bool = False) -> FloatArray:
        """Return the step to the next parameters."""
        step: FloatArray = self.inverse(last=last) @ self.scores
        size = self.size_of(step)
        return step if size <= _LARGEST_STEP else step * (_LARGEST_STEP / size)

    def covariance(self, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the covariance of the parameters after the last step, and the part that is noise; else infinite.

        With A the released curvature, E its noise and n noise and sampling of the scores, the error of the step e is
        A^(-1) (n - E e), whatever E is: it does not matter that the inverse is of a noisy matrix. The variance of a
        score at the true hazards is its curvature; A may be too small by what noise reaches.
        """
        if not self.is_clear or self.size_of(step) > LAST_STEP:
            nothing = np.full((len(step), len(step)), np.inf)
            return nothing, nothing
        usual, inverse, entries = self.usual, self.inverse(last=True), self.curvature_noise**2
        sampling = (self.curvature + self.reach * np.eye(len(usual))) * np.outer(usual, usual) / self.n_records
        errors = np.diag(self.score_noise**2)
        squares = step**2 + np.diag(inverse @ (errors + sampling) @ inverse)
        errors = errors + (np.diag(entries @ squares) + entries * np.outer(step, step)) / 2
        noise = inverse @ errors @ inverse
        # What further rounds would move: less than so much of the last step.
        return inverse @ sampling @ inverse + noise + _FURTHER**2 * np.outer(step, step), noise
