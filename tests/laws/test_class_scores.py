"""The diameter of the scores of several classes: attained for three, nearly so for more, and never exceeded."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcape import labelled
from dpcape.core.statistic import build, extent_of
from dpcape.statistics.family_scores import CLASS_SCORE_WEIGHT, ClassScores

Vector = NDArray[np.float64]


def diameter(n_classes: int) -> float:
    return float(extent_of("class_scores", n_features=2, bound=1.0, intercept=False, n_classes=n_classes).diameter)


def contribution(numbers: Vector, n_classes: int, code: int) -> Vector:
    """Return what a record contributes whose log-odds and whose row, of length at most 1, are given freely."""
    heights = np.exp(numbers[:n_classes] - numbers[:n_classes].max())
    chances = (heights / heights.sum())[1:]
    row = numbers[n_classes:] / max(1.0, float(np.linalg.norm(numbers[n_classes:])))
    errors = (np.arange(1, n_classes) == code) - chances
    curvature = np.diag(chances) - np.outer(chances, chances)
    return np.concatenate([CLASS_SCORE_WEIGHT * np.kron(errors, row), np.kron(curvature, np.outer(row, row)).ravel()])


def farthest(n_classes: int) -> float:
    """Return the largest distance found: from random starts, and from ties, where a record is split evenly."""
    draw = np.random.default_rng(n_classes)
    half = 1 + n_classes

    def negative(both: Vector, codes: tuple[int, int]) -> float:
        one, other = (contribution(part, n_classes, code) for part, code in zip(np.split(both, 2), codes, strict=True))
        return -float(np.sum((one - other) ** 2))

    best = 0.0
    pairs = itertools.combinations_with_replacement(range(n_classes), 2)
    for codes in pairs:
        starts = [draw.normal(scale=3, size=2 * half) for _ in range(3)]
        evenly = np.full((2, half), -30.0)
        # Each is split between the other's class and, with enough classes, one that the other is certainly not of.
        others = [k for k in reversed(range(n_classes)) if k not in codes] or [codes[0]]
        evenly[0, [codes[1], others[0]]], evenly[1, [codes[0], others[min(1, len(others) - 1)]]] = 0.0, 0.1
        for sign in (-1.0, 1.0):
            evenly[:, -1] = 1.0, sign
            starts.append(evenly.ravel() + draw.normal(scale=0.1, size=2 * half))
        for start in starts:
            best = max(best, -float(minimize(negative, start, args=(codes,), method="BFGS").fun))
    return float(np.sqrt(best))


@pytest.mark.parametrize(("n_classes", "reached"), [(2, 0.7), (3, 0.9999), (4, 0.91), (5, 0.95)])
def test_no_two_records_are_farther_apart(n_classes: int, reached: float) -> None:
    """Probabilities and rows are free here: no coefficients could make them worse."""
    found = farthest(n_classes)
    assert found <= diameter(n_classes) * (1 + 1e-12)
    assert found >= reached * diameter(n_classes)


def test_the_lengths_of_one_record_are_at_most_what_the_proof_says() -> None:
    """h of the proof, on a fine grid of all probabilities of four classes, vertices and even splits among them."""
    grid = np.array([chances for chances in itertools.product(range(25), repeat=3) if sum(chances) <= 24]) / 24
    outer = grid[:, :, np.newaxis] * grid[:, np.newaxis, :]
    squares = ((np.eye(3) * grid[:, np.newaxis, :] - outer) ** 2).sum(axis=(1, 2))
    for code in range(4):
        errors = (((np.arange(1, 4) == code) - grid) ** 2).sum(axis=1)
        assert (2 / 9 * errors + squares).max() <= 7 / 12 + 1e-12
        assert np.sqrt((errors / 9 + squares).max()) <= 0.6455
        of_three = grid[:, 2] == 0
        if code < 3:
            assert (2 / 9 * errors + squares)[of_three].max() <= 4 / 9 + 1e-12


def test_three_classes_attain_the_diameter() -> None:
    """Both records seemed certain to be of the second class and are of the third; their rows are nearly opposite."""
    X = np.array([[1e-3, 1.0], [1e-3, -1.0]])
    held = [labelled(X[[at]], [2], bound=1.0, classes=[0, 1, 2]) for at in range(2)]
    public = {"intercept": False, "coefficients": np.array([1e6, 0.0, 0.0, 0.0])}
    statistic = build("class_scores", held[0].facts(), public)
    assert isinstance(statistic, ClassScores)
    apart = np.linalg.norm(statistic.total(held[0]) - statistic.total(held[1]))
    assert 0.9999 * statistic.diameter <= apart <= statistic.diameter
