"""Cases of the moments of rows and of the histogram."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import labelled, rows, subjects, views

from .statistic_case import Case

Vector = NDArray[np.float64]


def _clipped(parameters: Vector, bound: float) -> Vector:
    norms = np.linalg.norm(parameters, axis=1, keepdims=True)
    return parameters * np.minimum(1.0, bound / np.maximum(norms, 1e-300))


def _rows(bound: float) -> Any:
    return lambda parameters: rows(parameters, bound=bound)


def _views(parameters: Vector) -> Any:
    return views(parameters[:, :2], parameters[:, 2:], bounds=(1.0, 0.5))


def _viewed(parameters: Vector) -> Vector:
    return np.hstack([_clipped(parameters[:, :2], 1.0), _clipped(parameters[:, 2:], 0.5)])


def _labelled(parameters: Vector) -> Any:
    classes = ["red", "green", "blue"]
    labels = [classes[code] for code in np.argmax(parameters[:, :3], axis=1)]
    return labelled(parameters, labels, bound=1.0, classes=classes)


def _time_points(parameters: Vector) -> Any:
    # One subject owns all time points, so that any number of them can be split.
    return subjects([parameters], bound=1.0, unit="record")


def _first(x: Vector) -> Vector:
    return np.concatenate([x.mean(axis=0), (x**2).mean(axis=0)])


def _second(x: Vector) -> Vector:
    return (x.T @ x / len(x)).ravel()


def _joint(x: Vector) -> Vector:
    return np.concatenate([x.mean(axis=0), _second(x)])


def by_site(x: Vector, n_sites: int = 3) -> Vector:
    """Return what the first of some sites contributes: its share and sums, nothing of the others, and the moment."""
    sums = np.zeros((n_sites, x.shape[1]))
    sums[0] = x.mean(axis=0)
    return np.concatenate([np.eye(n_sites)[0], sums.ravel(), _second(x)])


def _ranged(parameters: Vector) -> Any:
    # Public ranges, and a bound that clips: rows are at most sqrt(3) long before.
    return rows(parameters, bound=0.8, ranges=[(-1.0, 1.0)] * 3)


def _clipped_means(x: Vector, bound: float) -> Vector:
    lost = np.maximum(0.0, 1 - bound / np.maximum(np.linalg.norm(x, axis=1), 1e-300))
    return np.concatenate([_first(_clipped(x, bound)), [lost.mean()]])


def _shares(parameters: Vector) -> Vector:
    return np.bincount(np.argmax(parameters[:, :3], axis=1), minlength=3) / len(parameters)


def _row_cases() -> list[Case]:
    cases = []
    for width, bound in ((1, 1.0), (3, 2.5), (3, 1e-3)):
        label = f"{width}x{bound:g}"
        make = _rows(bound)
        # In one column no two rows are orthogonal: x x' then moves by B^2 only, and the joint release by less.
        wide = width > 1

        def expected(of: Any, bound: float = bound) -> Any:
            return lambda parameters: of(_clipped(parameters, bound))

        cases += [
            Case("first_moments", label, width, make, expected=expected(_first)),
            Case("second_moment", label, width, make, expected=expected(_second), reaches=0.999 if wide else 0.7),
        ]
        for weight in (0.5, 1.0, math.sqrt(2)):
            cases.append(
                Case(
                    "centred_moments",
                    f"{label}-weight{weight:.2f}",
                    width,
                    make,
                    {"mean_weight": weight},
                    reaches=0.999 if wide else 0.6,
                    expected=expected(_joint),
                )
            )
    return cases


CASES = [
    *_row_cases(),
    Case("first_moments", "two-views", 4, _views, expected=lambda p: _first(_viewed(p))),
    Case("second_moment", "two-views", 4, _views, expected=lambda p: _second(_viewed(p))),
    Case("second_moment", "labelled", 3, _labelled, expected=lambda p: _second(_clipped(p, 1.0))),
    Case("second_moment", "time-points", 2, _time_points, expected=lambda p: _second(_clipped(p, 1.0))),
    Case(
        "site_centred_moments",
        "three-sites",
        3,
        _rows(2.5),
        {"n_sites": 3},
        expected=lambda p: by_site(_clipped(p, 2.5)),
    ),
    Case("site_centred_moments", "one-column", 1, _rows(0.3), {"n_sites": 2}, reaches=0.6),
    Case("site_centred_moments", "two-views", 4, _views, {"n_sites": 3}, expected=lambda p: by_site(_viewed(p))),
    Case("centred_moments", "two-views", 4, _views, {"mean_weight": 0.5}, expected=lambda p: _joint(_viewed(p))),
    Case(
        "clipped_means",
        "no-ranges",
        3,
        _rows(1.0),
        {"clipping_weight": 0.5},
        # A row loses all of itself only in the limit.
        reaches=0.99,
        expected=lambda p: _clipped_means(p, 1.0),
    ),
    Case(
        "clipped_means",
        "ranges",
        3,
        _ranged,
        {"clipping_weight": 1.0},
        reaches=0.97,
        expected=lambda p: _clipped_means(np.clip(p, -1, 1), 0.8),
    ),
    Case("clipped_means", "two-views", 4, _views, {"clipping_weight": 2.0}, reaches=0.95),
    Case("histogram", "three-classes", 3, _labelled, expected=_shares),
]
