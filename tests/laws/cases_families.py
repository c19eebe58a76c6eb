"""Examples of the scores of positive responses and of several classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import labelled

from .cases_regression import _SEEN, STRONG, THETA, _with_classes, _with_counts
from .statistic_case import Case

Vector = NDArray[np.float64]


def _shortened(x: Vector) -> tuple[Vector, Vector]:
    """Return v = w (b, x) and the factors w for a bound of 1."""
    w = np.minimum(1.0, 1.0 / np.maximum(np.linalg.norm(x, axis=1), 1e-300))
    return np.column_stack([0.5 * w, x * w[:, None]]), w


def _ratio_scores(theta: Vector, most: float) -> Any:
    def means(p: Vector) -> Vector:
        v, w = _shortened(p[:, :-1])
        y = most / 2 * (1 + np.clip(p[:, -1], -1, 1))
        ratios = y / np.exp(np.column_stack([np.full(len(p), 0.5), p[:, :-1]]) @ theta)
        left = np.minimum(ratios, 2.5) - 1
        lengths = (v**2).sum(axis=1)
        score = ((w * left)[:, None] * v).mean(axis=0)
        uncut = np.mean(np.where(ratios < 2.5, ratios, 0.0) * lengths)
        return np.concatenate([score, (v.T @ v / len(v)).ravel(), [np.mean(left**2 * lengths), uncut]])

    return means


def _class_scores(theta: Vector) -> Any:
    def means(p: Vector) -> Vector:
        """Return score and curvature as Kronecker products, record by record."""
        v, w = _shortened(p[:, :3])
        odds = np.column_stack([np.full(len(p), 0.5), p[:, :3]]) @ theta.reshape(2, 4).T
        score, curvature = np.zeros(8), np.zeros((8, 8))
        for row, weight, line, code in zip(v, w, odds, np.argmax(p[:, -3:], axis=1), strict=True):
            heights = np.exp(np.append(0.0, line))
            chance = (heights / heights.sum())[1:]
            score += weight * np.kron((code == np.array([1, 2])) - chance, row)
            curvature += np.kron(np.diag(chance) - np.outer(chance, chance), np.outer(row, row))
        return np.concatenate([score, curvature.ravel()]) / len(p)

    return means


def _five(p: Vector) -> Any:
    return labelled(p[:, :2], np.argmax(p[:, 2:], axis=1), bound=1.0, classes=range(5))


_RATIOS = {"intercept": True, "coefficients": np.array([1.5, 1.0, -0.5, 0.3])}
_WEAK = {"intercept": True, "coefficients": np.concatenate([THETA, -2 * THETA])}
# The record's class is impossible, and the odds of two others are even: score and curvature are both long.
_EVEN = {
    "intercept": True,
    "coefficients": np.array([0.0, 40.0, 0.0, 0.0, 40.0, 0.0, 0.0, -40.0, 0.0, 0.0, -40.0, 0.0]),
}

CASES = [
    Case(
        "ratio_scores",
        "positive",
        4,
        _with_counts(1.0, 20.0),
        _RATIOS,
        expected=_ratio_scores(_RATIOS["coefficients"], 20.0),
        reaches=0.6,
    ),
    # Arrays that nobody means: the diameter holds all the same.
    Case("ratio_scores", "steep", 4, _with_counts(1.0, 20.0), STRONG, reaches=0.5),
    Case(
        "ratio_scores",
        "no-constant",
        4,
        _with_counts(1.0, 20.0),
        {"intercept": False, "coefficients": THETA[1:]},
        reaches=0.6,
    ),
    Case("scaled_ratio_scores", "positive", 4, _with_counts(2.0, 20.0), {**_SEEN, **_RATIOS}, reaches=0.5),
    Case(
        "class_scores",
        "three",
        6,
        _with_classes(3),
        _WEAK,
        expected=_class_scores(_WEAK["coefficients"]),
        reaches=0.3,
    ),
    Case(
        "class_scores",
        "strong",
        6,
        _with_classes(3),
        {"intercept": True, "coefficients": np.concatenate([STRONG["coefficients"], -STRONG["coefficients"]])},
        reaches=0.6,
    ),
    Case("class_scores", "five", 7, _five, _EVEN, reaches=0.6),
    Case(
        "class_scores",
        "no-constant",
        6,
        _with_classes(3),
        {"intercept": False, "coefficients": np.array([40.0, 0.0, 0.0, -40.0, 0.0, 0.0])},
        reaches=0.6,
    ),
    Case("scaled_class_scores", "three", 6, _with_classes(3), {**_SEEN, **_WEAK}, reaches=0.3),
]
