"""The methods the paper compares with.

Two-stage Bayesian, SVD, ridge on the features (best case), intercept and covariates only (worst case).
All of them are ridge regressions on features of the same shape, so each is given by its n x n Gram matrix.
"""

from __future__ import annotations

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.ridge import fit_ridge, least_squares, with_intercept


def gram_of_factors(factors: FloatArray, loadings: FloatArray) -> FloatArray:
    """Return the Gram matrix of the perturbed features E Lambda' without forming them."""
    return np.asarray(factors @ (loadings @ loadings.T) @ factors.T)


def gram_of_svd(gram: FloatArray, rank: int) -> FloatArray:
    """Return the Gram matrix of the rank-truncated SVD of the features (Lasko & Vinterbo 2010)."""
    values, vectors = np.linalg.eigh(gram)
    top = vectors[:, -rank:]
    return np.asarray((top * values[-rank:]) @ top.T)


def ridge_prediction(
    gram: FloatArray, response: FloatArray, *, covariates: FloatArray | None, covariates_test: FloatArray | None
) -> FloatArray:
    """Fit ridge on the first len(response) subjects of ``gram`` and predict the others."""
    n = len(response)
    return fit_ridge(gram[:n, :n], response, covariates).predict(gram[n:, :n], covariates_test)


def covariates_prediction(
    response: FloatArray, n_test: int, *, covariates: FloatArray | None, covariates_test: FloatArray | None
) -> FloatArray:
    """Predict from the intercept and the covariates alone (worst case)."""
    coefficients = least_squares(with_intercept(covariates, len(response)), response)
    return np.asarray(with_intercept(covariates_test, n_test) @ coefficients)


def competitor_predictions(
    features: FloatArray,
    response: FloatArray,
    *,
    factors: FloatArray,
    loadings: FloatArray,
    covariates: FloatArray | None = None,
    covariates_test: FloatArray | None = None,
) -> dict[str, FloatArray]:
    """Predict the test subjects (the rows after the training ones) with each competitor.

    Parameters
    ----------
    features : ndarray
        (n_train + n_test) x p, standardised.
    response : ndarray
        n_train.
    factors, loadings : ndarray
        Posterior means, (n_train + n_test) x K and K x p.
    """
    gram = features @ features.T
    grams = {
        "two-stage": gram_of_factors(factors, loadings),
        "SVD": gram_of_svd(gram, factors.shape[1]),
        "best case: ridge on features": gram,
    }
    predictions = {
        name: ridge_prediction(g, response, covariates=covariates, covariates_test=covariates_test)
        for name, g in grams.items()
    }
    predictions["worst case: covariates only"] = covariates_prediction(
        response, len(features) - len(response), covariates=covariates, covariates_test=covariates_test
    )
    return predictions
