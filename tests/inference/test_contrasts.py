"""Adjusted contrasts: the figures of ordinary least squares, levels of tests on noise, and what is refused."""

from __future__ import annotations

import csv
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.everyday import contrasts as experiment
from scipy.stats import binom

from dpcape import Exact, Federation, GroupContrast, Independent, MassUnivariate, Replay, in_process, table
from dpcape.core.errors import DpcapeWarning, InvalidParameter, UtilityWarning
from dpcape.estimators.contrasts.residualiser import false_discovery_rates, shrunk_to_middle
from dpcape.postprocessing.verdicts import DETERMINED, NOT_DETERMINED

BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5}
CELL = experiment.Cell(4_000, 6, 12, 3.0)


def _exact(cell: experiment.Cell, seed: int) -> tuple[experiment.People, Federation]:
    found = experiment.people(cell, np.random.default_rng(seed))
    columns = {
        **{f"y{at}": (-8.0, 8.0) for at in range(cell.n_outcomes)},
        "dx": {"levels": [0, 1]},
        "age": (10, 90),
        "sex": {"levels": [0, 1]},
        "site": {"levels": list(range(cell.n_sites))},
    }
    held = {f"part-{at}": table(found.columns(found.site % 2 == at), columns=columns) for at in range(2)}
    return found, Federation(in_process(held), protocol=Exact())


def test_without_noise_it_is_ordinary_least_squares() -> None:
    found, federation = _exact(CELL, 1)
    model = MassUnivariate("dx", **BUDGET, covariates=["age", "sex"], site="site").fit(federation)
    d, p_values, within = experiment.pooled(CELL, found)
    np.testing.assert_allclose(model.d_, d, atol=0.01)
    np.testing.assert_allclose(model.effect_, d * within, atol=0.01)
    np.testing.assert_allclose(model.sd_, within, rtol=0.02)
    # Standard errors count what site and covariates explain as well: they are larger, by less than a fifth here.
    design = np.column_stack([found.dx, found.age, found.sex, np.eye(CELL.n_sites)[found.site]])
    coefficients, *_ = np.linalg.lstsq(design, found.outcomes, rcond=None)
    spread = (found.outcomes - design @ coefficients).std(axis=0)
    errors = spread * np.sqrt(np.linalg.inv(design.T @ design)[0, 0])
    half = (model.effect_interval_[1] - model.effect_interval_[0]) / 2 / 1.96
    assert np.all(half > 0.98 * errors)
    assert np.all(half < 1.2 * errors)
    assert set(np.flatnonzero(model.adjusted_p_values_ <= 0.05)) >= set(np.flatnonzero(p_values < 1e-6))


def test_a_number_is_compared_by_its_slope() -> None:
    found, federation = _exact(CELL, 2)
    model = MassUnivariate("age", **BUDGET, covariates=["dx", "sex"], site="site").fit(federation)
    design = np.column_stack([found.age, found.dx, found.sex, np.eye(CELL.n_sites)[found.site]])
    slopes = np.linalg.lstsq(design, found.outcomes, rcond=None)[0][0]
    np.testing.assert_allclose(model.effect_, slopes, atol=0.001)
    np.testing.assert_allclose(model.d_, slopes * found.age.std() / found.outcomes.std(axis=0), atol=0.02)
    assert model.contrast_ == "slope on age"


@pytest.mark.parametrize(
    "cell", [experiment.Cell(1_500, 12, 6, 1.0, effect=0.0), experiment.Cell(3_000, 6, 20, 5.0, effect=0.0)]
)
def test_tests_hold_their_level_and_intervals_cover(cell: experiment.Cell) -> None:
    """A test of exactly 5% fails here with probability 1e-3 for each of the two cells; so does a coverage of 95%."""
    n_runs = 25
    figures = experiment.run(cell, n_runs, first_seed=500)
    # One outcome of each data set: outcomes of one data set depend on each other.
    assert round(figures["type_1_first"] * n_runs) <= binom.ppf(0.999, n_runs, 0.05)
    assert figures["coverage"] >= binom.ppf(0.001, n_runs, 0.95) / n_runs


def test_incomplete_records_are_left_out() -> None:
    found = experiment.people(CELL, np.random.default_rng(3))
    columns = {"y0": (-8, 8), "dx": {"levels": [0, 1]}, "site": {"levels": list(range(CELL.n_sites))}}
    raw = found.columns()
    raw["dx"] = np.where(np.arange(len(raw["dx"])) % 3 == 0, np.nan, raw["dx"])
    everything = table({name: raw[name] for name in columns}, columns=columns)
    kept = np.arange(len(raw["dx"])) % 3 != 0
    complete = table({name: raw[name][kept] for name in columns}, columns=columns)
    models = [
        GroupContrast("dx", "y0", **BUDGET, site="site").fit(Federation(in_process({"all": held}), protocol=Exact()))
        for held in (everything, complete)
    ]
    assert models[0].n_complete_ == kept.sum() == models[1].n_complete_
    for name in ("d_", "p_values_", "effect_interval_"):
        np.testing.assert_allclose(getattr(models[0], name), getattr(models[1], name), rtol=1e-9)


def test_what_noise_hides_is_not_known() -> None:
    source = np.random.default_rng(4)
    records = table(
        {"dx": source.integers(0, 2, 40), "y": source.normal(size=40)}, columns={"dx": {"levels": [0, 1]}, "y": (-4, 4)}
    )
    federation = Federation(in_process({"all": records}, noise=Replay(1)), protocol=Independent())
    with pytest.warns(DpcapeWarning):
        model = GroupContrast("dx", "y", epsilon=0.1, delta=1e-5).fit(federation)
    assert model.p_values_.tolist() == [1.0]
    assert np.isinf(model.d_interval_).all()
    assert np.isinf(model.effect_interval_).all()
    assert [verdict.word for verdict in model.verdicts_] == [NOT_DETERMINED]
    assert "not estimable" in model.to_text()


def test_findings_are_printed_and_written(tmp_path: Path) -> None:
    cell = experiment.Cell(20_000, 4, 5, 3.0, effect=0.5)
    found = experiment.people(cell, np.random.default_rng(5))
    model = GroupContrast("dx", ["y0", "y4"], **BUDGET, covariates="age", site="site")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model.fit(experiment.federation_of(cell, found, 5))
    assert model.outcomes_.tolist() == ["y0", "y4"]
    assert model.verdicts_[0].word == DETERMINED
    text = model.to_text()
    assert "dx: 1 minus 0" in text
    assert "0.5 standard deviations at most" in text
    path = tmp_path / "found.csv"
    rows = list(csv.DictReader(io.StringIO(model.to_csv(path))))
    assert path.read_text() == model.to_csv()
    effects = [row for row in rows if row["quantity"] == "d"]
    assert [row["name"] for row in effects] == ["y0", "y4"]
    assert float(effects[0]["low"]) < float(effects[0]["estimate"]) < float(effects[0]["high"])
    assert float(effects[0]["adjusted_p_value"]) == pytest.approx(model.adjusted_p_values_[0])
    assert model.to_markdown().count("\n| y") == 2
    labels = [label.get_text() for label in model.plot_differences().get_yticklabels()]
    assert labels == ["y0", "y4"]


def test_unadjusted_sites_are_warned_of() -> None:
    _, federation = _exact(experiment.Cell(400, 2, 1, 3.0), 6)
    with pytest.warns(UtilityWarning, match="without site="):
        GroupContrast("dx", "y0", **BUDGET).fit(federation)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"contrast": "nobody"}, "contrast must name columns of the table"),
        ({"contrast": ["dx", "sex"]}, "contrast must be the name of one column"),
        ({"contrast": "site"}, "a number or a category of two levels"),
        ({"site": "age"}, "site must name one column with public levels"),
        ({"site": ["site", "sex"]}, "site must name one column"),
        ({"covariates": ["age", "age"]}, "different column names"),
        ({"covariates": ["dx"]}, "different columns"),
        ({"outcomes": ["sex"]}, "outcomes must name at least one column of numbers"),
        ({"outcomes": []}, "outcomes must name at least one column"),
        ({"outcomes": ["y0", "age"], "covariates": ["age"]}, "different columns"),
        ({"assumed_effect": -1.0}, "assumed_effect"),
    ],
)
def test_wrong_columns_are_refused(given: dict[str, Any], words: str) -> None:
    _, federation = _exact(experiment.Cell(400, 3, 2, 3.0), 7)
    with pytest.raises(InvalidParameter, match=words):
        GroupContrast(**{"contrast": "dx", "outcomes": "y0", **BUDGET, **given}).fit(federation)


def test_weights_of_sites_are_refused() -> None:
    records = table({"dx": [0, 1], "y": [0.0, 1.0]}, columns={"dx": {"levels": [0, 1]}, "y": (-4, 4)})
    federation = Federation(in_process({"a": records, "b": records}), protocol=Exact(), weights={"a": 0.5, "b": 0.5})
    with pytest.raises(InvalidParameter, match="counts every record once"):
        GroupContrast("dx", "y", **BUDGET).fit(federation)


def test_false_discovery_rates_are_those_of_benjamini_and_hochberg() -> None:
    rates = false_discovery_rates(np.array([0.04, 0.001, 0.03, 0.9]))
    np.testing.assert_allclose(rates, [0.16 / 3, 0.004, 0.16 / 3, 0.9])


def test_values_that_noise_explains_come_near_their_median() -> None:
    """None is moved by more than its own error, so that a value that differs from all others stays different.

    With z of a standard normal distribution, E max(|z| - 1, 0)^2 = 15% of the variance of the noise are left at least.
    Over 200 draws the mean is 18%, with a standard error of 0.7%: a quarter is never reached by chance.
    """
    source = np.random.default_rng(8)
    true = np.full(40, 2.0)
    draws = [shrunk_to_middle(true + source.normal(0, 0.5, 40), np.full(40, 0.5)) for _ in range(200)]
    assert 0.15 < np.mean([(estimates - true) ** 2 for estimates, _ in draws]) / 0.5**2 < 0.25
    assert np.median([errors for _, errors in draws]) < 0.3
    true[0] = 0.1
    estimates, errors = shrunk_to_middle(true + source.normal(0, 0.2, 40), np.full(40, 0.2))
    assert abs(estimates[0] - 0.1) < 3 * errors[0]
    assert 0 < estimates[0] < 1.0
    estimates, errors = shrunk_to_middle(true, np.zeros(40))
    np.testing.assert_allclose(estimates, true)
    assert not errors.any()
