"""From the holder's table to the third party's prediction."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
from made_data import factor_data, standardised

import dpcape
from dpcape.core.errors import ConvergenceWarning, Failed, InvalidParameter
from dpcape.estimators.not_fitted import NotFitted
from dpcape.factor_release.alignment import kept_spread
from dpcape.factor_release.bundle import fit_bundle
from dpcape.factor_release.bundle_reader import read_bundle
from dpcape.factor_release.choice_of_factors import choose_n_factors
from dpcape.factor_release.factor_release import FactorRelease
from dpcape.factor_release.gibbs_sampler import StandardisedFeatures
from dpcape.factor_release.markov_chain import ChainSettings, MarkovChain
from dpcape.factor_release.markov_chain_files import load_chain, save_chain
from dpcape.factor_release.posterior import _warn_if_apart, combine
from dpcape.factor_release.private_factor_model import PrivateFactorModel
from dpcape.factor_release.risk_page import risk_page

N, P, K, TRAIN = 90, 307, 3, 60


def model(**changes: object) -> FactorRelease:
    settings = {"n_burn_in": 150, "n_draws": 60, "thin": 1, "random_state": 5, "n_factors": K} | changes
    return FactorRelease(**settings)


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return factor_data(N, P, K, seed=21)


@pytest.fixture(scope="module")
def fitted(data: tuple[np.ndarray, np.ndarray, np.ndarray]) -> FactorRelease:
    X, y, _ = data
    return model().fit(X[:TRAIN], y[:TRAIN], X_test=X[TRAIN:])


@pytest.fixture(scope="module")
def released(fitted: FactorRelease, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    fitted.release(folder, n_released_draws=10, n_repeats=2)
    return folder


def test_factors_predict_and_span_the_truth(fitted: FactorRelease, data) -> None:
    _, y, truth = data
    error = fitted.test_error(y[TRAIN:])
    assert error.low <= error.mse * 1.1
    assert error.low <= error.high
    assert error.mse < 0.15 * y[TRAIN:].var()
    E = np.vstack([fitted.factors_, fitted.factors_test_])
    residual = truth - E @ np.linalg.lstsq(E, truth, rcond=None)[0]
    assert residual.var() < 0.05


def test_averaging_the_draws_does_not_shrink_them(fitted: FactorRelease) -> None:
    assert kept_spread(fitted.draws_).min() > 0.95
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(len(fitted.draws_), 1, K))
    assert kept_spread(fitted.draws_ * signs).max() < 0.5  # what happens without alignment


def test_competitors_lie_between_best_and_worst_case(fitted: FactorRelease, data) -> None:
    y = data[1][TRAIN:]
    errors = {name: np.mean((p - y) ** 2) for name, p in fitted.competitors().items()}
    worst = errors.pop("worst case: covariates only")
    assert set(errors) == {"two-stage", "SVD", "best case: ridge on features"}
    assert all(e < 0.3 * worst for e in errors.values())


def test_predictive_intervals_cover_and_credible_ones_are_inside(data) -> None:
    X, y, _ = factor_data(400, 100, K, seed=22)
    fitted = model(n_chains=1).fit(X[:100], y[:100], X_test=X[100:])
    wide = fitted.predict_interval(level=0.9, kind="predictive")
    narrow = fitted.predict_interval(level=0.9)
    covered = np.mean((wide.low <= y[100:]) & (y[100:] <= wide.high))
    # 300 test subjects: binomial sd 0.017; the held-out error is itself estimated from 100 subjects.
    assert 0.8 < covered < 0.98
    assert np.all(narrow.high - narrow.low < wide.high - wide.low)


def test_third_party_gets_the_holders_model(released: Path, fitted: FactorRelease) -> None:
    bundle = read_bundle(released / "third_party")
    result = fit_bundle(bundle)
    with (released / "holder" / "key.csv").open() as stream:
        rows = [int(r["row"]) for r in csv.DictReader(stream) if r["part"] == "test"]
    np.testing.assert_allclose(result.predictions, fitted.predict()[rows], rtol=1e-5, atol=1e-6)
    assert np.all(np.diff(bundle.factors[:, 0]) >= 0)
    assert bundle.draws is not None
    assert bundle.draws.shape == (10, N, K)
    assert fit_bundle(bundle, ridges=[1.0], fractions=[0.0, 1.0]).model.ridge == 1.0


def test_bundle_holds_no_loadings_no_count_and_says_there_is_no_guarantee(released: Path) -> None:
    folder = released / "third_party"
    texts = {p.name: p.read_text() for p in folder.iterdir() if p.suffix != ".npz"}
    assert not any(str(P) in text for name, text in texts.items() if name in ("README.txt", "manifest.json"))
    sizes = [len(line.split(",")) for text in texts.values() for line in text.splitlines()]
    assert max(sizes) < 30
    assert max(text.count("\n") for text in texts.values()) <= TRAIN + 1
    assert "no differential-privacy guarantee" in texts["README.txt"]
    assert "no differential-privacy guarantee" in json.loads(texts["manifest.json"])["statement"]
    described = {row["column"].rstrip("_kc") for row in csv.DictReader(texts["data_dictionary.csv"].splitlines())}
    for name in ("training.csv", "test.csv", "guides.csv"):
        header = next(csv.reader([texts[name].splitlines()[0]]))
        assert {c.rstrip("0123456789_") for c in header} <= described
    assert "response" not in texts["test.csv"]


def test_risk_report_comes_with_every_release(released: Path, fitted: FactorRelease) -> None:
    holder = released / "holder"
    stored = json.loads((holder / "risk.json").read_text())
    assert stored["statement"] == fitted.risk_.statement
    assert [leak["n_leaked"] for leak in stored["leaks"]] == sorted({K + 2, 2 * K, 3 * K})
    assert "no differential-privacy guarantee" in (holder / "risk.html").read_text()


def test_read_refuses_responses_in_the_test_part(released: Path, tmp_path: Path) -> None:
    for source in (released / "third_party").iterdir():
        (tmp_path / source.name).write_bytes(source.read_bytes())
    lines = (tmp_path / "test.csv").read_text().splitlines()
    (tmp_path / "test.csv").write_text("\n".join([lines[0] + ",response", *[x + ",1.0" for x in lines[1:]]]))
    with pytest.raises(InvalidParameter, match="must not hold responses"):
        read_bundle(tmp_path)


def test_update_adds_subjects_without_refitting(data) -> None:
    X, y, truth = factor_data(130, P, K, seed=23)
    fitted = model().fit(X[:60], y[:60], X_test=X[60:90])
    before = fitted.factors_.copy(), fitted.factors_test_.copy()
    fitted.update(X[90:110])
    np.testing.assert_array_equal(fitted.factors_, before[0])
    np.testing.assert_array_equal(fitted.factors_test_[:30], before[1])
    assert fitted.factors_test_.shape == (50, K)
    assert np.mean((fitted.predict()[30:] - y[90:110]) ** 2) < 0.2 * y.var()
    # New factors are on the scale of the old ones: the map learnt on old subjects holds for new ones.
    slopes = np.linalg.lstsq(np.vstack([fitted.factors_, before[1]]), truth[:90], rcond=None)[0]
    guess = fitted.factors_test_[30:] @ slopes
    assert np.sum(guess * truth[90:110]) / np.sum(guess**2) == pytest.approx(1.0, abs=0.1)
    fitted.update(X[110:], y[110:], part="training")
    assert fitted.factors_.shape == (80, K)
    with pytest.raises(InvalidParameter, match="left out for test subjects"):
        fitted.update(X[110:], y[110:])


def test_a_released_model_takes_no_more_subjects(tmp_path: Path) -> None:
    """The second training.csv grew by exactly the row of the person who was added."""
    X, y, _ = factor_data(61, P, K, seed=29)
    fitted = model().fit(X[:45], y[:45], X_test=X[45:60])
    fitted.update(X[60:], y[60:], part="training")  # nothing is released yet
    assert fitted.factors_.shape == (46, K)
    fitted.release(tmp_path / "first", n_repeats=1)
    for words in ({"part": "training", "y": y[60:]}, {}):
        with pytest.raises(InvalidParameter, match="before release"):
            fitted.update(X[60:], **words)
    again = fitted.fit(X[:45], y[:45])
    assert again.update(X[60:]).factors_test_.shape == (1, K)


@pytest.mark.parametrize("with_response", [True, False])
def test_the_risk_report_measures_a_pair_of_releases(with_response: bool, tmp_path: Path) -> None:
    """Of two releases that differ by one person, both sampled again, the second shows that person.

    The bound is half; with 30 people, each found with probability 0.9, 15 or fewer are found with probability 1e-7.
    """
    X, y, _ = factor_data(90, P, K, seed=31)
    fitted = model().fit(X[:60], y[:60] if with_response else None, X_test=X[60:])
    report = fitted.assess_risk(n_repeats=1)
    pair = report.second_release
    assert pair is not None
    assert pair.n_people == 30
    assert pair.baseline == pytest.approx(1 / 61)
    assert pair.success > 0.5
    assert pair not in report.attacks
    assert "If you release again" in risk_page(report)


def test_same_seed_same_result_and_interruption_leaves_no_trace(tmp_path: Path) -> None:
    X = factor_data(40, 80, 3, seed=24)[0]
    features = StandardisedFeatures((X - X.mean(0)) / X.std(0))
    plan = ChainSettings(8, True, "multiplicative", 120, 20, 2, (3,))
    whole = MarkovChain(features, plan).run()
    for stop in (50, 130):
        part = MarkovChain(features, plan).run(until=stop)
        save_chain(part, tmp_path / "chain.npz")
        resumed = load_chain(MarkovChain(features, plan), tmp_path / "chain.npz").run()
        assert whole.kept is not None
        assert resumed.kept is not None
        # BLAS may round differently in another memory layout; a lost random number would differ by one or so.
        np.testing.assert_allclose(whole.kept.factors, resumed.kept.factors, atol=1e-9)
        np.testing.assert_allclose(whole.kept.loadings_sum, resumed.kept.loadings_sum, atol=1e-8)
        assert whole.n_factors_trace == resumed.n_factors_trace
    other = MarkovChain(StandardisedFeatures(features.values + 1e-9), plan)
    with pytest.raises(Failed, match="Use a new checkpoint folder"):
        load_chain(other, tmp_path / "chain.npz")
    assert b"pickle" not in (tmp_path / "chain.npz").read_bytes()


def test_checkpoint_folder_resumes_a_fit(tmp_path: Path, data) -> None:
    X, y, _ = data
    plain = model().fit(X[:TRAIN], y[:TRAIN])
    saved = model(checkpoint=tmp_path, checkpoint_every=70).fit(X[:TRAIN], y[:TRAIN])
    again = model(checkpoint=tmp_path, checkpoint_every=70).fit(X[:TRAIN], y[:TRAIN])
    np.testing.assert_allclose(plain.factors_, saved.factors_, atol=1e-9)
    np.testing.assert_array_equal(saved.factors_, again.factors_)
    assert sorted(os.listdir(tmp_path)) == ["chain-0.npz", "chain-1.npz"]


def test_lapack_and_numba_agree(data) -> None:
    X, y, _ = data
    fits = [model(kernel=k, n_burn_in=20, n_draws=10, n_chains=1).fit(X, y) for k in ("numba", "lapack")]
    np.testing.assert_allclose(fits[0].factors_, fits[1].factors_, atol=1e-6)


@pytest.mark.parametrize("n", [60, 120])
def test_adaptive_number_of_factors_is_right(n: int) -> None:
    X = factor_data(n, 1500, 10, seed=25)[0]
    fitted = FactorRelease(n_burn_in=250, n_draws=20, n_chains=1, random_state=2)
    fitted.fit(X)
    assert 10 <= fitted.n_factors_ <= 12
    assert fitted.recommended_ is None


def test_number_of_factors_by_held_out_error(data) -> None:
    X, y, _ = data
    choice = choose_n_factors(X, y, candidates=[1, 3, 5], n_burn_in=60, n_draws=30, random_state=1)
    assert choice.chosen >= 3
    assert choice.errors[1] > choice.errors[choice.chosen]


def test_constant_and_missing_features(data) -> None:
    X, y, _ = data
    X = X.copy()
    X[:, 4] = 7.3
    X[3, 9] = np.nan
    with pytest.raises(InvalidParameter, match="missing values"):
        model().fit(X, y)
    fitted = model(missing="drop", n_burn_in=20, n_draws=10, n_chains=1).fit(X, y)
    assert np.flatnonzero(~fitted.features_used_).tolist() == [4, 9]
    assert fitted.loadings_.shape == (K, P - 2)
    assert fitted.transform(X[:2]).shape == (2, K)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"n_factors": 60}, {}, "smaller than the number of subjects"),
        ({"n_factors": 0}, {}, "positive whole number"),
        ({"n_factors": 8}, {"columns": 5}, "must not exceed the number of varying features"),
        ({}, {"responses": 90}, "training subjects only"),
        ({}, {"covariates": np.ones(60)}, "both parts or for neither"),
        ({"prior": "flat"}, {}, "prior must be"),
        ({"n_draws": 0}, {}, "n_draws must be"),
        ({"kernel": "gpu"}, {}, "kernel must be"),
    ],
)
def test_bad_input_is_refused(changes, arguments, message, data) -> None:
    X, y, _ = data
    X = X[:, : arguments.get("columns", P)]
    n_test = 0 if changes.get("n_factors") == 60 else 30
    with pytest.raises(InvalidParameter, match=message):
        model(**changes).fit(
            X[:60],
            y[: arguments.get("responses", 60)],
            X_test=X[60 : 60 + n_test] if n_test else None,
            covariates=arguments.get("covariates"),
        )


def test_infinite_values_and_unfitted_models_are_refused(data) -> None:
    X = data[0].copy()
    X[0, 0] = np.inf
    with pytest.raises(InvalidParameter, match="must be finite"):
        model().fit(X)
    with pytest.raises(NotFitted, match="Call fit"):
        model().transform(X)


def test_chains_that_disagree_give_a_warning() -> None:
    features = StandardisedFeatures(standardised(factor_data(30, 60, 3, seed=26)[0]))
    chains = [MarkovChain(features, ChainSettings(3, False, "multiplicative", 50, 60, 1, (i,))).run() for i in range(2)]
    _warn_if_apart(combine(chains).diagnostics, 2, 60)
    assert chains[1].kept is not None
    chains[1].kept.monitors[:, 0] += 3 * chains[1].kept.monitors[:, 0].std()
    with pytest.warns(ConvergenceWarning, match="have not mixed"):
        _warn_if_apart(combine(chains).diagnostics, 2, 60)


def test_covariates_are_used_and_released(tmp_path: Path) -> None:
    X, y, _ = factor_data(80, 100, 3, seed=27)
    age = np.random.default_rng(1).standard_normal(80)
    y = y + 5 * age
    fitted = model(n_chains=1).fit(X[:50], y[:50], X_test=X[50:], covariates=age[:50], covariates_test=age[50:])
    assert fitted.test_error(y[50:]).mse < 1.0
    bundle = read_bundle(fitted.release(tmp_path, n_repeats=1).third_party)
    assert bundle.covariates is not None
    assert bundle.covariates.shape == (50, 1)


def private_rows(n: int = 20000) -> np.ndarray:
    rng = np.random.default_rng(28)
    E = rng.standard_normal((n, 2))
    X = E @ rng.standard_normal((2, 8)) * 0.15 + 0.1 * rng.standard_normal((n, 8))
    return np.asarray(X)


def test_private_model_predicts_with_its_guarantee() -> None:
    X = private_rows()
    sites = dpcape.in_process({"here": dpcape.rows(X, bound=1.5)})
    federation = dpcape.Federation(sites, protocol=dpcape.Independent())
    fitted = PrivateFactorModel("auto", epsilon=1.0, delta=1e-6, n_burn_in=100, n_draws=100).fit(federation)
    assert fitted.n_factors_ == 2
    assert 0.98 < fitted.guarantee_.epsilon <= 1.0
    assert fitted.guarantee_.releases == 1
    guess = fitted.predict_column(X[:, :7], 7)
    best = X[:, :7] @ np.linalg.lstsq(X[:, :7], X[:, 7], rcond=None)[0]
    assert np.mean((guess - X[:, 7]) ** 2) < 1.1 * np.mean((best - X[:, 7]) ** 2)
    assert fitted.transform(X[:3]).shape == (3, 2)


def test_private_model_refuses_what_noise_would_drown() -> None:
    wide = dpcape.in_process({"here": dpcape.rows(np.ones((3, 1001)), bound=1.0)})
    with pytest.raises(InvalidParameter, match="at most 1000 features"):
        PrivateFactorModel(2, epsilon=1.0, delta=1e-6).fit(dpcape.Federation(wide, protocol=dpcape.Independent()))
    few = dpcape.in_process({"here": dpcape.rows(np.ones((15, 10)), bound=1.0)})
    with pytest.raises(InvalidParameter, match="more than twice the features"):
        PrivateFactorModel(2, epsilon=1.0, delta=1e-6).fit(dpcape.Federation(few, protocol=dpcape.Independent()))
