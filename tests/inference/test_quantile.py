"""Rows clipped to a quantile of their lengths that is found privately: declared, paid for, in the units of the records.

That diameters hold for any length a coordinator sends is searched in tests/laws/test_scaling.py.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpcape import PCA, Cape, Federation, Independent, KMeans, Mean, Quantile, Replay, in_process, rows, views
from dpcape.core.errors import InvalidParameter, UtilityWarning

CLIP = Quantile(0.9, share=0.05)


def _data() -> Any:
    return np.random.default_rng(1).normal(size=(6000, 4)) * [0.5, 0.2, 0.1, 0.1]


def _federation(X: Any, bound: float) -> Federation:
    held = {f"site{at}": rows(part, bound=bound) for at, part in enumerate(np.array_split(X, 3))}
    return Federation(in_process(held, noise=Replay(4)), protocol=Cape(n_colluding=1))


def test_a_bound_far_too_large_costs_little() -> None:
    """A bound 20 times the usual length: noise is that of the quantile, near which the radius lies."""
    X = _data()
    wanted = np.quantile(np.linalg.norm(X, axis=1), 0.9)
    model = PCA(2, epsilon=1.0, delta=1e-5, clip=CLIP).fit(_federation(X, 20.0))
    plain = PCA(2, epsilon=1.0, delta=1e-5).fit(_federation(X, 20.0))
    assert wanted / 2 <= model.radius_ <= wanted * 2**0.25
    assert model.noise_norm_ == pytest.approx(plain.noise_norm_ * (model.radius_ / 20) ** 2 / np.sqrt(0.95), rel=1e-3)
    shortened = X * np.minimum(1, model.radius_ / np.linalg.norm(X, axis=1))[:, None]
    truth = np.linalg.eigvalsh(shortened.T @ shortened / len(X))[::-1][:2]
    assert ((model.interval_[0] <= truth) & (truth <= model.interval_[1])).all()
    assert abs(model.components_[0, 0]) > 0.99


@pytest.mark.parametrize("ranged", [True, False])
def test_intervals_of_means_cover_after_clipping(ranged: bool) -> None:
    """Skewed columns far from zero, ranges or a bound far too wide: .95 is not refused at 1e-4 by 80 intervals.

    With ranges intervals are about the mean of the records; without, about that of rows clipped to the length found.
    """
    generator, held = np.random.default_rng(3), []
    for seed in range(40):
        X = 1 + generator.exponential(size=(3000, 2))
        spec: dict[str, Any] = {"ranges": [(-30.0, 30.0)] * 2} if ranged else {"bound": 40.0}
        federation = Federation(in_process({"here": rows(X, **spec)}, noise=Replay(seed)), protocol=Independent())
        model = Mean(epsilon=3.0, delta=1e-5, clip=CLIP).fit(federation)
        truth = np.full(2, 2.0)
        if not ranged:
            radius = float(model.about_.removeprefix("the mean of rows clipped to "))
            many = 1 + np.random.default_rng(9).exponential(size=(200_000, 2))
            truth = (many * np.minimum(1, radius / np.linalg.norm(many, axis=1))[:, None]).mean(axis=0)
        low, high = model.original_interval_
        held.append((low <= truth) & (truth <= high))
    assert binom.cdf(int(np.sum(held)), np.size(held), 0.95) > 1e-4


@pytest.mark.parametrize("width", [2, 12])
def test_clusters_are_found_inside_a_bound_far_too_large(width: int) -> None:
    generator = np.random.default_rng(2)
    places = np.zeros((2, width))
    places[:, 0] = [0.5, -0.5]
    X = places[generator.integers(2, size=6000)] + 0.05 * generator.normal(size=(6000, width))
    model = KMeans(2, epsilon=2.0, delta=1e-5, clip=CLIP).fit(_federation(X, 10.0))
    found = model.cluster_centers_[np.argsort(-model.cluster_centers_[:, 0])]
    np.testing.assert_allclose(found, places, atol=0.15)
    assert {entry.word for entry in model.verdicts_} == {"determined"}


def test_the_release_is_declared_and_paid_for() -> None:
    federation = _federation(_data(), 20.0)
    estimator = PCA(2, epsilon=1.0, delta=1e-5, clip=CLIP)
    plan = federation.plan(estimator)
    assert "radius histogram" in str(plan).replace("_", " ")
    model = estimator.fit(federation)
    assert [release.statistic for release in model.releases_] == ["radius_histogram", "scaled_second_moment"]
    squares = [release.mus["site0"] ** 2 for release in model.releases_]
    assert squares[0] / sum(squares) == pytest.approx(0.05, rel=1e-3)
    assert model.guarantee_.epsilon <= 1.0


def test_the_expected_noise_of_centres_is_relative_to_the_length_that_is_found() -> None:
    """Whatever the bound is, a plan with a quantile expects the same; without one, the same share of the bound."""
    found = [
        [
            federation.plan(KMeans(2, epsilon=1.0, delta=1e-5, n_iter=4, clip=clip)).expected_error
            for clip in (CLIP, None)
        ]
        for federation in (_federation(_data(), 1.0), _federation(_data(), 20.0))
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert found[0][0] == pytest.approx(found[0][1] / np.sqrt(0.95), rel=1e-3)


def test_units_come_back() -> None:
    first, second = (
        PCA(2, epsilon=1.0, delta=1e-5, clip=CLIP).fit(_federation(unit * _data(), unit * 8.0))
        for unit in (1.0, 1000.0)
    )
    np.testing.assert_allclose(second.explained_variance_, 1e6 * first.explained_variance_, rtol=1e-9)
    assert second.radius_ == pytest.approx(1000 * first.radius_, rel=1e-9)


def test_a_quantile_that_noise_would_hide_is_not_paid_for() -> None:
    federation = Federation(
        in_process({"here": rows(_data()[:60], bound=1.0)}, noise=Replay(1)), protocol=Independent()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        model = PCA(1, epsilon=0.5, delta=1e-5, clip=CLIP).fit(federation)
    assert any("not clipped to a quantile" in text for text in model.warnings_)
    assert [release.statistic for release in model.releases_] == ["second_moment"]


@pytest.mark.parametrize("wrong", [0.9, (0.9,), (0.2, 0.05), (0.9, 0.0), (0.9, 0.9), "private", (True, 0.05)])
def test_other_values_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="clip must be None, or a quantile"):
        PCA(1, epsilon=1.0, delta=1e-5, clip=wrong).fit(_federation(_data(), 1.0))


def test_a_second_radius_and_two_views_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="center=True"):
        PCA(1, epsilon=1.0, delta=1e-5, center=True, clip=CLIP).fit(_federation(_data(), 1.0))
    held = views(_data()[:, :2], _data()[:, 2:], bounds=(1.0, 1.0))
    with pytest.raises(InvalidParameter, match="for views"):
        PCA(1, epsilon=1.0, delta=1e-5, clip=CLIP).fit(Federation(in_process({"here": held}), protocol=Independent()))


def test_a_clipped_model_is_saved_and_loaded(tmp_path: Path) -> None:
    model = PCA(1, epsilon=1.0, delta=1e-5, clip=CLIP).fit(_federation(_data(), 5.0))
    model.save(tmp_path / "model.npz")
    assert tuple(PCA.load(tmp_path / "model.npz").clip) == CLIP
