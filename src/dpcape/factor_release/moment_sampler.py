"""The factor model's Gibbs sampler when only a second moment is known.

The posterior of loadings and residual variances depends on the rows through S = X'X and N alone, and so can a sweep:
with factors E = X P' + Z C' (Z standard normal, N x K), the pass over features needs E'X and E'E, which follow from

    Z'X = W L',  S = L L',  W standard normal K x p,   and   Z'Z = W W' + Wishart_K(N - p, I) given Z'X.

So the sweep is exact, and its cost does not depend on N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.alignment import rotation_onto
from dpcape.factor_release.gibbs_sampler import RESIDUAL_RATE, RESIDUAL_SHAPE
from dpcape.factor_release.kernels import kernel_named
from dpcape.factor_release.priors import MultiplicativeGamma


@dataclass(frozen=True)
class MomentPosterior:
    """Posterior means given a second moment."""

    loadings: FloatArray  # K x p, aligned
    residual_variance: FloatArray  # p


def _wishart_root(degrees: int, size: int, rng: np.random.Generator) -> FloatArray:
    """Draw the Bartlett factor A of a standard Wishart, A A'."""
    A = np.tril(rng.standard_normal((size, size)), -1)
    A[np.diag_indices(size)] = np.sqrt(rng.chisquare(degrees - np.arange(size)))
    return A


def draw_cross_products(
    loadings: FloatArray, precision: FloatArray, S: FloatArray, L: FloatArray, *, n: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw (E'E, E'X) given loadings and precisions."""
    n_factors, n_features = loadings.shape
    weighted = loadings * precision
    covariance = np.linalg.inv(weighted @ loadings.T + np.eye(n_factors))
    P, C = covariance @ weighted, np.linalg.cholesky(covariance)
    W = rng.standard_normal((n_factors, n_features))
    A = _wishart_root(n - n_features, n_factors, rng)
    noise_cross = C @ W @ L.T  # C Z'X
    crossed = noise_cross @ P.T
    gram = P @ S @ P.T + crossed + crossed.T + C @ (W @ W.T + A @ A.T) @ C.T
    return gram, P @ S + noise_cross


def sample_from_moment(
    moment: FloatArray, n: int, n_factors: int, *, n_burn_in: int, n_draws: int, rng: np.random.Generator, kernel: str
) -> MomentPosterior:
    """Sample the factor model of rows whose second moment (p x p, positive definite) and number are given."""
    prior, feature_pass = MultiplicativeGamma(), kernel_named(kernel)
    n_features = len(moment)
    values, vectors = np.linalg.eigh(moment)
    frame = (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :n_factors].T
    S: FloatArray = n * moment
    L: FloatArray = np.asarray(np.linalg.cholesky(S), dtype=np.float64)
    loadings, local = np.ascontiguousarray(frame), np.ones_like(frame)
    precision = 1.0 / np.maximum(np.diag(moment) - np.sum(frame**2, axis=0), 0.05 * np.diag(moment))
    increments = prior.from_precisions(1.0 / np.mean(frame**2, axis=1))
    rss, total, variance = np.empty(n_features), np.zeros_like(frame), np.zeros(n_features)
    for sweep in range(n_burn_in + n_draws):
        gram, cross = draw_cross_products(loadings, precision, S, L, n=n, rng=rng)
        column_sums = feature_pass(
            gram, cross, np.diag(S).copy(), precision, local, prior.precisions(increments),
            rng.standard_normal(frame.shape), rng.standard_exponential((2, *frame.shape)),
            rng.standard_gamma(RESIDUAL_SHAPE + n / 2, n_features), RESIDUAL_RATE, loadings, rss,
        )  # fmt: skip
        increments = prior.draw(increments, column_sums, n_features, rng)
        scale, increments = prior.scale_move(increments, np.diag(gram), n, rng)
        loadings *= scale[:, None]
        if sweep >= n_burn_in:
            total += rotation_onto(loadings.T, frame.T).T @ loadings
            variance += 1.0 / precision
    return MomentPosterior(total / n_draws, variance / n_draws)
