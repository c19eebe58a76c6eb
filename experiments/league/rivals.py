"""Other private methods, for one holder of all records, each with Gaussian noise for the exact mu of (epsilon, delta).

Neighbours replace one record, as in dpcape. T releases of one size have noise diameter * sqrt(T) / mu each. Every
method states its diameter. Numbers that a user would have to choose are in :data:`FROZEN`; ``freeze.py`` chose them on
simulated records of other seeds, never on the records of a contest. Noise is drawn in floating point from seeds:
nothing here protects records.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from dpcape_papers.published.pca import leading_directions, symmetric_noise

Array = NDArray[np.float64]
Source = np.random.Generator

FROZEN: dict[str, dict[str, Any]] = {
    "subspace iteration": {"n_rounds": 4},
    "DP-GD, linear": {"n_rounds": 80, "clip": 0.03, "step": 16.0},
    "DP-GD, logistic": {"n_rounds": 80, "clip": 0.3, "step": 16.0},
    "objective perturbation": {"ridge": 1e-5},
    "DP-EM": {"n_rounds": 3},
    "DP-EM, topics": {"n_rounds": 5},
    "DP-Lloyd": {"n_rounds": 3},
    "CoinPress": {"shares": (0.25, 0.75), "tail": 0.01},
}


def shortened(rows: Array, bound: float) -> Array:
    """Return rows clipped to a length."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    clipped: Array = rows * (bound / np.maximum(lengths, bound))
    return clipped


def noisy_sum(contributions: Array, diameter: float, mu: float, n_releases: int, rng: Source) -> Array:
    """Return the sum over records, one of ``n_releases`` of the same size."""
    total: Array = contributions.sum(axis=0)
    return total + diameter * math.sqrt(n_releases) / mu * rng.standard_normal(total.shape)


# Means


def gaussian_mean(X: Array, bound: float, mu: float, rng: Source) -> Array:
    """Mean of clipped rows; diameter 2 B."""
    return noisy_sum(shortened(X, bound), 2 * bound, mu, 1, rng) / len(X)


def coinpress_mean(X: Array, bound: float, mu: float, rng: Source, *, variance: float) -> Array:
    """Mean by clipping twice to balls that shrink around the last estimate (Biswas et al. 2020, for known covariance).

    A ball of radius r around a public centre has diameter 2 r. ``variance`` per column is public here, as in the paper.
    """
    n_records, width = X.shape
    tail = FROZEN["CoinPress"]["tail"]
    spread = math.sqrt(variance) * (math.sqrt(width) + math.sqrt(2 * math.log(n_records / tail)))
    centre, radius = np.zeros(width), bound + spread
    for share in FROZEN["CoinPress"]["shares"]:
        left = mu * math.sqrt(share)
        centre = centre + noisy_sum(shortened(X - centre, radius), 2 * radius, left, 1, rng) / n_records
        noise = 2 * radius / (left * n_records)
        off = math.sqrt(variance / n_records + noise**2)
        radius = spread + off * (math.sqrt(width) + math.sqrt(2 * math.log(1 / tail)))
    return centre


# Principal components


def analyze_gauss(X: Array, n: int, mu: float, rng: Source) -> Array:
    """Analyze Gauss (Dwork et al. 2014): equal noise on the upper triangle; rows of length 1, diameter sqrt(2)."""
    noise = symmetric_noise(rng, X.shape[1], math.sqrt(2) / (mu * len(X)))
    return np.linalg.eigh(X.T @ X / len(X) + noise)[1][:, -n:].T


def as_published_pca(X: Array, n: int, mu: float, rng: Source) -> Array:
    """Directions of largest singular values, as capePCA prints it, with the noise that its guarantee would need."""
    noise = symmetric_noise(rng, X.shape[1], math.sqrt(2) / (mu * len(X)))
    return leading_directions(X.T @ X / len(X) + noise, n)


def subspace_iteration(X: Array, n: int, mu: float, rng: Source) -> Array:
    """Noisy power method (Hardt and Price 2014), the full-batch form of Oja's rule.

    A round releases the sum of x x'V for orthonormal V: |x x'V - y y'V| <= |x x' - y y'| <= sqrt(2).
    """
    n_rounds = FROZEN["subspace iteration"]["n_rounds"]
    basis = np.linalg.qr(rng.standard_normal((X.shape[1], n)))[0]
    scale = math.sqrt(2 * n_rounds) / mu
    for _ in range(n_rounds):
        basis = np.linalg.qr(X.T @ (X @ basis) + scale * rng.standard_normal(basis.shape))[0]
    return basis.T


# Regression. Rows have length at most 1, a constant is one more column; responses are in [-1, 1].


def adassp(X: Array, y: Array, mu: float, rng: Source) -> Array:
    """AdaSSP (Wang 2018): sufficient statistics with a ridge chosen by a release of the least eigenvalue.

    Three releases with a third of mu^2 each: least eigenvalue (rows of length B move it by at most B^2), X'X (sqrt(2)
    B^2) and X'y (2 B).
    """
    width, failing, bound = X.shape[1], 0.05, 1.0
    part = mu / math.sqrt(3)
    tail = math.log(6 / failing)
    least = np.linalg.eigvalsh(X.T @ X)[0] + bound**2 / part * (rng.standard_normal() - math.sqrt(2 * tail))
    ridge = max(0.0, math.sqrt(2 * width * math.log(2 * width**2 / failing)) * bound**2 / part - max(least, 0.0))
    moment = X.T @ X + symmetric_noise(rng, width, math.sqrt(2) * bound**2 / part)
    cross = X.T @ y + 2 * bound / part * rng.standard_normal(width)
    return np.linalg.solve(moment + (ridge + 1e-9) * np.eye(width), cross)


def gradient_descent(X: Array, y: Array, mu: float, rng: Source, *, kind: str, **changed: Any) -> Array:
    """DP-GD: clipped per-record gradients of all records, diameter 2 clip; the mean of the last third of the rounds."""
    options = {**FROZEN[f"DP-GD, {kind}"], **changed}
    n_rounds, clip, step = options["n_rounds"], options["clip"], options["step"]
    current, kept = np.zeros(X.shape[1]), []
    for number in range(n_rounds):
        scores = X @ current
        slopes = scores - y if kind == "linear" else expit(scores) - y
        gradients = shortened(slopes[:, None] * X, clip)
        current = current - step * noisy_sum(gradients, 2 * clip, mu, n_rounds, rng) / len(X)
        if number >= n_rounds - max(1, n_rounds // 3):
            kept.append(current)
    return np.mean(kept, axis=0)


def objective_perturbation(
    X: Array, labels: Array, epsilon: float, delta: float, rng: Source, *, ridge: float | None = None
) -> Array:
    """Objective perturbation with Gaussian noise (Kifer, Smith and Thakurta 2012, theorem 4) for the logistic loss.

    Slopes are at most 1 long and curvatures at most 1/4, both in the rank-one form that the theorem needs. It has an
    (epsilon, delta) of its own; the exact accountant does not apply. The result is the exact minimiser.
    """
    n_records, width = X.shape
    strength = max((FROZEN["objective perturbation"]["ridge"] if ridge is None else ridge) * n_records, 0.5 / epsilon)
    noise = math.sqrt(8 * math.log(2 / delta) + 4 * epsilon) / epsilon * rng.standard_normal(width)

    def height(w: Array) -> tuple[float, Array]:
        scores = X @ w
        value = np.sum(np.logaddexp(0.0, scores) - labels * scores) + strength / 2 * w @ w + noise @ w
        return float(value), X.T @ (expit(scores) - labels) + strength * w + noise

    return np.asarray(minimize(height, np.zeros(width), jac=True, method="L-BFGS-B").x)


# Mixtures, topics and clusters


def em_mixture(X: Array, n: int, bound: float, variance: float, mu: float, rng: Source, **changed: Any) -> Array:
    """DP-EM (Park et al. 2017) for spherical components of known variance, from public random unit means.

    A record contributes responsibilities and, over the bound, its row times each: at most sqrt(2) long, diameter 2.
    """
    n_rounds = {**FROZEN["DP-EM"], **changed}["n_rounds"]
    rows = shortened(X, bound) / bound
    means = rng.standard_normal((n, X.shape[1]))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    shares = np.full(n, 1 / n)
    for _ in range(n_rounds):
        heights = np.log(shares) + (X @ means.T - (means**2).sum(axis=1) / 2) / variance
        shared = np.exp(heights - heights.max(axis=1, keepdims=True))
        shared /= shared.sum(axis=1, keepdims=True)
        # The sum of r_k (1, x / B) over records; replacing one moves it by at most 2.
        scale = 2 * math.sqrt(n_rounds) / mu
        counts = shared.sum(axis=0) + scale * rng.standard_normal(n)
        sums = shared.T @ rows + scale * rng.standard_normal((n, X.shape[1]))
        counts = np.maximum(counts, 0.2 * len(X) / n)
        means, shares = shortened(bound * sums / counts[:, None], bound), counts / counts.sum()
    return means


def em_topics(words: Array, n: int, mu: float, rng: Source, **changed: Any) -> Array:
    """DP-EM for documents of three words of one topic each; start: public random topics.

    A document contributes its responsibilities and its words over three times each: at most sqrt(2) long, diameter 2.
    """
    n_rounds = {**FROZEN["DP-EM, topics"], **changed}["n_rounds"]
    n_records, width = words.shape
    topics, shares = rng.dirichlet(np.full(width, 0.3), n), np.full(n, 1 / n)
    scale = 2 * math.sqrt(n_rounds) / mu
    for _ in range(n_rounds):
        heights = np.log(shares) + words @ np.log(np.maximum(topics, 1e-4)).T
        shared = np.exp(heights - heights.max(axis=1, keepdims=True))
        shared /= shared.sum(axis=1, keepdims=True)
        counts = np.maximum(shared.sum(axis=0) + scale * rng.standard_normal(n), 0.2 * n_records / n)
        sums = np.maximum((words.T @ shared).T / 3 + scale * rng.standard_normal((n, width)), 1e-9)
        topics, shares = sums / sums.sum(axis=1, keepdims=True), counts / counts.sum()
    return topics


def lloyd(X: Array, n: int, bound: float, mu: float, rng: Source, **changed: Any) -> Array:
    """DP-Lloyd (Su et al. 2016) from random public centres: counts and sums of the rows nearest to each centre.

    A record contributes (1, x / B) to one cluster: at most sqrt(2) long, diameter 2.
    """
    n_rounds = {**FROZEN["DP-Lloyd"], **changed}["n_rounds"]
    rows = shortened(X, bound) / bound
    width = X.shape[1]
    centres = rng.standard_normal((n, width))
    centres *= (rng.uniform(size=n) ** (1 / width) / np.linalg.norm(centres, axis=1))[:, None] / 2
    scale = 2 * math.sqrt(n_rounds) / mu
    for _ in range(n_rounds):
        nearest = np.argmin((centres**2).sum(axis=1) - 2 * rows @ centres.T, axis=1)
        members = np.eye(n)[nearest]
        counts = members.sum(axis=0) + scale * rng.standard_normal(n)
        sums = members.T @ rows + scale * rng.standard_normal((n, width))
        centres = shortened(sums / np.maximum(counts, 0.02 * len(X) / n)[:, None], 1.0)
    return bound * centres
