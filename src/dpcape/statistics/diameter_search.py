"""Search for two records whose contributions are farther apart than the stated diameter of a loss.

It tries pairs that are often extreme (opposite, orthogonal, zero and full-length rows, the ends of the response) and
improves the best pair by a local search. Finding no violation proves nothing; finding one stops the release. The points
come from a Halton sequence, the same at every site.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from scipy.special import ndtri

from dpcape.core.arrays import FloatArray
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import Targets

Contributions: TypeAlias = Callable[[FloatArray, Targets | None], FloatArray]

_ENTRIES = 4_000_000
_CLIMB_ROUNDS, _CLIMB_TRIALS = 40, 24


def largest_distance(contributions: Contributions, facts: PublicFacts) -> float:
    """Return the largest distance found between the contributions of two possible records.

    Parameters
    ----------
    contributions : callable
        Function from rows and targets (None without targets) to packed contributions.
    facts : PublicFacts
        The public bounds: rows are tried up to their bound, targets over their range.
    """
    rows, targets = candidate_records(facts)
    packed = contributions(rows, targets)
    room = max(2, _ENTRIES // max(1, packed.shape[1]))
    if len(rows) > room:
        chosen = np.linspace(0, len(rows) - 1, room).astype(int)
        rows, packed = rows[chosen], packed[chosen]
        targets = None if targets is None else targets[chosen]
    squares = np.vecdot(packed, packed)
    distances = squares[:, np.newaxis] + squares - 2 * packed @ packed.T
    first, second = np.unravel_index(int(np.argmax(distances)), distances.shape)
    pair = np.array([first, second])
    return _climb(contributions, rows[pair], None if targets is None else targets[pair], facts)


def halton(n_points: int, n_dimensions: int) -> FloatArray:
    """Return standard normal points that are the same in every run."""
    from scipy.stats.qmc import Halton

    uniform = Halton(d=n_dimensions, scramble=False).random(n_points + 1)[1:]
    points: FloatArray = ndtri(np.clip(uniform, 1e-9, 1 - 1e-9))
    return points


def candidate_records(facts: PublicFacts) -> tuple[FloatArray, Any]:
    """Return possible records: rows of several lengths and directions, combined with all targets tried."""
    width, bound = facts.n_features, facts.bounds[0]
    axes = np.eye(width)[:8]
    even = np.full((1, width), width**-0.5)
    random = halton(40, width)
    random /= np.maximum(np.linalg.norm(random, axis=1, keepdims=True), 1e-12)
    directions = np.concatenate([axes, even, random])
    directions = np.concatenate([directions, -directions])
    rows = bound * np.concatenate([np.zeros((1, width)), 0.5 * directions, directions])
    values = _target_values(facts)
    if values is None:
        return rows, None
    tiled = values[np.tile(np.arange(len(values)), len(rows))]
    return np.repeat(rows, len(values), axis=0), tiled


def _target_values(facts: PublicFacts) -> Targets | None:
    if facts.classes is not None:
        return np.arange(len(facts.classes))
    return None if facts.response is None else np.linspace(-1.0, 1.0, 9)


def _climb(contributions: Contributions, rows: FloatArray, targets: Targets | None, facts: PublicFacts) -> float:
    """Improve a pair of records by shrinking steps; return the largest distance found."""
    bound, numeric = facts.bounds[0], facts.response is not None
    steps = halton(_CLIMB_TRIALS, 2 * rows.shape[1] + 2)
    best, width = _distance(contributions, rows, targets), 0.5
    for _ in range(_CLIMB_ROUNDS):
        improved = False
        for step in steps:
            moved = rows + width * bound * step[:-2].reshape(rows.shape) / np.sqrt(rows.shape[1])
            moved *= (bound / np.maximum(np.linalg.norm(moved, axis=1), bound))[:, np.newaxis]
            shifted = targets if targets is None or not numeric else np.clip(targets + width * step[-2:], -1.0, 1.0)
            distance = _distance(contributions, moved, shifted)
            if distance > best:
                best, rows, targets, improved = distance, moved, shifted, True
        width *= 1.0 if improved else 0.6
    return best


def _distance(contributions: Contributions, rows: FloatArray, targets: Targets | None) -> float:
    packed = contributions(rows.copy(), targets)
    return float(np.linalg.norm(packed[0] - packed[1]))
