"""Data of the factor release: the simulation of the factor paper (section V.A), and ABIDE in place of the PNC study.

The simulation draws x ~ N(0, Lambda Lambda' + diag(s)) with 10 factors, and y = x_1 + ... + x_5 + e. The paper does not
say how Lambda and s were drawn. Here Lambda has standard normal entries, s is uniform on (0.5, 1.5), and e is standard
normal.
"""

from __future__ import annotations

import csv
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning as LassoWarning

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.factor_release import FactorRelease
from dpcape_papers.experiments.data import DataFolder

N_TRUE = 10
TRAINING_SHARE = 0.7
CONNECTIVITY, PHENOTYPES = "abide_aal_fc.npz", "abide_phenotypes.csv"


@dataclass(frozen=True)
class FactorSubjects:
    """Training and test subjects; covariates may be None."""

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    covariates: FloatArray | None = None
    covariates_test: FloatArray | None = None


def simulate(n: int, n_features: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return features and responses of n subjects."""
    loadings = rng.standard_normal((N_TRUE, n_features))
    residual_scale = np.sqrt(rng.uniform(0.5, 1.5, n_features))
    X = rng.standard_normal((n, N_TRUE)) @ loadings + rng.standard_normal((n, n_features)) * residual_scale
    return X, X[:, :5].sum(axis=1) + rng.standard_normal(n)


def simulated(n: int, n_features: int, seed: int) -> FactorSubjects:
    """Return n subjects, 70% for training; equal seeds give equal loadings and the same first subjects."""
    X, y = simulate(200, n_features, np.random.default_rng([8, seed]))  # protects nothing
    n_train = round(TRAINING_SHARE * n)
    return FactorSubjects(X[:n_train], y[:n_train], X[n_train:n], y[n_train:n])


def load_abide(folder: DataFolder) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return connectivity, age and sex of the subjects that have no empty region."""
    with np.load(folder.file(CONNECTIVITY), allow_pickle=False) as stored:
        X, dead = stored["F"].astype(np.float64), stored["n_dead_roi"]
    with folder.file(PHENOTYPES).open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    age = np.array([float(row["AGE_AT_SCAN"]) for row in rows])
    sex = np.array([float(row["SEX"]) for row in rows])
    whole = dead == 0
    return X[whole], age[whole], sex[whole]


def abide(folder: DataFolder, n: int, seed: int, *, every: int = 1) -> FactorSubjects:
    """Return n random subjects of ABIDE: age as response, each ``every``-th connection as feature, sex as covariate."""
    X, age, sex = load_abide(folder)
    X = X[:, ::every]
    chosen = np.random.default_rng(seed).permutation(len(X))[:n]  # protects nothing
    train, test = np.split(chosen, [round(TRAINING_SHARE * n)])
    return FactorSubjects(X[train], age[train], X[test], age[test], sex[train], sex[test])


def fit(
    data: FactorSubjects,
    n_factors: int | str,
    *,
    n_burn_in: int,
    n_draws: int,
    n_chains: int,
    seed: int,
    thin: int = 1,
) -> tuple[FactorRelease, dict[str, float]]:
    """Return the fitted release, and the mean squared test errors of the release and its competitors."""
    model = FactorRelease(
        n_factors, n_burn_in=n_burn_in, n_draws=n_draws, thin=thin, n_chains=n_chains, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LassoWarning)  # Very small penalties among those tried by validation.
        model.fit(data.X, data.y, X_test=data.X_test, covariates=data.covariates, covariates_test=data.covariates_test)
    errors = {"proposed": model.test_error(data.y_test).mse}
    errors |= {name: float(np.mean((p - data.y_test) ** 2)) for name, p in model.competitors().items()}
    return model, errors


def covered(model: FactorRelease, data: FactorSubjects) -> tuple[float, float]:
    """Return the shares of test responses inside the paper's 95% credible intervals, and inside predictive ones."""
    shares = []
    for kind in ("credible", "predictive"):
        interval = model.predict_interval(kind=kind)
        shares.append(float(np.mean((interval.low <= data.y_test) & (data.y_test <= interval.high))))
    return shares[0], shares[1]
