"""The kernel by itself: exact sums against Python integers, rows that stay in their ball, and wrong claims that cannot
become silent."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import labelled, rows, views
from dpcape.core import contributions, grid, kernel
from dpcape.core.contributions import (
    ROUND,
    Cells,
    Cross,
    ExactSum,
    Form,
    Grouped,
    Outer,
    Plain,
    Squares,
    Sum,
)
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import row_error
from dpcape.core.grid import (
    LONGEST_SQUARE,
    GridRows,
    PublicColumns,
    clipped,
    into_balls,
    lengths_of,
    on_grid,
    reach_on_grid,
    rows_of_views,
)
from dpcape.core.statistic import build
from dpcape.core.tiles import empty_tile
from dpcape.core.totals import released_total
from dpcape.statistics import family_scores, gradients, regression_rounds

from .kernel_law import broken, integers, is_summed, public_ties, raw_differs
from .statistic_case import all_cases
from .wide import WIDE

Vector = NDArray[np.float64]

pytestmark = pytest.mark.filterwarnings(
    "ignore::dpcape.core.errors.UtilityWarning", "ignore:invalid value:RuntimeWarning"
)


# Sums -----------------------------------------------------------------------------------------------------------------


def _longest(n_rows: int) -> GridRows:
    """Return rows of nearly 2^20 steps whose entries are odd, so that a sum that rounds is off."""
    ints = np.tile([1048575.0, 3.0, -5.0], (n_rows, 1))
    assert (ints**2).sum(axis=1).max() <= grid.LONGEST_SQUARE
    return GridRows(ints, 1.0)


def _forms(n_rows: int) -> Iterator[tuple[str, Form, list[int]]]:
    """Yield a form of a tile of so many records, and the integers that one record adds."""
    long, cells = _longest(n_rows), np.ones(n_rows, dtype=np.intp)
    x = [1048575, 3, -5]
    yield "Sum", Sum(long), x
    yield "Squares", Squares(long), [entry**2 for entry in x]
    # The lower triangle, column by column.
    yield "Outer", Outer(long), [x[i] * x[j] if i >= j else 0 for j in range(3) for i in range(3)]
    yield "Cross", Cross(long, long), [left * right for right in x for left in x]
    yield "Grouped", Grouped(Cells(cells, 2), long), [entry for of in x for entry in (0, of)]
    yield "Cells", Cells(cells, 2, np.full(n_rows, 1 - 2.0**-20)), [0, 2**20 - 1]
    steps = 2.0**40 - 1
    yield "Plain", Plain(np.tile([1.0, 0.0], (n_rows, 1)), 1.0), [int(steps), 0]


FORMS = [name for name, _, _ in _forms(1)]


def _form(name: str, n_rows: int) -> tuple[Form, list[int]]:
    return next((form, each) for found, form, each in _forms(n_rows) if found == name)


def _wrong_sums(name: str) -> list[str]:
    """Return which sums of many of the longest records are not those of whole numbers."""
    found = []
    form, each = _form(name, ROUND - 1)
    total, n_records = ExactSum(form), 0
    # Six rounds, none of which is full: totals are odd.
    for n_rows in (ROUND - 1, 1, ROUND - 1, 7, ROUND - 1, ROUND - 1, ROUND - 3, 2):
        total.add(_form(name, n_rows)[0], n_rows)
        n_records += n_rows
    expected = [n_records * entry for entry in each]
    if total.integers() != expected:
        found.append("rounds")
    with np.errstate(over="ignore"):
        floats = np.array([float(entry) for entry in expected]).reshape(form.shape, order="F") * form.scale
    if not np.allclose(total.values(), floats, rtol=4 * 2.0**-53, atol=0):
        found.append("values")
    # Three parts of 3 * 2^20 records, which together are too many for 64 bits.
    tile, n_tiles = _form(name, ROUND)[0], 3 * 2**20 // ROUND
    part = ExactSum(tile)
    for _ in range(n_tiles):
        part.add(tile, ROUND)
    parts = [pickle.loads(pickle.dumps(part)) for _ in range(3)]
    joined = kernel.joined([[entry] for entry in parts])[0]
    if joined.integers() != [3 * n_tiles * ROUND * entry for entry in each]:
        found.append("parts")
    return found


@pytest.mark.parametrize("name", FORMS)
def test_sums_of_the_longest_records_are_those_of_whole_numbers(name: str) -> None:
    assert not _wrong_sums(name)


def test_parts_and_tiles_that_carry_add_up() -> None:
    form, each = _form("Sum", ROUND)
    total = ExactSum(form)
    for _ in range(2**23 // ROUND + 3):
        total.add(form, ROUND)
    n_records = 2**23 + 3 * ROUND
    assert total.integers() == [n_records * entry for entry in each]
    np.testing.assert_array_equal(total.values(), [float(n_records * entry) for entry in each])


# Rows -----------------------------------------------------------------------------------------------------------------


def _exact_squares(ints: Vector) -> list[int]:
    return [sum(int(entry) ** 2 for entry in row) for row in ints.tolist()]


@pytest.mark.parametrize("width", [1, 2, 3, 24, 100, 1000])
@pytest.mark.parametrize("bound", [1e-40, 1e-3, 1.0, 2.5, 1e40])
def test_rows_of_any_length_are_in_their_ball_on_the_grid(width: int, bound: float) -> None:
    draw = np.random.default_rng(width)
    values = draw.normal(size=(60, width)) * bound / math.sqrt(width)
    values *= 10.0 ** draw.uniform(-3, 3, size=(60, 1))
    values[:3] = bound / math.sqrt(width) * np.array([[1.0], [1 + 2.0**-52], [-1.0]])
    values[3:7] = [[1e308], [-1e300], [5e-324], [0.0]]
    rows_, factors, lost = into_balls(values, (width,), (bound,))
    assert lost is None
    assert max(_exact_squares(rows_.ints)) <= 2**40
    assert ((factors >= 0) & (factors <= 1)).all()
    with np.errstate(over="ignore"):
        lengths = np.array([math.hypot(*row) for row in values.tolist()])
    directions = values / np.maximum(lengths, 1e-200)[:, np.newaxis]
    expected = np.where((lengths > bound)[:, np.newaxis], directions * bound, values)
    finite = np.isfinite(lengths)
    np.testing.assert_allclose(rows_.values[finite], expected[finite], atol=2.0**-19 * bound, rtol=0)
    np.testing.assert_allclose(np.linalg.norm(rows_.values[~finite], axis=1), bound, rtol=1e-4)


def test_every_view_is_in_its_own_ball() -> None:
    values = np.random.default_rng(1).normal(size=(200, 12)) * 3
    found, factors, _ = into_balls(values, (5, 7), (1.0, 0.25))
    for columns, bound in ((slice(0, 5), 1.0), (slice(5, 12), 0.25)):
        length = np.linalg.norm(found.values[:, columns], axis=1)
        assert (length <= bound * (1 + 4e-6)).all()
        assert (length >= bound * (1 - 4e-6)).mean() > 0.9
    assert max(_exact_squares(found.ints)) <= 2**40
    own = np.minimum(1, 0.25 / np.linalg.norm(values[:, 5:], axis=1))
    np.testing.assert_allclose(factors, np.minimum(own, 1 / np.linalg.norm(values[:, :5], axis=1)), rtol=1e-5)


def test_a_view_in_small_units_keeps_its_digits_beside_one_in_large() -> None:
    """On one grid for both, a view of a millionth of the other would be zeros."""
    draw = np.random.default_rng(4)
    small, large = draw.uniform(-1, 1, size=(2, 50, 3)) / 2
    rows, _, lost = rows_of_views(np.hstack([1e-6 * small, 1e6 * large]), (3, 3), (1e-6, 1e6))
    ints, steps = rows.finest
    assert lost is None
    exact = np.hstack([small, large])
    np.testing.assert_allclose(ints / steps / np.repeat([1e-6, 1e6], 3), exact, rtol=0, atol=1e-6)
    assert not rows.ints[:, :3].any()
    assert (np.einsum("ij,ij->i", rows.ints, rows.ints) <= LONGEST_SQUARE).all()


def test_rows_that_are_not_finite_are_lost_and_no_others() -> None:
    values = np.array([[0.1, np.nan], [np.inf, 0.0], [-np.inf, np.nan], [0.3, 0.4], [1e308, 1e308]])
    found, factors, lost = into_balls(values, (2,), (1.0,))
    np.testing.assert_array_equal(lost, [True, True, True, False, False])
    np.testing.assert_array_equal(found.ints[:3], 0)
    np.testing.assert_allclose(found.values[3:], [[0.3, 0.4], [0.5**0.5, 0.5**0.5]], atol=2e-6)
    np.testing.assert_allclose(factors[3:], [1, 0.5**0.5 * 1e-308], rtol=1e-5)


def test_a_row_that_is_longer_than_was_claimed_counts_nothing() -> None:
    ones = np.ones((1, 100))
    np.testing.assert_array_equal(on_grid(ones, 1.0).ints, 0)
    assert on_grid(ones, 10.0).ints.all()
    np.testing.assert_array_equal(on_grid(np.array([[np.nan], [np.inf], [1e300]]), 1.0).ints, 0)
    assert (on_grid(np.array([[0.5], [np.nan]]), 1.0).ints[0] != 0).all()


@pytest.mark.parametrize("reach", [0.0, -1.0, 1e-200, 1e200, math.inf, math.nan])
def test_a_length_that_no_square_can_hold_is_refused(reach: float) -> None:
    with pytest.raises(InvalidParameter, match="largest length"):
        on_grid(np.zeros((1, 2)), reach)


def test_a_row_on_the_grid_is_no_longer_than_its_reach_there() -> None:
    """Searched among rows whose entries all lie half a step above an integer."""
    for width in (1, 4, 100, 10_000):
        steps = grid.steps_per_unit(grid.ROW_BITS, width)
        entry = (math.floor(steps / math.sqrt(width)) - 0.5) / steps
        ints = np.rint(np.full((1, width), entry * steps))
        assert math.sqrt(sum(_exact_squares(ints))) / steps <= reach_on_grid(1.0, width)
        moved = np.linalg.norm(on_grid(np.full((1, width), entry), 1.0).values - entry)
        assert moved <= row_error(width, 1.0)


def test_cells_and_shares_outside_their_range_count_nothing() -> None:
    cells = Cells(np.array([-1, 0, 1, 2, 7]), 2)
    np.testing.assert_array_equal(cells.added(np.zeros(2)), [1, 1])
    shares = Cells(np.zeros(6, dtype=np.intp), 1, np.array([np.nan, -3.0, 1e30, 0.25, np.inf, -np.inf]))
    np.testing.assert_array_equal(shares.added(np.zeros(1)), [2.25 * 2**20])


def test_a_plain_vector_that_is_too_long_or_not_finite_counts_nothing() -> None:
    plain = Plain(np.array([[0.6, 0.8], [1.1, 0.0], [np.nan, 0.0], [np.inf, 0.0], [-0.6, 0.8]]), 1.0)
    np.testing.assert_allclose(plain.added(np.zeros(2)) * plain.scale, [0, 1.6], atol=1e-11)


def test_dropped_records_leave_no_trace_in_any_form() -> None:
    gone = np.array([True, False, True])
    for name in FORMS:
        form, each = _form(name, 3)
        form.drop(gone)
        total = ExactSum(form)
        total.add(form, 3)
        assert total.integers() == each, name


# Products within a record ---------------------------------------------------------------------------------------------


def test_products_are_exact_sums_whatever_stands_beside_a_row() -> None:
    draw = np.random.default_rng(3)
    for width in (1, 3, 24, 129):
        x, matrix = draw.normal(size=(40, width)), draw.normal(size=(width, 5)) * 10.0 ** draw.uniform(-3, 3, size=5)
        found = on_grid(x, 9 * math.sqrt(width))
        columns = PublicColumns(matrix)
        np.testing.assert_allclose(found.products(columns), x @ matrix, atol=1e-4 * np.abs(matrix).max() * width)
        one_by_one = [GridRows(row[np.newaxis], found.steps).products(columns)[0] for row in found.ints]
        np.testing.assert_array_equal(found.products(columns), one_by_one)
        exact = [
            [sum(int(a) * int(b) for a, b in zip(row, column, strict=True)) for column in columns.ints.T.tolist()]
            for row in found.ints.tolist()
        ]
        np.testing.assert_array_equal(found.ints @ columns.ints, np.array(exact, dtype=np.float64))
        assert max(abs(entry) for row in exact for entry in row) <= 2**52


@pytest.mark.parametrize("size", [1e-320, 1e-300, 1e-3, 1.0, 1e200, 1e308])
def test_public_columns_may_be_of_any_size(size: float) -> None:
    columns = PublicColumns(np.array([[size, 0.0], [0.0, -size], [0.0, 0.0]]))
    found = on_grid(np.array([[0.5, 0.25, 0.0]]), 1.0).products(columns)
    assert not np.isnan(found).any()
    np.testing.assert_allclose(found / size, [[0.5, -0.25]], rtol=1e-3)


def test_the_nearest_column_is_the_nearest() -> None:
    draw = np.random.default_rng(5)
    x, centres = draw.normal(size=(300, 7)), draw.normal(size=(9, 7))
    found = on_grid(x, 12.0)
    expected = np.argmin(((found.values[:, np.newaxis] - centres) ** 2).sum(axis=2), axis=1)
    np.testing.assert_array_equal(found.nearest(PublicColumns(centres.T)), expected)


def test_lengths_are_from_above_and_the_same_in_any_order_of_memory() -> None:
    draw = np.random.default_rng(5)
    for width in (1, 2, 24, 700):
        x = draw.normal(size=(50, width)) * 10.0 ** draw.uniform(-150, 150, size=(50, 1))
        found = lengths_of(x)
        exact = np.array([math.hypot(*row) for row in x.tolist()])
        assert (found >= exact * (1 - 1e-15)).all()
        np.testing.assert_allclose(found, exact, rtol=1e-4)
        np.testing.assert_array_equal(lengths_of(np.asfortranarray(x)), found)
        np.testing.assert_array_equal([lengths_of(row[np.newaxis])[0] for row in x], found)
    np.testing.assert_array_equal(lengths_of(np.array([[np.nan, 0], [np.inf, 1], [0, 0]])), [np.inf, np.inf, 0])


@pytest.mark.parametrize("order", ["C", "F"])
def test_clipped_rows_are_the_same_integers_wherever_they_stand(order: str) -> None:
    draw = np.random.default_rng(8)
    for width in (2, 8, 24, 129):
        x = draw.normal(size=(257, width)) * np.geomspace(0.05, 300, 257)[:, np.newaxis]
        together, factors, _ = into_balls(np.asarray(x, order=order), (width,), (math.sqrt(width),))
        for size in (1, 2, 3, 8, 40):
            some, own, _ = into_balls(np.asarray(x[-size:], order=order), (width,), (math.sqrt(width),))
            np.testing.assert_array_equal(some.ints, together.ints[-size:])
            np.testing.assert_array_equal(own, factors[-size:])


# Nothing is lost in silence -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [case for case in [*all_cases(), *WIDE] if is_summed(case)], ids=str)
def test_no_record_is_longer_than_its_statistic_says(case, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """A reach that is too small would drop records: a bias, and no error."""
    lost = []
    actual = grid.too_long

    def counted(ints: Vector) -> object:
        found = actual(ints)
        # A record that lacks a value is not a number, and dropped.
        lost.append(0 if found is None else int((found & np.isfinite(ints).all(axis=1)).sum()))
        return found

    for module in (grid, family_scores, gradients, regression_rounds):
        monkeypatch.setattr(module, "too_long", counted)
    draw = np.random.default_rng(13)
    for scale in (0.1, 1.0, 30.0):
        case.total(draw.normal(scale=scale, size=(200, case.n_parameters)))
        case.total(scale * np.sign(draw.normal(size=(50, case.n_parameters))))
    assert sum(lost) == 0


# Mutants --------------------------------------------------------------------------------------------------------------


def _case(name: str):  # type: ignore[no-untyped-def]
    return next(case for case in WIDE if str(case) == name)


def _lost_place(self: kernel.PartSums, records: object) -> object:
    return kernel.exact_sums_of(build(self.name, self.facts, self.public).at(0), records)  # type: ignore[arg-type]


def _added_in_floats(self: ExactSum) -> None:
    if self._n_now:
        if self._lower is None:
            self._lower = np.zeros(self._now.shape, dtype=np.int64, order="F")
        np.add(self._lower, self._now, out=self._lower, casting="unsafe")
        self._now[...], self._n_lower, self._n_now = 0.0, self._n_lower + self._n_now, 0


def _wrapped(self: ExactSum, other: ExactSum) -> None:
    self._carry()
    other._carry()
    self._lower = self._lower + other._lower  # type: ignore[operator]


def _clamped_entries(ints: Vector) -> None:
    np.clip(np.nan_to_num(ints, copy=False), -(2.0**20), 2.0**20, out=ints)


def _shifted(self: GridRows, columns: PublicColumns, steps: float = 1.0) -> Vector:
    found = self.ints @ columns.ints / self.steps * columns.units[0]
    return steps * (found + (1e-15 if len(self) > 8 else 0.0))


def _plain_product(self: GridRows, columns: PublicColumns, steps: float = 1.0) -> Vector:
    return steps * (self.values @ (columns.ints * columns.units[0]))


@pytest.mark.parametrize("name", ["Sum", "Outer", "Plain"])
@pytest.mark.parametrize(
    ("attribute", "wrong"), [("_carry", _added_in_floats), ("join", _wrapped)], ids=["floats added", "64 bits wrap"]
)
def test_sums_that_round_or_wrap_are_found(
    name: str, attribute: str, wrong: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    if attribute == "join" and name == "Sum":
        pytest.skip("sums of rows do not fill 64 bits")
    if attribute == "_carry" and name == "Sum":
        pytest.skip("six rounds of 20 bits are exact in floats")
    monkeypatch.setattr(ExactSum, attribute, wrong)
    with np.errstate(all="ignore"):
        assert _wrong_sums(name)


def test_a_grid_that_is_too_fine_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 bits of a factor, 52 of a plain vector: sums round."""
    fine = GridRows(np.tile([2.0**24 - 1, 3.0, -5.0], (ROUND, 1)), 1.0)
    total = ExactSum(Squares(fine))
    total.add(Squares(fine), ROUND)
    assert total.integers()[0] != ROUND * (2**24 - 1) ** 2
    monkeypatch.setattr(contributions, "PLAIN_BITS", 52)
    # An odd number of steps.
    plain = Plain(np.full((ROUND, 1), 0.987654321), 1.0)
    total = ExactSum(plain)
    total.add(plain, ROUND)
    total.add(Plain(plain.values[:7], 1.0), 7)
    assert total.integers()[0] != (ROUND + 7) * int(plain.ints[0, 0])


def test_entries_that_are_clamped_one_by_one_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "too_long", _clamped_entries)
    assert max(_exact_squares(on_grid(np.ones((1, 100)), 1.0).ints)) > 2**40


@pytest.mark.parametrize("found_in", ["radius_histogram-wide", "histogram-wide", "absolute_deviations-wide"])
def test_invalid_records_that_are_not_dropped_are_found(found_in: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for form in (Sum, Cells, Squares, Outer):
        monkeypatch.setattr(form, "drop", lambda self, gone: None)
    assert broken(_case(found_in), 2)[1]


def test_a_place_that_is_lost_on_a_cluster_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(1).normal(size=(9, 3))
    statistic = build("site_centred_moments", rows(x, bound=1.0).facts(), {"n_sites": 3}).at(2)
    here = kernel.PartSums.of(statistic)  # type: ignore[arg-type]  # it is summed
    whole = [entry.integers() for entry in kernel.exact_sums_of(statistic, rows(x, bound=1.0))]  # type: ignore[arg-type]
    assert [entry.integers() for entry in here(rows(x, bound=1.0))] == whole  # type: ignore[arg-type]
    monkeypatch.setattr(kernel.PartSums, "__call__", _lost_place)
    assert [entry.integers() for entry in here(rows(x, bound=1.0))] != whole  # type: ignore[arg-type]


def _nearest_by_plain_product(self: GridRows, columns: PublicColumns) -> NDArray[np.intp]:
    return np.argmin(columns.squares - 2 * (self.values @ (columns.ints * columns.units[0])), axis=1)


def _nearest_shifted(self: GridRows, columns: PublicColumns) -> NDArray[np.intp]:
    moved = 1 + 4e-16 * (len(self) > 8)
    return np.argmin(columns.squares - 2 * moved * self.products(columns), axis=1)


@pytest.mark.parametrize("wrong", [_nearest_by_plain_product, _nearest_shifted], ids=["plain product", "a shift"])
@pytest.mark.parametrize("found_in", ["cluster_sums-wide", "scaled_cluster_sums-views"])
def test_a_nearest_centre_that_depends_on_the_tile_is_found(
    wrong: Callable[..., Vector], found_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GridRows, "nearest", wrong)
    case = _case(found_in)
    others = np.random.default_rng(5).normal(scale=0.4, size=(9, case.n_parameters))
    assert any(raw_differs(case, unit, others, statistic) for statistic, unit in public_ties(case, 100))


@pytest.mark.parametrize("wrong", [_plain_product, _shifted], ids=["plain product", "a shift by the block"])
@pytest.mark.parametrize("found_in", ["residual_gradient-wide", "count_scores-wide", "network_gradient-wide"])
def test_products_that_depend_on_the_tile_are_found(
    wrong: Callable[..., Vector], found_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_summed(_case(found_in)):
        pytest.skip("not a sum of the kernel")
    monkeypatch.setattr(GridRows, "products", wrong)
    monkeypatch.setattr(GridRows, "products_by_column", lambda *arguments: wrong(*arguments).T)
    assert broken(_case(found_in), 12)[1]


def test_a_record_made_invalid_at_a_tie_moves_the_total_by_its_own_length() -> None:
    """What broke a guarantee: rows whose lengths lie at the end of a bin, the one before made invalid."""
    draw = np.random.default_rng(2)
    x = draw.normal(size=(40, 24))
    public = {"centre": np.zeros(24), "scale": np.ones(24), "top": np.array([2.0])}
    x *= (2.0 * 2 ** (-draw.integers(1, 9, size=40) / 4) / np.linalg.norm(x, axis=1))[:, np.newaxis]
    statistic = build("radius_histogram", rows(x, bound=2.5).facts(), public)
    before = statistic.total(rows(x, bound=2.5))
    for at in range(40):
        changed = x.copy()
        changed[at] = np.nan
        assert np.linalg.norm(before - statistic.total(rows(changed, bound=2.5))) == 1.0


def test_labels_and_rows_that_are_invalid_contribute_nothing_together() -> None:
    x, y = np.random.default_rng(3).normal(size=(20, 3)), np.array(["a", "b"] * 10, dtype=object)
    y[3], x[5, 1] = "c", np.nan
    kept = np.delete(np.arange(20), [3, 5])
    case = labelled(x, y, bound=1.0, classes=["a", "b"])
    statistic = build("second_moment", case.facts(), {})
    rest = labelled(x[kept], y[kept], bound=1.0, classes=["a", "b"])
    np.testing.assert_array_equal(statistic.total(case), statistic.total(rest))


def test_integers_do_not_depend_on_the_order_of_memory_of_the_source() -> None:
    x = np.random.default_rng(4).normal(size=(300, 24))
    case = _case("second_moment-wide")
    np.testing.assert_array_equal(integers(case, np.asfortranarray(x)), integers(case, x))
    assert clipped(np.asfortranarray(x) * 1e5, (24,), (1.0,))[0].ints.any()


@pytest.mark.parametrize("n_before", [0, 1, 2])
@pytest.mark.parametrize("kind", ["rows", "labelled", "ranges"])
def test_a_record_contributes_and_counts_or_does_neither(kind: str, n_before: int) -> None:
    """An array that its owner repairs in place: what counts is what is added, in one reading."""
    make = {
        "rows": lambda x: rows(x, bound=1.0),
        "labelled": lambda x: labelled(x, np.zeros(8), bound=1.0, response=(-1, 1)),
        "ranges": lambda x: rows(x, ranges=(-1, 1)),
    }[kind]
    totals = []
    for first, later in ((np.nan, -1.0), (1.0, 1.0)):
        x = np.zeros((8, 1))
        x[0] = first
        records = make(x)
        statistic = build("first_moments", records.facts(), {})
        for _ in range(n_before):
            released_total(statistic, records)
        x[0] = later
        totals.append(released_total(statistic, records))
    assert np.linalg.norm(totals[0] - totals[1]) <= statistic.sensitivity(8)


def test_a_huge_row_does_not_move_another_in_wide_views() -> None:
    """Two huge rows are clipped apart from the rest, and their squares add up to just above 2^53."""
    width, bounds = 65_000, (1e-6, 1.0)
    unit = 1 / (2.0**-200 * grid.steps_for(1 + width, bounds))
    long = np.zeros(width)
    long[:2] = 2.0**26 * unit
    long[8192 + np.arange(0, width - 8192, 8192) + 17] = unit
    ones = np.zeros(width)
    ones[:2] = 1.0
    records = [
        views(np.array([[first], [1.7e308]]), np.array([row, long]), bounds=bounds)
        for first, row in ((-1.7e308, -(2.0**20) * unit * ones), (1e-6, ones))
    ]
    seen = [next(iter(record.tiles()))[0].rows.ints[1] for record in records]
    np.testing.assert_array_equal(seen[0], seen[1])


def test_an_empty_part_has_the_scales_of_the_others() -> None:
    x = np.random.default_rng(0).normal(size=(9, 3))
    statistic = build("second_moment", rows(x, bound=1.0).facts(), {})
    facts = rows(x, bound=1.0).facts()
    nothing = [ExactSum(form) for form in (*statistic.terms(empty_tile(facts)), Cells(np.zeros(0, dtype=np.intp), 1))]
    part = kernel.exact_sums_of(statistic, rows(x, bound=1.0))
    both = kernel.joined([nothing, kernel.exact_sums_of(statistic, rows(x, bound=1.0))])
    assert [entry.integers() for entry in both] == [entry.integers() for entry in part]
    assert [entry.scale for entry in both] == [entry.scale for entry in part]
    with pytest.raises(ValueError, match="different scales"):
        part[0].join(ExactSum(Sum(GridRows(np.zeros((1, 3)), 2.0))))
