"""Random effects over sites: intervals for these sites and beyond cover, at three sites too; totals by site are named.

The full grid is ``experiments/everyday/heterogeneity.py``; its figures are in docs/analyses/heterogeneity.md. A cell of
coverage is decided by an exact one-sided binomial test at 1e-5 for each of its four figures, so that a true law fails
one of these tests with a probability of at most 1e-4 (seeds are fixed).
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.everyday import heterogeneity as cells
from scipy.stats import binom

from dpcape import (
    Cape,
    Exact,
    Federation,
    Harmonise,
    Heterogeneity,
    Independent,
    Replay,
    SecureSum,
    Summary,
    in_process,
    table,
)
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.estimators.sites.random_effects import random_effects, site_values
from dpcape.guarantee.card import card_of
from dpcape.guarantee.guarantee import BY_SITE
from dpcape.statistics.site_moments import WEIGHT, SiteMeans

ROOT = Path(__file__).parents[2]
ALPHA = 1e-5
STORED = json.loads((ROOT / "experiments" / "everyday" / "heterogeneity.json").read_text("utf-8"))
quiet = pytest.mark.filterwarnings(
    "ignore::dpcape.core.errors.UtilityWarning", "ignore::dpcape.core.errors.UndeterminedWarning"
)
BUDGET: dict[str, float] = {"epsilon": 3.0, "delta": 1e-5}
COLUMNS: dict[str, Any] = {"site": {"levels": [0, 1, 2, 3, 4]}, "value": (-5, 8), "other": (0, 1)}


@pytest.mark.parametrize(
    ("cell", "runs"),
    [(cells.Cell(3, 300, 0.3, 3.0, unequal=True), 60), (cells.Cell(15, 100, 0.1, 1.0), 40)],
    ids=str,
)
def test_intervals_cover_in_quick_cells(cell: Any, runs: int) -> None:
    for entry in cells.coverage(cell, runs):
        assert entry["p_value"] >= ALPHA, entry


def test_the_stored_grid_refutes_no_interval() -> None:
    assert STORED["refuted"] == []
    limit = cells.FAMILY / len(STORED["coverage"])
    for entry in STORED["coverage"]:
        assert binom.cdf(round(entry["share"] * entry["trials"]), entry["trials"], 0.95) >= limit, entry


@pytest.mark.parametrize("n_sites", [3, 5])
def test_with_few_sites_intervals_cover_and_are_wide(n_sites: int) -> None:
    """Without records: 2000 draws of means; a share below 0.93 has a probability below 1e-4 at 0.95."""
    rng, inside, variances = np.random.default_rng(1), np.zeros(3), np.geomspace(0.01, 0.3, n_sites)
    for _ in range(2000):
        means = rng.normal(0, np.sqrt(0.04 + variances))
        found = random_effects(means, 0.5 * variances, 0.5 * variances, 0.95)
        ends = (found.interval, found.tau2_interval, found.prediction)
        truths = (0.0, 0.04, rng.normal(0, 0.2))
        inside += [low <= truth <= high for (low, high), truth in zip(ends, truths, strict=True)]
    assert (inside / 2000 > 0.93).all(), inside
    # Three sites that agree exactly do not make their differences small.
    alike = random_effects(np.full(n_sites, 1.0), np.full(n_sites, 0.1), np.full(n_sites, 0.1), 0.95)
    assert alike.tau2_interval[1] > 0.2


def _people(n_records: int, tau: float = 0.5) -> dict[str, Any]:
    rng = np.random.default_rng(5)
    site = np.arange(n_records) % 5
    shifts = tau * np.array([-1.2, -0.3, 0.1, 0.4, 1.0])
    return {"site": site, "value": shifts[site] + rng.normal(0, 1, n_records), "other": rng.random(n_records)}


def _federation(protocol: Any, n_records: int = 10_000, n_sites: int = 3, **options: Any) -> Federation:
    people = _people(n_records)
    parts = np.array_split(np.arange(n_records), n_sites)
    held = {
        f"place-{at}": table({name: values[part] for name, values in people.items()}, columns=COLUMNS)
        for at, part in enumerate(parts)
    }
    return Federation(in_process(held, noise=Replay(2)), protocol=protocol, **options)


@quiet
def test_without_noise_figures_are_those_of_the_means_of_sites() -> None:
    model = Heterogeneity("site", columns="value", **BUDGET).fit(_federation(Exact()))
    people = _people(10_000)
    means = np.array([people["value"][people["site"] == at].mean() for at in range(5)])
    np.testing.assert_allclose(model.site_means_[:, 0], means, atol=1e-4)
    assert model.mean_[0] == pytest.approx(means.mean(), abs=1e-4)
    assert model.pooled_[0] == pytest.approx(people["value"].mean(), abs=1e-4)
    # Sampling of 2000 records at a site is small beside the spread of the sites.
    assert model.tau_[0] == pytest.approx(means.std(ddof=1), rel=0.02)
    assert model.i2_[0] > 0.98
    assert model.prediction_interval_[0, 0] < model.interval_[0, 0] < means.mean() < model.interval_[1, 0]
    # The interval for these sites is far shorter than the one for the wider population.
    assert np.diff(model.pooled_interval_[:, 0]) < 0.1 * np.diff(model.interval_[:, 0])


@quiet
def test_figures_are_written_drawn_and_kept(tmp_path: Path) -> None:
    model = Heterogeneity("site", **BUDGET).fit(_federation(Cape(n_colluding=1)))
    model.save(tmp_path / "model.npz")
    assert Heterogeneity.load(tmp_path / "model.npz").to_text() == model.to_text()
    assert "wider population" in model.to_text()
    written = list(csv.DictReader(io.StringIO(model.to_csv(tmp_path / "results.csv"))))
    assert len(written) == 2 * (5 + 5)
    for row in written:
        assert float(row["low"]) <= float(row["estimate"]) <= float(row["high"]), row
    labels = [text.get_text() for text in model.plot_sites("value").get_yticklabels()]
    assert labels == ["0", "1", "2", "3", "4", "these sites", "wider population", "a further site"]
    words = {entry.quantity: entry.word for entry in model.verdicts_}
    assert words["difference of sites in value"] == "determined"


@quiet
def test_nothing_is_claimed_where_noise_hides_the_sites() -> None:
    model = Heterogeneity("site", epsilon=0.1, delta=1e-5).fit(_federation(Independent(), 60, 1))
    assert np.isinf(model.interval_).all()
    assert np.isinf(model.prediction_interval_).all()
    np.testing.assert_array_equal(model.tau_interval_[0], 0.0)
    assert np.isinf(model.tau_interval_[1]).all()
    assert "not estimable" in model.to_text()
    model.plot_sites()


@quiet
@pytest.mark.parametrize("protocol", [Cape(n_colluding=1), SecureSum(n_colluding=1)], ids=lambda entry: entry.name)
@pytest.mark.parametrize("estimator", [Heterogeneity, Harmonise], ids=lambda entry: entry.__name__)
def test_guarantee_and_card_say_that_totals_by_site_are_visible(estimator: Any, protocol: Any) -> None:
    federation = _federation(protocol, 1500)
    model = estimator("site", **BUDGET)
    planned = model.plan(federation).guarantee
    fitted = model.fit(federation).guarantee_
    for guarantee in (planned, fitted):
        assert BY_SITE in guarantee.sentence()
        assert any(BY_SITE[1:] in sentence for sentence in card_of(guarantee).sentences)
        assert guarantee.to_dict()["by_site"]
    plain = Summary(**BUDGET).fit(federation).guarantee_
    assert BY_SITE not in plain.sentence()
    assert "by_site" not in plain.to_dict()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"site": "value"}, "site must name one column with public levels"),
        ({"columns": ["site"]}, "columns must name columns of numbers"),
        ({"confidence": 0.9}, "confidence must be at least 0.92"),
        ({"confidence": 1.0}, "confidence must be"),
    ],
)
def test_what_cannot_be_estimated_is_refused_before_anything_is_charged(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        Heterogeneity(**{"site": "site", **BUDGET, **given}).fit(_federation(Independent(), 60, 1))


def test_weights_of_sites_are_refused() -> None:
    weights = {f"place-{at}": 0.2 + 0.2 * at for at in range(3)}
    with pytest.raises(InvalidParameter, match="counts every record once"):
        Heterogeneity("site", **BUDGET).fit(_federation(Exact(), 60, 3, weights=weights))


def _of_sites(means: list[float], spread: float, sizes: list[int], seed: int) -> Heterogeneity:
    """Return random effects of normal values in a wide range."""
    rng, site = np.random.default_rng(seed), np.repeat(np.arange(len(sizes)), sizes)
    values = np.array(means)[site] + spread * rng.normal(size=len(site))
    columns: dict[str, Any] = {"site": {"levels": list(range(len(sizes)))}, "value": (-12, 12)}
    held = {"all": table({"site": site, "value": values}, columns=columns)}
    return Heterogeneity("site", **BUDGET).fit(Federation(in_process(held, noise=Replay(seed)), protocol=Independent()))


def test_nothing_false_is_said_of_a_small_site_far_from_all_others() -> None:
    """Its values lie beyond six standard deviations of all records: clipped, they were called known within 0.1."""
    for seed in range(5):
        with pytest.warns(UtilityWarning, match="Values of 4 lie so far"):
            model = _of_sites([0.0, 0.0, 0.0, 0.0, 8.0], 0.3, [5000] * 4 + [100], seed)
        assert np.isinf(model.site_interval_[:, 4, 0]).all()
        assert np.isinf(model.interval_).all()
        assert np.isinf(model.prediction_interval_).all()
        # The true means have a standard deviation of 3.6; that sites differ is still found.
        assert 0.7 < model.tau_interval_[0, 0] < 3.6
        assert np.isinf(model.tau_interval_[1, 0])
        assert model.verdicts_[0].word == "determined"
        assert np.isfinite(model.site_interval_[:, :4]).all()


def test_the_mean_of_a_site_that_varies_more_than_others_is_covered() -> None:
    """Without records, 1000 draws: 0.925 or less has a probability below 5e-4 at 0.95; shrunk variances cover 0.82."""
    rng, noise, inside = np.random.default_rng(2), 3.0, 0
    sizes, variances = np.array([300.0] + [1000.0] * 9)[:, np.newaxis], np.array([0.4] + [0.01] * 9)[:, np.newaxis]
    for _ in range(1000):
        means = rng.normal(0, np.sqrt(variances / sizes))
        spread = variances * rng.chisquare(sizes - 1) / sizes
        counts = sizes[:, 0] + noise / WEIGHT * rng.normal(size=10)
        sums = sizes * means + noise * rng.normal(size=(10, 1))
        squares = sizes * (spread + means**2) + noise / WEIGHT * rng.normal(size=(10, 1))
        found = site_values(SiteMeans(counts, sums, squares), noise=noise)
        inside += bool(found.means[0, 0] ** 2 <= 1.96**2 * (found.sampling + found.noise)[0, 0])
    assert inside > 925
