"""Cases of moments in a public basis and of maps of what it leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import Atlas, Cosines, Template, rows, views
from dpcape.statistics.basis import Basis
from dpcape.statistics.basis_moments import of_basis

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
_SCORES = {"scores": np.array([[0.9, 0.1], [-0.4, 1.3]]), "offset": np.array([0.1, 0.0]), "residual_scale": 0.6}
_ONE_SCORE = {"scores": np.array([[1.1]]), "offset": np.zeros(1), "residual_scale": 0.3}


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
        {**of_basis(ATLAS), "scores": np.full((2, 1), 1e300), "offset": np.full(1, -1e300), "residual_scale": 1e-300},
        reaches=0.0,
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
