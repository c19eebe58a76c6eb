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
from dpcape.core.grid import PublicColumns, into_balls
from dpcape.records.clip import clip_rows
from dpcape.statistics import scaling
from dpcape.statistics.mixture_steps import responsibilities
from dpcape.statistics.scaling import bin_ends, bins_of

from .kernel_law import broken, compositions, is_summed, spoiled, ties
from .statistic_case import Case, all_cases
from .wide import WIDE

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


def differing(case: Case, n_tries: int) -> tuple[int, list[str]]:
    """Return the number of jumps that were found in a statistic that adds by itself, and how totals differ."""
    at_jumps = ties(case, n_tries)
    units = np.vstack([at_jumps, np.random.default_rng(5).normal(scale=0.4, size=(9, case.n_parameters))])
    alone = np.array([case.total(unit) for unit in units])
    left_out = case.total(spoiled(case, units[:1], 0))
    statistic, found = case.statistic(), []
    for what, block, kept in compositions(case, units):
        expected = alone[kept].sum(axis=0) + (len(block) - len(kept)) * left_out
        apart = np.linalg.norm(case.total(block) - expected)
        if not apart <= 2 * statistic.rounding(len(block)):
            found.append(f"{what} of {len(block)}: {apart / statistic.diameter:.3g} diameters")
    return len(at_jumps) // 2, found


@pytest.mark.parametrize("case", WIDE, ids=str)
def test_a_total_is_the_sum_of_what_records_are_alone_also_at_jumps(case: Case) -> None:
    n_jumps, found = (broken if is_summed(case) else differing)(case, 12)
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


@pytest.mark.parametrize(
    ("module", "name", "wrong", "found_in"),
    [
        (scaling, "bins_of", _summed_over_an_axis, "radius_histogram-wide"),
        (scaling, "bins_of", _summed_over_an_axis, "complete_radius_histogram-wide"),
    ],
)
def test_the_law_has_teeth(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, wrong: object, found_in: str
) -> None:
    monkeypatch.setattr(module, name, wrong)
    case = next(case for case in WIDE if str(case) == found_in)
    _, found = (broken if is_summed(case) else differing)(case, 12)
    assert found


# The steps before a jump, bit by bit.


def _clipped_as_records(rows: Vector) -> Vector:
    factors = np.empty(len(rows))
    clip_rows(rows, bound=1.7, out=rows, factors=factors)
    return np.column_stack([factors, rows])


def _on_the_grid(rows: Vector) -> Vector:
    moved, factors, _ = into_balls(rows, rows.shape[1:], (1.7,))
    return np.column_stack([factors, moved.ints])


def _near(rows: Vector) -> Vector:
    centres = PublicColumns(np.random.default_rng(1).normal(size=(rows.shape[1], 5)))
    moved = into_balls(rows, rows.shape[1:], (1.7,))[0]
    return np.column_stack([moved.nearest(centres), responsibilities(moved.products(centres), np.ones(5), 0.1)])


STEPS: dict[str, Callable[[Vector], Vector]] = {
    "records": _clipped_as_records,
    "records, huge rows": lambda rows: _clipped_as_records(rows * 1e154),
    "ball": _on_the_grid,
    "ball, huge rows": lambda rows: _on_the_grid(rows * 1e200),
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
