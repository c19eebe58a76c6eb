"""Forms and functions of the kernel that statistics of tables use: exact, and of each record alone."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcape.core.contributions import Between, Cells, ExactSum, Form, Grouped, GroupedSquares, Outer
from dpcape.core.grid import on_grid
from dpcape.core.kernel import Summed, exact_sums_of
from dpcape.statistics.exponentials import exponentials

from .statistic_case import Case
from .wide import WIDE

NAMES = {
    "grouped_counts",
    "event_counts",
    "followed_columns",
    "design_moments",
    "residual_products",
    "hazard_scores",
    "site_moments",
}


def _sum_of(*forms: Form, n_records: int) -> ExactSum:
    total = ExactSum(forms[0])
    for form in forms:
        total.add(form, n_records)
    return total


def _divided(places: np.ndarray, groups: np.ndarray, n_groups: int, n_places: int) -> list[int]:
    """Return the counts record by record, in steps of 2^-20, those of the group of dropped records included."""
    found = [[[0] * n_places for _ in range(n_groups + 1)] for _ in places]
    for column, counts in zip(places, found, strict=True):
        for place, group in zip(column.tolist(), groups.tolist(), strict=True):
            if 0 <= group < n_groups and 0 <= place <= n_places - 1:
                steps = round(Fraction(place) * 2**20)
                counts[group][steps >> 20] += 2**20 - steps % 2**20
                if steps % 2**20:
                    counts[group][(steps >> 20) + 1] += steps % 2**20
    return np.array(found).ravel().tolist()


def test_records_between_two_cells_are_counted_exactly() -> None:
    draw = np.random.default_rng(5)
    n_records, n_rounds = 1 << 13, 5
    places = draw.uniform(0, 9, (2, n_records))
    # Knots, the greatest shares, and what is no place.
    places[:, :8] = [0.0, 9.0, 4.0, 5 - 2.0**-20, 5 - 2.0**-22, 8.999999999, 2.0**-21, 3 * 2.0**-21]
    places[0, 8:14] = [np.nan, np.inf, -np.inf, -1e-5, 9.00001, 1e300]
    places[1, 20:] = 9 - 2.0**-20
    groups = draw.integers(-1, 4, n_records)
    forms = [Between(Cells(groups, 3), places.copy(), 10) for _ in range(n_rounds)]
    expected = _divided(places, groups, 3, 10)
    assert _sum_of(*forms, n_records=n_records).integers() == [n_rounds * count for count in expected]


def test_dropped_records_are_not_counted_between_cells() -> None:
    form = Between(Cells(np.zeros(4, dtype=np.intp), 1), np.array([[0.5, 1.5, 1.0, 0.25]]), 3)
    form.drop(np.array([False, True, False, True]))
    total = _sum_of(form, n_records=4)
    np.testing.assert_array_equal(total.values().reshape(2, 3), [[0.5, 1.5, 0.0], [0.0, 0.0, 0.0]])
    assert not ExactSum(form).values().any()


@pytest.mark.parametrize("n_cells", [3, 40])
def test_sums_by_cell_are_exact_in_any_order_of_memory(n_cells: int) -> None:
    draw = np.random.default_rng(n_cells)
    values, cells = draw.uniform(-0.3, 0.3, (64, 7)), draw.integers(-2, n_cells + 2, 64)
    rows = [on_grid(np.asarray(values, order=order), 1.0) for order in ("C", "F")]
    ints = rows[0].ints.astype(int)
    for kind, entries in ((Grouped, ints), (GroupedSquares, ints**2)):
        expected = [entries[cells == cell].sum(axis=0) for cell in range(n_cells)]
        for either in rows:
            found = _sum_of(kind(Cells(cells, n_cells), either), n_records=64).integers()
            assert found == np.ravel(expected, order="F").tolist()
    lower = [_sum_of(Outer(either), n_records=64).integers() for either in rows]
    assert lower[0] == lower[1] == np.triu(ints.T @ ints).ravel().tolist()


def test_exponentials_are_right_and_the_same_in_any_place() -> None:
    exponents = np.random.default_rng(3).uniform(-50, 50, 257)
    found = exponentials(exponents)
    np.testing.assert_allclose(found, [math.exp(entry) for entry in exponents], rtol=1e-15)
    assert [exponentials(exponents[at : at + 1])[0] for at in range(257)] == found.tolist()


@pytest.mark.parametrize("case", [case for case in WIDE if case.name in NAMES], ids=str)
def test_integers_of_tables_add_up_from_records_alone(case: Case) -> None:
    draw = np.random.default_rng(11)
    units = draw.normal(scale=0.3, size=(40, case.n_parameters)) * draw.choice([0.5, 2, 8], (40, 1))
    # Missing, ends of ranges, zeros.
    units[3, 0], units[5], units[6], units[7], units[8, -1] = 30.0, 1.0, -1.0, 0.0, 30.0
    statistic = case.statistic()
    assert isinstance(statistic, Summed)

    def integers(some: np.ndarray) -> list[list[int]]:
        return [total.integers() for total in exact_sums_of(statistic, case.records(some))]

    alone = [integers(units[at : at + 1]) for at in range(40)]
    added = [[sum(entries) for entries in zip(*parts, strict=True)] for parts in zip(*alone, strict=True)]
    assert integers(units) == added
    assert integers(np.vstack([units[20:], units[:20]])) == added
