"""Cases of a step of expectation-maximisation; means far apart, equal, and at the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import rows

from .statistic_case import Case

Vector = NDArray[np.float64]
MEANS = np.array([[0.6, 0.1, 0.0], [-0.4, 0.5, 0.2]])
WEIGHTS = np.array([0.7, 0.3])


def _rows(parameters: Vector) -> Any:
    return rows(parameters, bound=1.0)


def _expected(public: dict[str, Any]) -> Any:
    def mean(parameters: Vector) -> Vector:
        lengths = np.linalg.norm(parameters, axis=1, keepdims=True)
        x = parameters * np.minimum(1.0, 1.0 / np.maximum(lengths, 1e-300))
        apart = x[:, None, :] - public["means"]
        density = public["weights"] * np.exp(-np.sum(apart**2, axis=2) / (2 * public["noise_variance"]))
        shares = density / density.sum(axis=1, keepdims=True)
        moves = (shares[:, :, None] * apart).reshape(len(x), -1)
        whole = np.concatenate([public["count_weight"] * (shares - public["weights"]), moves], axis=1)
        lengths = np.linalg.norm(whole, axis=1, keepdims=True)
        clipped = whole * np.minimum(1.0, public["clip"] / np.maximum(lengths, 1e-300))
        n_components = len(public["weights"])
        clipped[:, :n_components] /= public["count_weight"]
        return clipped.mean(axis=0)

    return mean


def _case(label: str, reaches: float = 0.99, **changed: Any) -> Case:
    public = {"means": MEANS, "weights": WEIGHTS, "noise_variance": 0.05, "clip": 0.3, "count_weight": 0.1} | changed
    return Case("mixture_step", label, 3, _rows, public, reaches=reaches, expected=_expected(public))


CASES = [
    _case("two-components"),
    _case("narrow-components", noise_variance=0.002),
    _case("equal-means", means=np.array([[0.2, 0.0, 0.1], [0.2, 0.0, 0.1]])),
    # The ball ends at the means: no two records are on opposite sides of one.
    _case("means-at-the-bound", 0.97, means=np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])),
    _case("counts-alone", count_weight=1e6),
    _case("weights-that-do-not-add-up", weights=np.array([1.0, 1e-12])),
]
