"""Proportional hazards from releases: the hazard of all records together, and the units of columns.

The model is piecewise exponential: between some times the hazard of a record is exp(level + trend s + beta . u) times
that of a usual record, s a public trend along time. The hazard of a usual record follows from that of all records
together and the spread of log hazards, because records of high hazard leave first. Bins of time have about equal
numbers of events, with exact times inside; what they do not resolve is part of the standard errors.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.statistics.followed_columns import ColumnMeans
from dpcape.statistics.hazard_scores import STRETCH

_MOST_BINS = 24
# Minimum number of events in a bin, in standard deviations of their noise.
_CLEAR = 10.0
_LIMITS = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0)
_LEAST_RATE, _LEAST_SD = 0.01, 0.01
# Length of the row of a rare level: below full weight, to leave room for the other columns.
_RARE_ROW = 0.8 * STRETCH
LEAST_GRAIN = 0.01
"""Minimum relative standard error for the bias from hazards that are constant within time bins."""
LARGEST_SPREAD = 3.0
"""Largest plausible variance of log hazards."""
# Below this share of records at risk, do not divide by the number at risk.
_FEW = 0.1
_NODES = np.linspace(-6.0, 6.0, 121)
_MASSES = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()


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
    grain : float
        By how much, relatively, times that are not resolved may move coefficients.
    """

    edges: FloatArray
    hazards: FloatArray
    trend: FloatArray
    rate: float
    grain: float

    def of_usual_record(self, variance: float) -> Baseline:
        """Return the hazard of a record whose columns are at their means, given the variance of log hazards.

        Records of high hazard leave first: the hazard of all records together falls against that of one. How far, is
        computed for normal log hazards; the trend along which it may fall more or less has the same shape.
        """
        if variance <= 0:
            return self
        spread = math.sqrt(min(variance, LARGEST_SPREAD))
        steps = self.hazards * np.diff(self.edges)
        of_survivors, longer = _hazards_of_those_left(np.cumsum(steps) - steps / 2, spread)
        weights = steps * np.exp(-np.cumsum(steps))
        weights = weights / float(weights.sum())
        return self._replace(
            hazards=self.hazards / of_survivors * math.exp(-(spread**2) / 2),
            trend=_centred(np.log(of_survivors), weights),
            # Within a bin, records with an event have a higher hazard than all records.
            grain=self.grain * float(weights @ longer),
        )


def baseline_of(counts: FloatArray, *, noise: float, horizon: float, crowding: float = 1.0) -> Baseline:
    """Return the hazard of all records in bins of about equal numbers of events.

    Parameters
    ----------
    counts : (2 K + 2,) array
        Records by cell: events in K bins, other ends in each, followed beyond the last, missing.
    noise : float
        Standard deviation of the noise of one count.
    horizon : float
        End of the last bin, as a place in the range of time.
    crowding : float
        How the K bins crowd towards the beginning.
    """
    n_bins = len(counts) // 2 - 1
    events, ended, present = counts[:n_bins], counts[n_bins : 2 * n_bins], float(counts[:-1].sum())
    fine = horizon * (np.arange(n_bins + 1) / n_bins) ** crowding
    leaving = np.cumsum(events + ended)
    middle = np.maximum(present - leaving + (events + ended) / 2, 1.0)
    at_risk = middle * np.diff(fine)
    least = max(float(events.sum()) / _MOST_BINS, _CLEAR * noise)
    ends, n_events = [], 0.0
    for at in range(n_bins):
        n_events += float(events[at])
        if n_events >= least:
            ends.append(at + 1)
            n_events = 0.0
    ends = [*ends[:-1], n_bins] if ends else [n_bins]
    starts = [0, *ends[:-1]]
    seen = np.array([max(float(events[a:b].sum()), 0.5) for a, b in zip(starts, ends, strict=True)])
    exposed = np.array([float(at_risk[a:b].sum()) for a, b in zip(starts, ends, strict=True)])
    rate = min(max(float(seen.sum()) / max(present, 1.0), _LEAST_RATE), 1.0)
    edges, hazards = fine[[0, *ends]], seen / exposed
    grain = _unresolved(events, middle, noise) + _uneven(events, at_risk, fine, ends)
    return Baseline(edges, hazards, _trend(hazards * np.diff(edges), seen), rate, grain)


def _unresolved(events: FloatArray, at_risk: FloatArray, noise: float) -> float:
    """Return what the unknown order of times within the finest bins can do to a coefficient, relatively.

    Let x events be expected of a record in a bin. If all events are at the beginning of the bin, records with an event
    have been exposed for no time, and the hazard of a record seems to be (e^x - 1) / x = 1 + x / 2 + ... times what it
    is; if all are at its end (ties), (1 - e^(-x)) / x = 1 - x / 2 + ... times. Records of twice the hazard are off by
    twice as much: a coefficient by x / 2, in the mean over events.
    """
    # The square of a noisy count is too large by the variance of the noise. Bins with few at risk are mostly noise.
    divisor = np.maximum(at_risk, max(_FEW * float(at_risk[0]), 1.0))
    squares = float((events**2 - noise**2) @ (1 / divisor))
    return max(0.5 * squares / max(float(events.sum()), noise, 1.0), 0.0)


def _uneven(events: FloatArray, at_risk: FloatArray, fine: FloatArray, ends: list[int]) -> float:
    """Return what a hazard that is not constant within the bins of the model can do, relatively.

    If events are on average where those at risk are, nothing: see :func:`_unresolved` for the ends of a bin.
    """
    excess, middles = 0.0, (fine[1:] + fine[:-1]) / 2
    for a, b in zip([0, *ends[:-1]], ends, strict=True):
        seen, exposed = float(events[a:b].sum()), float(at_risk[a:b].sum())
        positions = (middles[a:b] - fine[a]) / float(fine[b] - fine[a])
        late = float(events[a:b] @ positions) - seen * float(at_risk[a:b] @ positions) / exposed
        step = max(seen, 0.0) / exposed * float(fine[b] - fine[a])
        excess += step * min(max(late, -seen / 2), seen / 2)
    return abs(excess) / max(float(events.sum()), 1.0)


def _trend(steps: FloatArray, seen: FloatArray) -> FloatArray:
    """Return the shape in which hazards of a group fall because records of high hazard leave first, from -1 to 1.

    It falls with the share that would have had their event without other ends of follow-up: that in the middle of
    every bin, around the mean of events.
    """
    middle = 1 - np.exp(-np.cumsum(steps) + steps / 2)
    return _centred(middle, seen / float(seen.sum()))


def _centred(shape: FloatArray, weights: FloatArray) -> FloatArray:
    """Return a shape around its weighted mean, from -1 to 1."""
    centred = shape - float(shape @ weights)
    largest = float(np.abs(centred).max())
    return centred / largest if largest > 1e-12 else np.zeros(len(shape))


def _hazards_of_those_left(hazard: FloatArray, spread: float) -> tuple[FloatArray, FloatArray]:
    """Return the mean hazard of those without an event, relative to all, and that of the next events, relative to it.

    Parameters
    ----------
    hazard : (K,) array
        Cumulative hazard of all records together: minus the logarithm of the share without an event.
    spread : float
        Standard deviation of the logarithm of a record's hazard, which is normal.
    """
    relative = np.exp(spread * _NODES - spread**2 / 2)
    low, high = np.zeros(len(hazard)), np.maximum(hazard, 1e-9) * math.exp(4 * spread**2 + 4)
    # The cumulative hazard of a record of mean hazard, by halving: the share that is left falls with it.
    for _ in range(80):
        middle = (low + high) / 2
        above = np.exp(-np.outer(middle, relative)) @ _MASSES > np.exp(-hazard)
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    surviving = np.exp(-np.outer((low + high) / 2, relative)) * _MASSES
    mean = surviving @ relative / np.maximum(surviving.sum(axis=1), 1e-300)
    of_next: FloatArray = surviving @ relative**2 / np.maximum(surviving @ relative, 1e-300) / mean
    return mean, of_next


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
    total = float(baseline.hazards @ np.diff(baseline.edges))

    def variance(limit: float) -> float:
        rate = (1 - math.exp(-min(total, limit))) / (1 - math.exp(-total)) * baseline.rate
        return 1 / (n_records * rate) + (limit * length * noise / rate) ** 2

    return min(_LIMITS, key=variance)


class Standard(NamedTuple):
    """Centre and standard deviation of the columns of a design, and the unit in which rows are shortened."""

    centre: FloatArray
    sd: FloatArray
    unit: FloatArray


def standard_of(
    means: ColumnMeans, is_number: BoolArray, is_two_levels: BoolArray, *, noise: float, length: float
) -> Standard:
    """Return centre and standard deviation of the columns, as far as noise shows them.

    A unit is the standard deviation, or more for a rare level: its rows would be so many standard deviations long that
    their curvature were not counted in full, and Newton's steps too long.

    Parameters
    ----------
    means : ColumnMeans
        Means over all records.
    is_number, is_two_levels : (width,) array of bool
        Which columns are numbers in a range, and which are -1 or 1.
    noise : float
        Standard deviation of the noise of a mean.
    length : float
        Length to which rows are shortened, in units.
    """
    complete = max(means.complete, 1e-3)
    centre = np.clip(means.means / complete, -1.0, 1.0)
    # A square of -1 or 1 is 1, that of 0 or 1 is itself.
    squares = np.where(is_two_levels, 1.0, np.maximum(centre, 0.0))
    squares[is_number] = means.squares / complete
    variance = np.maximum(squares - centre**2, max(_LEAST_SD**2, noise / complete))
    sd = np.sqrt(np.minimum(variance, 1.0))
    farthest = np.where(is_two_levels, 1 + np.abs(centre), np.maximum(1 - centre, centre))
    unit = np.maximum(sd, np.where(is_number, 0.0, farthest) / (_RARE_ROW * length))
    return Standard(centre, sd, unit)
