"""Private scaling: diameters hold whatever arrays are sent, bounds are capped for free, and units come back."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest

from dpcape import PCA, Federation, Independent, LinearRegression, Replay, in_process, labelled, rows, views
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.grid import steps_for
from dpcape.core.statistic import build
from dpcape.postprocessing.scaling import Scaling, centre_from, lengths_hidden, radius_from, scale_from, top_of
from dpcape.statistics.scaling import Scaled, bin_ends, bins_of, standardised

from .statistic_case import Case, all_cases

ARRAYS = ("centre", "scale", "radius", "top", "coefficients", "preconditioner", "directions")
CASES = [case for case in all_cases() if "centre" in case.public or "intercept" in case.public]
# Whatever a coordinator may send: nothing, huge, tiny, negative, denormal numbers, and mixtures of them.
WILD = {
    "zero": 0.0,
    "huge": 1e308,
    "tiny": 1e-300,
    "negative": -0.7,
    "denormal": 5e-324,
    "largest": np.finfo(float).max,
    "one": 1.0,
}


def _units(case: Case) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(5)
    directions = generator.normal(size=(6, case.n_parameters))
    # Rows of extreme lengths are clipped to the same few places: a few directions suffice.
    scales = {0.3: 6, 1.0: 6, 50.0: 6, 1e-320: 2, 1e-160: 2, 1e150: 2, 1e307: 2}
    with np.errstate(over="ignore"):
        extended = [scale * np.clip(directions[:few], -1.5, 1.5) for scale, few in scales.items()]
    return np.vstack([np.zeros(case.n_parameters), *extended])


def _mixed(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    return generator.choice([*WILD.values(), -1e308, -5e-324], size=shape)


def _attacks(case: Case) -> list[dict[str, Any]]:
    names = [name for name in ARRAYS if name in case.public]
    shapes = {name: np.shape(case.public[name]) for name in names}
    single = [{name: np.full(shapes[name], value)} for name in names for value in WILD.values()]
    pairs = [
        {first: np.full(shapes[first], one), second: np.full(shapes[second], other)}
        for first, second in itertools.combinations(names, 2)
        for one, other in itertools.product((0.0, 1e308, 5e-324, -1.0), repeat=2)
    ]
    mixed = [{name: _mixed(shapes[name], seed) for name in names} for seed in range(20)]
    return [*single, *pairs, *mixed]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_diameters_hold_for_any_array_a_coordinator_sends(case: Case) -> None:
    records = [case.records(unit[np.newaxis]) for unit in _units(case)]
    facts, claimed = records[0].facts(), case.statistic().diameter
    for changed in _attacks(case):
        statistic = build(case.name, facts, {**case.public, **changed})
        # What is claimed never depends on the arrays.
        assert statistic.diameter == claimed
        totals = np.array([statistic.total(one) for one in records])
        assert np.isfinite(totals).all()
        lengths = np.linalg.norm(totals, axis=1)
        assert lengths.max() <= statistic.radius + statistic.rounding(1)
        squares = np.vecdot(totals, totals)
        distances = squares[:, None] + squares - 2 * totals @ totals.T
        assert math.sqrt(max(distances.max(), 0.0)) <= statistic.diameter * (1 + 1e-12) + 2 * statistic.rounding(1)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_arrays_that_are_not_finite_are_refused(case: Case, wrong: float) -> None:
    facts = case.records(np.zeros((1, case.n_parameters))).facts()
    for name in set(ARRAYS) & set(case.public):
        bad = np.array(case.public[name], dtype=float)
        bad.flat[0] = wrong
        with pytest.raises(InvalidParameter, match="finite"):
            build(case.name, facts, {**case.public, name: bad})
        with pytest.raises(InvalidParameter, match="shape"):
            build(case.name, facts, {**case.public, name: np.ones(len(bad) + 1)})


def test_standardised_rows_are_exactly_within_the_ball() -> None:
    generator = np.random.default_rng(1)
    records = rows(generator.normal(size=(200, 3)), bound=5.0)
    arrays = np.array([0.1, 3.0, -1.0]), np.array([0.3, 1e-9, 7.0]), np.array([0.2])
    for tile, _ in records.tiles():
        seen = standardised(tile, (3,), *arrays)
        for row in seen.rows.ints:
            assert sum(int(entry) ** 2 for entry in row) <= 2**40
        assert seen.rows.steps == steps_for(3, (1.0,))


def test_every_scaled_statistic_is_searched() -> None:
    assert {kind.name for kind in Scaled.__subclasses__()} <= {case.name for case in CASES}


def test_a_row_shortened_twice_keeps_its_line() -> None:
    """A standardised row with its factor determines the row it came from, also after clipping at the records."""
    x = np.array([[0.5, 0.2], [3.0, -4.0], [40.0, 9.0]])
    records = labelled(x, [0.0, 0.5, 1.0], bound=2.0, response=(-1, 1))
    centre, scale, radius = np.array([0.4, -0.3]), np.array([0.5, 2.0]), np.array([1.5])
    ((tile, _),) = records.tiles()
    seen = standardised(tile, (2,), centre, scale, radius, with_factors=True)
    block, weights = seen.rows.values[:3], seen.factors[:3]
    assert np.allclose(block / weights[:, np.newaxis], (x - centre) / scale / radius, rtol=1e-4)
    assert (weights <= 1).all()
    assert np.allclose(seen.targets[:3], [0.0, 0.5, 1.0])


# The free cap.


def test_a_bound_is_capped_by_public_ranges() -> None:
    X, ranges = np.array([[5.0, 50.0], [10.0, 100.0]]), [(0, 10), (0, 100)]
    assert rows(X, ranges=ranges).facts().bounds == pytest.approx((math.sqrt(2),), rel=2e-9)
    assert rows(X, bound=7.0, ranges=ranges).facts().bounds == pytest.approx((math.sqrt(2),), rel=2e-9)
    assert rows(X, bound=0.5, ranges=ranges).facts().bounds == (0.5,)
    assert labelled(X, [0, 1], ranges=ranges, classes=[0, 1]).facts().bounds == pytest.approx((math.sqrt(2),), rel=2e-9)
    both = views(X, X[:, :1], ranges=(ranges, ranges[:1]))
    assert both.facts().bounds == pytest.approx((math.sqrt(2), 1.0), rel=2e-9)
    # One column with levels is one entry of 1 at most, however many levels it has.
    table = {"age": [5.0, 6.0], "sex": ["F", "M"]}
    mixed = rows(table, ranges={"age": (0, 10), "sex": ["F", "M", "other"]})
    assert mixed.facts().bounds == pytest.approx((math.sqrt(2),), rel=2e-9)
    with pytest.raises(InvalidParameter, match="must have a bound"):
        rows(X)
    with pytest.raises(InvalidParameter, match="must have a bound"):
        rows(X, missing=0.0)


def test_the_cap_clips_nothing() -> None:
    corners = np.array(list(itertools.product([0.0, 10.0], repeat=3)))
    records = rows(corners, ranges=[(0, 10)] * 3)
    assert np.array_equal(next(records.feature_blocks(8)), corners / 5 - 1)


# From releases to centre, scale and radius.


def test_radius_is_near_the_quantile_and_shorter_under_noise() -> None:
    generator = np.random.default_rng(3)
    lengths = np.linalg.norm(generator.normal(size=(20_000, 5)), axis=1)
    top = 16 * math.sqrt(5)
    shares = np.bincount(bins_of(lengths[:, np.newaxis], top), minlength=32) / len(lengths)
    wanted = np.quantile(lengths, 0.9)
    exact = radius_from(shares, top, noise=0.0, quantile=0.9)
    assert wanted / 2**0.25 <= exact <= wanted * 2**0.25
    assert radius_from(shares, top, noise=0.01, quantile=0.9) <= exact
    # Nothing but noise: never longer than the top, never zero.
    assert 0 < radius_from(np.zeros(32), top, noise=1.0, quantile=0.9) <= top
    assert bin_ends(top)[-1] == top


def test_units_come_back() -> None:
    generator = np.random.default_rng(4)
    x, beta = generator.normal(size=(50, 3)) * [1.0, 5.0, 0.1] + 2, np.array([0.3, -1.0, 4.0])
    scaling = Scaling(x.mean(axis=0), x.std(axis=0), np.array([2.5]), (3,))
    z = (x - scaling.centre) / scaling.units
    assert np.allclose(scaling.rows(z), x)
    assert np.allclose(scaling.covariance(np.cov(z.T)), np.cov(x.T))
    found = scaling.coefficients(beta * scaling.units)
    assert np.allclose(found, beta)
    assert np.allclose(z @ (beta * scaling.units) + 1.5, x @ found + scaling.intercept(beta * scaling.units, 1.5))


def test_a_scale_is_never_zero_and_a_centre_within_the_bound() -> None:
    assert (scale_from(np.array([-0.3, 0.0, 0.5]), np.array([0.0, 0.1, 0.1])) > 0).all()
    assert scale_from(np.array([0.01]), np.array([0.1]))[0] == pytest.approx(1.2533 * 0.2, rel=1e-4)
    assert centre_from(np.array([9.0, -9.0, 0.1]), (1.0, 2.0), (1, 2)).tolist() == [1.0, -2.0, 0.1]
    top = top_of(np.zeros(2), np.array([1.0, 0.5]), (1.0,), (2,))
    assert top.tolist() == [2.0]


def test_lengths_that_noise_hides_clip_nothing() -> None:
    assert lengths_hidden(np.zeros(32), noise=1.0, quantile=0.9)
    assert radius_from(np.zeros(32), 3.0, noise=1.0, quantile=0.9) == 3.0
    assert not lengths_hidden(np.full(32, 1 / 32), noise=0.0, quantile=0.9)


def _centred(n_records: int, spread: float, epsilon: float) -> list[str]:
    X = 0.5 + spread * np.random.default_rng(6).normal(size=(n_records, 4))
    held = rows(X, bound=2.0, invalid="refuse")
    federation = Federation(in_process({"here": held}, noise=Replay(3)), protocol=Independent())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        return PCA(1, epsilon=epsilon, delta=1e-5, center=True).fit(federation).warnings_


@pytest.mark.parametrize(
    ("n_records", "spread", "epsilon", "expected"),
    [
        pytest.param(60, 0.2, 0.5, "Rows are not recentred", id="too few records"),
        pytest.param(3000, 1e-4, 0.5, "released centre is mostly noise", id="rows closer than the noise"),
        pytest.param(3000, 0.2, 5.0, "", id="enough"),
    ],
)
def test_recentring_that_cannot_help_says_so(n_records: int, spread: float, epsilon: float, expected: str) -> None:
    texts = [text for text in _centred(n_records, spread, epsilon) if "recentred" in text or "released centre" in text]
    assert len(texts) == bool(expected)
    assert all(expected in text for text in texts)


def test_columns_whose_scale_is_noise_are_counted() -> None:
    X = np.random.default_rng(7).normal(size=(2000, 3)) * [1.0, 1.0, 1e-6]
    held = labelled(X, X[:, 0], bound=10.0, response=(-5, 5), invalid="refuse")
    federation = Federation(in_process({"here": held}, noise=Replay(2)), protocol=Independent())
    with pytest.warns(UtilityWarning, match="The scale of 1 of 3 columns is that of noise"):
        LinearRegression(epsilon=1.0, delta=1e-5, scale="private").fit(federation)
