"""Data with a known factor structure, for the tests of the release."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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
