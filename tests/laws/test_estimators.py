"""What must hold for every estimator. A new one joins by a case in ``estimators_<topic>.py``."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import dpcape
from dpcape import PCA, Cape, Exact, Federation, Independent, KMeans, Mean, Replay, SecureSum, in_process, rows, views
from dpcape.core.errors import InvalidParameter, SiteLost
from dpcape.core.protocols.protocol import Protocol
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.model_files import plain_value
from dpcape.estimators.views.cca import CCA

from .estimator_case import EstimatorCase, all_estimators

pytestmark = pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
CASES = all_estimators()
each_case = pytest.mark.parametrize("case", CASES, ids=str)
BASIC = (1.0, 1e-5)


def federation_of(case: EstimatorCase, protocol: Protocol, seed: int = 1) -> Federation:
    return Federation(in_process(case.records(), noise=Replay(seed)), protocol=protocol)


@cache
def fitted(case: EstimatorCase) -> Any:
    return case.make(*BASIC).fit(federation_of(case, Cape(n_colluding=1)))


def plain(params: dict[str, Any]) -> str:
    """Return parameters as text; arrays and bases come back from files as lists."""
    return json.dumps(params, default=plain_value)


def test_every_public_estimator_has_a_case() -> None:
    public = {
        name
        for name in dpcape.__all__
        if isinstance(getattr(dpcape, name), type) and issubclass(getattr(dpcape, name), FederatedEstimator)
    }
    missing = sorted(public - {case.estimator for case in CASES})
    assert not missing, f"add cases for {missing} to tests/laws/estimators_<topic>.py"


@each_case
def test_parameters_are_stored_and_cloned(case: EstimatorCase) -> None:
    model = case.make(*BASIC)
    again = clone(model)
    assert type(again) is type(model)
    assert repr(again.get_params()) == repr(model.get_params())
    assert model.set_params(epsilon=2.0).epsilon == 2.0
    assert again.epsilon == 1.0


@each_case
def test_fit_leaves_parameters_alone_and_uses_what_was_allowed(case: EstimatorCase) -> None:
    model, fresh = fitted(case), case.make(*BASIC)
    assert repr(model.get_params()) == repr(fresh.get_params())
    assert len(model.releases_) <= model.guarantee_.releases
    assert [release.number for release in model.releases_] == list(range(len(model.releases_)))
    assert all(release.n_releases == model.guarantee_.releases for release in model.releases_)


@each_case
def test_the_guarantee_is_what_was_asked(case: EstimatorCase) -> None:
    guarantee = fitted(case).guarantee_
    assert guarantee.epsilon <= 1.0
    assert guarantee.epsilon == pytest.approx(1.0, rel=1e-4)
    assert guarantee.delta == 1e-5
    assert guarantee.replayable
    assert guarantee.sentence().startswith("REPLAYABLE: NO PROTECTION")
    assert guarantee.against == "the aggregator together with any 1 site"
    assert json.loads(guarantee.to_json())["epsilon"] == guarantee.epsilon


@each_case
def test_files_hold_everything_and_no_code(case: EstimatorCase, tmp_path: Path) -> None:
    model = fitted(case)
    path = tmp_path / "model.npz"
    model.save(path)
    with np.load(path, allow_pickle=False) as stored:
        assert all(stored[name].dtype != object for name in stored)
    again = type(model).load(path)
    for name in (entry for entry in model._fitted if hasattr(model, entry)):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.guarantee_ == model.guarantee_
    assert again.releases_ == model.releases_
    assert plain(again.get_params()) == plain(model.get_params())
    assert again.n_features_in_ == model.n_features_in_
    assert list(getattr(again, "feature_names_in_", [])) == list(getattr(model, "feature_names_in_", []))


def distance(found: Any, wanted: Any) -> float:
    """Largest difference, relative to the largest wanted entry."""
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return float(np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-12))


@pytest.mark.parametrize("case", [case for case in CASES if case.fitted], ids=str)
def test_as_epsilon_grows_the_result_tends_to_the_exact_one(case: EstimatorCase) -> None:
    exact = case.make(*BASIC).fit(federation_of(case, Exact()))
    private = case.make(200.0, 1e-5).fit(federation_of(case, SecureSum(n_colluding=0)))
    for name, tolerance in case.fitted.items():
        assert distance(getattr(private, name), getattr(exact, name)) < tolerance, name
    assert exact.guarantee_.epsilon == np.inf
    assert exact.guarantee_.sentence().startswith("No privacy guarantee")


@each_case
def test_exact_results_are_saved_with_their_infinite_figures(case: EstimatorCase, tmp_path: Path) -> None:
    exact = case.make(*BASIC).fit(federation_of(case, Exact()))
    exact.save(tmp_path / "exact.npz")
    assert type(exact).load(tmp_path / "exact.npz").guarantee_ == exact.guarantee_
    assert json.loads(exact.guarantee_.to_json())["epsilon"] is None


@each_case
def test_only_a_federation_is_fitted(case: EstimatorCase) -> None:
    with pytest.raises(InvalidParameter, match="Federation"):
        case.make(*BASIC).fit(np.eye(3))


@each_case
@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-5), (-1.0, 1e-5), (np.inf, 1e-5), (1.0, 0.0), (1.0, 1.0), ("1", 1e-5)]
)
def test_meaningless_budgets_are_refused(case: EstimatorCase, epsilon: Any, delta: float) -> None:
    line = in_process(case.records(), noise=Replay(1))
    with pytest.raises(InvalidParameter):
        case.make(epsilon, delta).fit(Federation(line, protocol=Independent()))
    assert not any(line.site(site).ledger.charges for site in line.sites)


@each_case
def test_epsilon_may_differ_from_site_to_site(case: EstimatorCase) -> None:
    sites = sorted(case.records())
    epsilons = {site: 0.5 + index for index, site in enumerate(sites)}
    for protocol in (Independent(), SecureSum(n_colluding=1)):
        guarantee = case.make(epsilons, 1e-5).fit(federation_of(case, protocol)).guarantee_
        for site, epsilon in epsilons.items():
            assert guarantee.sites[site].epsilon <= epsilon
        assert guarantee.epsilon == max(entry.epsilon for entry in guarantee.sites.values())


# The core analyses in particular.


def test_loading_another_class_or_file_is_refused(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.label == "PCA")
    path = tmp_path / "model.npz"
    fitted(case).save(path)
    with pytest.raises(InvalidParameter, match=r"PCA\.load"):
        Mean.load(path)
    np.savez(tmp_path / "other.npz", a=np.zeros(2))
    with pytest.raises(InvalidParameter, match="save"):
        PCA.load(tmp_path / "other.npz")
    with pytest.raises(NotFittedError):
        PCA(2, epsilon=1.0, delta=1e-5, center=False).save(path)


def test_feature_names() -> None:
    case = next(case for case in CASES if case.label == "PCA")
    model = fitted(case)
    assert model.feature_names_in_.tolist() == ["age", "dose", "time", "score"]
    assert model.get_feature_names_out().tolist() == ["pca0", "pca1"]


def test_transform() -> None:
    case = next(case for case in CASES if case.label == "PCA-centred")
    model = fitted(case)
    data = np.random.default_rng(0).normal(size=(6, 4))
    scores = model.transform(data)
    np.testing.assert_allclose(scores, (data - model.mean_) @ model.components_.T)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(2), atol=1e-12)
    again = model.inverse_transform(scores)
    np.testing.assert_allclose(model.transform(again), scores, atol=1e-12)
    with pytest.raises(InvalidParameter, match="4 columns"):
        model.transform(data[:, :3])


def test_correlations_stay_in_range_whatever_the_noise() -> None:
    """Four records and strong noise: blocks are indefinite, and nothing raises."""
    generator = np.random.default_rng(3)
    for seed in range(8):
        held = {
            name: views(generator.normal(size=(4, 3)), generator.normal(size=(4, 2)), bounds=(1.0, 1.0))
            for name in "abc"
        }
        federation = Federation(in_process(held, noise=Replay(seed)), protocol=Cape(n_colluding=0))
        for components in (2, "auto"):
            model = CCA(components, epsilon=0.1, delta=1e-6, center=False).fit(federation)
            assert ((model.correlations_ >= 0) & (model.correlations_ <= 1)).all()
            assert (np.diff(model.correlations_) <= 0).all()
            assert np.isfinite(model.x_weights_).all()
            assert np.isfinite(model.y_weights_).all()


def test_confidence_intervals_cover_the_mean() -> None:
    """Coverage of 95 % intervals over 200 replays of 3 entries: at least 0.89 except with probability below 1e-6.

    The exact bound: 600 trials at 0.95 are below 534 with probability 3e-9; entries of one replay share nothing.
    """
    generator = np.random.default_rng(8)
    truth = np.array([0.2, -0.1, 0.0])
    hits = 0
    for seed in range(200):
        sample = truth + 0.15 * generator.normal(size=(90, 3))
        federation = Federation(
            in_process({"here": rows(sample, bound=1.0)}, noise=Replay(seed)), protocol=Independent()
        )
        low, high = Mean(epsilon=3.0, delta=1e-5).fit(federation).interval_
        hits += int(((low <= truth) & (truth <= high)).sum())
    assert hits >= 534


def test_automatic_components_ignore_pure_noise() -> None:
    held = {name: rows(np.zeros((50, 6)), bound=1.0) for name in "abc"}
    federation = Federation(in_process(held, noise=Replay(2)), protocol=Cape(n_colluding=0))
    model = PCA("auto", epsilon=1.0, delta=1e-5, center=False).fit(federation)
    assert len(model.components_) == 1
    strong = {name: rows(np.outer(np.ones(4000), [0.6, 0.8, 0, 0, 0, 0]), bound=1.0) for name in "abc"}
    model = PCA("auto", epsilon=1.0, delta=1e-5, center=False).fit(
        Federation(in_process(strong, noise=Replay(2)), protocol=Cape(n_colluding=0))
    )
    assert len(model.components_) == 1
    assert model.explained_variance_[0] == pytest.approx(1.0, abs=0.05)


def test_expected_error_bounds_what_happens() -> None:
    case = next(case for case in CASES if case.label == "PCA")
    exact = case.make(*BASIC).fit(federation_of(case, Exact()))
    data = np.vstack([block.copy() for held in case.records().values() for block in held.feature_blocks(10_000)])
    moment = data.T @ data / len(data)
    spectrum = np.linalg.eigvalsh(moment)[::-1]
    federation = federation_of(case, Cape(n_colluding=1))
    model = PCA(2, epsilon=8.0, delta=1e-5, center=False)
    expected = model.expected_error(federation, spectrum, failure=1e-6)
    captured = np.trace(model.fit(federation).components_ @ moment @ model.components_.T)
    best = float(spectrum[:2].sum())
    assert best - captured <= expected.energy_loss
    projectors = [found.components_.T @ found.components_ for found in (model, exact)]
    assert np.linalg.norm(projectors[0] - projectors[1], 2) <= expected.subspace_distance + 1e-12


def test_a_failed_fit_leaves_no_guarantee_behind() -> None:
    case = next(case for case in CASES if case.label == "PCA")

    class Gone(type(in_process(case.records()))):
        def ask(self, messages_by_site: Any, deadline: float | None) -> Any:
            replies, _ = super().ask(messages_by_site, deadline)
            lost = "ava" if any(b"Submit" in data for data in messages_by_site.values()) else None
            return {site: reply for site, reply in replies.items() if site != lost}, (lost,) if lost else ()

    line = in_process(case.records(), noise=Replay(1))
    model = case.make(*BASIC).fit(Federation(line, protocol=Independent()))
    broken = Gone(line._sites, line._dealer)
    with pytest.raises(SiteLost):
        model.fit(Federation(broken, protocol=Independent()))
    assert not hasattr(model, "guarantee_")


def test_the_guarantee_prints_every_item() -> None:
    case = next(case for case in CASES if case.label == "PCA")
    records = in_process(case.records())
    guarantee = (
        PCA(2, epsilon=1.0, delta=1e-5, center=False).fit(Federation(records, protocol=Cape(n_colluding=1))).guarantee_
    )
    sentence = guarantee.sentence()
    for item in (
        "(1, 1e-05)-differentially private per record",
        "one record of one site is replaced",
        "the aggregator together with any 1 site",
        "1 release",
        "at least 4 of 4 sites finishing",
        "site sizes",
        "exact integer noise",
        "verified",
        "a person appears at one site only",
        "honest but curious",
    ):
        assert item in sentence
    assert "REPLAYABLE" not in sentence
    html = guarantee._repr_html_()
    assert "verified" in html
    assert "<script" not in html
    hostile = msgspec.structs.replace(guarantee, against="<script>alert(1)</script>")
    assert "<script" not in hostile._repr_html_()


def test_a_subclass_saves_what_its_base_saves() -> None:
    class Mine(KMeans):
        ratio_: float

    assert set(Mine._fitted) == {*KMeans._fitted, "ratio_"}
