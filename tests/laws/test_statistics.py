"""What must hold for every statistic. A new one joins by a case in ``cases_<topic>.py``."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpcape import rows
from dpcape.core import contributions as forms
from dpcape.core import statistic as base
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import reach_on_grid
from dpcape.core.kernel import Summed, exact_sums_of
from dpcape.core.statistic import build
from dpcape.statistics.moments import centred_moments, first_moments, second_moment
from dpcape.statistics.packing import pack, packed_size, unpack

from .statistic_case import Case, all_cases

Vector = NDArray[np.float64]
CASES = all_cases()
each_case = pytest.mark.parametrize("case", CASES, ids=str)
numbers = st.floats(-3, 3, allow_subnormal=False)


def drawn_units(data: st.DataObject, case: Case, *, least: int = 2) -> Vector:
    n_units = data.draw(st.integers(least, 7))
    return data.draw(hnp.arrays(np.float64, (n_units, case.n_parameters), elements=numbers))


def error_of(case: Case, n_units: int) -> float:
    """What two totals of the same units may differ by: the statistic's own bound, twice."""
    return 2 * case.statistic().rounding(n_units)


def test_every_known_statistic_has_a_case() -> None:
    own = {name for name, kind in base._KNOWN.items() if base.is_own(kind)}
    missing = sorted(own - {case.name for case in CASES})
    assert not missing, f"add cases for {missing} to tests/laws/cases_<topic>.py"


@each_case
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_totals_add_over_any_split(case: Case, data: st.DataObject) -> None:
    units = drawn_units(data, case)
    cut = data.draw(st.integers(1, len(units) - 1))
    apart = case.total(units[:cut]) + case.total(units[cut:])
    assert np.linalg.norm(apart - case.total(units)) <= error_of(case, len(units))


@each_case
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_order_of_units_is_irrelevant(case: Case, data: st.DataObject) -> None:
    units = drawn_units(data, case)
    order = data.draw(st.permutations(range(len(units))))
    assert np.linalg.norm(case.total(units[order]) - case.total(units)) <= error_of(case, len(units))


@each_case
def test_shape_and_type_of_totals(case: Case) -> None:
    statistic = case.statistic()
    total = case.total(np.full((3, case.n_parameters), 0.4))
    assert total.shape == (statistic.size,)
    assert total.dtype == np.float64
    assert math.isfinite(statistic.radius)
    assert 0 < statistic.diameter <= 2 * statistic.radius * (1 + 1e-12)
    assert statistic.sensitivity(1000) > statistic.diameter


@each_case
def test_the_statistic_travels(case: Case) -> None:
    statistic = case.statistic()
    facts = case.records(np.zeros((1, case.n_parameters))).facts()
    again = build(statistic.name, facts, dict(statistic.public))
    assert (again.size, again.diameter, again.radius) == (statistic.size, statistic.diameter, statistic.radius)
    with pytest.raises(InvalidParameter, match="Public values"):
        build(statistic.name, facts, {**statistic.public, "no_such_value": 1.0})


@pytest.mark.parametrize("case", [case for case in CASES if case.expected], ids=str)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_mean_is_what_it_is_called(case: Case, data: st.DataObject) -> None:
    assert case.expected is not None
    units = drawn_units(data, case, least=1)
    natural = case.statistic().unpack(case.total(units) / len(units))
    parts = natural if isinstance(natural, tuple) else (natural,)
    flat = np.concatenate([np.ravel(part) for part in parts])
    # Rows are on a grid of 2^20 steps per bound.
    largest = max(case.statistic().radius, *case.statistic().facts.bounds)
    np.testing.assert_allclose(flat, case.expected(units), rtol=1e-5, atol=2.0**-17 * largest)


# Search for a violation of the diameter.


@cache
def contributions(case: Case) -> tuple[Vector, Vector]:
    """Return parameters of many different units, extreme ones among them, and their contributions."""
    generator = np.random.default_rng(20240607)
    eye = np.eye(case.n_parameters)
    directions = generator.normal(size=(40, case.n_parameters))
    mixed = np.sign(directions[:20])
    units = np.vstack(
        [
            np.zeros(case.n_parameters),
            *(scale * np.vstack([eye, -eye, mixed, directions]) for scale in (0.3, 1.0, 50.0)),
        ]
    )
    return units, np.array([case.total(unit) for unit in units])


def farthest(case: Case) -> float:
    """Return the largest distance between two contributions that random choice and climbing find."""
    units, values = contributions(case)
    gram = values @ values.T
    squares = np.diagonal(gram)
    distances = squares[:, None] + squares[None, :] - 2 * gram
    first, second = np.unravel_index(np.argmax(distances), distances.shape)
    start = np.concatenate([units[first], units[second]])

    def negative(both: Vector) -> float:
        one, other = both.reshape(2, -1)
        return -float(np.linalg.norm(case.total(one) - case.total(other)))

    climbed = minimize(negative, start, method="Nelder-Mead", options={"maxfev": 400, "xatol": 1e-7, "fatol": 1e-12})
    return max(-negative(start), -float(climbed.fun))


@each_case
def test_no_two_contributions_are_farther_apart_than_the_diameter(case: Case) -> None:
    statistic = case.statistic()
    distance = farthest(case)
    assert distance <= statistic.diameter + 2 * statistic.rounding(1)
    assert distance >= case.reaches * statistic.diameter


@each_case
def test_no_contribution_is_longer_than_the_radius(case: Case) -> None:
    statistic = case.statistic()
    _, values = contributions(case)
    assert np.linalg.norm(values, axis=1).max() <= statistic.radius + statistic.rounding(1)


@each_case
def test_counting_valid_records_costs_no_noise(case: Case) -> None:
    """A valid record (c, w) and an invalid one (0, 0) are no farther apart than two valid ones may be."""
    statistic = case.statistic()
    weight = Fraction(statistic.count_weight)
    if weight == 0:
        assert statistic.diameter <= statistic.radius
        return
    assert weight**2 + Fraction(statistic.radius) ** 2 <= Fraction(statistic.diameter) ** 2
    # The range of sums, in which a count has no part of its own, is computed from the radius.
    assert 0.5 * statistic.radius <= weight <= statistic.radius
    # Multiples are exact: counting adds no rounding to the sensitivity.
    for n_records in (3, 10**6 + 1, 2**32 - 1):
        assert Fraction(statistic.count_weight * n_records) == weight * n_records
    _, values = contributions(case)
    farthest_from_invalid = np.hypot(np.linalg.norm(values, axis=1).max(), float(weight))
    assert farthest_from_invalid <= statistic.sensitivity(1)


@each_case
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_replacing_a_unit_moves_the_total_by_at_most_the_sensitivity(case: Case, data: st.DataObject) -> None:
    units = drawn_units(data, case)
    other = units.copy()
    other[0] = data.draw(hnp.arrays(np.float64, case.n_parameters, elements=st.floats(-100, 100)))
    moved = np.linalg.norm(case.total(other) - case.total(units))
    assert moved <= case.statistic().sensitivity(len(units))


# Packing and rounding.


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning", "ignore:invalid value:RuntimeWarning")
def test_an_invalid_unit_contributes_nothing(case: Case) -> None:
    """The total is that of the other units, also where rows are kept between rounds and memory is reused."""
    units = np.random.default_rng(3).normal(size=(40, case.n_parameters))
    spoiled = units.copy()
    spoiled[7] = np.nan
    records = case.records(spoiled)
    if records.n_invalid == 0:
        pytest.skip("this kind of units cannot be invalid")
    assert records.n_invalid == 1
    used = [np.full((40, width), 1e5) for width in range(1, 30)]
    del used
    apart = case.statistic().total(records) - case.total(np.delete(units, 7, axis=0))
    assert np.linalg.norm(apart) <= 4 * error_of(case, 40)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning", "ignore:invalid value:RuntimeWarning")
def test_a_block_without_a_valid_unit_makes_no_difference(case: Case, capfd: pytest.CaptureFixture[str]) -> None:
    """A site must not fail, or complain, because the last record, in a block by itself, is invalid."""
    records = case.records(np.full((1, case.n_parameters), np.nan))
    if records.n_invalid == 0:
        pytest.skip("this kind of units cannot be invalid")
    capfd.readouterr()
    assert not case.statistic().total(records).any()
    assert "".join(capfd.readouterr()) == ""


@each_case
def test_the_rounding_of_both_totals_is_in_the_sensitivity(case: Case) -> None:
    statistic = case.statistic()
    for n_records in (1, 1000, 10**6):
        if isinstance(statistic, Summed):
            # Sums are exact; each coordinate is rounded to float64, and by the scale, a weight and the site's weight.
            converted = 2 * 4 * 2.0**-53 * n_records * statistic.radius
            assert statistic.sensitivity(n_records) >= max(statistic.diameter, statistic.radius) + converted
            continue
        # A sum in blocks rounds each term this often; the error is at most that times the lengths (Higham 2002, 4.2).
        depth = min(n_records, base.BLOCK_ROWS) + n_records // base.BLOCK_ROWS
        assert statistic.rounding(n_records) >= depth * 2.0**-53 * n_records * statistic.radius
        assert statistic.sensitivity(n_records) >= statistic.diameter + 2 * statistic.rounding(n_records)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(1, 7).flatmap(lambda n: hnp.arrays(np.float64, (n, n), elements=numbers)))
def test_packing_inverts_and_keeps_lengths(square: Vector) -> None:
    matrix = square + square.T
    packed = pack(matrix)
    assert packed.shape == (packed_size(len(matrix)),)
    np.testing.assert_allclose(unpack(packed, len(matrix)), matrix, rtol=1e-15, atol=0)
    assert np.linalg.norm(packed) == pytest.approx(np.linalg.norm(matrix), rel=1e-12, abs=1e-300)


@pytest.mark.parametrize("n_records", [1, 1023, 1025, 5000])
@pytest.mark.parametrize("name", ["first_moments", "second_moment"])
def test_converting_exact_sums_stays_below_its_bound(name: str, n_records: int) -> None:
    generator = np.random.default_rng(n_records)
    # All of one sign and near the bound: sums grow, and so do their roundings.
    records = rows(np.abs(generator.normal(size=(n_records, 2))) + 1 / 3, bound=1.7)
    statistic = build(name, records.facts(), {})
    sums = exact_sums_of(statistic, records)
    natural = [[whole * Fraction(entry.scale) for whole in entry.integers()] for entry in sums]
    total = [Fraction(entry) for entry in statistic.total(records).tolist()]
    if name == "first_moments":
        reach = Fraction(reach_on_grid(1.7, 2))
        exact = natural[0] + [square / (2 * reach) for square in natural[1]]
        errors = [float(one - other) for one, other in zip(total, exact, strict=True)]
    else:
        first, product, _, second = natural[0]
        errors = [float(total[0] - first), float(total[1]) - math.sqrt(2) * float(product), float(total[2] - second)]
    assert math.hypot(*errors) <= statistic.rounding(n_records)


def test_a_library_may_add_products_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the reference BLAS, which adds every row to the sum that it is given, gives the same bits."""
    n_records = 1 << 15
    records = rows(np.random.default_rng(0).uniform(0.3, 0.4, size=(n_records, 1)), bound=0.4)
    statistic = second_moment(records.facts())
    total = statistic.total(records)

    def added_one_by_one(
        alpha: float, a: Vector, *, beta: float, c: Vector, trans: int, overwrite_c: int, lower: int
    ) -> Vector:
        terms = np.concatenate([beta * c[0], a[0] ** 2])
        return np.add.accumulate(terms)[-1:, np.newaxis]

    monkeypatch.setattr(forms, "dsyrk", added_one_by_one)
    np.testing.assert_array_equal(statistic.total(records), total)


# Closed forms of the papers' corrections.


def _facts(width: int, bound: float) -> PublicFacts:
    return rows(np.zeros((1, width)), bound=bound).facts()


def test_known_diameters() -> None:
    on_grid = reach_on_grid(1.0, 3)
    assert 1 < on_grid < 1 + 2e-6
    assert second_moment(_facts(3, 2.0)).diameter == pytest.approx(math.sqrt(2) * 4 * on_grid**2)
    assert first_moments(_facts(3, 2.0)).diameter == pytest.approx(4.0 * on_grid)
    # (b^2 + 2)/sqrt(2), not sqrt(6), at b = 1.
    diameter = centred_moments(_facts(3, 1.0), mean_weight=1.0).diameter
    assert diameter == pytest.approx(2.1213203 * on_grid**2, rel=1e-7)


@pytest.mark.parametrize("weight", [0.0, -1.0, 1.5, math.nan, math.inf, "heavy", None])
def test_a_mean_weight_outside_the_proof_is_refused(weight: object) -> None:
    with pytest.raises(InvalidParameter):
        build("centred_moments", _facts(2, 1.0), {"mean_weight": weight})


def test_units_and_kinds_are_refused_where_the_proof_does_not_hold() -> None:
    from dpcape import documents, subjects

    people = subjects([np.zeros((3, 2)), np.zeros((4, 2))], bound=1.0, unit="subject", rows_per_subject=4, n_features=2)
    with pytest.raises(InvalidParameter, match="unit"):
        second_moment(people.facts())
    with pytest.raises(InvalidParameter, match="kind"):
        second_moment(documents(np.ones((2, 3), dtype=int)).facts())
    with pytest.raises(InvalidParameter, match="one of"):
        build("no_such_statistic", _facts(2, 1.0), {})
