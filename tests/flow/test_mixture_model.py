"""Mixtures of spherical Gaussians end to end, in process."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dpcape import Cape, Exact, Federation, Independent, MixtureModel, Replay, documents, in_process, rows
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.metrics import component_error, match_components
from dpcape.statistics.mixture_steps import mixture_step

Array = NDArray[np.float64]
MEANS = np.array([[0.9, 0.1, 0.0, 0.2], [-0.3, 0.8, 0.2, 0.0], [0.1, -0.2, -0.9, 0.1]])
WEIGHTS = np.array([0.5, 0.3, 0.2])
VARIANCE = 0.04


def sample(n_records: int, seed: int) -> tuple[Array, NDArray[np.intp]]:
    rng = np.random.default_rng(seed)
    which = rng.choice(3, n_records, p=WEIGHTS)
    return MEANS[which] + np.sqrt(VARIANCE) * rng.normal(size=(n_records, 4)), which


def federation(X: Array, *, seed: int = 1, protocol: Any = None, n_sites: int = 3, bound: float = 1.8) -> Federation:
    sites = {f"site{k}": rows(X[k::n_sites], bound=bound) for k in range(n_sites)}
    return Federation(in_process(sites, noise=Replay(seed)), protocol=protocol or Cape(n_colluding=1))


def model_of(epsilon: float = 2.0, **options: Any) -> MixtureModel:
    return MixtureModel(3, epsilon=epsilon, delta=1e-6, noise_variance=VARIANCE, **options)


@pytest.fixture(scope="module")
def X() -> Array:
    return sample(30000, 0)[0]


def test_without_noise_the_full_design_finds_the_truth(X: Array) -> None:
    model = model_of(design="full", n_iter=0).fit(federation(X, protocol=Exact()))
    order = match_components(model.means_, MEANS)
    np.testing.assert_allclose(model.means_[order], MEANS, atol=0.02)
    np.testing.assert_allclose(model.weights_[order], WEIGHTS, atol=0.02)


def test_without_noise_a_wide_clip_loses_nothing(X: Array) -> None:
    wide = model_of(design="whitened", clip_factor=6.0, n_iter=0).fit(federation(X, protocol=Exact()))
    full = model_of(design="full", n_iter=0).fit(federation(X, protocol=Exact()))
    np.testing.assert_allclose(wide.means_, full.means_, atol=1e-6)
    np.testing.assert_allclose(wide.weights_, full.weights_, atol=1e-6)
    narrow = model_of(design="whitened", clip_factor=1.2, n_iter=0).fit(federation(X, protocol=Exact()))
    assert component_error(narrow.means_, MEANS) > 3 * component_error(wide.means_, MEANS)


@pytest.mark.parametrize("design", ["full", "whitened"])
def test_a_private_fit_is_close(X: Array, design: str) -> None:
    model = model_of(design=design).fit(federation(X))
    assert component_error(model.means_, MEANS) < 0.1
    np.testing.assert_allclose(model.weights_.sum(), 1.0, atol=1e-12)
    assert len(model.releases_) == model.guarantee_.releases == 4
    assert model.guarantee_.epsilon <= 2.0
    assert model.design_ == design
    third = {"full": "third_moment", "whitened": "whitened_third_moment"}[design]
    steps = ["mixture_step", "mixture_step"]
    assert [release.statistic for release in model.releases_] == ["second_moment", third, *steps]


def test_the_share_moves_noise_between_the_releases(X: Array) -> None:
    half, less = (model_of(design="full", second_moment_share=share).fit(federation(X)) for share in (0.5, 0.125))
    assert less.releases_[0].scale / half.releases_[0].scale == pytest.approx(2.0, rel=1e-6)
    assert less.releases_[1].scale / half.releases_[1].scale == pytest.approx(np.sqrt(4 / 7), rel=1e-6)
    assert less.guarantee_.mu == pytest.approx(half.guarantee_.mu, rel=1e-9)


def test_cape_beats_conventional_beats_local(X: Array) -> None:
    def mean_error(make: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            fits = [model_of(0.3).fit(make(seed)) for seed in range(4)]
        return float(np.mean([component_error(fit.means_, MEANS) for fit in fits]))

    cape = mean_error(lambda seed: federation(X, seed=seed, n_sites=5))
    conventional = mean_error(lambda seed: federation(X, seed=seed, n_sites=5, protocol=Independent()))
    alone = mean_error(lambda seed: federation(X[::5], seed=seed, n_sites=1, protocol=Independent()))
    assert cape < conventional < alone


def test_responsibilities_predictions_and_scores(X: Array) -> None:
    model = model_of(10.0).fit(federation(X))
    fresh, which = sample(2000, 7)
    responsibilities = model.transform(fresh)
    np.testing.assert_allclose(responsibilities.sum(axis=1), 1.0, atol=1e-12)
    order = match_components(model.means_, MEANS)
    assert np.mean(model.predict(fresh) == order[which]) > 0.97
    densities = [norm.logpdf(fresh, mean, np.sqrt(VARIANCE)).sum(axis=1) for mean in model.means_]
    expected = np.log(np.exp(np.array(densities).T) @ model.weights_).mean()
    assert model.score(fresh) == pytest.approx(expected, rel=1e-9)


def test_save_load_and_plots(X: Array, tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    model = model_of().fit(federation(X))
    model.save(tmp_path / "mixture.npz")
    again = MixtureModel.load(tmp_path / "mixture.npz")
    np.testing.assert_array_equal(again.means_, model.means_)
    assert again.design_ == model.design_
    np.testing.assert_array_equal(again.transform(X[:5]), model.transform(X[:5]))
    labels = [label.get_text() for label in model.plot_means().get_yticklabels()]
    assert labels == [f"component {at + 1}" for at in range(len(model.means_))]
    assert model.plot_strengths().get_xlabel() == "component"
    plt.close("all")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_components": 5}, "n_components"),
        ({"n_components": -1}, "n_components"),
        ({"noise_variance": -0.1}, "noise_variance"),
        ({"noise_variance": np.nan}, "noise_variance"),
        ({"noise_variance": "small"}, "noise_variance"),
        ({"design": "both"}, "design"),
        ({"clip_factor": 0.0}, "clip_factor"),
        ({"second_moment_share": 1.0}, "second_moment_share"),
        ({"n_iter": -1}, "n_iter"),
        ({"n_iter": "many"}, "n_iter"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(X: Array, changed: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"n_components": 3, "noise_variance": VARIANCE, "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(InvalidParameter, match=message):
        MixtureModel(**{**options, **changed}).fit(federation(X[:30]))


def test_documents_are_refused() -> None:
    fed = Federation(in_process({"a": documents(np.full((4, 4), 2))}), protocol=Independent())
    with pytest.raises(InvalidParameter, match=r"Build them with rows\("):
        model_of().fit(fed)


def test_hopeless_noise_is_a_warning() -> None:
    with pytest.warns(UtilityWarning, match="second moment"):
        model = model_of(0.1).fit(federation(sample(300, 3)[0]))
    assert np.isfinite(model.means_).all()
    assert (model.weights_ > 0).all()


def test_a_noise_variance_larger_than_the_data_is_a_warning_not_a_crash(X: Array) -> None:
    with pytest.warns(UtilityWarning, match="second moment"):
        model = MixtureModel(3, epsilon=5.0, delta=1e-6, noise_variance=5.0).fit(federation(X))
    assert np.isfinite(model.means_).all()


def test_dependent_means_are_floored_without_noise() -> None:
    rng = np.random.default_rng(2)
    X = np.outer(rng.choice([-1.0, 0.5], 5000), [0.6, 0.0, 0.8, 0.0])
    with pytest.warns(UtilityWarning, match="2 of 3"):
        model = MixtureModel(3, epsilon=1.0, delta=1e-6, noise_variance=0.0).fit(federation(X, protocol=Exact()))
    assert np.isfinite(model.means_).all()


def overlapping(seed: int, weights: Array) -> tuple[Array, Array]:
    """Return rows and unit means of any angle in ten columns, with the variance .05 of the docs' table."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(5, 10))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    which = rng.choice(5, 30000, p=weights)
    return means[which] + np.sqrt(0.05) * rng.normal(size=(30000, 10)), means


@pytest.mark.parametrize("weights", [[0.2] * 5, [0.45, 0.25, 0.15, 0.1, 0.05]], ids=["equal", "unequal"])
def test_steps_halve_the_error_of_the_moments(weights: list[float]) -> None:
    """Over 60 other seeds the ratio of the mean errors of three was .27 to .52 (equal) and .13 to .40 (unequal)."""
    before, after, shares = [], [], []
    for seed in (11, 12, 13):
        X, means = overlapping(seed, np.array(weights))
        for n_iter, errors in ((0, before), ("auto", after)):
            fed = federation(X, seed=seed, bound=1.7)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)
                model = MixtureModel(5, epsilon=1.0, delta=1e-5, noise_variance=0.05, n_iter=n_iter).fit(fed)
            errors.append(component_error(model.means_, means))
        shares.append(np.abs(model.weights_[match_components(model.means_, means)] - weights).max())
    assert np.mean(after) < 0.5 * np.mean(before)
    assert max(shares) < 0.03


def test_whether_steps_are_made_follows_from_the_noise_in_the_total() -> None:
    """With independent noise at 16 sites the total has four times the noise; so it has at a quarter of epsilon."""
    X = np.zeros((6400, 10))

    def n_releases(epsilon: float, protocol: Any, n_sites: int) -> int:
        made = MixtureModel(5, epsilon=epsilon, delta=1e-5, noise_variance=0.05)
        public = made.public(federation(X, protocol=protocol, n_sites=n_sites, bound=1.7))
        assert made.analysis is not None
        return len(made.analysis.shares(public))

    found = {
        name: [n_releases(epsilon, protocol, n_sites) > 2 for epsilon in (0.05, 0.1, 0.2, 0.4, 0.8)]
        for name, protocol, n_sites in (
            ("one", Independent(), 1),
            ("cape", Cape(n_colluding=0), 16),
            ("independent", Independent(), 16),
        )
    }
    assert found["one"] == found["cape"]
    # mu is nearly proportional to epsilon here.
    assert found["independent"] == [False, False, *found["one"][:3]]
    assert found["one"] == sorted(found["one"])
    assert {False, True} <= {*found["one"][:3]}


def test_steps_converge_to_the_records_own_likelihood(X: Array) -> None:
    """Without noise and hardly clipped, steps lead where scikit-learn's algorithm leads."""
    from sklearn.mixture import GaussianMixture

    model = model_of(n_iter=60).fit(federation(X, protocol=Exact(), bound=3.0))
    start = {"weights_init": WEIGHTS, "means_init": MEANS, "precisions_init": np.full(3, 1 / VARIANCE)}
    theirs = GaussianMixture(3, covariance_type="spherical", **start).fit(X)
    order = match_components(model.means_, theirs.means_)
    np.testing.assert_allclose(model.means_[order], theirs.means_, atol=5e-3)
    np.testing.assert_allclose(model.weights_[order], theirs.weights_, atol=5e-3)


def test_steps_are_left_out_where_noise_would_drown_them(X: Array) -> None:
    def n_releases(epsilon: float, **options: Any) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            return len(model_of(epsilon, **options).fit(federation(X)).releases_)

    assert n_releases(2.0) == 4
    assert n_releases(0.001) == 2
    assert n_releases(0.001, n_iter=1) == 3
    assert n_releases(2.0, n_iter=0) == 2


def test_records_without_noise_need_no_steps() -> None:
    X = np.repeat(MEANS, 3000, axis=0)
    model = MixtureModel(3, epsilon=5.0, delta=1e-6, noise_variance=0.0).fit(federation(X))
    assert [release.statistic for release in model.releases_][-1] == "third_moment"


def test_a_lost_step_is_done_without() -> None:
    model = model_of(n_iter=3)
    fed = federation(sample(3000, 1)[0])
    assert list(model._rounds(fed)) == [2, 3, 4]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"means": np.full((2, 4), np.nan)}, "means"),
        ({"means": np.full((2, 4), 1e300)}, "means"),
        ({"means": np.ones((2, 4))}, "means"),
        ({"means": np.zeros((2, 3))}, "means"),
        ({"means": np.zeros((2, 4), dtype=np.float32)}, "means"),
        ({"weights": np.array([1.0, 0.0])}, "weights"),
        ({"weights": np.array([1.0, np.nan])}, "weights"),
        ({"weights": np.array([0.5, 0.3, 0.2])}, "weights"),
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"clip": np.inf}, "clip"),
        ({"count_weight": -1.0}, "count_weight"),
    ],
    ids=str,
)
def test_a_site_refuses_a_step_that_its_proof_does_not_cover(changed: dict[str, Any], message: str) -> None:
    facts = rows(np.zeros((5, 4)), bound=1.8).facts()
    usual = {"means": np.zeros((2, 4)), "weights": np.full(2, 0.5), "noise_variance": 0.1, "clip": 1.0}
    with pytest.raises(InvalidParameter, match=message):
        mixture_step(facts, **{**usual, "count_weight": 0.1, **changed})


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("variance", [1e-30, 1e-3, 1e30])
def test_a_contribution_is_never_longer_than_the_clip(size: float, variance: float) -> None:
    """Means next to the records make the squared distance cancel; then the slack of the length decides."""
    rng = np.random.default_rng(3)
    for _ in range(30):
        x = rng.normal(size=4)
        x *= size / np.linalg.norm(x) * rng.uniform(0.5, 1.0)
        means = np.stack([x * (1 - 1e-12), x * (1 + 1e-9), -x, rng.normal(size=4) * size / 9])
        means *= np.minimum(1.0, size / np.linalg.norm(means, axis=1, keepdims=True))
        held = rows(x[None], bound=size)
        clip = size * 10.0 ** rng.uniform(-13, 0)
        statistic = mixture_step(
            held.facts(),
            means=means,
            weights=rng.dirichlet(np.ones(4)) + 1e-9,
            noise_variance=variance,
            clip=clip,
            count_weight=size * 1e-14,
        )
        assert np.linalg.norm(statistic.total(held)) <= clip + statistic.rounding(1)
