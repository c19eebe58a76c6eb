"""Public bases: orthonormal, the same for a row wherever it stands, and no part of any diameter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import Atlas, Cosines, Template, rows
from dpcape.core.errors import InvalidParameter
from dpcape.core.fine_grid import FineRows, fine_rows
from dpcape.core.grid import GridRows, on_grid
from dpcape.core.statistic import build
from dpcape.statistics.bases import as_basis, as_view_bases, basis_from
from dpcape.statistics.basis import Basis
from dpcape.statistics.basis_moments import of_basis
from dpcape.statistics.view_bases import Columns, SideBySide

Vector = NDArray[np.float64]
GRID = np.stack(np.meshgrid(*(np.linspace(-1, 1, side) for side in (9, 11, 8)), indexing="ij"))
BALL = (GRID**2).sum(axis=0) < 1
BASES: dict[str, Basis] = {
    "ball": Cosines(BALL, (4, 5, 4)),
    "box": Cosines(np.ones((5, 6, 4)), (3, 2, 4)),
    "square": Cosines(np.ones((7, 5)), (3, 3)),
    "line": Cosines([1, 0, 1, 1, 1], [3]),
    # A mask so small that most cosines add nothing.
    "sliver": Cosines(np.pad(np.ones((6, 6, 1)), ((0, 0), (0, 0), (0, 7))), (4, 4, 2)),
    "atlas": Atlas(np.random.default_rng(1).integers(0, 9, size=40)),
    "template": Template(np.linalg.qr(np.random.default_rng(2).normal(size=(30, 6)))[0]),
    "views": SideBySide([Cosines(BALL, (2, 2, 2)), Columns(3), Template(np.eye(5, 2)), Atlas([1, 1, 0, 4])]),
}
each_basis = pytest.mark.parametrize("basis", BASES.values(), ids=BASES.keys())


@each_basis
def test_columns_are_orthonormal_and_the_operators_are_those_of_the_columns(basis: Basis) -> None:
    columns = basis.expanded(np.eye(basis.n_columns)).T
    np.testing.assert_allclose(columns.T @ columns, np.diag(basis.used.astype(float)), atol=1e-8)
    data = np.random.default_rng(3).normal(size=(13, basis.n_features))
    np.testing.assert_allclose(basis.coordinates(data), data @ columns, atol=1e-9)


@each_basis
def test_a_row_has_the_same_coordinates_wherever_it_stands(basis: Basis) -> None:
    data = np.random.default_rng(4).normal(size=(21, basis.n_features))
    whole = basis.exact_coordinates(on_grid(data, 100.0))
    np.testing.assert_array_equal(basis.exact_coordinates(on_grid(data[5:], 100.0)), whole[5:])
    assert np.abs(whole - basis.coordinates(data)).max() < 1e-3
    every = basis.exact_expansion(fine_rows(whole, 100.0))
    np.testing.assert_array_equal(basis.exact_expansion(fine_rows(whole[5:], 100.0)), every[5:])
    np.testing.assert_allclose(every, basis.expanded(whole), atol=1e-5)


@each_basis
def test_a_basis_travels_as_an_array_and_as_lists(basis: Basis) -> None:
    for again in (basis_from(basis.kind, basis.sent_array), as_basis(basis.listed())):
        assert again == basis
        np.testing.assert_array_equal(
            again.coordinates(np.ones((1, basis.n_features))), basis.coordinates(np.ones((1, basis.n_features)))
        )


def test_the_first_cosines_span_what_the_first_products_do() -> None:
    few, many = Cosines(BALL, (2, 2, 2)), BASES["ball"]
    low = few.expanded(np.eye(1, few.n_columns))
    np.testing.assert_allclose(np.abs(many.expanded(np.eye(1, many.n_columns))), np.abs(low), atol=1e-10)
    # The constant is the first.
    assert np.ptp(low) < 1e-10
    assert many.cuts(3)[-1] == many.n_columns


def test_cosines_of_a_sliver_that_add_nothing_are_unused() -> None:
    # Along the last side the mask is one voxel thick: one of two cosines is enough.
    assert BASES["sliver"].used.sum() == 16


class Hostile(Basis):
    """Operators that have nothing to do with orthonormal columns."""

    kind = "template"

    def __init__(self, n_features: int, size: float) -> None:
        self.n_features, self.n_columns, self._size = n_features, 2, np.float64(size)

    @property
    def sent_array(self) -> Vector:
        return np.eye(self.n_features, 2)

    def listed(self) -> list[str | list[int] | list[list[float]]]:
        return []

    def coordinates(self, rows: Vector) -> Vector:
        with np.errstate(all="ignore"):
            return np.stack([self._size * rows.sum(axis=1), self._size**2 * rows[:, 0] + 1], axis=1)

    def expanded(self, coordinates: Vector) -> Vector:
        with np.errstate(all="ignore"):
            return np.tile(coordinates.sum(axis=1, keepdims=True) * self._size, (1, self.n_features))

    def exact_coordinates(self, rows: GridRows) -> Vector:
        return self.coordinates(rows.values)

    def exact_expansion(self, coordinates: FineRows, factor: float = 1.0) -> Vector:
        with np.errstate(all="ignore"):
            return factor * self.expanded(coordinates.ints / coordinates.steps)


@pytest.mark.parametrize("size", [1e-200, 0.5, 3.0, 1e200])
@pytest.mark.parametrize("name", ["basis_moments", "centred_basis_moments", "residual_maps"])
def test_diameters_hold_for_operators_that_are_no_basis(name: str, size: float) -> None:
    more = {
        "basis_moments": {},
        "centred_basis_moments": {"mean_weight": 1.2},
        "residual_maps": {
            "kept": np.array([2]),
            "scores": np.eye(2),
            "offset": np.ones((1, 2)),
            "residual_scale": np.array([1e-3]),
        },
    }[name]
    rng = np.random.default_rng(5)
    units = np.vstack([rng.normal(size=(60, 3)) * 3, np.eye(3), -np.eye(3), np.zeros((1, 3))])
    facts = rows(units, bound=1.5).facts()
    statistic = build(name, facts, {**of_basis(Template(np.eye(3, 2))), **more})
    statistic._basis = Hostile(3, size)  # type: ignore[attr-defined]  # it has a basis
    totals = np.array([statistic.total(rows(unit[np.newaxis], bound=1.5)) for unit in units])
    assert np.isfinite(totals).all()
    assert np.linalg.norm(totals, axis=1).max() <= statistic.radius * (1 + 1e-12)
    apart = np.linalg.norm(totals[:, np.newaxis] - totals, axis=2).max()
    assert apart <= statistic.diameter * (1 + 1e-12)


@pytest.mark.parametrize("name", ["first_moments", "radius_histogram", "basis_moments"])
def test_wide_rows_are_read_in_tiles_of_few(name: str) -> None:
    wide = 40_000
    data = np.zeros((20, wide), dtype=np.float16)
    data[:, ::1000] = np.random.default_rng(6).normal(size=(20, 40))
    held, largest = rows(data, bound=1.0), []
    tiles = held.tiles

    def watched() -> Iterator[object]:
        for tile, gone in tiles():
            largest.append(tile.n_records)
            yield tile, gone

    held.tiles = watched  # type: ignore[method-assign,assignment]  # to see the tiles
    public = {
        "first_moments": {},
        "radius_histogram": {"centre": np.zeros(wide), "scale": np.ones(wide), "top": np.ones(1)},
        "basis_moments": of_basis(Cosines(np.ones((40, 25, 40)), (2, 2, 2))),
    }[name]
    total = build(name, held.facts(), public).total(held)
    assert max(largest) * wide <= 2**22
    assert np.isfinite(total).all()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Cosines(np.zeros((3, 3)), (1, 1)), "mask must"),
        (lambda: Cosines(np.ones((3, 3)), (4, 1)), "counts must"),
        (lambda: Cosines(np.ones((3, 3)), (1, 1, 1)), "counts must"),
        (lambda: Cosines(np.ones((100, 100)), (80, 80)), "at most 4096"),
        (lambda: Cosines(np.ones((3, 3)), (0, 1)), "counts must"),
        (lambda: Cosines(np.ones((3, 3)), (1.5, 1)), "counts must"),
        (lambda: Atlas([0, 0]), "labels must"),
        (lambda: Atlas([-1, 2]), "labels must"),
        (lambda: Atlas([0.5, 2]), "labels must"),
        (lambda: Template(np.ones((3, 2))), "orthonormal"),
        (lambda: Template(1e200 * np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])), "orthonormal"),
        (lambda: Template(np.ones((2, 3))), "at least as many rows"),
        (lambda: Template([["a"]]), "must be a matrix"),
        (lambda: as_basis(["cosines", [3]]), "basis must be"),
        (lambda: as_basis(["waves", [3], [2]]), "basis must be"),
        (lambda: as_basis(["cosines", [3], [2], [1, 1]]), "add up"),
        (lambda: as_basis("cosines"), "must be a matrix"),
        (lambda: basis_from("waves", np.zeros(3)), "A basis must be"),
        (lambda: basis_from("views", np.array([0.0, 1.0, 1.0, 3.0])), "Views must be two or more"),
        (lambda: basis_from("views", np.array([9.0, 1.0, 1.0, 3.0])), "none of them"),
        (lambda: basis_from("views", np.array([0.0, 1.0, 1e9, 3.0])), "none of them"),
        (lambda: basis_from("views", np.array([0.0, 1.0, 1.0, 2.5])), "none of them"),
        (lambda: basis_from("views", np.array([0.0, np.nan])), "none of them"),
        (lambda: basis_from("views", np.array([0.0])), "none of them"),
        (lambda: SideBySide([Columns(4000), Columns(4000)]), "at most 4096 columns together"),
        (lambda: Columns(5000), "at most 4096 columns"),
        (lambda: as_view_bases(np.eye(3, 2), (3, 2)), "one entry per view"),
        (lambda: as_view_bases((None, []), (3, 2)), "at least one view"),
        (lambda: as_view_bases((Atlas([1, 1]), None), (3, 2)), "one row per column of the view"),
        (lambda: basis_from("cosines", np.array([3, 10, 10], dtype=np.int64)), "add up"),
        (lambda: basis_from("cosines", np.array([-2, 10], dtype=np.int64)), "add up"),
    ],
)
def test_what_is_no_basis_is_refused(make: object, match: str) -> None:
    with pytest.raises(InvalidParameter, match=match):
        make()  # type: ignore[operator]  # a function that fails
