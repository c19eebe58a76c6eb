"""PCA and CCA within sites: covariances, tests and intervals, and what sites must not bring about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from dpcape import CCA, PCA, PLS, Exact, Federation, Independent, Replay, SecureSum, in_process, rows, views
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.estimators.eigen_noise import eigen_noise
from dpcape.postprocessing.component_tests import MomentNoise
from dpcape.postprocessing.site_centring import SiteNoise, within_sites
from dpcape.statistics.moments import SITE_WEIGHT, MomentsBySite, SiteCentredMoments

quiet = pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5}
SIZES = {"rome": 300, "lima": 500, "oslo": 200, "cork": 400}


def shifted(width: int, seed: int, shift: float = 0.6) -> dict[str, Any]:
    """Return isotropic rows whose means differ between sites."""
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=(n, width)) + shift * generator.normal(size=width) for name, n in SIZES.items()}


def federation(held: dict[str, Any], protocol: Any, seed: int = 0) -> Federation:
    return Federation(in_process(held, noise=Replay(seed)), protocol=protocol)


def covariance_within(held: dict[str, Any]) -> Any:
    centred = np.vstack([part - part.mean(axis=0) for part in held.values()])
    return centred.T @ centred / len(centred)


def test_without_noise_it_is_the_covariance_within_sites() -> None:
    """Views are not divided by a radius, and the bound clips nothing."""
    data = shifted(5, 1)
    held = {name: views(part[:, :2], part[:, 2:], bounds=(50.0, 50.0)) for name, part in data.items()}
    model = PCA(5, **BUDGET, adjust="site").fit(federation(held, Exact()))
    wanted = np.sort(np.linalg.eigvalsh(covariance_within(data)))[::-1]
    # In a ball of 50 a step of the grid is 5e-5, of which a row moves by half; over all rows that averages out.
    np.testing.assert_allclose(model.explained_variance_, wanted, rtol=1e-5)
    np.testing.assert_allclose(model.mean_, np.vstack(list(data.values())).mean(axis=0), rtol=0, atol=1e-5)
    assert model.sites_.tolist() == sorted(SIZES)
    for name, mean in zip(model.sites_, model.site_means_, strict=True):
        np.testing.assert_allclose(mean, data[str(name)].mean(axis=0), rtol=0, atol=1e-5)


def by_noise(seed: int) -> tuple[bool, bool]:
    """Return whether a component is found where there is none, and whether an interval misses its eigenvalue."""
    data = shifted(4, seed)
    held = {name: views(part[:, :2], part[:, 2:], bounds=(5.0, 5.0)) for name, part in data.items()}
    model = PCA(2, **BUDGET, adjust="site").fit(federation(held, Independent(), seed))
    clipped = {
        name: np.hstack([part * np.minimum(1, 5 / np.linalg.norm(part, axis=1, keepdims=True)) for part in halves])
        for name, halves in ((name, (part[:, :2], part[:, 2:])) for name, part in data.items())
    }
    values = np.sort(np.linalg.eigvalsh(covariance_within(clipped)))[::-1][:2]
    missed = (values < model.interval_[0]) | (values > model.interval_[1])
    return bool(model.p_values_[0] <= 0.05), bool(missed.any())


@quiet
def test_sites_that_differ_give_no_components_and_intervals_cover() -> None:
    """A law that holds at 5% fails one of the two exact binomial tests at 1e-4 with a probability of at most 2e-4."""
    found = np.array([by_noise(seed) for seed in range(60)]).sum(axis=0)
    assert min(binomtest(int(count), 60, 0.05, alternative="greater").pvalue for count in found) >= 1e-4
    data = shifted(4, 0)
    model = PCA(2, **BUDGET, center=True).fit(
        federation({name: rows(part, bound=8.0) for name, part in data.items()}, Independent())
    )
    assert model.p_values_[0] <= 0.05


def related_by_site(seed: int, adjust: str | None, strength: float = 0.0) -> float:
    generator = np.random.default_rng(seed)
    held = {}
    for name, n in SIZES.items():
        shift, common = 0.8 * generator.normal(), generator.normal(size=(n, 1))
        parts = [generator.normal(size=(n, 3)) + strength * common + shift for _ in range(2)]
        held[name] = views(*parts, bounds=(4.0, 4.0))
    model = CCA(1, epsilon=5.0, delta=1e-5, center=True, adjust=adjust).fit(
        federation(held, SecureSum(n_colluding=0), seed)
    )
    return float(model.p_values_[0])


@quiet
def test_correlations_that_sites_bring_about_are_not_found() -> None:
    """A law that holds at 5% fails the exact binomial test at 1e-4 with a probability of at most 1e-4."""
    false = sum(related_by_site(seed, "site") <= 0.05 for seed in range(30))
    assert binomtest(false, 30, 0.05, alternative="greater").pvalue >= 1e-4
    assert related_by_site(0, None) <= 0.05
    # One that holds within sites is found.
    assert related_by_site(0, "site", strength=0.8) <= 0.05


@quiet
def test_unreadable_records_of_one_site_do_not_bring_its_mean_back() -> None:
    """Half of the records of the site that is far from the others contribute zero, and are counted by site."""
    generator = np.random.default_rng(2)
    data = {name: generator.normal(size=(4000, 3)) for name in ("a", "b", "c")}
    data["c"][:, 0] += 3
    clean = {name: part.copy() for name, part in data.items()}
    clean["c"] = clean["c"][2000:]
    data["c"][:2000] = np.nan
    held = {name: views(part[:, :1], part[:, 1:], bounds=(6.0, 6.0)) for name, part in data.items()}
    model = PCA(1, epsilon=5.0, delta=1e-6, adjust="site").fit(federation(held, SecureSum(n_colluding=0)))
    wanted = np.linalg.eigvalsh(covariance_within(clean))[-1]
    assert model.interval_[0][0] < wanted < model.interval_[1][0]
    assert model.explained_variance_[0] == pytest.approx(wanted, abs=0.15)


def test_a_site_that_was_lost_takes_no_part() -> None:
    generator = np.random.default_rng(3)
    parts = [generator.normal(size=(50, 2)) + at for at in (0.0, 5.0)]
    together = np.vstack(parts)
    moments = MomentsBySite(
        np.array([0.5, 7.0, 0.5]),
        np.stack([parts[0].sum(axis=0) / 100, [9.0, 9.0], parts[1].sum(axis=0) / 100]),
        together.T @ together / 100,
    )
    sizes = np.array([0.5, 0.0, 0.5])
    found = within_sites(moments, sizes=sizes, scale=0.0, divisor=1.0, bound=1.0)
    np.testing.assert_allclose(found.covariance, covariance_within(dict(enumerate(parts))))  # type: ignore[arg-type]
    np.testing.assert_allclose(found.mean, together.mean(axis=0))
    np.testing.assert_allclose(found.site_means[1], found.mean)


def test_noise_in_means_changes_the_covariance_by_what_its_draws_say() -> None:
    """Averages of 4000 draws: within four standard errors, at 10 entries a false alarm in 1600."""
    generator = np.random.default_rng(4)
    sizes, sums = np.array([0.2, 0.3, 0.5]), generator.normal(0, 0.1, (3, 3))
    scale, unit = 0.02, SITE_WEIGHT * 2.0
    exact = within_sites(MomentsBySite(sizes, sums, np.eye(3)), sizes=sizes, scale=0.0, divisor=1.0, bound=2.0)
    noisy = [
        within_sites(
            MomentsBySite(sizes, sums + generator.normal(0, scale / unit, sums.shape), np.eye(3)),
            sizes=sizes,
            scale=scale,
            divisor=1.0,
            bound=2.0,
        ).covariance
        - exact.covariance
        for _ in range(4000)
    ]
    errors = np.std(noisy, axis=0) / np.sqrt(len(noisy))
    assert (np.abs(np.mean(noisy, axis=0)) < 4 * errors).all()
    noise = SiteNoise(sums / np.sqrt(sizes)[:, None], scale / unit / np.sqrt(sizes))
    drawn = noise.matrices(np.random.default_rng(5), 4000)
    np.testing.assert_allclose(drawn.std(axis=0), np.std(noisy, axis=0), rtol=0.1)
    assert noise.variance == pytest.approx(np.mean(np.var(noisy, axis=0)[np.arange(3), np.arange(3)]), rel=0.1)
    tops, averages = noise.largest(np.random.default_rng(5), 4000, -1.0)
    np.testing.assert_allclose(tops, np.linalg.eigvalsh(-drawn)[:, -1], atol=1e-12)
    np.testing.assert_allclose(averages, -np.trace(drawn, axis1=1, axis2=2) / 3, atol=1e-12)


def test_noise_of_eigenvalues_and_components_counts_the_means_of_sites() -> None:
    """Deviations over 4000 draws are known to 1.1%: ten of them are off by 8% with a probability below 1e-10."""
    generator = np.random.default_rng(0)
    vectors = np.linalg.qr(generator.normal(size=(4, 4)))[0]
    values = np.array([4.0, 2.0, 1.0, 0.5])
    sites = SiteNoise(generator.normal(size=(3, 4)), np.array([0.02, 0.03, 0.01]))
    noise = MomentNoise(scale=0.01, mean_scale=0.0, mean=np.zeros(4), record_share=1e-4, sites=sites)
    of_values, of_vectors = eigen_noise(values, vectors, noise, 2)
    symmetric = 0.01 * generator.normal(size=(4000, 4, 4))
    errors = sites.matrices(generator, 4000) + (symmetric + symmetric.swapaxes(1, 2)) / 2
    found, turned = np.linalg.eigh(vectors @ np.diag(values) @ vectors.T + errors)
    turned = turned[:, :, :1:-1] * np.sign(np.einsum("nij,ij->nj", turned[:, :, :1:-1], vectors[:, :2]))[:, np.newaxis]
    np.testing.assert_allclose(of_values, found[:, :1:-1].std(axis=0), rtol=0.08)
    np.testing.assert_allclose(of_vectors, turned.std(axis=0).T, rtol=0.08)


def test_largest_eigenvalues_are_the_same_where_columns_outnumber_sites() -> None:
    noise = SiteNoise(np.random.default_rng(6).normal(size=(2, 9)), np.array([0.5, 0.2]))
    for sign in (1.0, -1.0):
        tops, _ = noise.largest(np.random.default_rng(7), 50, sign)
        wanted = np.linalg.eigvalsh(sign * noise.matrices(np.random.default_rng(7), 50))[:, -1]
        np.testing.assert_allclose(tops, wanted, atol=1e-12)


@quiet
def test_means_that_noise_hides_are_not_subtracted() -> None:
    """Scores would differ between sites by the noise alone; a false alarm of two standard deviations has p = 0.03."""
    held = {name: rows(part, bound=6.0) for name, part in shifted(4, 9, shift=0.0).items()}
    model = PCA(2, epsilon=0.3, delta=1e-5, adjust="site").fit(federation(held, Independent(), 9))
    np.testing.assert_allclose(model.site_means_, np.tile(model.mean_, (4, 1)))


def _facts() -> PublicFacts:
    return rows(np.zeros((1, 2)), bound=1.0).facts()


def test_a_site_writes_into_its_own_place_whatever_is_sent() -> None:
    held = rows(np.full((3, 2), 0.1), bound=1.0)
    for place in range(3):
        total = SiteCentredMoments(_facts(), 3).at(place).total(held)
        assert np.flatnonzero(total[:3]).tolist() == [place]
        assert np.flatnonzero(total[3:9]).tolist() == [2 * place, 2 * place + 1]
    with pytest.raises(InvalidParameter, match="number of sites"):
        SiteCentredMoments(_facts(), 2).at(2)
    for wrong in (0, True, 1.5):
        with pytest.raises(InvalidParameter, match="n_sites must be"):
            SiteCentredMoments(_facts(), wrong)  # type: ignore[arg-type]  # wrong on purpose


@quiet
def test_models_keep_the_means_of_sites_and_subtract_them(tmp_path: Path) -> None:
    data = shifted(4, 8)
    held = {name: rows(part, bound=6.0) for name, part in data.items()}
    model = PCA(2, **BUDGET, adjust="site").fit(federation(held, SecureSum(n_colluding=1)))
    assert "noisy total of each site" in str(model.guarantee_)
    model.save(tmp_path / "pca.npz")
    again = PCA.load(tmp_path / "pca.npz")
    scores = again.transform(data["oslo"], site="oslo")
    np.testing.assert_allclose(scores, (data["oslo"] - model.site_means_[2]) @ model.components_.T)
    assert np.linalg.norm(scores.mean(axis=0)) < 0.5 * np.linalg.norm(again.transform(data["oslo"]).mean(axis=0)) + 0.1
    with pytest.raises(InvalidParameter, match="site must be one of"):
        again.transform(data["oslo"], site="bern")


@quiet
def test_what_does_not_go_together_is_refused() -> None:
    held = {name: rows(part, bound=6.0) for name, part in shifted(4, 8).items()}
    both = {name: views(part[:, :2], part[:, 2:], bounds=(4.0, 4.0)) for name, part in shifted(4, 8).items()}
    weighted = Federation(in_process(held), protocol=Exact(), weights=dict.fromkeys(SIZES, 0.25))
    with pytest.raises(InvalidParameter, match="weights of sites must be left out"):
        PCA(1, **BUDGET, adjust="site").fit(weighted)
    with pytest.raises(InvalidParameter, match="basis must be left out"):
        PCA(1, **BUDGET, adjust="site", basis=np.eye(4, 2)).fit(federation(held, Exact()))
    with pytest.raises(InvalidParameter, match="basis must be left out"):
        CCA(1, **BUDGET, adjust="site", basis=(np.eye(2, 1), None)).fit(federation(both, Exact()))
    with pytest.raises(InvalidParameter, match="adjust must be"):
        PCA(1, **BUDGET, adjust="age").fit(federation(held, Exact()))
    components = PCA(1, **BUDGET, center=False).fit(federation(held, Exact()))
    pairs = PLS(1, **BUDGET).fit(federation(both, Exact()))
    for model, width in ((components, 4), (pairs, 2)):
        with pytest.raises(InvalidParameter, match="not adjusted for sites"):
            model.transform(np.zeros((1, width)), site="oslo")


@quiet
def test_a_second_fit_without_adjustment_forgets_the_first() -> None:
    both = {name: views(part[:, :2], part[:, 2:], bounds=(4.0, 4.0)) for name, part in shifted(4, 8).items()}
    model = CCA(1, **BUDGET, adjust="site").fit(federation(both, Exact()))
    plain = CCA(1, **BUDGET, center=True).fit(federation(both, Exact()))
    model.set_params(adjust=None, center=True).fit(federation(both, Exact()))
    np.testing.assert_allclose(model.x_mean_, plain.x_mean_)
    np.testing.assert_allclose(model.correlations_, plain.correlations_)
