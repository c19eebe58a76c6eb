"""Real connectivity: the release predicts age better than covariates alone, and its risk is far above chance."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from dpcape.factor_release import FactorRelease

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.mark.shared_data
@pytest.mark.skipif(not (DATA / "abide_aal_fc.npz").exists(), reason="the data folder is not beside the project")
def test_age_from_connectivity() -> None:
    with np.load(DATA / "abide_aal_fc.npz", allow_pickle=False) as stored:
        X, whole = stored["F"].astype(np.float64), stored["n_dead_roi"] == 0
    with (DATA / "abide_phenotypes.csv").open(newline="", encoding="utf-8") as stream:
        age = np.array([float(row["AGE_AT_SCAN"]) for row in csv.DictReader(stream)])
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(whole))[:300]
    X, age = X[chosen], age[chosen]
    fitted = FactorRelease(15, n_burn_in=60, n_draws=60, thin=1, n_chains=1, seed=1)
    fitted.fit(X[:210], age[:210], X_test=X[210:])
    errors = {name: np.mean((p - age[210:]) ** 2) for name, p in fitted.competitors().items()}
    proposed = fitted.test_error(age[210:]).mse
    assert proposed < 0.95 * errors["worst case: covariates only"]
    assert proposed > 0.9 * errors["best case: ridge on features"]
    report = fitted.assess_risk(n_repeats=2)
    leak = report.leaks[-1]
    # Fifteen factors hold a quarter of the variance of connectivity, so little can be rebuilt; yet people are found.
    assert 0.2 < report.ceiling < 0.32
    assert leak.reconstruction.chance + 0.05 < leak.reconstruction.value < report.ceiling
    assert leak.identified_all.value > 0.8
    assert leak.identified_all.chance < 0.01
