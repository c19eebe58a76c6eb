"""Cases of the statistics of regressions, networks, clusters and polynomial losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import labelled, rows

from .cases_moments import _clipped
from .statistic_case import Case

Vector = NDArray[np.float64]


def _with_response(bound: float) -> Any:
    return lambda p: labelled(p[:, :-1], p[:, -1], bound=bound, response=(-1, 1))


def _with_classes(n_classes: int) -> Any:
    def make(p: Vector) -> Any:
        codes = np.argmax(p[:, -n_classes:], axis=1)
        return labelled(p[:, :-n_classes], codes, bound=1.0, classes=list(range(n_classes)))

    return make


def _blocks(p: Vector, bound: float, intercept: bool) -> Vector:
    x, y = _clipped(p[:, :-1], bound), np.clip(p[:, -1], -1, 1)
    means = x.mean(axis=0), [y.mean()]
    if not intercept:
        means = np.zeros(x.shape[1]), [0.0]
    return np.concatenate([(x.T @ x / len(x)).ravel(), y @ x / len(x), *means, [np.mean(y * y)]])


def _two_classes(p: Vector) -> Vector:
    x, y = _clipped(p[:, :-2], 1.0), 2.0 * np.argmax(p[:, -2:], axis=1) - 1
    return np.concatenate([(x.T @ x / len(x)).ravel(), y @ x / len(x), x.mean(axis=0), [y.mean()], [1.0]])


def _regression_cases() -> list[Case]:
    cases = []
    # The last one has the constant outweigh the rest, where the diameter has its other form.
    for bound, a, b in ((1.0, 0.7, 0.0), (2.0, 1.4, 1.0), (0.5, 0.1, 3.0)):
        cases.append(
            Case(
                "regression_moment",
                f"bound{bound:g}-constant{b:g}",
                4,
                _with_response(bound),
                {"response_weight": a, "intercept_weight": b},
                expected=lambda p, bound=bound, b=b: _blocks(p, bound, b > 0),
            )
        )
    weights = {"response_weight": 0.7, "intercept_weight": 0.5}
    return [
        *cases,
        Case("regression_moment", "two-classes", 5, _with_classes(2), weights, expected=_two_classes),
    ]


def _network(n_features: int, n_outputs: int, clip: float) -> dict[str, Any]:
    generator = np.random.default_rng(3)
    hidden = generator.standard_normal((5, n_features + 1))
    output = generator.standard_normal((n_outputs, 6))
    return {"hidden": hidden, "output": output, "clip": clip, "input_scale": 1.5}


def _cluster_means(p: Vector) -> Vector:
    x = _clipped(p, 2.0)
    chosen = np.argmin(((x[:, None] - CENTRES) ** 2).sum(axis=2), axis=1)
    members = np.eye(len(CENTRES))[chosen]
    return np.concatenate([members.mean(axis=0), (members.T @ x / len(x)).ravel()])


CENTRES = np.array([[1.0, 0.2, 0.0], [-0.7, 0.3, 0.1], [0.0, 0.0, 5.0]])

CASES = [
    *_regression_cases(),
    Case("network_gradient", "two-classes", 5, _with_classes(2), _network(3, 1, 0.05)),
    # Where few gradients reach the clip, opposite ones of full length are hard to find.
    Case("network_gradient", "wide-clip", 5, _with_classes(2), _network(3, 1, 50.0), reaches=0.0),
    Case("network_gradient", "three-classes", 6, _with_classes(3), _network(3, 3, 0.05), reaches=0.9),
    Case(
        "cluster_sums",
        "three-clusters",
        3,
        lambda p: rows(p, bound=2.0),
        {"centres": CENTRES},
        expected=_cluster_means,
    ),
    # The computed diameter adds up degrees that do not reach their largest together.
    Case(
        "polynomial_coefficients",
        "poisson",
        3,
        lambda p: labelled(p[:, :-1], 5 + 5 * p[:, -1], bound=1.0, response=(0, 10)),
        {"loss": "poisson"},
        reaches=0.8,
    ),
]
