"""Cases of the statistics of regressions, networks, clusters and polynomial losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import poisson

from dpcape import labelled, rows
from dpcape.statistics.gradients import n_weights

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


def _deep(widths: tuple[int, ...], clip: float, factor: float = 1.0) -> dict[str, Any]:
    weights = factor * np.random.default_rng(3).standard_normal(n_weights(widths))
    return {"widths": np.array(widths[1:-1]), "weights": weights, "clip": clip, "input_scale": 1.5}


def _linear(n_features: int, n_outputs: int, clip: float, factor: float = 1.0) -> dict[str, Any]:
    output = factor * np.random.default_rng(3).standard_normal((n_outputs, n_features + 1))
    return {"output": output, "clip": clip, "input_scale": 1.5}


def _cluster_means(p: Vector) -> Vector:
    x = _clipped(p, 2.0)
    chosen = np.argmin(((x[:, None] - CENTRES) ** 2).sum(axis=2), axis=1)
    members = np.eye(len(CENTRES))[chosen]
    return np.concatenate([members.mean(axis=0), (members.T @ x / len(x)).ravel()])


CENTRES = np.array([[1.0, 0.2, 0.0], [-0.7, 0.3, 0.1], [0.0, 0.0, 5.0]])

CASES = [
    *_regression_cases(),
    Case("linear_gradient", "two-classes", 5, _with_classes(2), _linear(3, 1, 0.05)),
    Case("linear_gradient", "three-classes", 6, _with_classes(3), _linear(3, 3, 0.05), reaches=0.8),
    Case("linear_gradient", "large-weights", 5, _with_classes(2), _linear(3, 1, 0.05, factor=1e5), reaches=0.0),
    Case("linear_gradient", "hog", 18, _with_classes(2), _linear(8, 1, 0.05) | {"features": "hog"}, reaches=0.9),
    Case("network_gradient", "two-classes", 5, _with_classes(2), _network(3, 1, 0.05)),
    # Where few gradients reach the clip, opposite ones of full length are hard to find.
    Case("network_gradient", "wide-clip", 5, _with_classes(2), _network(3, 1, 50.0), reaches=0.0),
    Case("network_gradient", "three-classes", 6, _with_classes(3), _network(3, 3, 0.05), reaches=0.9),
    Case("deep_gradient", "two-classes", 5, _with_classes(2), _deep((3, 5, 4, 1), 0.05)),
    Case("deep_gradient", "three-classes", 6, _with_classes(3), _deep((3, 4, 3, 4, 3), 0.05), reaches=0.8),
    Case("deep_gradient", "large-weights", 5, _with_classes(2), _deep((3, *[4] * 8, 1), 0.05, 2e5), reaches=0.0),
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


def _weighted(p: Vector, bound: float, a: float, b: float) -> tuple[Vector, Vector]:
    """Return v = w (b, x) and a w y, and the factors w."""
    x, y = p[:, :-1], np.clip(p[:, -1], -1, 1)
    w = np.minimum(1.0, bound / np.maximum(np.linalg.norm(x, axis=1), 1e-300))
    return np.column_stack([b * w, x * w[:, None]]), a * w * y


def _weighted_moment(p: Vector) -> Vector:
    v, y = _weighted(p, 2.0, 2.0 * np.sqrt(0.5), 1.0)
    u = np.column_stack([v, y])
    return (u.T @ u / len(u)).ravel()


def _gradient(p: Vector) -> Vector:
    v, y = _weighted(p, 2.0, 2.0 * np.sqrt(0.5), 1.0)
    return _clipped((y - v @ THETA)[:, None] * (v @ ROOT.T), 0.1 * 2).mean(axis=0)


def _unweighted(p: Vector, bound: float, a: float, b: float) -> tuple[Vector, Vector]:
    """Return v = (b, w x) and a y: only the row is shortened."""
    v, _ = _weighted(p, bound, a, b)
    v[:, 0] = b
    return v, a * np.clip(p[:, -1], -1, 1)


def _unweighted_moment(p: Vector) -> Vector:
    u = np.column_stack(_unweighted(p, 2.0, 2.0 * np.sqrt(0.5), 1.0))
    return (u.T @ u / len(u)).ravel()


def _unweighted_gradient(p: Vector) -> Vector:
    v, y = _unweighted(p, 2.0, 2.0 * np.sqrt(0.5), 1.0)
    return _clipped((y - v @ THETA)[:, None] * (v @ ROOT.T), 0.1 * 2).mean(axis=0)


def _spread(p: Vector) -> Vector:
    v, y = _weighted(p, 2.0, 2.0 * np.sqrt(0.5), 1.0)
    squares = np.minimum((y - v @ THETA) ** 2 / 0.3, 25.0)
    return _clipped(squares[:, None] * (v @ ROOT.T) ** 2, 200.0).mean(axis=0)


def _with_counts(bound: float, most: float) -> Any:
    return lambda p: labelled(p[:, :-1], most / 2 * (1 + p[:, -1]), bound=bound, response=(0, most))


def _count_scores(theta: Vector, level: float, most: float) -> Any:
    def means(p: Vector) -> Vector:
        """Return score, curvature and squared residuals, with moments of the residual summed over all counts."""
        x = p[:, :-1]
        w = np.minimum(1.0, 1.0 / np.maximum(np.linalg.norm(x, axis=1), 1e-300))
        v = np.column_stack([0.5 * w, x * w[:, None]])
        counts = most / 2 * (1 + np.clip(p[:, -1], -1, 1))
        score, curvature, square = np.zeros(4), np.zeros((4, 4)), 0.0
        every = np.arange(0.0, 2000.0)
        for row, count, weight in zip(v, counts, w, strict=True):
            rate = float(np.exp(np.clip(row @ theta / weight, -12, 12)))
            chance = poisson.pmf(every, rate)
            residual = (every - rate) / np.sqrt(rate)
            kept = np.clip(residual, -2, 2)
            plain = np.clip((count - rate) / np.sqrt(rate), -2, 2) - chance @ kept
            own = plain * min(np.sqrt(rate / level), np.sqrt(level / rate))
            score += weight * own * row
            curvature += chance @ (kept * residual) * min(rate / level, 1.0) * np.outer(row, row)
            square += plain**2 * min(rate / level, 1.0) * row @ row
        return np.concatenate([score, curvature.ravel(), [square]]) / len(p)

    return means


def _scores(p: Vector) -> Vector:
    code = np.argmax(p[:, -2:], axis=1)
    x = p[:, :-2]
    w = np.minimum(1.0, 1.0 / np.maximum(np.linalg.norm(x, axis=1), 1e-300))
    v = np.column_stack([0.5 * w, x * w[:, None]])
    chance = 1 / (1 + np.exp(-np.column_stack([np.full(len(x), 0.5), x]) @ THETA))
    score = ((w * (code - chance))[:, None] * v).mean(axis=0)
    return np.concatenate([score, ((v * (chance * (1 - chance))[:, None]).T @ v / len(v)).ravel()])


THETA = np.array([0.2, 0.5, -0.3, 0.1])
ROOT = np.array([[1.0, 0.2, 0.0, 0.1], [0.0, 2.0, 0.3, 0.0], [0.1, 0.0, 1.5, 0.0], [0.0, 0.3, 0.0, 0.7]])
STRONG = {"intercept": True, "coefficients": 40 * np.array([0.0, 1.0, -1.0, 0.5])}
_AT = {"intercept": True, "coefficients": THETA}
_SEEN = {"centre": np.array([0.1, -0.2, 0.0]), "scale": np.array([0.5, 1.0, 0.2]), "radius": np.array([1.5])}
_COUNTS = {"intercept": True, "coefficients": np.array([1.5, 1.0, -0.5, 0.3]), "level": 2.0}
_GRADIENT, _SPREAD = {**_AT, "preconditioner": ROOT}, {**_AT, "directions": ROOT, "square": 0.3}

CASES += [
    Case(
        "weighted_regression_moment", "bound2", 4, _with_response(2.0), {"intercept": True}, expected=_weighted_moment
    ),
    Case("weighted_regression_moment", "no-constant", 4, _with_response(1.0), {"intercept": False}),
    Case(
        "weighted_regression_moment",
        "unweighted",
        4,
        _with_response(2.0),
        {"intercept": True, "weighted": False},
        expected=_unweighted_moment,
    ),
    # The search must find rows of just the bound's length: longer ones are weighted down.
    Case("weighted_regression_moment", "two-classes", 5, _with_classes(2), {"intercept": True}, reaches=0.8),
    Case("residual_gradient", "response", 4, _with_response(2.0), _GRADIENT, expected=_gradient),
    Case("residual_gradient", "two-classes", 5, _with_classes(2), _GRADIENT),
    Case(
        "residual_gradient",
        "unweighted",
        4,
        _with_response(2.0),
        {**_GRADIENT, "weighted": False},
        expected=_unweighted_gradient,
    ),
    # Its entries are at most 25 (h.v)^2: with such directions few records reach the clip.
    Case("residual_spread", "response", 4, _with_response(2.0), _SPREAD, expected=_spread, reaches=0.0),
    Case("residual_spread", "long", 4, _with_response(2.0), {**_SPREAD, "directions": 50 * np.eye(4)}, reaches=0.9),
    Case("logistic_scores", "weak", 5, _with_classes(2), _AT, expected=_scores, reaches=0.5),
    # Labels against the odds, on opposite sides: the diameter is attained up to the constant.
    Case("logistic_scores", "strong", 5, _with_classes(2), STRONG, reaches=0.8),
    Case(
        "logistic_scores",
        "no-constant",
        5,
        _with_classes(2),
        {"intercept": False, "coefficients": 40 * np.array([1.0, -1.0, 0.5])},
        reaches=0.8,
    ),
    Case(
        "scaled_weighted_regression_moment",
        "response",
        4,
        _with_response(2.0),
        {**_SEEN, "intercept": True},
        reaches=0.8,
    ),
    Case("scaled_residual_gradient", "response", 4, _with_response(2.0), {**_SEEN, **_GRADIENT}),
    Case("scaled_residual_spread", "response", 4, _with_response(2.0), {**_SEEN, **_SPREAD}, reaches=0.0),
    Case("scaled_logistic_scores", "strong", 5, _with_classes(2), {**_SEEN, **STRONG}, reaches=0.8),
]

CASES += [
    Case(
        "count_scores",
        "counts",
        4,
        _with_counts(1.0, 20.0),
        _COUNTS,
        expected=_count_scores(_COUNTS["coefficients"], 2.0, 20.0),
        reaches=0.6,
    ),
    # Arrays that nobody means: the diameter holds all the same.
    Case("count_scores", "low-level", 4, _with_counts(1.0, 20.0), {**_COUNTS, "level": 1e-9}, reaches=0.0),
    Case("count_scores", "high-level", 4, _with_counts(2.0, 5.0), {**_COUNTS, "level": 1e9}, reaches=0.0),
    Case("count_scores", "steep", 4, _with_counts(1.0, 20.0), {**STRONG, "level": 1.0}, reaches=0.3),
    Case(
        "count_scores",
        "no-constant",
        4,
        _with_counts(1.0, 20.0),
        {"intercept": False, "coefficients": THETA[1:], "level": 1.0},
        reaches=0.3,
    ),
    Case("scaled_count_scores", "counts", 4, _with_counts(2.0, 20.0), {**_COUNTS, **_SEEN}, reaches=0.3),
]
