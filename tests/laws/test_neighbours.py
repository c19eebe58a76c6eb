"""What a record contributes depends on that record alone: alone, in a pair, in blocks of any size, beside invalid ones.

Sums round, and their rounding is counted (``extent``). Where a contribution *jumps* with a record (its bin, its nearest
centre, a unit of a network that is on or off, a row that is lost), a rounding that depends on other records moves it by
as much as replacing the record would, and a record that becomes invalid then moves a total by more than the diameter.
A jump is found by bisection, down to two neighbouring numbers; only there, a different last bit makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, pdtr

from dpcape.core import statistic as base
from dpcape.records.clip import clip_rows
from dpcape.statistics import clusters, gradients, scaling
from dpcape.statistics.clusters import nearest
from dpcape.statistics.mixture_steps import responsibilities
from dpcape.statistics.reduced import rows_into_ball
from dpcape.statistics.row_products import row_products
from dpcape.statistics.scaling import bin_ends, bins_of
from dpcape.statistics.unit_ball import clip_to_ball

from .statistic_case import Case, all_cases
from .wide import MISSING, WIDE

Vector = NDArray[np.float64]

pytestmark = pytest.mark.filterwarnings(
    "ignore::dpcape.core.errors.UtilityWarning", "ignore:invalid value:RuntimeWarning"
)

# Whole people are computed one at a time, and so is code of other packages; blocks of the latter are its own matter.
APART = {"record_by_record", "sampled", "module_gradient"}


def test_every_statistic_that_reads_blocks_has_a_wide_case() -> None:
    own = {name for name, kind in base._KNOWN.items() if base.is_own(kind) and kind.units != {"subject"}}
    assert own - {case.name for case in WIDE} - APART == set()


# Jumps of whole statistics.


def jumps(case: Case, n_tries: int) -> Vector:
    """Return units on both sides of jumps, as near to each other as numbers are; none where nothing jumps."""
    draw = np.random.default_rng(7)
    found: list[Vector] = []
    least = 1e-3 * case.statistic().diameter
    for at in range(n_tries):
        start, end = draw.normal(scale=(0.1, 0.4, 1.5)[at % 3], size=(2, case.n_parameters))

        def unit(part: float, start: Vector = start, end: Vector = end) -> Vector:
            return start + part * (end - start)

        parts = list(np.linspace(0, 1, 9))
        totals = [case.total(unit(part)) for part in parts]
        moves = np.linalg.norm(np.diff(totals, axis=0), axis=1)
        farthest = int(np.argmax(moves))
        (low, high), (left, right) = parts[farthest : farthest + 2], totals[farthest : farthest + 2]
        while np.linalg.norm(right - left) > least:
            middle = (low + high) / 2
            if not low < middle < high:
                found += [unit(low), unit(high)]
                break
            total = case.total(unit(middle))
            if np.linalg.norm(total - left) > np.linalg.norm(right - total):
                high, right = middle, total
            else:
                low, left = middle, total
    return np.array(found).reshape(-1, case.n_parameters)


def spoiled(case: Case, units: Vector, places: slice | int) -> Vector:
    """Return units of which some contribute nothing."""
    left_out = units.copy()
    left_out[places] = MISSING if case.statistic().facts.kind == "table" else np.nan
    return left_out


def compositions(case: Case, units: Vector) -> list[tuple[Vector, Vector]]:
    """Return blocks, and the positions among ``units`` of those in them that are not left out."""
    n_units, block = len(units), 4096 if case.statistic().facts.kind == "table" else base.BLOCK_ROWS
    every = np.arange(n_units)
    made = [(units[[at, at - 1]], np.array([at, at - 1])) for at in range(0, n_units, 3)]
    made += [(units[:size], every[:size]) for size in (3, 8, 9, n_units)]
    made.append((units[::-1], every[::-1]))
    made += [(spoiled(case, units, slice(first, None, 2)), every[1 - first :: 2]) for first in (0, 1)]
    # Each unit alone beside an invalid one, and alone in the last block.
    made += [(spoiled(case, units[[at, at - 1]], 1), np.array([at])) for at in range(1, n_units, 3)]
    full = np.resize(every, block + 2)
    made.append((units[full], full))
    made.append((spoiled(case, units[full], block), np.delete(full, block)))
    return made


def broken(case: Case, n_tries: int) -> tuple[int, list[str]]:
    """Return the number of jumps that were found, and how totals differ from the sums of what units are alone."""
    at_jumps = jumps(case, n_tries)
    others = np.random.default_rng(5).normal(scale=0.4, size=(9, case.n_parameters))
    units = np.vstack([at_jumps, others])
    alone = np.array([case.total(unit) for unit in units])
    # Where missing values are counted, what is left out contributes too.
    left_out = case.total(spoiled(case, units[:1], 0))
    statistic, found = case.statistic(), []
    for block, kept in compositions(case, units):
        expected = alone[kept].sum(axis=0) + (len(block) - len(kept)) * left_out
        apart = np.linalg.norm(case.total(block) - expected)
        if not apart <= 2 * statistic.rounding(len(block)):
            found.append(f"{len(block)} records, {len(kept)} of them kept: {apart / statistic.diameter:.3g} diameters")
    return len(at_jumps) // 2, found


@pytest.mark.parametrize("case", WIDE, ids=str)
def test_a_total_is_the_sum_of_what_records_are_alone_also_at_jumps(case: Case) -> None:
    n_jumps, found = broken(case, 12)
    assert not found
    # A search without jumps proves nothing about these.
    assert n_jumps >= 4 or not case.name.endswith(("radius_histogram", "cluster_sums", "network_gradient"))


@pytest.mark.parametrize("case", [case for case in all_cases() if case.name not in APART], ids=str)
def test_the_same_holds_in_pairs_at_few_columns(case: Case) -> None:
    units = np.random.default_rng(5).normal(size=(9, case.n_parameters))
    alone = [case.total(unit) for unit in units]
    rounding = 2 * case.statistic().rounding(2)
    for at in range(9):
        assert np.linalg.norm(case.total(units[[at, at - 1]]) - alone[at] - alone[at - 1]) <= rounding


def _summed_over_an_axis(rows: Vector, top: float) -> NDArray[np.int64]:
    by_columns = rows.T.copy(order="C")
    lengths = np.sqrt((by_columns * by_columns).sum(axis=0))
    return np.count_nonzero(~(lengths[:, np.newaxis] <= bin_ends(top)[:-1]), axis=1)


def _by_plain_product(rows: Vector, matrix: Vector, out: Vector | None = None) -> Vector:
    return np.matmul(rows, matrix, out=out)


def _shifted_by_the_block(rows: Vector, centres: Vector) -> NDArray[np.int64]:
    return nearest(rows * (1 + 2e-16 * (len(rows) > 1)), centres)


@pytest.mark.parametrize(
    ("module", "name", "wrong", "found_in"),
    [
        (scaling, "bins_of", _summed_over_an_axis, "radius_histogram-wide"),
        (scaling, "bins_of", _summed_over_an_axis, "complete_radius_histogram-wide"),
        (clusters, "row_products", _by_plain_product, "cluster_sums-wide"),
        (clusters, "nearest", _shifted_by_the_block, "scaled_cluster_sums-views"),
        (gradients, "row_products", _by_plain_product, "network_gradient-wide"),
    ],
)
def test_the_law_has_teeth(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, wrong: object, found_in: str
) -> None:
    monkeypatch.setattr(module, name, wrong)
    _, found = broken(next(case for case in WIDE if str(case) == found_in), 12)
    assert found


# The steps before a jump, bit by bit.


def _at_a_length(rows: Vector, length: float) -> Vector:
    clip_to_ball(rows, length)
    return rows


def _with_factors(rows: Vector) -> Vector:
    return np.column_stack([clip_to_ball(rows), rows])


def _clipped_as_records(rows: Vector) -> Vector:
    factors = np.empty(len(rows))
    clip_rows(rows, bound=1.7, out=rows, factors=factors)
    return np.column_stack([factors, rows])


def _near(rows: Vector) -> Vector:
    centres = np.random.default_rng(1).normal(size=(5, rows.shape[1]))
    return np.column_stack([nearest(rows, centres), responsibilities(row_products(rows, centres.T), np.ones(5), 0.1)])


STEPS: dict[str, Callable[[Vector], Vector]] = {
    "unit ball": _with_factors,
    "unit ball, huge rows": lambda rows: _with_factors(rows * 1e154),
    "ball": lambda rows: _at_a_length(rows, 0.7),
    "records": _clipped_as_records,
    "records, huge rows": lambda rows: _clipped_as_records(rows * 1e154),
    "nearest centre": _near,
    "bins": lambda rows: bins_of(rows, 3.0),
    "exp": np.exp,
    "log": lambda rows: np.log(np.abs(rows)),
    "root": lambda rows: np.sqrt(np.abs(rows)),
    "power": lambda rows: np.abs(rows) ** (1 / 3),
    "tanh": np.tanh,
    # Of whole arrays, as features take it: NumPy rounds the angles of a part of an array differently.
    "angle": lambda rows: np.mod(np.arctan2(rows.copy(), rows[:, ::-1].copy()), np.pi),
    "hypot": lambda rows: np.hypot(rows, rows[:, ::-1]),
    "expit": expit,
    "Poisson": lambda rows: pdtr(np.floor(np.abs(3 * rows)), np.abs(rows)),
}
"""What is computed from rows of public places before something is decided by it."""


def arrangements(rows: Vector) -> Iterator[tuple[Vector, NDArray[np.intp]]]:
    """Yield copies of some rows, in several places in memory, and which they are."""
    every = np.arange(len(rows))
    chosen = [every[at : at + 1] for at in (0, 1, 7, 32)] + [every[:size] for size in (2, 3, 5, 8, 9, 33)]
    for some in (*chosen, every[::2], every[1::2], every[1:], every[::-1]):
        yield rows[some], some
        wider = np.zeros((len(some), rows.shape[1] + 3))
        wider[:, 2:-1] = rows[some]
        yield wider[:, 2:-1], some


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 9, 16, 24, 33, 100, 129, 700])
def test_a_row_becomes_the_same_bits_wherever_it_stands(step: str, width: int) -> None:
    rows = np.random.default_rng(width).normal(size=(33, width)) * np.geomspace(0.05, 3, 33)[:, np.newaxis]
    together = STEPS[step](rows.copy())
    for some, which in arrangements(rows):
        np.testing.assert_array_equal(STEPS[step](some), together[which])


def test_a_row_at_the_end_of_a_bin_is_in_the_same_bin_beside_others() -> None:
    """Rows of a length as near to the end of a bin as numbers are; a sum over an axis puts one in five elsewhere."""
    draw, top = np.random.default_rng(9), 3.0
    for width in (8, 9, 24, 100, 129):
        rows = draw.normal(size=(200, width))
        ends = bin_ends(top)[draw.integers(0, 31, size=200)]
        rows *= (ends / np.sqrt(np.einsum("ij,ij->i", rows, rows)))[:, np.newaxis]
        together = bins_of(rows, top)
        np.testing.assert_array_equal([bins_of(row[np.newaxis], top)[0] for row in rows], together)
        np.testing.assert_array_equal(bins_of(np.asfortranarray(rows), top), together)
        np.testing.assert_array_equal(bins_of(rows[::2], top), together[::2])


def test_bins_are_those_of_exact_arithmetic_away_from_their_ends() -> None:
    lengths = np.array([0.0, 1e-300, 0.1, 0.999, 1.0, 1.001, 2.0, 1e300, np.inf, np.nan])
    steps = [0, 0, 31 - 13, 31, 31, 31, 31, 31, 31, 31]
    np.testing.assert_array_equal(bins_of(lengths[:, np.newaxis], 1.0), steps)


def test_a_row_whose_squares_overflow_is_shortened_and_one_that_is_not_finite_is_lost() -> None:
    rows = np.array([[3e200, 4e200], [np.inf, 0.0], [np.nan, 1.0], [0.3, 0.4], [1e308, 1e308]])
    factors = clip_to_ball(rows)
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0, 0], [0, 0], [0.3, 0.4], [0.5**0.5, 0.5**0.5]], rtol=1e-14)
    np.testing.assert_allclose(factors, [2e-201, 0, 0, 1, 0.5**0.5 * 1e-308], rtol=1e-14)
    assert (np.linalg.norm(rows, axis=1) <= 1).all()
    # A ball larger than that: the row stays as it is.
    long = np.array([[3e200, 4e200]])
    rows_into_ball(long, 1e300)
    np.testing.assert_allclose(long, [[3e200, 4e200]], rtol=1e-14)
