"""Search for the two units that are easiest to distinguish.

Finding only close pairs proves nothing; finding a pair farther apart than the stated diameter refutes the analysis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.arrays import FloatArray
from dpcape.audit.adversaries import VICTIM
from dpcape.audit.cases import Case
from dpcape.audit.recorded_run import RecordedRun

_N_CANDIDATES, _CLIMB_ROUNDS, _CLIMB_TRIALS = 240, 30, 40


@dataclass(frozen=True)
class Neighbours:
    """A unit, the unit that replaces it, and their distance.

    Attributes
    ----------
    first : array of shape (n_numbers,)
        Numbers of the unit.
    second : array of shape (n_numbers,)
        Numbers of the unit that replaces it.
    reached : float
        Share of the allowed mu that the pair uses; 1 if it attains the stated diameter in every release.
    """

    first: FloatArray
    second: FloatArray
    reached: float


def worst_pair(case: Case, transcript: RecordedRun, *, seed: int) -> Neighbours:
    """Return the pair found with the largest privacy loss over all releases together."""
    generator = np.random.default_rng(seed)  # protects nothing
    distance = _Distance(case, transcript)
    units = _candidates(case.n_numbers, generator)
    weighted = np.array([distance.of(unit) for unit in units])
    squares = np.vecdot(weighted, weighted)
    first, second = np.unravel_index(
        int(np.argmax(squares[:, None] + squares - 2 * weighted @ weighted.T)), (len(units), len(units))
    )
    pair, best = _climb(np.array([units[first], units[second]]), distance, generator)
    return Neighbours(pair[0], pair[1], best)


class _Distance:
    """Contributions of single units, scaled so that their norm is the share of the allowed mu they use."""

    def __init__(self, case: Case, transcript: RecordedRun) -> None:
        self._case, self._statistics = case, transcript.statistics
        mus = np.array([request.plan.mus[VICTIM] for request in transcript.requests])
        shares = mus / np.linalg.norm(mus)
        self._weights = [
            share / statistic.diameter for share, statistic in zip(shares, transcript.statistics, strict=True)
        ]

    def of(self, unit: FloatArray) -> FloatArray:
        records = self._case.records(unit[None])
        parts = [
            weight * statistic.total(records) for weight, statistic in zip(self._weights, self._statistics, strict=True)
        ]
        return np.concatenate(parts)


def _candidates(width: int, generator: np.random.Generator) -> FloatArray:
    """Return candidate units: axes, opposite and random directions, of small, ordinary and very large norm."""
    axes = np.concatenate([np.eye(width), -np.eye(width)])
    directions = generator.standard_normal((_N_CANDIDATES, width))
    sizes = generator.choice([0.3, 1.0, 3.0, 30.0], size=(_N_CANDIDATES, 1))
    return np.concatenate([np.zeros((1, width)), axes, 30.0 * axes, sizes * directions])


def _climb(pair: FloatArray, distance: _Distance, generator: np.random.Generator) -> tuple[FloatArray, float]:
    """Increase the distance of a pair by random steps of decreasing size."""
    best, width = _apart(pair, distance), 0.5
    for _ in range(_CLIMB_ROUNDS):
        improved = False
        for _ in range(_CLIMB_TRIALS):
            step = generator.standard_normal(pair.shape) * np.maximum(np.linalg.norm(pair, axis=1, keepdims=True), 0.1)
            moved = pair + width * step / np.sqrt(pair.shape[1])
            apart = _apart(moved, distance)
            if apart > best:
                pair, best, improved = moved, apart, True
        width *= 1.0 if improved else 0.5
    return pair, best


def _apart(pair: FloatArray, distance: _Distance) -> float:
    return float(np.linalg.norm(distance.of(pair[0]) - distance.of(pair[1])))
