"""Losses of a linear predictor: how far two records' blocks are apart, against every pair of extremes."""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import labelled
from dpcape.core.facts import PublicFacts
from dpcape.statistics.losses import LinearPredictorLoss

Vector = NDArray[np.float64]
BOUND = 1.3
FACTS = labelled(np.zeros((1, 3)), np.zeros(1), bound=BOUND, response=(-1, 1)).facts()


class Given(LinearPredictorLoss):
    """A loss whose coefficients lie in the intervals it is given."""

    name: ClassVar[str] = "test given"
    degree: ClassVar[int] = 4
    parameter_bound: ClassVar[float] = 1.0

    def __init__(self, interval: tuple[float, float]) -> None:
        self._interval = interval

    def predictor_coefficients(self, targets: Any, facts: PublicFacts) -> Vector:
        return np.tile(np.asarray(targets, dtype=float)[:, np.newaxis], (1, 5))

    def intervals(self, facts: PublicFacts) -> Vector:
        return np.tile(self._interval, (5, 1)).astype(float)


def farthest(interval: tuple[float, float], degree: int) -> float:
    """Largest distance of a x^j and b y^j over ends of the interval, lengths and angles.

    |a x^j - b y^j|^2 = a^2 |x|^2j + b^2 |y|^2j - 2 a b (x.y)^j.
    """
    lengths, cosines = (0.0, 0.5 * BOUND, BOUND), np.linspace(-1.0, 1.0, 41)
    squares = [
        a**2 * p ** (2 * degree) + b**2 * q ** (2 * degree) - 2 * a * b * (p * q * cosines) ** degree
        for (a, b), p, q in itertools.product(itertools.product(interval, interval), lengths, lengths)
    ]
    return math.sqrt(np.max(squares))


@pytest.mark.parametrize("interval", [(-1.0, 1.0), (-0.2, 1.0), (-1.0, 0.3), (0.5, 1.0), (-1.0, -0.4), (0.0, 2.0)])
def test_diameters_of_blocks_are_the_largest_distances(interval: tuple[float, float]) -> None:
    found = Given(interval).block_diameters(FACTS)
    assert found[0] == pytest.approx(interval[1] - interval[0])
    wanted = [farthest(interval, degree) for degree in range(1, 5)]
    np.testing.assert_allclose(found[1:], wanted, rtol=1e-12)


@pytest.mark.parametrize("interval", [(-1.0, 1.0), (-0.2, 1.0), (0.5, 1.0)])
def test_no_two_records_are_farther_apart_than_the_stated_diameter(interval: tuple[float, float]) -> None:
    loss = Given(interval)
    generator = np.random.default_rng(4)
    directions = generator.normal(size=(60, 3))
    rows = BOUND * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    rows = np.vstack([rows, -rows, np.eye(3) * BOUND, np.zeros((1, 3))])
    packed = np.vstack([loss.packed(rows, np.full(len(rows), end), FACTS) for end in interval])
    distances = np.linalg.norm(packed[:, None] - packed[None, :], axis=2)
    stated = loss.stated_diameter(FACTS)
    assert 0.5 * stated <= distances.max() <= stated * (1 + 1e-12)
