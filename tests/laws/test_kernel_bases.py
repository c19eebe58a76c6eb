"""Bases and whole subjects on the kernel: products in several steps are exact, and no neighbour changes a bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import Template, rows, subjects
from dpcape.core.fine_grid import (
    FINE_BITS,
    ORTHONORMAL_STEPS,
    FineRows,
    adapted_rows,
    fine_rows,
    shortened,
    whole_columns,
    whole_squares,
)
from dpcape.core.grid import GridRows, PublicColumns, on_grid
from dpcape.core.kernel import exact_sums_of
from dpcape.core.statistic import build
from dpcape.core.tiles import tile_of_rows
from dpcape.statistics.basis import Basis
from dpcape.statistics.basis_moments import of_basis

from .kernel_law import _arrays as arrays_of
from .kernel_law import _noted as noted
from .kernel_law import flat
from .test_bases import BASES

Vector = NDArray[np.float64]
pytestmark = pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
HUGE = [1e-290, 1e-12, 1.0, 1e12, 1e300]


def _python(left: Vector, right: Vector) -> list[list[int]]:
    columns = [[int(entry) for entry in column] for column in right.T]
    return [
        [sum(int(a) * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left.astype(object)
    ]


def _rows(n_features: int, seed: int, n: int = 257) -> GridRows:
    draw = np.random.default_rng(seed)
    data = draw.normal(size=(n, n_features)) * np.geomspace(1e-3, 1.0, n)[:, np.newaxis] / np.sqrt(n_features)
    # Rows of full length, of one entry, of equal entries and of none.
    data[0], data[1], data[2] = 0.0, np.eye(1, n_features)[0], 1 / np.sqrt(n_features)
    data[3] = data[-1] / np.linalg.norm(data[-1])
    return on_grid(data, 1.0)


@pytest.mark.parametrize("size", HUGE)
def test_products_of_fine_rows_are_those_of_integers(size: float) -> None:
    draw = np.random.default_rng(1)
    values = size * draw.normal(size=(9, 301))
    values[0], values[1, 1:] = 0.0, 0.0
    public = PublicColumns(draw.normal(size=(301, 4)), FINE_BITS)
    for fine in (fine_rows(values, size * 30), fine_rows(values, size / 100), adapted_rows(values)):
        assert (whole_squares(fine.ints) <= 2.0 ** (2 * FINE_BITS)).all()
        assert [[int(entry) for entry in row] for row in fine.ints @ public.ints] == _python(fine.ints, public.ints)
        np.testing.assert_allclose(fine.ints / fine.steps, values, atol=size * 1e-5)


def test_longest_rows_and_columns_stay_below_the_last_exact_number() -> None:
    draw = np.random.default_rng(2)
    basis = np.linalg.qr(draw.normal(size=(900, 40)))[0]
    whole = whole_columns(basis)
    longest = max(whole_squares(whole).max(), whole_squares(whole.T.copy()).max())
    assert longest <= 2.0 ** (2 * FINE_BITS)
    # Each row along a column: the largest sums there are.
    fine = adapted_rows(np.vstack([basis.T, np.abs(basis.T)]))
    assert [[int(entry) for entry in row] for row in fine.ints @ whole] == _python(fine.ints, whole)
    np.testing.assert_allclose((fine.ints @ whole / (fine.steps * ORTHONORMAL_STEPS))[:40], np.eye(40), atol=1e-6)


@pytest.mark.parametrize("size", [0.0, *HUGE, np.inf, np.nan])
def test_coordinates_are_never_longer_than_their_row(size: float) -> None:
    draw = np.random.default_rng(3)
    values = draw.normal(size=(400, 7))
    with np.errstate(all="ignore"):
        values[::2] *= size
    squares = np.rint(2.0**40 * draw.random(400) ** 6)
    squares[:5] = 0, 1, 2, 2.0**40, 3
    ints, found = shortened(values, squares, 1e5)
    exact = np.array([sum(int(entry) ** 2 for entry in row) for row in ints], dtype=object)
    assert (exact == found).all()
    assert (exact <= squares).all()
    np.testing.assert_array_equal(shortened(values[7:8], squares[7:8], 1e5)[0], ints[7:8])


def _statistics(basis: Basis) -> list[Any]:
    facts = rows(np.zeros((1, basis.n_features)), bound=1.0).facts()
    mapped = [part for part in basis.parts if not part.is_complete]
    kept = [min(3, part.n_columns) for part in mapped]
    maps = {
        "kept": np.array(kept),
        "scores": np.random.default_rng(4).normal(size=(sum(kept), 2)),
        "offset": np.full((len(kept), 2), 0.1),
        "residual_scale": np.full(len(kept), 0.3),
    }
    more: list[tuple[str, dict[str, Any]]] = [("centred_basis_moments", {"mean_weight": 0.5}), ("residual_maps", maps)]
    return [build(name, facts, {**of_basis(basis), **public}) for name, public in more]


def _bits(statistic: Any, rows: GridRows) -> list[list[bytes]]:
    """Return the bits of all that is computed of each row, one array after another.

    Between two sides of an image a row has as many rows of its own in an array as the other sides have voxels: shapes
    alone do not tell which entries are of which record, so every array is divided evenly.
    """
    tile = tile_of_rows(rows, np.ones(len(rows)))
    # What is computed once, of public numbers, is not noted.
    statistic.terms(tile)
    with noted() as floats, np.errstate(all="ignore"):
        forms = statistic.terms(tile)
    found = [array for array in (*floats, *(array for form in forms for array in arrays_of(form))) if array.ndim]
    assert all(len(array) % len(rows) == 0 for array in found)
    return [[row.tobytes() for row in array.reshape(len(rows), -1)] for array in found]


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES.keys())
def test_contributions_have_the_same_bits_in_every_tile(basis: Basis) -> None:
    every = _rows(basis.n_features, 5)
    for statistic in _statistics(basis):
        whole = _bits(statistic, GridRows(every.ints.copy(), every.steps))
        for start, stop in ((0, 1), (1, 3), (1, 4), (3, 4), (8, 16), (100, 140), (250, 257)):
            some = _bits(statistic, GridRows(every.ints[start:stop].copy(), every.steps))
            assert some == [array[start:stop] for array in whole], (statistic.name, start, stop)


@pytest.mark.parametrize("basis", BASES.values(), ids=BASES.keys())
def test_coordinates_and_what_is_made_of_them_have_the_same_bits_in_every_tile(basis: Basis) -> None:
    """On the grid of rows a last bit seldom shows: so they are compared before."""
    every = _rows(basis.n_features, 11)
    coordinates = basis.exact_coordinates(every)
    expansion = basis.exact_expansion(fine_rows(coordinates, 1.0))
    for start, stop in ((0, 1), (5, 6), (200, 201), (1, 3), (1, 4), (8, 16), (100, 140)):
        some = basis.exact_coordinates(GridRows(every.ints[start:stop].copy(), every.steps))
        assert some.tobytes() == np.ascontiguousarray(coordinates[start:stop]).tobytes()
        made = basis.exact_expansion(fine_rows(some, 1.0))
        assert made.tobytes() == np.ascontiguousarray(expansion[start:stop]).tobytes()


@pytest.mark.parametrize("bound", [1e-40, 1.0, 1e40])
@pytest.mark.parametrize("size", HUGE)
def test_maps_hold_their_diameter_for_any_public_numbers(size: float, bound: float) -> None:
    draw = np.random.default_rng(6)
    units = bound * np.vstack([draw.normal(size=(40, 5)) * 3, np.eye(5), -np.eye(5), np.zeros((1, 5))])
    basis = Template(np.linalg.qr(draw.normal(size=(5, 2)))[0])
    maps = {
        "kept": np.array([2]),
        "scores": size * draw.normal(size=(2, 3)),
        "offset": np.full((1, 3), size),
        "residual_scale": np.array([size]),
    }
    for name, public in (("residual_maps", maps), ("basis_moments", {}), ("centred_basis_moments", {"mean_weight": 1})):
        statistic = build(name, rows(units, bound=bound).facts(), {**of_basis(basis), **public})
        totals = np.array([statistic.total(rows(unit[np.newaxis], bound=bound)) for unit in units]) / statistic.diameter
        assert np.isfinite(totals).all()
        apart = np.linalg.norm(totals[:, np.newaxis] - totals, axis=2).max()
        assert apart * statistic.diameter <= statistic.sensitivity(1)


# Whole subjects -------------------------------------------------------------------------------------------------------

_PROJECTION = np.random.default_rng(7).normal(size=(6, 3))
_WHITE = {"projection": _PROJECTION, "whitener": np.diag([1.0, 2.0, 0.5])}
_TURN = np.linalg.qr(np.random.default_rng(8).normal(size=(3, 3)))[0]
OF_SUBJECTS: dict[str, dict[str, Any]] = {
    "subject_projector": {"basis": np.eye(6), "n_components": 2},
    "subject_log_covariance": {**_WHITE, "clip": 0.5},
    "subject_covariance": {**_WHITE, "clip": 0.5},
    "subject_tensor": _WHITE,
    "subject_polish": {**_WHITE, "rotation": _TURN},
    "subject_infomax": {**_WHITE, "unmixing": _TURN, "bias": np.zeros(3), "clip": 0.7},
}


def _people(series: list[Vector]) -> Any:
    return subjects(series, bound=3.0, unit="subject", rows_per_subject=500, n_features=6)


@pytest.mark.parametrize(("name", "public"), OF_SUBJECTS.items())
def test_a_subject_contributes_the_same_integers_beside_any_others(name: str, public: dict[str, Any]) -> None:
    draw = np.random.default_rng(9)
    people = [draw.normal(size=(length, 6)) for length in (40, 7, 201, 40, 2, 90)]
    people += [np.zeros((5, 6)), np.full((9, 6), 1e200), np.outer(np.arange(8.0), np.ones(6))]
    statistic: Any = build(name, _people(people).facts(), public)
    alone = [flat(exact_sums_of(statistic, _people([series]))) for series in people]
    assert any(one.any() for one in alone)
    for order in (range(9), range(8, -1, -1), (3, 0), (5, 2, 1, 4)):
        found = flat(exact_sums_of(statistic, _people([people[at] for at in order])))
        assert (found == sum(alone[at] for at in order)).all()
    broken = [*people[:2], np.full((400, 6), np.nan), np.ones((3, 5)), people[2]]
    records = _people(broken)
    for _ in range(2):
        # What was kept by the first pass serves the second.
        assert (flat(exact_sums_of(statistic, records)) == alone[0] + alone[1] + alone[2]).all()
    assert records.n_invalid == 2


@pytest.mark.parametrize(("name", "public"), OF_SUBJECTS.items())
def test_subjects_without_a_valid_series_contribute_zero(name: str, public: dict[str, Any]) -> None:
    records = _people([np.full((4, 6), np.nan), np.ones((2, 2))])
    statistic = build(name, records.facts(), public)
    assert statistic.total(records).shape == (statistic.size,)
    assert not statistic.total(records).any()


@pytest.mark.parametrize(("name", "public"), OF_SUBJECTS.items())
@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_subjects_hold_their_diameter_for_any_public_matrix(name: str, public: dict[str, Any], size: float) -> None:
    draw = np.random.default_rng(10)
    matrix = "basis" if "basis" in public else "projection"
    people = [draw.normal(size=(length, 6)) for length in (3, 30, 30, 31, 100)] + [np.zeros((9, 6))]
    statistic: Any = build(name, _people(people).facts(), {**public, matrix: size * np.asarray(public[matrix])})
    totals = np.array([statistic.total(_people([series])) for series in people])
    assert np.isfinite(totals).all()
    assert np.linalg.norm(totals[:, np.newaxis] - totals, axis=2).max() <= statistic.sensitivity(1)


def test_a_fine_row_that_is_not_finite_is_zero() -> None:
    for found in (fine_rows(np.array([[np.nan, 1.0], [np.inf, 0.0]]), 1.0), adapted_rows(np.array([[np.nan, 1.0]]))):
        assert isinstance(found, FineRows)
        assert not found.ints.any()
