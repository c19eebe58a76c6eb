"""Ridge regression in dual form: the features enter through their n x n Gram matrix only.

An intercept and the covariates are not penalised. The penalty is chosen by exact leave-one-out error. The
dual form costs O(n^2 p) once, whatever the number of penalties, which suits few subjects with very many
features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray

# Penalties tried, relative to the mean eigenvalue of the Gram matrix.
RELATIVE_PENALTIES = np.logspace(-4, 4, 33)


def with_intercept(covariates: FloatArray | None, n: int) -> FloatArray:
    """Return the unpenalised columns: ones, then the covariates."""
    ones = np.ones((n, 1))
    return ones if covariates is None else np.column_stack([ones, covariates])


def residual_maker(unpenalised: FloatArray) -> FloatArray:
    """Return M = I - QQ', which removes what the unpenalised columns explain (they may be collinear)."""
    left, values, _ = np.linalg.svd(unpenalised, full_matrices=False)
    Q = left[:, values > values[0] * 1e-10]
    return np.asarray(np.eye(unpenalised.shape[0]) - Q @ Q.T)


def least_squares(unpenalised: FloatArray, response: FloatArray) -> FloatArray:
    """Return the minimum-norm coefficients of the unpenalised columns."""
    return np.asarray(np.linalg.lstsq(unpenalised, response, rcond=None)[0])


@dataclass(frozen=True)
class DualRidge:
    """A fitted ridge regression; feature coefficients are X' ``weights``."""

    weights: FloatArray  # n, dual weights
    unpenalised: FloatArray  # coefficients of the intercept and covariates
    penalty: float
    loo_error: float

    def predict(self, cross_gram: FloatArray, covariates: FloatArray | None) -> FloatArray:
        """Predict for subjects whose inner products with the training subjects are ``cross_gram`` (m x n)."""
        return np.asarray(cross_gram @ self.weights + with_intercept(covariates, len(cross_gram)) @ self.unpenalised)


def fit_ridge(gram: FloatArray, response: FloatArray, covariates: FloatArray | None = None) -> DualRidge:
    """Fit ridge on the features whose Gram matrix is given, penalty by leave-one-out.

    Parameters
    ----------
    gram : ndarray
        N x n, X X'.
    response : ndarray
        N.
    covariates : ndarray or None
        N x q or None; not penalised, like the intercept.
    """
    unpenalised = with_intercept(covariates, len(response))
    M = residual_maker(unpenalised)
    eigenvalues, V = np.linalg.eigh(M @ gram @ M)
    eigenvalues = np.maximum(eigenvalues, 0.0)
    rotated = V.T @ (M @ response)
    penalties = RELATIVE_PENALTIES * max(float(eigenvalues.mean()), 1e-300)
    errors = [_loo_error(eigenvalues, V, rotated, M, response, penalty) for penalty in penalties]
    best = int(np.argmin(errors))
    # The maker M makes the weights sum to zero against the unpenalised columns, as the primal solution demands.
    weights = M @ (V @ (rotated / (eigenvalues + penalties[best])))
    coefficients = least_squares(unpenalised, response - gram @ weights)
    return DualRidge(weights, coefficients, float(penalties[best]), float(errors[best]))


def _loo_error(
    eigenvalues: FloatArray, V: FloatArray, rotated: FloatArray, M: FloatArray, response: FloatArray, penalty: float
) -> float:
    """Mean squared leave-one-out residual (y - yhat)_i / (1 - h_ii), exact for ridge."""
    shrinkage = penalty / (eigenvalues + penalty)
    # Residuals are M V diag(kept) V' M y; on the null space of M the rotated response is zero.
    residual = M @ (V @ (shrinkage * rotated))
    MV = M @ V
    remainder = np.einsum("ij,j,ij->i", MV, shrinkage, MV)
    return float(np.mean((residual / np.maximum(remainder, 1e-12)) ** 2))
