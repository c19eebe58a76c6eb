"""Intervals of regressions cover: quick cells; the whole grid is in experiments/regression/intervals.py.

Each cell counts how many intervals hold their coefficient and refuses coverage of .95 by an exact one-sided binomial
test at 1e-4: over all cells a false alarm has probability below 2e-3. Noise is drawn for the exact sensitivity of
dpcape's own statistics, as for pooled records; one cell uses the protocol.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpcape import Cape, Federation, Independent, LinearRegression, LogisticRegression, Replay, in_process, labelled
from dpcape.analyses.regression import LOGISTIC_SHARES, SPREAD_SHARE
from dpcape.core.errors import UtilityWarning
from dpcape.core.privacy.gaussian import mu_of
from dpcape.core.statistic import build
from dpcape.estimators.linear.effect_sets import NormalEquations, effect_sets, shifted
from dpcape.estimators.linear.regression_rounds import Asked, Coefficients, linear_inference, weights_of
from dpcape.estimators.linear.score_rounds import logistic_inference

Vector = NDArray[np.float64]
LEVEL = 1e-4
# Small enough that no response leaves its range, where it would be clipped.
EFFECTS = np.array([0.4, -0.2, 0.0])


class SumRounds:
    """Private means with noise of scale diameter / (N mu), without a protocol."""

    intercept = True

    def __init__(self, x: Vector, y: NDArray[Any], bound: float, mu: float, shares: Any, source: Any) -> None:
        self.bound, self.n_coefficients, self.share, self.scale = bound, x.shape[1] + 1, 1 / len(x), 0.0
        kind: dict[str, Any] = {"classes": [0, 1]} if y.dtype == int else {"response": (-1, 1)}
        self._facts = labelled(np.zeros((1, x.shape[1])), [0], bound=bound, **kind).facts()
        self._records, self._mu = labelled(x, y, bound=bound, **kind), mu
        self._shares, self._source = list(shares), source

    def mean(self, statistic: str, **public: Any) -> Any:
        made = build(statistic, self._facts, {"intercept": True, **public})
        self.scale = made.diameter * self.share / (self._mu * math.sqrt(self._shares.pop(0)))
        total = made.total(self._records) * self.share
        return made.unpack(total + self.scale * self._source.standard_normal(total.shape))


def features(kind: str, shape: tuple[int, int], source: np.random.Generator) -> Vector:
    if kind == "normal":
        drawn = source.standard_normal(shape)
    elif kind == "skewed":
        drawn = source.exponential(1.0, shape) - 1
    else:
        drawn = (source.random(shape) < 0.2).astype(float)
    return drawn / (1.3 * math.sqrt(shape[1]))


def covers(held: list[Vector]) -> bool:
    return bool(binom.cdf(int(np.sum(held)), np.size(held), 0.95) > LEVEL)


def linear_cell(
    seed: int, width: int, n_records: int, epsilon: float, factor: float, kind: str, beta: Vector, n_runs: int
) -> tuple[list[Vector], list[Vector]]:
    """Return which intervals hold, and the widths."""
    source, mu = np.random.default_rng(seed), mu_of(epsilon, 1e-5)
    released = kind == "skewed"
    shares = (1 - SPREAD_SHARE, SPREAD_SHARE) if released else (1.0,)
    held, widths = [], []
    for _ in range(n_runs):
        x = features(kind, (n_records, width), source)
        errors = 0.1 * source.standard_normal(n_records)
        if released:
            errors *= 0.3 + np.abs(x[:, 0]) / x[:, 0].std()
        y = np.clip(x @ beta + errors, -1, 1)
        bound = factor * float(np.quantile(np.linalg.norm(x, axis=1), 0.9))
        rounds = SumRounds(x, y, bound, mu, shares, source)
        found = linear_inference(rounds, Asked(0.95), spread_released=released)
        low, high = ends(found, 1 / weights_of(bound, intercept=True)[0])
        held.append((low <= beta) & (beta <= high))
        widths.append(high - low)
    return held, widths


def ends(found: Coefficients, unit: float) -> tuple[Vector, Vector]:
    assert found.low is not None
    assert found.high is not None
    return unit * found.low[1:], unit * found.high[1:]


@pytest.mark.parametrize(
    ("width", "n_records", "epsilon", "factor", "kind", "beta", "n_runs"),
    [
        pytest.param(3, 2000, 1.0, 1.0, "normal", np.zeros(3), 120, id="no effects"),
        pytest.param(3, 2000, 3.0, 1.0, "normal", EFFECTS, 120, id="two effects"),
        pytest.param(3, 2000, 10.0, 20.0, "normal", EFFECTS, 120, id="bound x 20"),
        pytest.param(20, 5000, 1.0, 1.0, "normal", np.eye(20)[0], 25, id="one large of twenty"),
        pytest.param(3, 5000, 10.0, 1.0, "skewed", EFFECTS / 2, 120, id="skewed, unequal errors"),
    ],
)
def test_linear_intervals_cover(
    width: int, n_records: int, epsilon: float, factor: float, kind: str, beta: Vector, n_runs: int
) -> None:
    held, _ = linear_cell(11, width, n_records, epsilon, factor, kind, beta, n_runs)
    assert covers(held)


def test_symmetric_noise_biases_the_inverse_and_the_shift_corrects_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """One large of sixty coefficients: covered with the shift and not without it, so the law has teeth."""

    def held() -> list[Vector]:
        source, beta, scale = np.random.default_rng(12), 3.0 * np.eye(60)[0], 0.07
        found = []
        for _ in range(60):
            noise = np.triu(source.standard_normal((61, 61)), 1) / math.sqrt(2)
            noise = scale * (noise + noise.T + np.diag(source.standard_normal(61)))
            cross = beta + noise[:60, 60]
            sets = effect_sets(NormalEquations(np.eye(60) + noise[:60, :60], cross, 10.0, scale, 1e-9), quantile=1.96)
            found.append((sets.low[:1] <= 3.0) & (sets.high[:1] >= 3.0))
        return found

    assert covers(held())
    monkeypatch.setattr("dpcape.estimators.linear.effect_sets.shifted", lambda values, scale: values)
    assert not covers(held())


@pytest.mark.parametrize("kind", ["normal", "skewed", "binary"])
@pytest.mark.parametrize("strength", [0.0, 3.0])
def test_logistic_intervals_cover(kind: str, strength: float) -> None:
    source, mu, beta = np.random.default_rng(13), mu_of(3.0, 1e-5), strength * np.array([1.0, -0.5, 0.0])
    held = []
    for _ in range(60):
        x = features(kind, (4000, 3), source)
        y = (source.random(4000) < 1 / (1 + np.exp(0.5 - x @ beta))).astype(int)
        bound = float(np.quantile(np.linalg.norm(x, axis=1), 0.9))
        found = logistic_inference(SumRounds(x, y, bound, mu, LOGISTIC_SHARES, source), Asked(0.95))
        low, high = ends(found, 1.0)
        held.append((low <= beta) & (beta <= high))
    assert covers(held)


def test_widths_do_not_fall_when_noise_grows() -> None:
    """The same standardised draws at smaller epsilon: the median width never falls, up to infinity."""
    medians = [
        float(np.median(linear_cell(14, 3, 3000, epsilon, 1.0, "normal", EFFECTS, 30)[1]))
        for epsilon in (10.0, 3.0, 1.0, 0.3, 0.1, 0.02)
    ]
    assert medians == sorted(medians)
    assert math.isinf(medians[-1])


def test_widths_of_log_odds_do_not_fall_when_noise_grows() -> None:
    """The same standardised draws at smaller epsilon, for logistic regression."""

    def median(epsilon: float) -> float:
        source, widths = np.random.default_rng(15), []
        for _ in range(20):
            x = features("normal", (3000, 3), source)
            y = (source.random(3000) < 1 / (1 + np.exp(-x @ [2.0, -1.0, 0.0]))).astype(int)
            rounds = SumRounds(x, y, 1.0, mu_of(epsilon, 1e-5), LOGISTIC_SHARES, source)
            low, high = ends(logistic_inference(rounds, Asked(0.95)), 1.0)
            widths.append(high - low)
        return float(np.median(widths))

    medians = [median(epsilon) for epsilon in (10.0, 3.0, 1.0, 0.3, 0.1, 0.02)]
    assert medians == sorted(medians)
    assert math.isinf(medians[-1])


def test_log_odds_of_a_rare_group_with_hardly_any_events_are_covered() -> None:
    """The records of one column in ten decide its log-odds: the change of log-odds over all records is far smaller."""
    source, beta, held = np.random.default_rng(21), np.array([-6.0, 0.0]), []
    for _ in range(60):
        x = np.column_stack([source.random(5000) < 0.1, source.choice([-0.5, 0.5], 5000)]).astype(float)
        y = (source.random(5000) < 1 / (1 + np.exp(-x @ beta))).astype(int)
        rounds = SumRounds(x, y, 2.0, mu_of(50.0, 1e-5), LOGISTIC_SHARES, source)
        low, high = ends(logistic_inference(rounds, Asked(0.95)), 1.0)
        held.append((low <= beta) & (beta <= high))
    assert covers([each[:1] for each in held])
    assert covers(held)


def test_intervals_of_a_protocol_with_private_scaling_cover() -> None:
    """Ranges three times too wide, four sites of unequal size, one colluding: through the federation itself."""
    beta, held = np.array([3.0, -1.0, 0.0]), []
    for seed in range(6):
        source = np.random.default_rng(seed)
        sites = {}
        for name, size in (("ava", 2400), ("bob", 400), ("cid", 1200), ("dot", 2000)):
            x = 50 + 10 * source.standard_normal((size, 3)) * [1.0, 2.0, 0.5]
            y = x @ beta / 10 + 2 * source.standard_normal(size)
            sites[name] = labelled(x, y, ranges=[(-100, 200), (-150, 250), (-40, 140)], response=(-80, 100))
        federation = Federation(in_process(sites, noise=Replay(seed)), protocol=Cape(n_colluding=1))
        model = LinearRegression(epsilon=2.0, delta=1e-5, scale="private").fit(federation)
        truth = beta / 10 * np.array([150.0, 200.0, 90.0])
        held.append((model.interval_[0] <= truth) & (truth <= model.interval_[1]))
        assert model.verdicts_[0].word == "determined"
    assert covers(held)


def test_a_prediction_has_no_intervals_and_says_what_to_do() -> None:
    source = np.random.default_rng(3)
    x = source.standard_normal((500, 2))
    records = {"here": labelled(x, x[:, 0] > 0, bound=2.0, classes=[False, True])}
    model = LogisticRegression(epsilon=1.0, delta=1e-5, purpose="prediction", n_iter=2)
    model.fit(Federation(in_process(records, noise=Replay(1)), protocol=Independent()))
    with pytest.raises(AttributeError, match="purpose='inference'"):
        _ = model.interval_
    assert not hasattr(model, "intercept_interval_")


def test_scaling_that_cannot_work_is_not_paid_for() -> None:
    x = np.random.default_rng(4).standard_normal((60, 2))
    records = {name: labelled(x, x[:, 0], bound=4.0, response=(-4, 4)) for name in ("a", "b", "c")}
    federation = Federation(in_process(records, noise=Replay(1)), protocol=Cape(n_colluding=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model = LinearRegression(epsilon=0.5, delta=1e-5, scale="private").fit(federation)
    assert any("Private scaling is not used" in text for text in model.warnings_)
    assert [release.statistic for release in model.releases_] == ["weighted_regression_moment"]


def test_units_of_the_records_do_not_change_a_scaled_result() -> None:
    """Columns in other units, with their ranges: the same coefficients per half range."""
    source = np.random.default_rng(5)
    x = source.standard_normal((3000, 3))
    y = x[:, 0] - 0.5 * x[:, 1] + 0.1 * source.standard_normal(3000)
    found = []
    for unit in (np.ones(3), np.array([1000.0, 0.01, 7.0])):
        ranges = [(-6 * one, 6 * one) for one in unit]
        parts = np.array_split(np.arange(3000), 3)
        sites = {
            str(n): labelled(x[part] * unit, y[part], ranges=ranges, response=(-6, 6)) for n, part in enumerate(parts)
        }
        federation = Federation(in_process(sites, noise=Replay(9)), protocol=Cape(n_colluding=0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            found.append(LinearRegression(epsilon=1.0, delta=1e-5, scale="private").fit(federation).coef_)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


# The sets themselves.


def test_without_noise_a_set_is_the_wald_interval() -> None:
    source = np.random.default_rng(6)
    v = source.standard_normal((400, 3))
    y = v @ [1.0, 0.0, -1.0] + source.standard_normal(400)
    equations = NormalEquations(v.T @ v / 400, v.T @ y / 400, float(y @ y) / 400, 0.0, 1 / 400)
    sets = effect_sets(equations, quantile=1.96, spread=1.0)
    wanted = np.linalg.solve(v.T @ v, v.T @ y)
    left = float(np.mean((y - v @ wanted) ** 2))
    half = 1.96 * np.sqrt(left * np.diag(np.linalg.inv(v.T @ v)))
    np.testing.assert_allclose(sets.coefficients, wanted, rtol=1e-9)
    # The hull of two ellipsoids contains the Wald interval, and is little longer.
    assert (sets.low <= wanted - half * (1 - 1e-9)).all()
    assert (sets.high - sets.low <= 2.5 * half * 2).all()


@pytest.mark.parametrize("largest", [math.inf, 3.0])
def test_sets_of_several_quantiles_are_those_of_each(largest: float) -> None:
    source = np.random.default_rng(8)
    v = source.standard_normal((200, 3))
    y = v @ [1.0, 0.0, -1.0] + source.standard_normal(200)
    equations = NormalEquations(v.T @ v / 200, v.T @ y / 200, float(y @ y) / 200, 0.1, 1 / 200)
    options = {"direction": np.array([[1.0, 1.0, 0.0]]), "largest": largest}
    quantiles = np.array([0.5, 1.96, 4.0, 40.0])
    together = effect_sets(equations, quantile=quantiles, **options)
    # From some quantile on nothing is known.
    assert np.isfinite(together.low[0]).all()
    assert np.isinf(together.low[-1, -1])
    for at, quantile in enumerate(quantiles):
        alone = effect_sets(equations, quantile=float(quantile), **options)
        np.testing.assert_allclose(together.low[at], alone.low, rtol=1e-12)
        np.testing.assert_allclose(together.high[at], alone.high, rtol=1e-12)


def test_a_bound_on_effects_only_narrows_and_keeps_intervals_finite() -> None:
    source = np.random.default_rng(7)
    v = source.standard_normal((300, 4)) * [1.0, 1.0, 1.0, 0.05]
    y = v @ [0.5, 0.0, -0.5, 0.0] + 0.3 * source.standard_normal(300)
    for scale in (0.01, 0.1, 0.5):
        noise = np.triu(source.standard_normal((5, 5)), 1) / math.sqrt(2)
        whole = np.column_stack([v, y])
        matrix = whole.T @ whole / 300 + scale * (noise + noise.T + np.diag(source.standard_normal(5)))
        equations = NormalEquations(matrix[:4, :4], matrix[:4, 4], float(matrix[4, 4]), scale, 1 / 300)
        free, bound = effect_sets(equations, quantile=1.96), effect_sets(equations, quantile=1.96, largest=3.0)
        assert (bound.low >= free.low - 1e-12).all()
        assert (bound.high <= free.high + 1e-12).all()
        assert np.isfinite(bound.low).all()
        assert (np.abs([bound.low, bound.high]) <= 3.0 + 0.1).all()


def test_the_shift_solves_its_equation() -> None:
    values, scale = np.array([0.5, 1.0, 2.0]), 0.1
    moved = shifted(values, scale)
    assert moved is not None
    np.testing.assert_allclose(moved - values, scale**2 / 2 * (np.sum(1 / moved) + 1 / moved), rtol=1e-6)
    assert shifted(np.array([-0.1, 1.0]), 0.1) is None
