"""The regressions on real data, with public schemas. Skipped where the data folder is absent."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcape import LinearRegression, LogisticRegression
from dpcape.core.errors import UtilityWarning
from dpcape.metrics import squared_loss
from dpcape.schema.schema import Schema
from dpcape_papers.baselines import regression as baselines
from dpcape_papers.data import regression as prepared

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = sorted(prepared.SCHEMAS.glob("*.toml"))
sys.path.insert(0, str(ROOT))

from experiments.regression import data  # noqa: E402  # after the path is set
from experiments.regression.run import claims, clipped, fitted, linear_table, schemes  # noqa: E402  # after the path is set

needs_data = pytest.mark.skipif(not data.DATA.exists(), reason="the data folder is absent")


ONE_RELEASE: dict[str, Any] = {"purpose": "prediction", "n_iter": 0}


def test_the_four_schemas_can_be_read_and_every_column_has_a_range() -> None:
    assert len(SCHEMAS) == 4
    for path in SCHEMAS:
        assert all(column.range is not None for column in Schema.from_toml(path).columns), path.stem


def test_the_stored_figures_are_what_the_code_gives() -> None:
    """One row of the synthetic comparison, run again; the rest takes minutes (experiments/regression/run.py)."""
    stored = json.loads((ROOT / "experiments" / "regression" / "expected.json").read_text())
    assert claims() == stored["claimed and verified"]
    study = data.linear(20, 20_000)
    found = [
        squared_loss(study.target, fitted(model, schemes(study)["cape"], seed).predict(study.features))
        for seed in range(10)
        for model in (LinearRegression(epsilon=1.0, delta=1e-5, fit_intercept=False, **ONE_RELEASE),)
    ]
    assert float(np.mean(found)) == pytest.approx(stored["linear D=20"]["cape"][2], abs=2e-5)


@needs_data
@pytest.mark.shared_data
def test_crime_cape_is_better_than_conventional_local_and_laplace() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        table = linear_table(data.crime(), delta=1e-3, n_runs=2)
    for other in ("conventional", "local", "dp-fm (Laplace)"):
        # At epsilon 10 every Gaussian method is near the fit without noise; up to 3 the order is strict.
        assert all(a < b for a, b in zip(table["cape"][:4], table[other][:4], strict=True)), other
    assert all(loss < table["zero model"][0] for loss in table["cape"])


@needs_data
@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["blog", "abide"])
def test_other_data_cape_is_better_than_conventional(name: str) -> None:
    study: data.Study = getattr(data, name)()
    low, high = study.options["response"]
    y, X = np.clip(study.target, low, high), clipped(study)
    losses: dict[str, float] = {}
    for scheme in ("cape", "conventional", "local"):
        runs = []
        for seed in range(3):
            model = LinearRegression(epsilon=1.0, delta=1e-3, **ONE_RELEASE)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)
                fitted(model, schemes(study)[scheme], seed)
            runs.append(squared_loss(y, model.predict(X)))
        losses[scheme] = float(np.mean(runs))
    assert losses["cape"] < losses["conventional"]
    assert losses["cape"] < losses["local"]


@needs_data
@pytest.mark.shared_data
def test_covertype_is_classified() -> None:
    study = data.covertype(binary=True)
    model = fitted(LogisticRegression(epsilon=1.0, delta=1e-5, **ONE_RELEASE), schemes(study)["cape"], 0)
    assert model.score(clipped(study), study.target) > 0.70


def test_baselines_find_the_coefficients_when_epsilon_is_huge() -> None:
    generator = np.random.default_rng(0)
    X = generator.standard_normal((2000, 3))
    X /= 4 * np.linalg.norm(X, axis=1, keepdims=True).mean()
    truth = np.array([0.9, -0.4, 0.1])
    y = X @ truth
    for method in (baselines.laplace_functional_mechanism, baselines.objective_perturbation_linear):
        fit = method(X, y, 1e6, np.random.default_rng(1))
        np.testing.assert_allclose(fit.coefficients, truth, atol=0.05)
    labels = (generator.random(2000) < 1 / (1 + np.exp(-8 * X @ truth))).astype(float)
    fit = baselines.objective_perturbation_logistic(X, labels, 1e6, np.random.default_rng(1), regularisation=1e-6)
    np.testing.assert_allclose(fit.coefficients, 8 * truth, atol=2.5)
