"""Generalised linear models: intervals cover, p-values belong to intervals, and a refuted model says nothing.

The full grid is ``experiments/everyday/generalized_linear_model.py``. A cell of coverage is decided by an exact
one-sided binomial test at 1e-5, so that a true law fails one of these tests with a probability of at most 1e-4 (seeds
are fixed).
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.everyday import generalized_linear_model as cells
from scipy.special import ndtri
from scipy.stats import binom, poisson

from dpcape import (
    Exact,
    Federation,
    GeneralizedLinearModel,
    Independent,
    LinearRegression,
    LogisticRegression,
    Replay,
    in_process,
    labelled,
)
from dpcape.errors import InvalidParameter, UtilityWarning
from dpcape.statistics.count_residuals import LARGEST_RESIDUAL, centred_residuals

ALPHA = 1e-5
STORED = json.loads((Path(cells.__file__).with_suffix(".json")).read_text("utf-8"))


@pytest.mark.parametrize("rate", [1e-4, 0.05, 0.7, 3.3, 20.0, 400.0])
def test_residuals_are_centred_bounded_and_have_the_stated_covariance(rate: float) -> None:
    counts = np.arange(0.0, 2000.0)
    chance = poisson.pmf(counts, rate)
    residuals, covariances = centred_residuals(counts, np.full(len(counts), rate))
    assert chance @ residuals == pytest.approx(0.0, abs=1e-9)
    assert np.abs(residuals).max() <= LARGEST_RESIDUAL
    assert chance @ (residuals * (counts - rate)) / np.sqrt(rate) == pytest.approx(covariances[0], abs=1e-9)
    # The sampling variance that intervals use is not below the true one.
    assert chance @ residuals**2 <= covariances[0] + 1e-9


@pytest.mark.parametrize(
    ("cell", "runs"),
    [(cells.Cell("poisson", 10_000, 1.0, 3, "clinical"), 12), (cells.Cell("logistic", 10_000, 2.0), 12)],
    ids=str,
)
def test_intervals_cover_and_zero_stays_zero_in_quick_cells(cell: Any, runs: int) -> None:
    found = cells.measured(cell, runs)
    assert found["p_value"] >= ALPHA, found
    assert found["false p_value"] >= ALPHA, found


def test_the_stored_grid_refutes_nothing_and_reaches_its_limits() -> None:
    assert STORED["refuted"] == []
    by_cell = {entry["cell"]: entry for entry in STORED["cells"]}
    limit = cells.FAMILY / len(by_cell)
    for entry in by_cell.values():
        assert binom.cdf(round(entry["share"] * entry["trials"]), entry["trials"], 0.95) >= limit, entry
    clinical = by_cell["logistic, N100000, eps 1, 1 sites, clinical columns, effect 0.8"]
    assert clinical["rmse"] <= 1.2 * clinical["without noise"]
    assert clinical["share"] >= 0.93


def _federation(records: Any, seed: int = 1, protocol: Any = None) -> Federation:
    return Federation(in_process({"here": records}, noise=Replay(seed)), protocol=protocol or Independent())


def _counts(n_records: int, extra: float = 0.0) -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    x = rng.uniform(-0.5, 0.5, (n_records, 3))
    more = rng.gamma(1 / extra, extra, n_records) if extra else 1.0
    return x, rng.poisson(np.exp(1.0 + x @ np.array([0.8, -0.5, 0.0])) * more)


@pytest.mark.filterwarnings("ignore::dpcape.errors.DpcapeWarning")
def test_gaussian_and_logistic_are_the_regressions_under_another_name() -> None:
    x, y = _counts(4000)
    responses = labelled(x, y, bound=1.0, response=(0, 20))
    classes = labelled(x, (y > 2).astype(int), bound=1.0, classes=[0, 1])
    budget: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6}
    pairs = [
        ("gaussian", LinearRegression(**budget), responses),
        ("logistic", LogisticRegression(**budget), classes),
    ]
    for family, named, records in pairs:
        model = GeneralizedLinearModel(family, **budget).fit(_federation(records))
        other = named.fit(_federation(records))
        np.testing.assert_array_equal(model.coef_, other.coef_)
        np.testing.assert_array_equal(model.interval_, other.interval_)
        assert model.intercept_ == other.intercept_


@pytest.mark.filterwarnings("ignore::dpcape.errors.DpcapeWarning")
def test_p_values_belong_to_the_intervals(tmp_path: Path) -> None:
    x, y = _counts(8000)
    records = labelled(x, y, bound=1.0, response=(0, 30))
    model = GeneralizedLinearModel("poisson", epsilon=2.0, delta=1e-6).fit(_federation(records))
    excludes = (model.interval_[0] > 0) | (model.interval_[1] < 0)
    np.testing.assert_array_equal(model.p_values_ < 0.05, excludes)
    # At the level of a p-value the interval ends at zero.
    own = float(model.p_values_[2])
    if own < 1:
        again = GeneralizedLinearModel("poisson", epsilon=2.0, delta=1e-6, confidence=1 - own)
        ends = again.fit(_federation(records)).interval_[:, 2]
        assert min(abs(ends)) < 0.02 * (ends[1] - ends[0]), ndtri(own / 2)
    model.save(tmp_path / "model.npz")
    loaded = GeneralizedLinearModel.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.p_values_, model.p_values_)
    np.testing.assert_allclose(loaded.predict(x[:5]), np.exp(1 + x[:5] @ [0.8, -0.5, 0.0]), rtol=0.3)


def test_without_noise_the_rates_are_found() -> None:
    x, y = _counts(20_000)
    records = labelled(x, y, bound=1.0, response=(0, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = GeneralizedLinearModel("poisson", epsilon=1.0, delta=1e-6).fit(_federation(records, protocol=Exact()))
    # Sampling has a standard deviation of about 0.02: five of them.
    np.testing.assert_allclose(model.coef_, [0.8, -0.5, 0.0], atol=0.1)
    assert model.intercept_ == pytest.approx(1.0, abs=0.05)


def test_counts_that_refute_the_model_have_no_intervals() -> None:
    x, y = _counts(20_000, extra=1.0)
    records = labelled(x, y, bound=1.0, response=(0, 100))
    model = GeneralizedLinearModel("poisson", epsilon=3.0, delta=1e-6)
    with pytest.warns(UtilityWarning, match="vary more than a Poisson model allows"):
        model.fit(_federation(records))
    assert np.isinf(model.interval_).all()
    np.testing.assert_array_equal(model.p_values_, 1.0)
    assert all(entry.word == "not determined" for entry in model.verdicts_)


@pytest.mark.parametrize(
    ("family", "options", "response", "words"),
    [
        ("poisson", {}, (-1, 9), "public range begins at 0"),
        ("poisson", {"fit_intercept": False}, (0, 9), "fit_intercept must be True"),
        ("logistic", {}, (0, 9), "two classes"),
        ("gamma", {}, (0, 9), "family must be one of"),
    ],
)
def test_what_does_not_fit_the_family_is_refused(family: str, options: Any, response: Any, words: str) -> None:
    x, y = _counts(50)
    records = labelled(x, np.minimum(y, 9), bound=1.0, response=response)
    with pytest.raises(InvalidParameter, match=words):
        GeneralizedLinearModel(family, epsilon=1.0, delta=1e-5, **options).fit(_federation(records))
