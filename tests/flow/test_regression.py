"""Linear and logistic regression end to end, in process."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from dpcape import (
    Cape,
    Exact,
    Federation,
    Independent,
    LinearRegression,
    LogisticRegression,
    Replay,
    in_process,
    labelled,
    rows,
)
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.metrics import log_loss, squared_loss
from dpcape.statistics.regression_moment import regression_moment

Vector = NDArray[np.float64]
FIVE = Cape(n_colluding=1)


def sites(X: Vector, y: Any, n_sites: int = 5, **options: Any) -> dict[str, Any]:
    options = {"bound": 1.0, "response": (-1, 1)} | options
    return {f"site{k}": labelled(X[k::n_sites], y[k::n_sites], **options) for k in range(n_sites)}


def federation(records: dict[str, Any], seed: int, protocol: Any = FIVE) -> Federation:
    return Federation(in_process(records, noise=Replay(seed)), protocol=protocol)


def linear_data(width: int = 50, n_records: int = 20_000, seed: int = 0) -> tuple[Vector, Vector]:
    """As in the experiments: mean square of y 0.047, of which 0.0025 is noise."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_records, width))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    signal = X @ generator.standard_normal(width)
    y = 0.211 * signal / signal.std() + 0.05 * generator.standard_normal(n_records)
    return X, np.clip(y, -1, 1)


def logistic_data(width: int = 20, n_records: int = 20_000) -> tuple[Vector, NDArray[np.int64]]:
    generator = np.random.default_rng(1)
    X = generator.standard_normal((n_records, width)) / math.sqrt(width)
    direction = generator.standard_normal(width)
    odds = 2.5 * math.sqrt(width) * (X @ direction) / np.linalg.norm(direction)
    return X, (generator.random(n_records) < 1 / (1 + np.exp(-odds))).astype(int)


# One moment and no rounds: the functional mechanism, whose result is shrunken.
ONE_RELEASE: dict[str, Any] = {"purpose": "prediction", "n_iter": 0}


def small(seed: int = 0, n_records: int = 300) -> tuple[Vector, Vector]:
    generator = np.random.default_rng(seed)
    X = generator.uniform(-0.5, 0.5, (n_records, 3))
    return X, 20 + X @ np.array([8.0, -3.0, 0.0]) + generator.normal(0, 0.5, n_records)


# Exactness


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_without_noise_it_is_ridge_regression(fit_intercept: bool, ridge: float) -> None:
    X, y = small()
    model = LinearRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE, fit_intercept=fit_intercept, ridge=ridge)
    model.fit(Federation(in_process(sites(X, y, response=(10, 30))), protocol=Exact()))
    # Without an intercept the model passes through the middle of the public range.
    middle, design = 20.0, np.column_stack([np.ones(len(X)), X])
    penalty = ridge * len(X) * np.diag([4.0 if ridge else 0.0, 1, 1, 1])
    if not fit_intercept:
        design, penalty = X, penalty[1:, 1:]
    wanted = np.linalg.solve(design.T @ design + penalty, design.T @ (y - middle))
    if ridge and fit_intercept:
        # The constant is refitted after the penalty: it is never shrunk towards the middle.
        assert model.predict(X).mean() == pytest.approx(y.mean(), abs=1e-6)
        return
    # Rows and responses are on a grid of 2^20 steps.
    np.testing.assert_allclose(model.coef_, wanted[-3:], rtol=1e-6, atol=1e-5)
    assert model.intercept_ == pytest.approx(middle + (wanted[0] if fit_intercept else 0.0), rel=1e-7)


def test_constant_features_and_more_features_than_records() -> None:
    generator = np.random.default_rng(4)
    X = generator.uniform(-0.2, 0.2, (15, 30))
    X[:, 0] = 0.1
    y = generator.uniform(-1, 1, 15)
    exact = Federation(in_process(sites(X, y, n_sites=3)), protocol=Exact())
    model = LinearRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE).fit(exact)
    assert squared_loss(y, model.predict(X)) < 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        noisy = LinearRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE).fit(federation(sites(X, y, n_sites=3), 0))
    assert np.isfinite(noisy.coef_).all()


def test_large_epsilon_tends_to_the_result_without_noise() -> None:
    X, y = small(n_records=3000)
    exact = LinearRegression(epsilon=1.0, delta=1e-5).fit(
        Federation(in_process(sites(X, y, response=(10, 30))), protocol=Exact())
    )
    close = LinearRegression(epsilon=50.0, delta=1e-5).fit(federation(sites(X, y, response=(10, 30)), 1))
    np.testing.assert_allclose(close.coef_, exact.coef_, atol=0.2)


# Numbers to be shown


def test_linear_loss_at_epsilon_one() -> None:
    X, y = linear_data()
    records = sites(X, y)
    losses = []
    for seed in range(5):
        model = LinearRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE, fit_intercept=False).fit(
            federation(records, seed)
        )
        losses.append(squared_loss(y, model.predict(X)))
    assert max(losses) <= 0.005
    assert np.mean(losses) <= 0.0038


@pytest.mark.parametrize(
    "n_runs",
    [pytest.param(4, id="20-runs"), pytest.param(40, id="200-runs", marks=pytest.mark.slow)],
)
def test_never_above_the_zero_model(n_runs: int) -> None:
    """The same number of seeded runs at each of five epsilons."""
    X, y = linear_data()
    zero, records = float(np.mean(y**2)), sites(X, y)
    above = []
    for epsilon in (0.1, 0.3, 1.0, 3.0, 10.0):
        for seed in range(n_runs):
            model = LinearRegression(epsilon=epsilon, delta=1e-5, **ONE_RELEASE, fit_intercept=False)
            loss = squared_loss(y, model.fit(federation(records, seed)).predict(X))
            above += [(epsilon, seed, loss)] if loss > zero else []
    assert not above


def test_uncentred_data_are_not_above_the_constant_model_either() -> None:
    generator = np.random.default_rng(6)
    X = generator.uniform(0, 1, (3000, 12)) / math.sqrt(12)
    y = np.clip(0.6 + X @ generator.standard_normal(12) * 0.3, -1, 1)
    records = sites(X, y)
    for epsilon in (0.1, 1.0, 10.0):
        for seed in range(4):
            model = LinearRegression(epsilon=epsilon, delta=1e-5, **ONE_RELEASE).fit(federation(records, seed))
            assert squared_loss(y, model.predict(X)) <= float(np.mean(y**2))


def test_logistic_loss_at_epsilon_one() -> None:
    X, labels = logistic_data()
    records = sites(X, labels, bound=1.3, response=None, classes=[0, 1])
    for seed in range(3):
        model = LogisticRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE).fit(federation(records, seed))
        assert log_loss(labels, model.predict_proba(X)) <= 0.42


# Intervals


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_intervals_hold_their_coefficients(epsilon: float) -> None:
    """Coverage over coefficients and fresh data; 95 % is meant, noise and shrinking included."""
    held = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        truth = generator.standard_normal(15) * 0.4
        X = generator.standard_normal((2500, 15))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        y = np.clip(X @ truth + generator.normal(0, 0.1, 2500), -1, 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            model = LinearRegression(epsilon=epsilon, delta=1e-5).fit(federation(sites(X, y), seed))
        held.append((model.interval_[0] <= truth) & (truth <= model.interval_[1]))
    # 180 intervals, 95 % each: fewer than 88 % would be 4 standard deviations low.
    assert np.mean(held) >= 0.88


def test_intervals_are_wider_under_noise_and_shrink_with_records() -> None:
    X, y = linear_data(width=10, n_records=4000)
    widths = {}
    for epsilon in (0.3, 3.0, 10.0):
        for size in (1000, 4000):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)
                model = LinearRegression(epsilon=epsilon, delta=1e-5).fit(federation(sites(X[:size], y[:size]), 0))
            widths[epsilon, size] = float(np.median(model.interval_[1] - model.interval_[0]))
    assert widths[0.3, 1000] >= widths[3.0, 1000] > widths[10.0, 1000]
    assert widths[0.3, 4000] > widths[3.0, 4000] > widths[10.0, 4000]
    assert widths[10.0, 1000] > widths[10.0, 4000]


# Noise and guarantee


def test_noise_of_the_release_has_the_stated_scale() -> None:
    """Chi-square at alpha = 1e-6 over 12,000 packed coordinates; it must refuse scale x 0.9 and x 1.1."""
    draws = []
    records = sites(np.zeros((25, 60)), np.zeros(25))
    for seed in range(6):
        fed = federation(records, seed)
        private = fed.allow(1.0, 1e-5)
        statistic = regression_moment(fed.facts, intercept=True)
        kept: list[Vector] = []
        statistic.unpack = lambda packed, kept=kept: kept.append(packed)
        private.mean(statistic)
        # The first coordinate is the constant's square, which is not zero.
        draws.append(kept[0][1:] / private.releases[-1].scale)
    squares = np.concatenate(draws) ** 2
    low, high = chi2.ppf([0.5e-6, 1 - 0.5e-6], squares.size) / squares.size
    accepted = [low <= squares.mean() / factor**2 <= high for factor in (1.0, 0.9, 1.1)]
    assert accepted == [True, False, False]


def test_the_guarantee_is_of_one_release_with_the_joint_diameter() -> None:
    X, y = small()
    with pytest.warns(UtilityWarning, match="nothing in this result is determined"):
        model = LinearRegression(epsilon=1.0, delta=1e-5).fit(federation(sites(X, y, response=(10, 30)), 0))
    assert model.guarantee_.releases == 1
    assert model.guarantee_.epsilon <= 1.0
    statistic = regression_moment(sites(X, y, response=(10, 30))["site0"].facts(), intercept=True)
    assert statistic.diameter == pytest.approx(math.sqrt(2) * (1 + 0.5 + 0.25), rel=1e-5)
    # Pooled noise is diameter / (N mu); five sites with one colluder cost sqrt(5/4) and half a per cent.
    pooled = statistic.diameter / (300 * 0.268051123)
    assert model.noise_scale_ == pytest.approx(pooled * math.sqrt(5 / 4), rel=0.01)


def test_predictions_are_in_response_units_and_models_travel(tmp_path: Any) -> None:
    X, y = small(n_records=2000)
    model = LinearRegression(epsilon=20.0, delta=1e-5).fit(federation(sites(X, y, response=(10, 30)), 3))
    assert abs(model.predict(X).mean() - y.mean()) < 0.5
    assert model.score(X, y) > 0.8
    model.save(tmp_path / "model.npz")
    again = LinearRegression.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert model.get_params()["ridge"] == 0.0


def heavy_counts(n_records: int = 6000, width: int = 30, seed: int = 5) -> tuple[Vector, Vector]:
    """Return counts of which most are near 0 and a few at the end of their range, and rows often beyond the bound."""
    generator = np.random.default_rng(seed)
    activity = np.exp(1.5 * generator.standard_normal(n_records))[:, None]
    powers = generator.uniform(0.2, 1.2, width)
    X = np.clip(activity**powers * np.exp(0.6 * generator.standard_normal((n_records, width))), 0, 100) / 30
    rate = 2 * activity[:, 0] * np.exp(0.8 * generator.standard_normal(n_records))
    return X, np.clip(generator.poisson(np.minimum(rate, 1e3)), 0, 100).astype(float)


def test_rounds_of_a_prediction_do_not_lose_heavy_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where noise is small, not worse than one moment of the whole budget; clipping at 0.1 throughout is worse."""
    X, y = heavy_counts()

    def loss(**options: Any) -> float:
        records = {"all": labelled(X, y, bound=2.0, response=(0, 100))}
        model = LinearRegression(epsilon=10.0, delta=1e-3, purpose="prediction", **options)
        line = in_process(records, noise=Replay(4))
        made = Federation(line, protocol=Independent(), accept_large_delta=True)
        return squared_loss(y, model.fit(made).predict(X))

    once = loss(n_iter=0)
    assert loss() <= once
    monkeypatch.setattr("dpcape.estimators.linear.regression_rounds.residual_unit", lambda noise: 1.0)
    assert loss() > 1.02 * once


def test_a_linear_model_draws_itself() -> None:
    X, y = small(n_records=500)
    model = LinearRegression(epsilon=5.0, delta=1e-5).fit(federation(sites(X, y, response=(10, 30)), 3))
    axes = model.plot_coefficients()
    assert len(axes.get_yticks()) == 3


# Logistic regression


def test_logistic_regression_without_noise_finds_the_coefficients() -> None:
    """Gaussian features: the corrected length is right, the Taylor solution too short."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((40_000, 4)) * 0.15 + 0.1
    truth = np.array([8.0, -5.0, 3.0, 0.0])
    labels = (generator.random(40_000) < 1 / (1 + np.exp(-(X @ truth - 1.5)))).astype(int)
    fed = Federation(in_process(sites(X, labels, response=None, classes=[0, 1])), protocol=Exact())
    model = LogisticRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE).fit(fed)
    short = LogisticRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE, rescale=False).fit(fed)
    np.testing.assert_allclose(model.coef_, truth, atol=0.35)
    assert model.intercept_ == pytest.approx(-1.5, abs=0.15)
    assert np.linalg.norm(short.coef_) < 0.85 * np.linalg.norm(truth)
    assert log_loss(labels, model.predict_proba(X)) < log_loss(labels, short.predict_proba(X))


def test_the_length_is_left_alone_for_uncentred_features_without_an_intercept() -> None:
    """Uncentred exponential features: the correction would make the fit worse, and is off."""
    generator = np.random.default_rng(0)
    X = generator.exponential(size=(20_000, 20)) / 12
    odds = X @ np.full(20, 1.0) * 2
    labels = (generator.random(20_000) < 1 / (1 + np.exp(-odds))).astype(int)
    fed = Federation(in_process(sites(X, labels, response=None, classes=[0, 1])), protocol=Exact())
    plain = LogisticRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE, fit_intercept=False).fit(fed)
    off = LogisticRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE, fit_intercept=False, rescale=False).fit(fed)
    forced = LogisticRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE, fit_intercept=False, rescale=True).fit(fed)
    np.testing.assert_array_equal(plain.coef_, off.coef_)
    assert np.linalg.norm(forced.coef_) != pytest.approx(np.linalg.norm(off.coef_), rel=1e-3)
    with_constant = LogisticRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE).fit(fed)
    assert log_loss(labels, with_constant.predict_proba(X)) <= log_loss(labels, forced.predict_proba(X))


def test_classes_keep_their_names() -> None:
    X, labels = logistic_data(width=3, n_records=3000)
    names = np.array(["well", "ill"])[labels]
    records = sites(X, names, bound=2.0, response=None, classes=["well", "ill"])
    model = LogisticRegression(epsilon=5.0, delta=1e-5).fit(federation(records, 0))
    assert model.classes_.tolist() == ["well", "ill"]
    assert model.score(X, names) > 0.7
    assert set(model.predict(X)) <= {"well", "ill"}
    with pytest.raises(InvalidParameter, match="fitted classes"):
        model.score(X, np.full(len(X), "dead"))


def test_one_class_only_gives_probabilities_short_of_one() -> None:
    X, _ = small()
    records = sites(X, np.ones(300, dtype=int), response=None, classes=[0, 1])
    for protocol in (Exact(), FIVE):
        model = LogisticRegression(epsilon=3.0, delta=1e-5, **ONE_RELEASE).fit(federation(records, 0, protocol))
        ones = model.predict_proba(X)[:, 1]
        assert 0.8 < ones.mean() < 1.0
        assert ones.max() < 1.0


# Bad input


def test_responses_outside_their_bound_are_clipped_or_refused() -> None:
    X, y = small()
    y[0] = 1e6
    clipped = LinearRegression(epsilon=1.0, delta=1e-5).fit(
        Federation(in_process(sites(X, y, response=(10, 30))), protocol=Exact())
    )
    y[0] = 30.0
    same = LinearRegression(epsilon=1.0, delta=1e-5).fit(
        Federation(in_process(sites(X, y, response=(10, 30))), protocol=Exact())
    )
    np.testing.assert_allclose(clipped.coef_, same.coef_, rtol=1e-9)
    y[0] = 1e6
    with pytest.raises(InvalidParameter, match="public range"):
        sites(X, y, response=(10, 30), outside="refuse", invalid="refuse")


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (LogisticRegression, {"response": None, "classes": [0, 1, 2]}, "two classes"),
        (LogisticRegression, {}, "two classes"),
        (LinearRegression, {"response": None, "classes": [0, 1]}, r"response=\(low, high\)"),
    ],
)
def test_labels_of_the_wrong_kind_are_refused(model: Any, options: dict[str, Any], words: str) -> None:
    X, _ = small()
    records = sites(X, np.zeros(300, dtype=int), **options)
    with pytest.raises(InvalidParameter, match=words):
        model(epsilon=1.0, delta=1e-5).fit(federation(records, 0))


def test_records_without_labels_are_refused() -> None:
    fed = Federation(in_process({"a": rows(np.zeros((5, 2)), bound=1.0)}), protocol=Independent())
    with pytest.raises(InvalidParameter, match="labelled"):
        LinearRegression(epsilon=1.0, delta=1e-5).fit(fed)


@pytest.mark.parametrize("options", [{"ridge": -1.0}, {"ridge": math.nan}, {"confidence": 1.0}, {"ridge": True}])
def test_parameters_without_meaning_are_refused(options: dict[str, Any]) -> None:
    X, y = small()
    with pytest.raises(InvalidParameter):
        LinearRegression(epsilon=1.0, delta=1e-5, **options).fit(federation(sites(X, y, response=(10, 30)), 0))


def test_noise_above_every_signal_is_told() -> None:
    X, y = small(n_records=30)
    with pytest.warns(UtilityWarning, match="noise"):
        LinearRegression(epsilon=0.1, delta=1e-5).fit(federation(sites(X, y, response=(10, 30)), 0))


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_a_prediction_clips_new_rows_as_sites_clip_theirs(name: str) -> None:
    """Without scaling a prediction is one of clipped rows; for inference a row is taken as it is."""
    random = np.random.default_rng(4)
    X = random.normal(size=(4000, 3))
    linear = name == "linear"
    y = np.tanh(X[:, 0]) if linear else np.where(random.random(4000) < 1 / (1 + np.exp(-3 * X[:, 0])), "b", "a")
    kind: dict[str, Any] = {"response": (-1, 1)} if linear else {"classes": ["a", "b"]}
    fed = Federation(in_process({"here": labelled(X, y, bound=1.0, **kind)}), protocol=Independent())
    estimator = LinearRegression if linear else LogisticRegression
    row = np.array([[3.0, 0.0, 4.0]])
    for purpose in ("prediction", "inference"):
        model = estimator(epsilon=5.0, delta=1e-5, purpose=purpose).fit(fed)
        answer = model.predict if linear else model.decision_function
        assert bool(np.allclose(answer(row), answer(row / 5))) is (purpose == "prediction")


def test_a_model_for_inference_predicts_by_shrunken_coefficients() -> None:
    """Under noise they lose less than the coefficients that have intervals, without noise they are the same.

    Seeds are fixed. By 200 other seeds, the mean over twelve would be the other way round with probability 0.0014.
    """
    X, y = linear_data(width=8, n_records=1500)
    X, y = X + 0.3, np.clip(y + 0.2, -1, 1)
    records = sites(X, y, bound=1.5)
    exact = LinearRegression(epsilon=1.0, delta=1e-5).fit(federation(records, 0, Exact()))
    np.testing.assert_allclose(exact.shrunken_coef_, exact.coef_, rtol=1e-6)
    np.testing.assert_allclose(exact.shrunken_intercept_, exact.intercept_, rtol=1e-6)
    shrunken, unshrunken = [], []
    for seed in range(12):
        model = LinearRegression(epsilon=1.0, delta=1e-5).fit(federation(records, seed))
        shrunken.append(squared_loss(y, model.predict(X)))
        unshrunken.append(squared_loss(y, X @ model.coef_ + model.intercept_))
    assert np.mean(shrunken) < np.mean(unshrunken)
    assert np.mean(shrunken) < np.var(y)
