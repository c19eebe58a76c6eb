"""Real connectivity: the release predicts age better than covariates alone, and its risk is far above chance."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from dpcape.factor_release.factor_release import FactorRelease

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def abide() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Connectivity, age and sex of 300 people."""
    with np.load(DATA / "abide_aal_fc.npz", allow_pickle=False) as stored:
        X, whole = stored["F"].astype(np.float64), stored["n_dead_roi"] == 0
    with (DATA / "abide_phenotypes.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    age = np.array([float(row["AGE_AT_SCAN"]) for row in rows])
    sex = np.array([float(row["SEX"]) for row in rows])
    chosen = np.random.default_rng(0).permutation(np.flatnonzero(whole))[:300]
    return X[chosen], age[chosen], sex[chosen]


pytestmark = [
    pytest.mark.shared_data,
    pytest.mark.skipif(not (DATA / "abide_aal_fc.npz").exists(), reason="the data folder is not beside the project"),
]


def test_age_from_connectivity() -> None:
    X, age, _ = abide()
    fitted = FactorRelease(15, n_burn_in=60, n_draws=60, thin=1, n_chains=1, random_state=1)
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
    assert report.headline is not None
    assert report.headline.advantage >= (leak.identified_all.value - 0.01) / 0.99


def test_forty_five_people_are_unique_by_age_and_sex() -> None:
    X, age, sex = (values[:45] for values in abide())
    C = np.column_stack([age, sex])
    n_unique = int(np.sum(np.unique(C, axis=0, return_counts=True)[1] == 1))
    fitted = FactorRelease(5, n_burn_in=60, n_draws=60, thin=1, n_chains=1, random_state=1)
    fitted.fit(X[:30], X_test=X[30:], covariates=C[:30], covariates_test=C[30:])
    report = fitted.assess_risk(n_repeats=3)
    assert report.leaks[-1].identified_few.value < 0.3  # what the page said before
    assert report.without_features is not None
    assert report.without_features.n_unique == n_unique > 40
    assert report.headline is not None
    assert report.headline.advantage > 0.9
    without = {remedy.name: remedy for remedy in report.remedies}["leave out the covariates"]
    assert without.headline is not None
    assert without.headline.advantage < report.headline.advantage
    assert without.without_features is None
