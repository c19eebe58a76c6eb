"""Sums of products in single precision: rows stay within their bound, and the sensitivity counts the rounding."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import CCA, PCA, Cape, Exact, Federation, Independent, Replay, in_process, labelled, rows, subjects, views
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import SINGLE_BLOCKS, SINGLE_ROWS
from dpcape.core.statistic import build, extent_of
from dpcape.guarantee.guarantee import IN_SINGLE, SAME_ORDER
from dpcape.statistics.moments import second_moment

Vector = NDArray[np.float64]
GAMMA = (SINGLE_ROWS + 8) * 2.0**-24 / (1 - (SINGLE_ROWS + 8) * 2.0**-24)
STATISTICS: list[tuple[str, dict[str, Any]]] = [("second_moment", {}), ("centred_moments", {"mean_weight": 0.5})]


def single(X: Vector, bound: float = 1.0) -> Any:
    return rows(X.astype(np.float32), bound=bound)


def total(name: str, public: dict[str, Any], records: Any) -> Vector:
    result: Vector = build(name, records.facts(), public).total(records)
    return result


def exact_total(name: str, public: dict[str, Any], records: Any) -> Vector:
    """Return the total in double precision of the very rows that are summed in single precision."""
    held = np.vstack([block.astype(np.float64) for block in records.single_blocks(SINGLE_ROWS)])
    bound = records.facts().bounds[0]
    return (
        total(name, public, rows(held, bound=bound * 1.01, precision="double"))
        if not public
        else _joint(held, bound, public["mean_weight"])
    )


def _joint(held: Vector, bound: float, weight: float) -> Vector:
    moment = total("second_moment", {}, rows(held, bound=bound * 1.01, precision="double"))
    return np.concatenate([weight * bound * held.sum(axis=0), moment])


# Rows stay within the bound.


def _hard_rows(width: int, bound: float) -> NDArray[np.float32]:
    """Rows whose lengths are next to the bound, on either side, and far beyond it."""
    rng = np.random.default_rng(width)
    directions = np.vstack([rng.normal(size=(60, width)), np.eye(width)[:20], np.ones((1, width))])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    near = [1 + step * 2.0**-24 for step in (-9, -3, -2, -1, 0, 1, 2, 3, 9)]
    at = [1 - (width + 16) * 2.0**-23, 1 - width * 2.0**-24]
    scaled = np.vstack([directions * bound * factor for factor in (*near, *at, 3.0, 1e15)]).astype(np.float32)
    tiny = np.full((3, width), 1e-44, dtype=np.float32)
    mixed = np.where(np.arange(width) % 2, np.float32(bound), np.float32(1e-30))[np.newaxis].astype(np.float32)
    return np.vstack([scaled, np.nextafter(scaled, np.float32(np.inf)), tiny, mixed])


def _longest(block: NDArray[np.float32]) -> Fraction:
    """Return the largest squared length: squares of single precision are exact in double precision."""
    return max(Fraction(math.fsum(row)) for row in block.astype(np.float64) ** 2)


@pytest.mark.parametrize("width", [1, 3, 100])
@pytest.mark.parametrize("bound", [1.0, 1.3, 2.0**-20, 2.0**20, 7e-3])
def test_no_row_is_longer_than_its_bound(width: int, bound: float) -> None:
    hard = _hard_rows(width, bound)
    for records in (
        rows(hard, bound=bound),
        rows(hard.astype(np.float64) * (1 + 1e-9), bound=bound, precision="single"),
    ):
        assert records.facts().is_single
        for block in records.single_blocks(SINGLE_ROWS):
            assert block.dtype == np.float32
            assert _longest(block) <= Fraction(bound) ** 2


def test_short_rows_are_left_as_they_are_and_long_ones_are_shortened_little() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 30)).astype(np.float32)
    held = np.vstack([block.copy() for block in rows(X, bound=5.5).single_blocks(SINGLE_ROWS)])
    wide = np.vstack([block.copy() for block in rows(X, bound=5.5).feature_blocks(SINGLE_ROWS)])
    lengths = np.linalg.norm(X.astype(np.float64), axis=1)
    assert 0.2 < np.mean(lengths > 5.5) < 0.8
    np.testing.assert_array_equal(held[lengths < 5.4999], X[lengths < 5.4999])
    np.testing.assert_allclose(held, wide, rtol=3e-7)


@pytest.mark.parametrize("scaling", [(0.0, 1.0, 1.3), (0.7, 1e-3, 2.0), (1e300, 1e-300, 1e-300), (0.3, 1e-30, 1e-8)])
def test_standardised_rows_are_within_the_unit_ball_for_any_public_arrays(scaling: tuple[float, ...]) -> None:
    from dpcape.statistics.scaling import Standardised

    centre, scale, radius = scaling
    hard = _hard_rows(6, 1.3)
    records = views(hard[:, :4], hard[:, 4:], bounds=(1.3, 1.3))
    seen = Standardised(records, (4, 2), np.full(6, centre), np.full(6, scale), np.full(2, radius))
    for block in seen.single_blocks(SINGLE_ROWS):
        assert np.isfinite(block).all()
        assert _longest(block[:, :4]) <= 1
        assert _longest(block[:, 4:]) <= 1


# What one record can change.


def _same_direction(rng: np.random.Generator, width: int) -> Vector:
    """A block that makes roundings large: sums grow, every product is inexact, and all terms have one sign."""
    one = np.abs(rng.normal(size=width)) + 1 / 3
    return np.tile(one / np.linalg.norm(one), (SINGLE_ROWS, 1)) * (1 - 1e-4 * rng.random((SINGLE_ROWS, 1)))


def _blocks(rng: np.random.Generator, width: int) -> list[Vector]:
    """Blocks for the search: growing sums, cancelling sums, sorted lengths in both orders, and random ones."""
    growing = _same_direction(rng, width)
    signs = np.where(np.arange(SINGLE_ROWS) % 2, 1.0, -1.0)[:, np.newaxis]
    cancelling = growing.copy()
    cancelling[:, 0] *= signs[:, 0]
    ramp = growing * np.linspace(1e-3, 1, SINGLE_ROWS)[:, np.newaxis]
    random = rng.normal(size=growing.shape)
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    return [growing, cancelling, ramp, ramp[::-1], random, np.vstack([growing[:128], random[128:]])]


@pytest.mark.parametrize(("name", "public"), STATISTICS)
def test_no_replaced_record_changes_the_rounding_of_a_block_by_more_than_is_counted(
    name: str, public: dict[str, Any]
) -> None:
    rng = np.random.default_rng(5)
    largest, counted = 0.0, 0.0
    for width in (1, 2, 5, 40):
        for block in _blocks(rng, width):
            records = single(block)
            statistic = build(name, records.facts(), public)
            counted = 2 * GAMMA * SINGLE_ROWS * statistic.radius
            before = total(name, public, records) - exact_total(name, public, records)
            others = [np.zeros(width), -block[0], np.eye(width)[-1], rng.normal(size=width) * 9]
            for place in (0, 1, 100, SINGLE_ROWS - 1):
                for other in others:
                    changed = block.copy()
                    changed[place] = other
                    neighbour = single(changed)
                    after = total(name, public, neighbour) - exact_total(name, public, neighbour)
                    largest = max(largest, float(np.linalg.norm(after - before)) / counted)
                    moved = np.linalg.norm(total(name, public, neighbour) - total(name, public, records))
                    assert moved <= statistic.sensitivity(SINGLE_ROWS)
    # The bound is for the worst order of additions; the search must at least be able to see roundings.
    assert 1e-4 < largest <= 1


def test_the_search_reaches_a_good_part_of_what_is_counted() -> None:
    """A sum that hovers just above a power of two, and just below it if one record is replaced.

    Each of 126 further additions then rounds the same way by up to half a unit of 2^-17 in one of the sums only: 0.08
    of what is counted, with the order of additions of most libraries. The bound is for any order.
    """
    rng = np.random.default_rng(0)
    hovering = np.arange(SINGLE_ROWS) >= 130
    odd = (np.arange(SINGLE_ROWS) % 2).astype(bool)
    ratios = []
    for _ in range(60):
        first, second = 1 - 1e-4 * rng.random(2)
        block = np.full((SINGLE_ROWS, 2), math.sqrt(0.4999))
        block[hovering, 1] *= np.where(odd, second, -first)[hovering]
        changed = block.copy()
        changed[0, 1] *= -1
        errors = [
            total("second_moment", {}, single(each)) - exact_total("second_moment", {}, single(each))
            for each in (block, changed)
        ]
        counted = 2 * GAMMA * SINGLE_ROWS
        ratios.append(float(np.linalg.norm(errors[0] - errors[1])) / counted)
    assert 0.02 < max(ratios) <= 1


@pytest.mark.parametrize(("name", "public"), STATISTICS)
@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_a_replaced_record_changes_its_own_block_only(name: str, public: dict[str, Any]) -> None:
    """Whatever the record becomes: the sums of the other blocks are the same, to the last bit."""
    rng = np.random.default_rng(6)
    n_records, width = 5 * SINGLE_ROWS + 17, 7
    X = np.abs(rng.normal(size=(n_records, width))).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True) * np.where(rng.random((n_records, 1)) < 0.3, 0.5, 1.1)

    def sums(X: NDArray[np.float32]) -> list[Vector]:
        held = rows(X, bound=1.0)
        return [block.T @ block for block in held.single_blocks(SINGLE_ROWS)]

    before = sums(X)
    for place in (0, SINGLE_ROWS - 1, SINGLE_ROWS, 3 * SINGLE_ROWS + 5, n_records - 1):
        for other in (np.zeros(width), np.full(width, 100.0), np.full(width, np.nan), np.full(width, np.inf)):
            changed = X.copy()
            changed[place] = other
            after = sums(changed)
            own = place // SINGLE_ROWS
            for number, (first, second) in enumerate(zip(before, after, strict=True)):
                if number != own:
                    np.testing.assert_array_equal(first, second)
            moved = np.linalg.norm(
                total(name, public, rows(X, bound=1.0)) - total(name, public, rows(changed, bound=1.0))
            )
            assert moved <= build(name, rows(X, bound=1.0).facts(), public).sensitivity(n_records)


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_a_block_keeps_its_place_whatever_its_records_are() -> None:
    """Sums of three blocks are added in single precision: a block that becomes empty must not move another's group."""
    X = np.full((7 * SINGLE_ROWS + 3, 3), 0.5, dtype=np.float32)
    X[SINGLE_ROWS : 2 * SINGLE_ROWS] = np.nan
    X[-3:] = np.inf
    lengths = [len(block) for block in rows(X, bound=1.0).single_blocks(SINGLE_ROWS)]
    assert lengths == [SINGLE_ROWS, 0, *[SINGLE_ROWS] * 5, 0]
    expected = 6 * SINGLE_ROWS * 0.25
    moment = second_moment(rows(X, bound=1.0).facts())
    np.testing.assert_allclose(moment.unpack(moment.total(rows(X, bound=1.0))), np.full((3, 3), expected))


@pytest.mark.parametrize("place", range(SINGLE_BLOCKS))
def test_no_replaced_record_changes_the_rounding_of_a_group_by_more_than_is_counted(place: int) -> None:
    """Three blocks whose sums are as large as they can be, so that adding them rounds most; one record is replaced."""
    rng = np.random.default_rng(place)
    largest = 0.0
    for _ in range(40):
        X = np.vstack([_same_direction(rng, 3) for _ in range(SINGLE_BLOCKS)]).astype(np.float32)
        changed = X.copy()
        changed[place * SINGLE_ROWS + rng.integers(SINGLE_ROWS)] = rng.choice([0.0, 0.57, -0.57], size=3)
        first, second = (rows(each, bound=1.0) for each in (X, changed))
        exact = exact_total("second_moment", {}, first) - exact_total("second_moment", {}, second)
        moved = total("second_moment", {}, first) - total("second_moment", {}, second)
        largest = max(largest, float(np.linalg.norm(moved - exact)))
    assert 0 < largest <= 2 * GAMMA * SINGLE_ROWS


def test_roundings_of_a_group_fit_into_those_counted_for_a_block() -> None:
    """gamma(b + 2) b r of a block, and u times the sums of two and of three blocks, in exact arithmetic."""
    u = Fraction(1, 2**24)

    def gamma(k: int) -> Fraction:
        return k * u / (1 - k * u)

    sums = sum(range(2, SINGLE_BLOCKS + 1)) * u * (1 + gamma(SINGLE_ROWS + 2)) * (1 + u) ** (SINGLE_BLOCKS - 2)
    spare = gamma(SINGLE_ROWS + 8) - gamma(SINGLE_ROWS + 2) - sums
    # What underflows: at most 2^-126 for each of b products in each of D^2 entries, relative to b r.
    assert spare > Fraction(2**16, 2**126) * 2**40


@pytest.mark.parametrize("n_records", [1, 255, 256, 257, 3000])
@pytest.mark.parametrize(("name", "public"), STATISTICS)
def test_the_error_of_a_total_is_within_its_bound(name: str, public: dict[str, Any], n_records: int) -> None:
    rng = np.random.default_rng(n_records)
    records = single(np.abs(rng.normal(size=(n_records, 4))) + 1 / 3, bound=1.7)
    statistic = build(name, records.facts(), public)
    error = np.linalg.norm(total(name, public, records) - exact_total(name, public, records))
    assert error <= statistic.rounding(n_records)
    assert n_records < 256 or error > 100 * build(name, records.facts().in_double(), public).rounding(n_records) / 1e6


@pytest.mark.parametrize("name", ["second_moment", "centred_moments", "scaled_second_moment", "scaled_centred_moments"])
def test_the_rounding_of_one_block_is_in_the_sensitivity(name: str) -> None:
    numbers = {"n_features": 50, "bound": 2.0}
    wide, narrow = (extent_of(name, **numbers, single=single) for single in (False, True))
    assert (wide.size, wide.diameter, wide.radius) == (narrow.size, narrow.diameter, narrow.radius)
    for n_records in (1, 100, 256, 10**4, 10**7):
        n_changed = min(n_records, SINGLE_ROWS)
        # Higham's bound for n_changed terms, which any order of additions keeps; and all roundings in double precision.
        least = 2 * n_changed * 2.0**-24 * n_changed * narrow.radius
        added = narrow.sensitivity(n_records) - wide.sensitivity(n_records)
        # Blocks of 256 rows are four times as many as those of 1024, whose sums are added in double precision.
        assert added >= least - 2 * wide.rounding(n_records)
    share = narrow.sensitivity(10**5) / wide.sensitivity(10**5) - 1
    assert share == pytest.approx(2 * GAMMA * SINGLE_ROWS * narrow.radius / narrow.diameter, rel=1e-3)
    assert 0.004 < share < 0.006


# Who sums in single precision.


def test_precision_follows_the_array_and_can_be_asked_for() -> None:
    X = np.full((3, 2), 0.4)
    narrow = X.astype(np.float32)
    assert not rows(X, bound=1.0).facts().is_single
    assert rows(narrow, bound=1.0).facts().is_single
    assert rows(X, bound=1.0, precision="single").facts().is_single
    assert not rows(narrow, bound=1.0, precision="double").facts().is_single
    assert not rows(narrow, bound=1.0, ranges=(0, 1)).facts().is_single
    assert not rows(narrow, bound=1e9).facts().is_single
    assert not rows(narrow.astype(">f4"), bound=1.0).facts().is_single
    assert not views(X, narrow, bounds=(1.0, 1.0)).facts().is_single
    assert views(narrow, narrow, bounds=(1.0, 1.0)).facts().is_single
    assert labelled(narrow, [0.0, 1.0, 1.0], bound=1.0, response=(0, 1)).facts().is_single
    assert subjects([narrow, narrow], bound=1.0, unit="record").facts().is_single
    assert not subjects([narrow, X], bound=1.0, unit="record").facts().is_single
    assert not subjects([narrow], bound=1.0, unit="subject", rows_per_subject=3).facts().is_single
    with pytest.raises(InvalidParameter, match="precision"):
        rows(X, bound=1.0, precision="half")
    with pytest.raises(InvalidParameter, match="precision"):
        rows(X, bound=1e9, precision="single")


def _federation(data: dict[str, NDArray[Any]], protocol: Any, **options: Any) -> Federation:
    return Federation(in_process({name: rows(X, bound=1.0) for name, X in data.items()}, **options), protocol=protocol)


def _data(dtype: Any) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(3)
    return {name: (rng.normal(size=(900, 6)) / 5).astype(dtype) for name in ("lyon", "oslo", "lima")}


def test_the_noise_and_the_guarantee_count_single_precision() -> None:
    narrow, wide = (
        PCA(2, epsilon=1.0, delta=1e-6).fit(_federation(_data(dtype), Cape(n_colluding=1)))
        for dtype in (np.float32, np.float64)
    )
    assert narrow.noise_norm_ / wide.noise_norm_ == pytest.approx(1 + math.sqrt(2) * GAMMA * SINGLE_ROWS, rel=1e-4)
    assert IN_SINGLE in narrow.guarantee_.public
    assert SAME_ORDER in narrow.guarantee_.assumptions
    assert narrow.guarantee_.status == wide.guarantee_.status == "verified"
    assert IN_SINGLE not in wide.guarantee_.public
    assert SAME_ORDER not in wide.guarantee_.assumptions
    # Not exceeded: the figures are those of the noise that was used.
    assert narrow.guarantee_.epsilon == pytest.approx(wide.guarantee_.epsilon, rel=1e-3)


@pytest.mark.parametrize("center", [False, True])
def test_a_plan_knows_the_noise_of_single_precision(center: bool) -> None:
    federation = _federation(_data(np.float32), Independent())
    model = PCA(2, epsilon=1.0, delta=1e-6, center=center)
    plan = federation.plan(model)
    model.fit(federation)
    assert plan.guarantee.assumptions == model.guarantee_.assumptions
    assert plan.guarantee.sites["lyon"].mu == model.guarantee_.sites["lyon"].mu


def test_sites_of_different_precision_sum_in_double_precision() -> None:
    data = _data(np.float32)
    mixed = {**data, "oslo": data["oslo"].astype(np.float64)}
    wide = {name: X.astype(np.float64) for name, X in data.items()}
    fitted = [
        PCA(2, epsilon=1.0, delta=1e-6).fit(_federation(each, Cape(n_colluding=1), noise=Replay(4)))
        for each in (mixed, wide)
    ]
    np.testing.assert_array_equal(fitted[0].components_, fitted[1].components_)
    assert SAME_ORDER not in fitted[0].guarantee_.assumptions


@pytest.mark.parametrize("center", [False, True])
def test_results_are_those_of_double_precision_up_to_rounding(center: bool) -> None:
    rng = np.random.default_rng(8)
    X = (rng.normal(size=(3000, 5)) * [3, 2, 1, 0.5, 0.2] / 6 + 0.1).astype(np.float32)
    Y = (X[:, :3] + 0.1 * rng.normal(size=(3000, 3))).astype(np.float32)

    def fitted(dtype: Any) -> tuple[Vector, Vector]:
        x, y = X.astype(dtype), Y.astype(dtype)
        one = Federation(in_process({"here": rows(x, bound=1.0)}), protocol=Exact())
        two = Federation(in_process({"here": views(x, y, bounds=(1.0, 1.0))}), protocol=Exact())
        pca = PCA(3, epsilon=1.0, delta=1e-6, center=center).fit(one)
        cca = CCA(2, epsilon=1.0, delta=1e-6, center=center).fit(two)
        return pca.explained_variance_, cca.correlations_

    for narrow, wide in zip(fitted(np.float32), fitted(np.float64), strict=True):
        np.testing.assert_allclose(narrow, wide, rtol=1e-5)


STUDY = """\
[study]
name = "first"
analysis = "pca"
epsilon = 2.0
delta = 1e-5
n_components = 2

[protocol]
kind = "cape"
n_colluding = 1

[sites.lima]
[sites.lyon]
[sites.oslo]

[data]
kind = "rows"
features = 6
bound = 1.0
"""


def test_studies_are_in_double_precision_unless_they_say_otherwise(tmp_path: Path) -> None:
    from dpcape.study.study import Study

    file = tmp_path / "rows.npy"
    np.save(file, _data(np.float32)["lyon"])
    usual, narrow = Study.parse(STUDY), Study.parse(STUDY + 'precision = "single"\n')
    assert usual.digest() != narrow.digest()
    for study, expected in ((usual, False), (narrow, True)):
        records = study.records_for("lyon", file)
        assert records.facts().is_single == study.facts().is_single == expected
        assert records.facts().shape_facts() == study.facts()
    with pytest.raises(InvalidParameter, match="precision"):
        Study.parse(STUDY.replace("bound = 1.0", "bound = 1e9") + 'precision = "single"\n')
