"""Data with a known factor structure, for the tests of the release."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcape.factor_release.bundle import Bundle, bundle_of
from dpcape.factor_release.subjects import SubjectDraws, calibrate

Array = NDArray[np.float64]


def factor_data(
    n: int, n_features: int, n_factors: int, *, seed: int, residual_scale: float = 1.0
) -> tuple[Array, Array, Array]:
    """Return features, responses (the first two factors' sum plus a little noise) and the true factors."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, n_factors))
    noise = residual_scale * rng.standard_normal((n, n_features))
    X = factors @ rng.standard_normal((n_factors, n_features)) + noise
    y = factors[:, :2].sum(axis=1) + 0.3 * rng.standard_normal(n)
    return X, y, factors


def standardised(X: Array) -> Array:
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def made_bundle(
    X: Array,
    factors: Array,
    *,
    n_train: int | None = None,
    y: Array | None = None,
    covariates: Array | None = None,
    draws: Array | None = None,
) -> Bundle:
    """Return the bundle that a holder of X would hand out with these factors; y is that of training subjects."""
    n = len(X) if n_train is None else n_train
    q = None if covariates is None else covariates.reshape(len(X), -1)
    subjects = SubjectDraws(
        features=X,
        draws=factors[None] if draws is None else draws,
        n_train=n,
        response=y,
        covariates=None if q is None else q[:n],
        covariates_test=None if q is None else q[n:],
    )
    calibration = None if y is None else calibrate(subjects, y, n_folds=5)
    n_draws = 0 if draws is None else len(draws)
    return bundle_of(subjects, calibration, factors[:n], factors[n:], n_draws=n_draws)
