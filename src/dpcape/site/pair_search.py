"""Two units whose contributions differ most: a search over the numbers they are made from.

Finding a close pair proves nothing; finding one farther apart than the stated diameter refutes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray

# Most entries of all candidates' contributions together.
_ENTRIES = 16_000_000


@dataclass(frozen=True)
class Effort:
    """How long to search: random candidates, rounds of the climb, steps tried per round."""

    n_candidates: int = 240
    n_rounds: int = 30
    n_steps: int = 40


def farthest_pair(
    contribution: Callable[[FloatArray], FloatArray], n_numbers: int, *, seed: int, effort: Effort
) -> tuple[FloatArray, float]:
    """Return the numbers of two units, (2, n_numbers), and the distance of their contributions.

    Parameters
    ----------
    contribution : callable
        From the numbers of one unit to its contribution, or to a total in which only this unit varies.
    n_numbers : int
        Numbers per unit.
    seed : int
        Of the candidates and steps.
    effort : Effort
        How long to search.
    """
    generator = np.random.default_rng(seed)  # not protective randomness
    # Candidates where extremes usually are: axes, opposite and random directions, at several scales.
    axes = np.concatenate([np.eye(n_numbers), -np.eye(n_numbers)])
    directions = generator.standard_normal((effort.n_candidates, n_numbers))
    sizes = generator.choice([0.3, 1.0, 3.0, 30.0], size=(effort.n_candidates, 1))
    units = np.concatenate([np.zeros((1, n_numbers)), axes, 30.0 * axes, sizes * directions])
    room = max(8, _ENTRIES // max(1, contribution(units[0]).size))
    if len(units) > room:
        units = units[np.linspace(0, len(units) - 1, room).astype(int)]
    contributions = np.array([contribution(unit) for unit in units])
    # Subtract the first contribution, so that a common offset does not cost accuracy.
    contributions -= contributions[0].copy()
    squares = np.vecdot(contributions, contributions)
    apart = squares[:, None] + squares - 2 * contributions @ contributions.T
    first, second = np.unravel_index(int(np.argmax(apart)), (len(units), len(units)))
    return _climb(np.array([units[first], units[second]]), contribution, effort, generator)


def _climb(
    pair: FloatArray, contribution: Callable[[FloatArray], FloatArray], effort: Effort, generator: np.random.Generator
) -> tuple[FloatArray, float]:
    """Move a pair uphill by shrinking steps."""

    def apart(units: FloatArray) -> float:
        return float(np.linalg.norm(contribution(units[0]) - contribution(units[1])))

    best, width = apart(pair), 0.5
    for _ in range(effort.n_rounds):
        improved = False
        for _ in range(effort.n_steps):
            step = generator.standard_normal(pair.shape) * np.maximum(np.linalg.norm(pair, axis=1, keepdims=True), 0.1)
            moved = pair + width * step / np.sqrt(pair.shape[1])
            distance = apart(moved)
            if distance > best:
                pair, best, improved = moved, distance, True
        width *= 1.0 if improved else 0.5
    return pair, best
