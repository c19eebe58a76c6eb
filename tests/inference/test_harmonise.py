"""Harmonisation: what is left of sites, what is kept of records, and why standardising locally is not private."""

from __future__ import annotations

import csv
import io
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.everyday import harmonise as experiment

from dpcape import Exact, Federation, Harmonise, Independent, MassUnivariate, Replay, in_process, table
from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.errors import DpcapeWarning, InvalidParameter, UtilityWarning
from dpcape.estimators.sites import site_effects
from dpcape.postprocessing.verdicts import DETERMINED, NOT_DETERMINED
from dpcape.statistics.site_moments import SiteMeans

BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5}


@pytest.mark.parametrize("factor", [20, 200])
def test_a_column_with_a_range_far_too_wide_stays_as_it_is(factor: int) -> None:
    """Noise shows in each of ten studies how little the column varies, by more than ten standard errors.

    Harmonised, it had differences between sites of 5% to more than its own variance.
    """
    for seed in range(10):
        source = np.random.default_rng(seed)
        site, means = source.choice(8, 5000), source.normal(0, 0.4, (8, 5))
        values = source.standard_normal((5000, 5)) + means[site]
        data = {"site": site, **{f"y{at}": column for at, column in enumerate(values.T)}}
        widths = {f"y{at}": 6 * (factor if at == 2 else 1) for at in range(5)}
        columns = {"site": {"levels": list(range(8))}, **{name: (-width, width) for name, width in widths.items()}}
        federation = Federation(
            in_process({"all": table(data, columns=columns)}, noise=Replay(seed)), protocol=Independent()
        )
        with pytest.warns(UtilityWarning, match=r"Not harmonised: y2\."):
            model = Harmonise("site", epsilon=20.0, delta=1e-6).fit(federation)
        assert np.array_equal(model.transform(data)["y2"], data["y2"])
        assert [entry.word for entry in model.verdicts_] == [DETERMINED, NOT_DETERMINED]
        assert model.verdicts_[1].quantity == "harmonised y2"
        left = means - model.location_
        others = np.delete(left - left.mean(axis=0), 2, axis=1)
        assert (others**2).mean() < model.left_


def test_sites_explain_little_after_harmonisation() -> None:
    """Over seeds, what is left is 0.002 with a standard deviation of about 0.001: 0.02 is never reached by chance."""
    rows, site = experiment.simulated(8, 800, 20, np.random.default_rng(1))
    found, model = experiment.harmonised(rows, site, 5.0, 1)
    assert experiment.explained_by_site(rows, site) > 0.05
    assert experiment.explained_by_site(found, site) < 0.02
    assert model.verdicts_[0].word == DETERMINED
    spread = [rows[site == at].std() for at in range(8)]
    after = [found[site == at].std() for at in range(8)]
    assert np.std(after) < 0.5 * np.std(spread)


@pytest.mark.parametrize(("n_sites", "per_site", "epsilon"), [(6, 300, 3.0), (12, 100, 10.0), (4, 1000, 1.0)])
def test_no_more_is_left_than_is_said(n_sites: int, per_site: int, epsilon: float) -> None:
    """Ten fixed seeds each. A limit that fails in 5% of studies fails more than once in ten with probability 9%."""
    failed = 0
    for seed in range(10):
        rows, site = experiment.simulated(n_sites, per_site, 10, np.random.default_rng(200 + seed))
        found, model = experiment.harmonised(rows, site, epsilon, seed)
        centred, sizes = found - found.mean(axis=0), np.bincount(site)
        means = np.stack([np.bincount(site, weights=column) / sizes for column in centred.T], axis=1)
        # Without what chance alone leaves between sites.
        between = (sizes @ means**2) / len(site) - (n_sites - 1) / len(site) * centred.var(axis=0)
        share = float((between / centred.var(axis=0)).mean())
        failed += share > model.left_ / (1 + model.left_)
    assert failed <= 1


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
def test_no_more_is_left_than_is_said_where_one_site_has_most_records() -> None:
    """The upper limit (95%) fails in 5 or more of 20 studies with probability below 0.003."""
    failures, shares = 0, np.r_[0.7, np.full(9, 0.3 / 9)]
    for seed in range(20):
        source = np.random.default_rng(seed)
        site, means = source.choice(10, 3000, p=shares), source.normal(0, 0.4, (10, 5))
        values = source.standard_normal((3000, 5)) + means[site]
        data = {"site": site, **{f"y{at}": column for at, column in enumerate(values.T)}}
        columns = {"site": {"levels": list(range(10))}, **{f"y{at}": (-6, 6) for at in range(5)}}
        federation = Federation(
            in_process({"all": table(data, columns=columns)}, noise=Replay(seed)), protocol=Independent()
        )
        model = Harmonise("site", epsilon=3.0, delta=1e-5).fit(federation)
        left = means - model.location_
        failures += float((shares @ (left - shares @ left) ** 2).mean()) > model.left_
    assert failures < 5


def test_without_noise_means_and_deviations_become_equal() -> None:
    rows, site = experiment.simulated(4, 4000, 3, np.random.default_rng(2))
    names = ["a", "b", "c"]
    raw = {**dict(zip(names, rows.T, strict=True)), "site": site}
    columns = {**dict.fromkeys(names, (-0.8, 0.8)), "site": {"levels": [0, 1, 2, 3]}}
    model = Harmonise("site", **BUDGET).fit(
        Federation(in_process({"all": table(raw, columns=columns)}), protocol=Exact())
    )
    found = model.transform(raw)
    for name in names:
        means = [found[name][site == at].mean() for at in range(4)]
        deviations = [found[name][site == at].std() for at in range(4)]
        assert np.ptp(means) < 0.1 * rows.std()
        assert np.ptp(deviations) < 0.1 * rows.std()
    assert found["site"].tolist() == site.tolist()


def test_what_noise_hides_is_left_alone() -> None:
    rows, site = experiment.simulated(10, 20, 10, np.random.default_rng(3))
    found, model = experiment.harmonised(rows, site, 0.2, 3)
    assert model.verdicts_[0].word == NOT_DETERMINED
    np.testing.assert_allclose(found, rows, atol=1e-12)


def test_records_of_unknown_sites_and_missing_values_stay_as_they_are() -> None:
    rows, site = experiment.simulated(3, 2000, 2, np.random.default_rng(4))
    _, model = experiment.harmonised(rows, site, 5.0, 4)
    found = model.transform({"x0": [0.1, 0.1, np.nan], "x1": [0.2, 0.2, 0.2], "site": [1, 9, 1]})
    assert found["x0"][1] == 0.1
    assert found["x0"][0] != 0.1
    assert np.isnan(found["x0"][2])
    with pytest.raises(InvalidParameter, match="columns of the fit"):
        model.transform({"x0": [0.1], "site": [1]})


def test_tables_of_several_sites_are_harmonised_record_by_record() -> None:
    """Text, numbers that are written alike, and a table of one site: each record as if it were alone."""
    rows, site = experiment.simulated(3, 2000, 2, np.random.default_rng(4))
    _, model = experiment.harmonised(rows, site, 5.0, 4)
    names, raw = ["2", "0", "elsewhere", "1", "0"], np.linspace(-0.4, 0.4, 5)
    together = model.transform({"x0": raw, "x1": raw, "site": np.array(names, dtype=object)})
    for at, name in enumerate(names):
        alone = model.transform({"x0": raw[[at]], "x1": raw[[at]], "site": [name]})
        assert alone["x1"][0] == together["x1"][at]
        if name != "elsewhere":
            place = int(name)
            expected = (
                model.centre_[0] + (raw[at] - model.centre_[0] - model.location_[place, 0]) / model.scale_[place, 0]
            )
            assert together["x0"][at] == pytest.approx(expected)
    numbers = model.transform({"x0": raw[:1], "x1": raw[:1], "site": np.array([2])})
    assert numbers["x0"][0] == together["x0"][0]


def test_a_later_analysis_keeps_its_diameter_for_harmonised_records() -> None:
    """Each record is moved by public numbers alone, so that replacing one changes one."""
    rows, site = experiment.simulated(3, 2000, 2, np.random.default_rng(5))
    _, model = experiment.harmonised(rows, site, 5.0, 5)
    raw = {"x0": rows[:, 0].copy(), "x1": rows[:, 1].copy(), "site": site}
    before = model.transform(raw)
    raw["x0"][17] = 0.8
    after = model.transform(raw)
    assert np.flatnonzero(before["x0"] != after["x0"]).tolist() == [17]
    dx = np.arange(len(site)) % 2
    columns = {"x0": (-0.8, 0.8), "x1": (-0.8, 0.8), "dx": {"levels": [0, 1]}, "site": {"levels": [0, 1, 2]}}
    federation = Federation(
        in_process({"all": table({**after, "dx": dx}, columns=columns)}, noise=Replay(1)), protocol=Independent()
    )
    assert MassUnivariate("dx", **BUDGET, site="site").fit(federation).n_complete_ > 5000


@pytest.mark.parametrize(("n_records", "times"), [(55, 4), (175, 15), (1000, 100)])
def test_standardising_by_the_own_site_is_not_private(n_records: int, times: float) -> None:
    """One record moves the total of standardised records by many times what a statistic of single records allows."""
    tiny = np.where(np.arange(n_records) % 2 == 0, 1e-6, -1e-6)
    other = tiny.copy()
    other[0] = 1.0

    def total(values: Any) -> float:
        standard = (values - values.mean()) / values.std()
        return float((np.clip(standard, -3, 3) ** 2).sum())

    diameter = 9.0  # Squares of what is clipped to 3 lie between 0 and 9.
    assert abs(total(tiny) - total(other)) > times * diameter


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"site": "x0"}, "site must name one column with public levels"),
        ({"site": "nowhere"}, "site must name one column with public levels"),
        ({"columns": ["site"]}, "columns must name columns of numbers"),
        ({"columns": ["nothing"]}, "columns must name columns of numbers"),
    ],
)
def test_wrong_columns_are_refused(given: dict[str, Any], words: str) -> None:
    records = table({"x0": [0.1, 0.2], "site": [0, 1]}, columns={"x0": (-1, 1), "site": {"levels": [0, 1]}})
    federation = Federation(in_process({"all": records}), protocol=Exact())
    with pytest.raises(InvalidParameter, match=words):
        Harmonise(**{"site": "site", **BUDGET, **given}).fit(federation)


def test_weights_of_sites_are_refused() -> None:
    records = table({"x0": [0.1, 0.2], "site": [0, 1]}, columns={"x0": (-1, 1), "site": {"levels": [0, 1]}})
    federation = Federation(in_process({"a": records, "b": records}), protocol=Exact(), weights={"a": 0.5, "b": 0.5})
    with pytest.raises(InvalidParameter, match="counts every record once"):
        Harmonise("site", **BUDGET).fit(federation)


def test_small_studies_warn() -> None:
    records = table(
        {"x0": np.zeros(30), "site": np.arange(30) % 2}, columns={"x0": (-1, 1), "site": {"levels": [0, 1]}}
    )
    federation = Federation(in_process({"all": records}, noise=Replay(2)), protocol=Independent())
    with pytest.warns(DpcapeWarning, match="determined"):
        Harmonise("site", epsilon=0.2, delta=1e-5).fit(federation)


def test_location_and_scale_are_written_and_drawn(tmp_path: Path) -> None:
    rows, site = experiment.simulated(3, 2000, 2, np.random.default_rng(4))
    _, model = experiment.harmonised(rows, site, 5.0, 4)
    written = list(csv.DictReader(io.StringIO(model.to_csv(tmp_path / "results.csv"))))
    found = {(row["group"], row["name"]): float(row["estimate"]) for row in written if row["quantity"] == "location"}
    assert found["1", "x1"] == pytest.approx(model.location_[1, 1])
    assert "Sites explain" in model.to_text()
    labels = [text.get_text() for text in model.plot_sites().get_yticklabels()]
    assert labels == ["0", "1", "2"]


def _location_by_all_directions(apart: FloatArray, errors: FloatArray, there: BoolArray, before: float) -> FloatArray:
    """Return the shrunk distances by all eigenvectors of the columns, which need memory for V x V numbers."""
    n_sites, n_columns = int(there.sum()), apart.shape[1]
    vectors, variances = np.eye(n_columns), np.full(n_columns, before)
    if n_sites > 1:
        error = float(np.mean(errors[there]))
        weights = (before + error) / (before + errors[there])
        equal = apart[there] * np.sqrt(weights)[:, np.newaxis]
        values, vectors = np.linalg.eigh(equal.T @ equal / (n_sites - 1))
        reached = error * (1 + math.sqrt(n_columns / (n_sites - 1))) ** 2
        own = np.where(values > reached, values - error * (1 + n_columns / (n_sites - 1)), 0.0) / np.mean(weights)
        remainder = max(before * n_columns - float(own.sum()), 0.0) / max(int((own == 0).sum()), 1)
        variances = np.where(own > 0, np.maximum(own, remainder), remainder)
    parts = variances / np.maximum(variances + errors[:, np.newaxis], 1e-300) * there[:, np.newaxis]
    location: FloatArray = (apart @ vectors * parts) @ vectors.T
    return location


@pytest.mark.parametrize(("n_sites", "n_columns"), [(1, 5), (2, 3), (4, 3), (6, 150), (12, 40), (40, 12)])
@pytest.mark.parametrize("strength", [0.0, 0.3, 3.0])
def test_a_decomposition_of_sites_by_columns_gives_what_that_of_all_columns_gives(
    n_sites: int, n_columns: int, strength: float
) -> None:
    """Up to 5e-15, and what rounding the variances does to either: all but a last part of them may cancel.

    The variance r of the other directions is a difference of sums of about ``before * n_columns``, rounded a few times;
    their factor r / (r + e) moves by e / (r + e)^2 times that.
    """
    source = np.random.default_rng(n_sites * 1000 + n_columns)
    there = np.arange(n_sites) != 3
    apart = source.normal(size=(n_sites, n_columns)) * 0.1
    apart += strength * source.normal(size=(n_sites, 1)) * source.normal(size=n_columns) / math.sqrt(n_columns)
    apart -= there @ apart / there.sum()
    errors = source.uniform(0.002, 0.02, n_sites)
    before = site_effects._between(apart, errors, there)
    found = site_effects._location(apart, errors, there, before)
    expected = _location_by_all_directions(apart, errors, there, before)
    _, own, rest = site_effects._directions(apart, errors, there, before)
    rounded = 16 * np.finfo(float).eps * before * n_columns / max(n_columns - len(own), 1)
    moved = float((errors / (rest + errors) ** 2).max() * rounded * np.abs(apart).max())
    assert np.abs(found - expected).max() <= 5e-15 + moved


def test_effects_of_two_thousand_columns_need_no_matrix_of_their_pairs() -> None:
    """The eigenvectors alone would be 500 times the sums of four sites."""
    source, counts = np.random.default_rng(5), np.full(4, 1000.0)
    sums = SiteMeans(counts, source.normal(size=(4, 2000)), np.full((4, 2000), 1000.0))
    tracemalloc.start()
    site_effects.site_effects(sums, length=1.0, noise=0.1, scale=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * sums.sums.nbytes
