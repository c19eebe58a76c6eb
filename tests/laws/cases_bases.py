"""Cases of moments in a public basis and of maps of what it leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import Atlas, Cosines, Template, rows, views
from dpcape.statistics.basis import Basis
from dpcape.statistics.basis_moments import of_basis
from dpcape.statistics.view_bases import Columns, SideBySide

from .cases_moments import _clipped
from .cases_scaling import standardised
from .statistic_case import Case

Vector = NDArray[np.float64]
BOUND = 1.7
# Three voxels of a square: one of four is outside.
COSINES = Cosines([[True, True], [True, False]], (2, 1))
ATLAS = Atlas([2, 0, 2, 5])
TEMPLATE = Template(np.linalg.qr(np.array([[1.0, 0.2], [0.3, -1.0], [0.5, 0.4]]))[0])
_ONE = {"centre": np.array([0.3, -0.1, 0.2]), "scale": np.array([1.0, 1.2, 0.9]), "radius": np.array([0.5])}
_SCORES = {
    "kept": np.array([2]),
    "scores": np.array([[0.9, 0.1], [-0.4, 1.3]]),
    "offset": np.array([[0.1, 0.0]]),
    "residual_scale": np.array([0.6]),
}
_ONE_SCORE = {
    "kept": np.array([1]),
    "scores": np.array([[1.1]]),
    "offset": np.zeros((1, 1)),
    "residual_scale": np.array([0.3]),
}
# Two views of two columns: one direction of each, and one direction of the first beside all of the second.
TWO_BASES = SideBySide([Template([[0.6], [0.8]]), Atlas([1, 1])])
ONE_BASIS = SideBySide([Template([[0.6], [0.8]]), Columns(2)])
_TWO = {
    "centre": np.array([0.1, 0.0, 0.0, -0.1]),
    "scale": np.array([1.0, 1.0, 1.0, 1.3]),
    "radius": np.array([0.7, 0.4]),
}
_TWO_SCORES = {
    "kept": np.array([1, 1]),
    "scores": np.array([[1.4, 0.2], [0.3, 2.0]]),
    "offset": np.array([[0.1, 0.0], [0.0, 0.2]]),
    "residual_scale": np.array([0.3, 0.5]),
}


def _rows(p: Vector) -> Any:
    return rows(p, bound=BOUND)


def _views(p: Vector) -> Any:
    return views(p[:, :2], p[:, 2:], bounds=(1.0, 0.5))


def matrix(basis: Basis) -> Vector:
    """Return the columns of a basis."""
    return basis.expanded(np.eye(basis.n_columns)).T


def _moments(x: Vector, basis: Basis) -> Vector:
    y = x @ matrix(basis)
    left = x - y @ matrix(basis).T
    return np.append((y.T @ y / len(y)).ravel(), (left**2).sum() / len(x))


def _joint(x: Vector, basis: Basis) -> Vector:
    return np.concatenate([(x @ matrix(basis)).mean(axis=0), _moments(x, basis)])


def _maps(x: Vector, basis: Basis, public: dict[str, Any]) -> Vector:
    kept = matrix(basis)[:, : len(public["scores"])]
    scores = _clipped(x @ kept @ public["scores"] - public["offset"], 1.0)
    left = _clipped((x - x @ kept @ kept.T) / public["residual_scale"], 1.0)
    return (left.T @ scores / len(x)).ravel()


def _energies_of_views(x: Vector, basis: SideBySide) -> Vector:
    parts = zip(np.hsplit(x, 2), basis.parts, strict=True)
    left = [part - part @ matrix(own) @ matrix(own).T for part, own in parts]
    return np.array([(part**2).sum() / len(x) for part in left])


def _view_moments(x: Vector, basis: SideBySide) -> Vector:
    return np.append(_moments(x, basis)[:-1], _energies_of_views(x, basis))


def _view_maps(x: Vector, basis: SideBySide, public: dict[str, Any]) -> Vector:
    left, scores = [], []
    for at, (part, own) in enumerate(zip(np.hsplit(x, 2), basis.parts, strict=True)):
        y = part @ matrix(own)
        left.append((part - y @ matrix(own).T) / public["residual_scale"][at])
        scores.append(_clipped(y @ public["scores"][[at]] - public["offset"][at], 1.0))
    whole = _clipped(np.hstack(left), 1.0)
    maps = [mine.T @ own / len(x) for mine, own in zip(np.hsplit(whole, 2), scores, strict=True)]
    return np.vstack(maps).ravel()


def _map_of_first(x: Vector, public: dict[str, Any]) -> Vector:
    return _maps(x[:, :2], ONE_BASIS.parts[0], public)


def _seen_twice(p: Vector) -> Vector:
    return standardised(_parts(p), _TWO, (2, 2))


def _seen(p: Vector) -> Vector:
    return standardised(_clipped(p, BOUND), _ONE, (3,))


def _parts(p: Vector) -> Vector:
    return np.hstack([_clipped(p[:, :2], 1.0), _clipped(p[:, 2:], 0.5)])


CASES = [
    *(
        Case(
            "basis_moments",
            label,
            3,
            _rows,
            of_basis(basis),
            expected=lambda p, b=basis: _moments(_clipped(p, BOUND), b),
        )
        for label, basis in (("cosines", COSINES), ("template", TEMPLATE))
    ),
    # A row as long as both bounds allow has a part outside the parcels, or no orthogonal one of that length.
    Case(
        "basis_moments",
        "views",
        4,
        _views,
        of_basis(ATLAS),
        reaches=0.89,
        expected=lambda p: _moments(_parts(p), ATLAS),
    ),
    Case(
        "centred_basis_moments",
        "template",
        3,
        _rows,
        {**of_basis(TEMPLATE), "mean_weight": 0.5},
        expected=lambda p: _joint(_clipped(p, BOUND), TEMPLATE),
    ),
    Case("centred_basis_moments", "heavy-mean", 3, _rows, {**of_basis(COSINES), "mean_weight": 1.414}),
    Case(
        "residual_maps",
        "template",
        3,
        _rows,
        {**of_basis(TEMPLATE), **_SCORES},
        # Scores depend on the coordinates alone, so that opposite residuals may have equal scores.
        reaches=0.99,
        expected=lambda p: _maps(_clipped(p, BOUND), TEMPLATE, _SCORES),
    ),
    Case(
        "residual_maps",
        "cut-cosines",
        3,
        _rows,
        {**of_basis(COSINES), **_ONE_SCORE},
        reaches=0.99,
        expected=lambda p: _maps(_clipped(p, BOUND), COSINES, _ONE_SCORE),
    ),
    Case(
        "residual_maps",
        "huge-numbers",
        4,
        _views,
        {
            **of_basis(ATLAS),
            "kept": np.array([2]),
            "scores": np.full((2, 1), 1e300),
            "offset": np.full((1, 1), -1e300),
            "residual_scale": np.array([1e-300]),
        },
        reaches=0.0,
    ),
    # Opposite parts of the row are left of the one view and of the other: their energies alone are as far apart.
    Case(
        "basis_moments",
        "view-bases",
        4,
        _views,
        of_basis(TWO_BASES),
        reaches=0.8,
        expected=lambda p: _view_moments(_parts(p), TWO_BASES),
    ),
    Case(
        "scaled_basis_moments",
        "view-bases",
        4,
        _views,
        {**_TWO, **of_basis(TWO_BASES)},
        reaches=0.86,
        expected=lambda p: _view_moments(_seen_twice(p), TWO_BASES),
    ),
    Case(
        "scaled_basis_moments",
        "one-view-basis",
        4,
        _views,
        {**_TWO, **of_basis(ONE_BASIS)},
        expected=lambda p: _view_moments(_seen_twice(p), ONE_BASIS),
    ),
    Case(
        "scaled_centred_basis_moments",
        "one-view-basis",
        4,
        _views,
        {**_TWO, **of_basis(ONE_BASIS), "mean_weight": 0.5},
        expected=lambda p: np.concatenate(
            [(_seen_twice(p) @ matrix(ONE_BASIS)).mean(axis=0), _view_moments(_seen_twice(p), ONE_BASIS)]
        ),
    ),
    Case(
        "scaled_residual_maps",
        "view-bases",
        4,
        _views,
        {**_TWO, **of_basis(TWO_BASES), **_TWO_SCORES},
        reaches=0.99,
        expected=lambda p: _view_maps(_seen_twice(p), TWO_BASES, _TWO_SCORES),
    ),
    Case(
        "scaled_residual_maps",
        "one-view-basis",
        4,
        _views,
        {**_TWO, **of_basis(ONE_BASIS), **_ONE_SCORE},
        reaches=0.99,
        expected=lambda p: _map_of_first(_seen_twice(p), _ONE_SCORE),
    ),
    Case(
        "scaled_basis_moments",
        "rows",
        3,
        _rows,
        {**_ONE, **of_basis(TEMPLATE)},
        expected=lambda p: _moments(_seen(p), TEMPLATE),
    ),
    Case(
        "scaled_centred_basis_moments",
        "rows",
        3,
        _rows,
        {**_ONE, **of_basis(TEMPLATE), "mean_weight": 0.5},
        expected=lambda p: _joint(_seen(p), TEMPLATE),
    ),
    Case(
        "scaled_residual_maps",
        "rows",
        3,
        _rows,
        {**_ONE, **of_basis(TEMPLATE), **_SCORES},
        reaches=0.99,
        expected=lambda p: _maps(_seen(p), TEMPLATE, _SCORES),
    ),
]
