"""Competing methods of the dissertation's chapter 8, for comparison only, with ordinary floating-point noise.

Claimed epsilons are those of the cited papers; verified epsilons hold for rows of norm at most 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from dpcape.core.arrays import FloatArray
from dpcape_papers.published import regression as published


@dataclass(frozen=True)
class Fit:
    """Coefficients with the claimed epsilon and the one that holds (infinite if none does)."""

    coefficients: FloatArray
    claimed_epsilon: float
    verified_epsilon: float


def laplace_functional_mechanism(X: FloatArray, y: FloatArray, epsilon: float, generator: np.random.Generator) -> Fit:
    """Fit linear regression by dp-fm (Zhang et al. 2012), with Laplace noise of scale 2 (D + 1)^2 / (N epsilon).

    The noisy objective is regularised by four standard deviations of the noise and its non-positive directions are
    removed (their section 6). For rows of Euclidean norm 1 the true L1 sensitivity is at most 2 (1 + sqrt(D))^2 / N, so
    the claim is true but loose.
    """
    n_records, width = X.shape
    scale = 2 * (width + 1) ** 2 / (n_records * epsilon)
    noise = np.triu(generator.laplace(scale=scale, size=(width, width)))
    moment = X.T @ X / n_records + (noise + noise.T) / 2
    cross = X.T @ y / n_records + generator.laplace(scale=scale, size=width) / 2
    coefficients = _minimum(moment, cross, math.sqrt(2) * scale)
    return Fit(coefficients, epsilon, epsilon * ((1 + math.sqrt(width)) / (width + 1)) ** 2)


def gaussian_functional_mechanism(
    sites: Sequence[tuple[FloatArray, FloatArray]],
    *,
    scheme: str,
    epsilon: float,
    delta: float,
    n_colluding: int,
    generator: np.random.Generator,
) -> Fit:
    """Fit linear regression with the noise of algorithm 8.2 ("CAPE") or of section 8.3.1 ("conventional").

    Sites have equal size. A single site gives the local fit, or algorithm 8.1 if it has all records. The text does not
    say how the noisy objective is minimised. It may have no minimum, so dp-fm's remedy is used here as well.
    """
    n_sites, n_records = len(sites), len(sites[0][0])
    _, linear, quadratic = published.degree_scales("linear", epsilon=epsilon, delta=delta, n_records=n_records)
    moment = np.mean([X.T @ X / n_records for X, _ in sites], axis=0)
    slope = np.mean([-2 * X.T @ y / n_records for X, y in sites], axis=0)
    moment = moment + _aggregated_noise(scheme, n_sites, moment.shape, quadratic, generator)
    slope = slope + _aggregated_noise(scheme, n_sites, slope.shape, linear, generator)
    # The objective w' M w depends only on the symmetric part of M.
    spread = quadratic / math.sqrt(n_sites) if scheme == "conventional" else quadratic / n_sites
    coefficients = _minimum((moment + moment.T) / 2, -slope / 2, spread)
    found = published.capefm(
        "linear",
        epsilon=epsilon,
        delta=delta,
        n_sites=n_sites,
        n_colluding=n_colluding,
        pooled=scheme == "conventional",
    )
    return Fit(coefficients, epsilon, found.verified_epsilon)


def _aggregated_noise(
    scheme: str, n_sites: int, shape: tuple[int, ...], scale: float, generator: np.random.Generator
) -> FloatArray:
    """Return the mean over the sites of their noise, which has nominal scale ``scale`` (eq. 8.10)."""
    draws = scale * generator.standard_normal((n_sites, *shape))
    if scheme == "conventional":
        mean: FloatArray = draws.mean(axis=0)
        return mean
    own = scale / math.sqrt(n_sites) * generator.standard_normal((n_sites, *shape))
    cancelling = draws - draws.mean(axis=0)
    total: FloatArray = (cancelling + own).mean(axis=0)
    return total


def _minimum(moment: FloatArray, cross: FloatArray, noise_scale: float) -> FloatArray:
    """Minimise w' M w - 2 c'w as in Zhang et al., section 6: with a ridge, and without non-positive directions."""
    values, vectors = np.linalg.eigh(moment + 4 * noise_scale * np.eye(len(moment)))
    keep = values > 0
    coefficients: FloatArray = vectors[:, keep] @ ((vectors[:, keep].T @ cross) / values[keep])
    return coefficients


def objective_perturbation_logistic(
    X: FloatArray,
    labels: FloatArray,
    epsilon: float,
    generator: np.random.Generator,
    regularisation: float | None = None,
) -> Fit:
    """Fit logistic regression by objective perturbation (Chaudhuri et al. 2011, algorithm 2); labels are 0 and 1."""
    n_records, width = X.shape
    ridge = 1 / n_records if regularisation is None else regularisation
    curvature = 0.25
    left = epsilon - math.log1p(2 * curvature / (n_records * ridge) + (curvature / (n_records * ridge)) ** 2)
    extra = 0.0
    if left <= 0:
        extra = curvature / (n_records * math.expm1(epsilon / 4)) - ridge
        left = epsilon / 2
    noise = _radial_noise(width, 2 / left, generator)

    def height(w: FloatArray) -> tuple[float, FloatArray]:
        scores = X @ w
        value = np.mean(np.logaddexp(0.0, scores) - labels * scores)
        slope = X.T @ (expit(scores) - labels) / n_records
        total = ridge + max(extra, 0.0)
        return float(value + total / 2 * w @ w + noise @ w / n_records), slope + total * w + noise / n_records

    return Fit(minimize(height, np.zeros(width), jac=True, method="L-BFGS-B").x, epsilon, epsilon)


def objective_perturbation_linear(X: FloatArray, y: FloatArray, epsilon: float, generator: np.random.Generator) -> Fit:
    """Fit linear regression by objective perturbation as in the dissertation, with noise for slopes of at most 1.

    The slope of the squared loss is unbounded over all coefficients, so the theorem does not apply and no epsilon holds
    with delta 0. The fit is used for comparison only.
    """
    n_records, width = X.shape
    ridge = 1 / n_records
    noise = _radial_noise(width, 2 / epsilon, generator)
    moment = X.T @ X / n_records + ridge * np.eye(width)
    coefficients = np.linalg.solve(moment, X.T @ y / n_records - noise / (2 * n_records))
    return Fit(coefficients, epsilon, math.inf)


def _radial_noise(width: int, scale: float, generator: np.random.Generator) -> FloatArray:
    """Return noise with density proportional to exp(-|b| / scale)."""
    direction = generator.standard_normal(width)
    length = generator.gamma(width, scale)
    result: FloatArray = direction * (length / np.linalg.norm(direction))
    return result
