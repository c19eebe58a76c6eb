"""Cases of private scaling: deviations, lengths, and statistics of standardised records."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import rows, views

from .cases_moments import _clipped, _clipped_means, _first, _joint, _second, by_site
from .statistic_case import Case

Vector = NDArray[np.float64]

CENTRE = np.array([0.3, -0.1, 0.2])
SCALE = np.array([0.5, 2.0, 0.1])
_ONE = {"centre": CENTRE, "scale": SCALE, "radius": np.array([1.5])}
_TWO = {"centre": np.append(CENTRE, 0.0), "scale": np.append(SCALE, 0.2), "radius": np.array([1.5, 0.7])}
_THREE = {
    "centre": np.array([0.3, -0.1, 0.2, 0.0, -2.0, 0.5]),
    "scale": np.array([0.5, 2.0, 0.1, 0.2, 1.0, 4.0]),
    "radius": np.array([1.5, 0.7, 0.2]),
}
_BY_BOUNDS = {"centre": np.zeros(6), "scale": np.ones(6), "radius": np.array([1.0, 0.5, 3.0])}
TOP = 4.0
_LENGTHS = {"centre": _TWO["centre"], "scale": _TWO["scale"], "top": np.array([3.0, 9.0])}


def _rows(p: Vector) -> Any:
    return rows(p, bound=2.0)


def _views(p: Vector) -> Any:
    return views(p[:, :2], p[:, 2:], bounds=(1.0, 0.5))


def standardised(x: Vector, public: dict[str, Vector], widths: tuple[int, ...]) -> Vector:
    """Return rows as a scaled statistic reads them."""
    z = (x - public["centre"]) / (public["scale"] * np.repeat(public["radius"], widths))
    parts = np.split(z, np.cumsum(widths)[:-1], axis=1)
    return np.hstack([_clipped(part, 1.0) for part in parts])


def _seen(p: Vector) -> Vector:
    return standardised(_clipped(p, 2.0), _ONE, (3,))


def _seen_twice(p: Vector) -> Vector:
    both = np.hstack([_clipped(p[:, :2], 1.0), _clipped(p[:, 2:], 0.5)])
    return standardised(both, _TWO, (2, 2))


def _three_views(p: Vector) -> Any:
    return views(p[:, :2], p[:, 2:4], p[:, 4:], bounds=(1.0, 0.5, 3.0))


def _each_clipped(p: Vector) -> Vector:
    parts = zip(np.split(p, [2, 4], axis=1), (1.0, 0.5, 3.0), strict=True)
    return np.hstack([_clipped(part, bound) for part, bound in parts])


def _seen_thrice(p: Vector) -> Vector:
    return standardised(_each_clipped(p), _THREE, (2, 2, 2))


def _deviations(p: Vector) -> Vector:
    cap = 2.0 / np.sqrt(3)
    return np.minimum(np.abs(_clipped(p, 2.0) - CENTRE), cap).mean(axis=0)


def _lengths(p: Vector) -> Vector:
    norms = np.linalg.norm((_clipped(p, 2.0) - CENTRE) / SCALE, axis=1)
    ends = TOP * 2.0 ** (np.arange(-31, 1) / 4)
    return np.bincount(np.minimum(np.searchsorted(ends, norms), 31), minlength=32) / len(p)


def _members(p: Vector) -> Vector:
    z = _seen(p)
    member = np.eye(2)[np.argmin(((z[:, None] - _CENTRES) ** 2).sum(axis=2), axis=1)]
    return np.concatenate([member.mean(axis=0), (member.T @ z / len(z)).ravel()])


_CENTRES = np.array([[1.0, 0.2, 0.0], [-0.7, 0.3, 0.1]])

CASES = [
    Case("absolute_deviations", "rows", 3, _rows, {"centre": CENTRE}, expected=_deviations, reaches=0.7),
    Case("absolute_deviations", "views", 4, _views, {"centre": np.zeros(4)}, reaches=0.9),
    Case(
        "radius_histogram",
        "rows",
        3,
        _rows,
        {"centre": CENTRE, "scale": SCALE, "top": np.array([TOP])},
        expected=_lengths,
    ),
    Case("radius_histogram", "views", 4, _views, _LENGTHS),
    Case(
        "scaled_first_moments",
        "views",
        4,
        _views,
        # Views divided by their bounds, as for a mean whose units must not matter.
        {"centre": np.zeros(4), "scale": np.ones(4), "radius": np.array([1.0, 0.5])},
        expected=lambda p: _first(np.hstack([_clipped(p[:, :2], 1.0), _clipped(p[:, 2:], 0.5) / 0.5])),
    ),
    Case(
        "scaled_clipped_means",
        "rows",
        3,
        _rows,
        # Rows divided by a length and clipped to 1; a row loses all of itself only in the limit.
        {"centre": np.zeros(3), "scale": np.ones(3), "radius": np.array([1.5]), "clipping_weight": 1.0},
        reaches=0.9,
        expected=lambda p: _clipped_means(p / 1.5, 1.0),
    ),
    Case("scaled_second_moment", "rows", 3, _rows, _ONE, expected=lambda p: _second(_seen(p))),
    Case("scaled_second_moment", "views", 4, _views, _TWO, expected=lambda p: _second(_seen_twice(p))),
    Case(
        "scaled_second_moment",
        "three-views",
        6,
        _three_views,
        _BY_BOUNDS,
        expected=lambda p: _second(_each_clipped(p) / np.repeat([1.0, 0.5, 3.0], 2)),
    ),
    Case(
        "scaled_second_moment",
        "three-views-moved",
        6,
        _three_views,
        _THREE,
        expected=lambda p: _second(_seen_thrice(p)),
    ),
    Case("scaled_first_moments", "three-views", 6, _three_views, _BY_BOUNDS),
    Case(
        "scaled_centred_moments",
        "three-views",
        6,
        _three_views,
        {**_THREE, "mean_weight": 0.5},
        expected=lambda p: _joint(_seen_thrice(p)),
    ),
    Case(
        "radius_histogram",
        "three-views",
        6,
        _three_views,
        {"centre": _THREE["centre"], "scale": _THREE["scale"], "top": np.array([3.0, 9.0, 2.0])},
    ),
    Case(
        "scaled_centred_moments",
        "rows",
        3,
        _rows,
        {**_ONE, "mean_weight": 0.5},
        expected=lambda p: _joint(_seen(p)),
    ),
    Case(
        "scaled_site_centred_moments",
        "rows",
        3,
        _rows,
        {**_ONE, "n_sites": 3},
        expected=lambda p: by_site(_seen(p)),
    ),
    # Two views reach a little less than one row of the same length.
    Case("scaled_site_centred_moments", "views", 4, _views, {**_TWO, "n_sites": 2}, reaches=0.99),
    Case(
        "scaled_site_centred_moments",
        "hostile",
        3,
        _rows,
        # Whatever an aggregator sends: the same diameter.
        {"centre": np.full(3, 1e300), "scale": np.full(3, 1e-300), "radius": np.zeros(1), "n_sites": 3},
        reaches=0.0,
    ),
    Case("scaled_cluster_sums", "rows", 3, _rows, {**_ONE, "centres": _CENTRES}, expected=_members),
]
