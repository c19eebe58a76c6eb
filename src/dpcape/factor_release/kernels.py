"""The pass over features of one Gibbs sweep: batched LAPACK, or numba where it is installed.

Given the factors, features are independent of each other. For feature j, with E (n x K) the factors, x_j
its column, s_j its residual precision, and D_j the diagonal of prior precisions phi_jh tau_h, the
conditionals are

    lambda_j ~ N(Q^-1 s_j E'x_j, Q^-1),  Q = D_j + s_j E'E
    s_j      ~ Gamma(shape + n/2, rate + |x_j - E lambda_j|^2 / 2)
    phi_jh   ~ Gamma(2, 3/2 + tau_h lambda_jh^2 / 2)

([BD11] section 3.1 with nu = 3; paper equation (4)). Both kernels take their random numbers from outside
and so give the same draws, up to rounding. Nothing is protected by these random numbers: the release has no
formal guarantee.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter, MissingExtra

FeaturePass = Callable[..., FloatArray]

# Features per LAPACK batch: bounds the working memory at CHUNK * K^2 numbers whatever the number of features.
CHUNK = 8192


def _solve_chunk(
    gram: FloatArray, cross: FloatArray, precision: FloatArray, prior: FloatArray, normals: FloatArray
) -> FloatArray:
    """Draw the loadings (K x chunk) of one chunk of features."""
    Q = precision[:, None, None] * gram
    diagonal = np.arange(gram.shape[0])
    Q[:, diagonal, diagonal] += prior.T
    L = np.linalg.cholesky(Q)
    forward = np.linalg.solve(L, (cross * precision).T[:, :, None])
    upper = np.swapaxes(L, 1, 2)
    return np.asarray(np.linalg.solve(upper, forward + normals.T[:, :, None])[:, :, 0].T)


def feature_pass(
    gram: FloatArray,
    cross: FloatArray,
    squares: FloatArray,
    precision: FloatArray,
    local: FloatArray,
    column_precision: FloatArray,
    normals: FloatArray,
    exponentials: FloatArray,
    gammas: FloatArray,
    rate: float,
    loadings: FloatArray,
    rss: FloatArray,
) -> FloatArray:
    """Update loadings, residual and local precisions in place; return the column sums of phi lambda^2.

    Parameters
    ----------
    gram, cross, squares : ndarray
        E'E (K x K), E'X (K x p), the features' sums of squares (p).
    precision, local, column_precision : ndarray
        S (p), phi (K x p), tau (K). The first two are rewritten.
    normals, exponentials, gammas : ndarray
        Standard draws, K x p, 2 x K x p, and p (the last of the right shape).
    rate : float
        Prior rate of the residual precisions.
    loadings, rss : ndarray
        Outputs, K x p and p (residual sums of squares).
    """
    prior = local * column_precision[:, None]
    for start in range(0, cross.shape[1], CHUNK):
        part = np.s_[start : start + CHUNK]
        loadings[:, part] = _solve_chunk(gram, cross[:, part], precision[part], prior[:, part], normals[:, part])
    rss[:] = squares + np.einsum("kp,kp->p", loadings, gram @ loadings - 2.0 * cross)
    np.maximum(rss, 0.0, out=rss)  # cancellation can leave a tiny negative number
    precision[:] = gammas / (rate + 0.5 * rss)
    square = loadings**2
    local[:] = (exponentials[0] + exponentials[1]) / (1.5 + 0.5 * column_precision[:, None] * square)
    return np.asarray(np.einsum("kp,kp->k", local, square))


def kernel_named(name: str) -> FeaturePass:
    """Return the pass called ``name``: "numba", "lapack", or "auto" (numba where installed)."""
    if not isinstance(name, str) or name not in ("auto", "numba", "lapack"):
        raise InvalidParameter("kernel", 'be "auto", "numba" or "lapack"', repr(name), 'Use "auto".')
    installed = importlib.util.find_spec("numba") is not None
    if name == "numba" and not installed:
        raise MissingExtra('The package numba for kernel="numba"', "fast")
    if name == "lapack" or not installed:
        return feature_pass
    from dpcape.factor_release import compiled

    return compiled.feature_pass
