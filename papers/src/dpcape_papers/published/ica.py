"""djICA, DP-djICA and capeDJICA as published, and the guarantees they really provide. For comparison only.

Nothing here is used to protect records. The PCA of DP-djICA relies on a result that its authors retracted, so results
based on it state "no guarantee: retracted". The caller supplies the generators.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.random import Generator  # published algorithms for comparison: nothing is protected by it
from scipy.integrate import quad
from scipy.stats import chi2

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import epsilon_of
from dpcape.estimators.ica.infomax import Infomax, opposes
from dpcape_papers.published.cape import cape_exposure
from dpcape_papers.published.regression import classical_multiplier

RETRACTED = "no guarantee: retracted"
BLOCK_ROWS = 1024
"""Rows that are added at once."""


@dataclass(frozen=True)
class DjicaComparison:
    """The epsilons that chapter 6 claims for capeDJICA, and those that the same noise provides.

    Attributes
    ----------
    claimed_epsilon, claimed_delta : float
        By theorem 6.1, basic composition: (2 J epsilon_i, 2 J delta_i).
    claimed_moments : float
        Epsilon of section 6.3.2 at ``delta``; NaN where its quadratic has no real root. Unsafe: its moment generating
        function is wrong.
    delta : float
        Delta of ``claimed_moments`` and of the verified epsilons.
    verified_epsilon : float
        Per time point, against the aggregator and the colluding sites, at ``delta``.
    verified_output_only : float
        Per time point, against someone who sees only the results.
    verified_subject : float
        Per person with ``n_timepoints`` time points, against the aggregator and the colluding sites.
    """

    claimed_epsilon: float
    claimed_delta: float
    claimed_moments: float
    delta: float
    verified_epsilon: float
    verified_output_only: float
    verified_subject: float


def cape_djica(
    *,
    epsilon_round: float,
    delta_round: float,
    n_iter: int,
    n_sites: int,
    n_colluding: int,
    delta: float,
    n_records: int,
    n_timepoints: int,
    gradient_bound: float = 1.0,
    with_pca: bool = False,
) -> DjicaComparison:
    """Compare the claims of section 6.3 with what the noise of eq. 6.9 provides; every round releases G and h.

    With ``with_pca`` the second moment of capePCA is one more release, with noise for the same epsilon and delta and
    the printed sensitivity 1/N; for a replaced time point it is sqrt(2)/N. With one site (``n_sites`` 1) the adversary
    sees only the output.
    """
    per_sensitivity = classical_multiplier(epsilon_round, delta_round)
    output = math.sqrt(2 * n_iter + 2 * with_pca) / per_sensitivity
    seen = output * cape_exposure(n_sites, n_colluding)
    sensitivity = 2 * gradient_bound / n_records
    return DjicaComparison(
        claimed_epsilon=2 * n_iter * epsilon_round,
        claimed_delta=2 * n_iter * delta_round,
        claimed_moments=moments_claim(sensitivity, per_sensitivity * sensitivity, 2 * n_iter, delta),
        delta=delta,
        verified_epsilon=epsilon_of(delta, seen),
        verified_output_only=epsilon_of(delta, output),
        verified_subject=epsilon_of(delta, n_timepoints * seen),
    )


class GhostStep:
    """Sum of clipped gradients over blocks of rows; buffers are reused and stay in the cache.

    Rounding: with u = 2^-53, the computed y'Pz and z'Pz are off by at most (R + 4) u |P|_F times |y||z| and |z|^2.
    Raising P by ``slack`` I and the norm by ``slack`` covers both, since 2 |y||z| <= 1 + |y|^2 |z|^2, so that the
    norm used is never below the exact one by more than the relative 2^-50 (R + 16) that the target leaves room for.
    """

    def __init__(self, unmixing: FloatArray, bias: FloatArray, *, clip: float, bias_clip: float) -> None:
        width = len(bias)
        self._unmixing, self._bias = unmixing, bias[:, np.newaxis]
        gram = unmixing @ unmixing.T
        slack = 4 * (width + 16) * 2.0**-53 * float(np.linalg.norm(gram))
        self._gram = gram + slack * np.eye(width)
        self._constant = float((unmixing**2).sum()) * (1 + 2.0**-45) + slack
        room = 1 - (width + 16) * 2.0**-50
        self._clip, self._bias_clip = clip * room, bias_clip * room
        self._outer, self._scores = np.zeros((width, width)), np.zeros(width)
        self._weight = 0.0
        self._buffers = np.empty((3, width, BLOCK_ROWS))
        self._ones = np.ones(width)

    def add(self, rows: FloatArray) -> None:
        """Add the clipped gradients of a block of reduced rows."""
        n_rows = len(rows)
        sources, scores, moved = (buffer[:, :n_rows] for buffer in self._buffers)
        np.copyto(sources, self._unmixing @ rows.T)
        sources += self._bias
        np.multiply(sources, -0.5, out=scores)
        np.tanh(scores, out=scores)
        np.multiply(scores, scores, out=moved)
        length = self._ones @ moved
        self._scores += scores @ (self._bias_clip / np.maximum(np.sqrt(length), self._bias_clip))
        factors = self._factors(sources, scores, moved, length)
        self._weight += float(factors.sum())
        scores *= factors
        self._outer += scores @ sources.T

    def _factors(self, sources: FloatArray, scores: FloatArray, moved: FloatArray, length: FloatArray) -> FloatArray:
        """Return the clipping factor of each gradient; ``moved`` is overwritten, ``length`` is |y|^2."""
        np.copyto(moved, self._gram @ sources)
        # |W|^2 + 2 y'Pz + |y|^2 z'Pz. Only the last product may overwrite Pz; a fourth buffer would cost the cache more
        # than einsum does.
        crossed = np.einsum("ij,ij->j", moved, scores)
        moved *= sources
        squared: FloatArray = self._ones @ moved
        squared *= length
        squared += self._constant
        squared += 2 * crossed
        factors: FloatArray = self._clip / np.maximum(np.sqrt(np.maximum(squared, 0.0)), self._clip)
        return factors

    def total(self) -> FloatArray:
        """Return the packed sum of (G, h)."""
        gradient = (self._weight * np.eye(len(self._ones)) + self._outer) @ self._unmixing
        return np.concatenate([gradient.ravel(), self._scores])


def clipped_infomax(
    rows: FloatArray,
    *,
    n_iter: int,
    clip: float,
    bias_clip: float,
    noise: float = 0.0,
    rng: Generator | None = None,
    learning_rate: float = 1.0,
) -> FloatArray:
    """Run algorithm 6.1 on reduced, whitened rows and return the final unmixing matrix.

    ``noise`` is the papers' multiplier of the sensitivities 2 clip/N and 2 bias_clip/N for N rows in all. It describes
    the noise that remains in the mean over the sites after the zero-sum part has cancelled. The printed algorithm adds
    no noise to G; the text does.
    """
    n_rows, width = rows.shape
    scales = np.repeat([clip, bias_clip], [width**2, width]) * 2 * noise / n_rows
    state = Infomax(width, n_iter, learning_rate)
    while state.done < n_iter:
        step = GhostStep(state.unmixing, state.bias, clip=clip, bias_clip=bias_clip)
        for start in range(0, n_rows, BLOCK_ROWS):
            step.add(rows[start : start + BLOCK_ROWS])
        mean = step.total() / n_rows
        if rng is not None:
            mean = mean + scales * rng.standard_normal(mean.size)
        state.step(mean[: width**2].reshape(width, width), mean[width**2 :])
    return state.unmixing


def moments_claim(sensitivity: float, scale: float, n_releases: int, delta: float) -> float:
    """Return the epsilon of section 6.3.2, or NaN where its formula has no value. It can be far too small."""
    a = 1 / (2 * n_releases * sensitivity)
    b = -sensitivity / (2 * scale**2)
    c = math.log(delta) - n_releases * math.log(scale / math.sqrt(sensitivity))
    c += n_releases * sensitivity**3 / (8 * scale**4)
    inside = b * b - 4 * a * c
    return (-b + math.sqrt(inside)) / (2 * a) if inside >= 0 else math.nan


def djica(
    rows_by_site: Sequence[FloatArray], *, n_iter: int, learning_rate: float | None = None, tolerance: float = 1e-6
) -> FloatArray:
    """Return the unmixing matrix of non-private djICA on reduced, whitened rows (Baker et al. 2015)."""
    return _gradient_ascent(rows_by_site, n_iter, learning_rate, tolerance, epsilon=None, rng=None)


@dataclass(frozen=True)
class DpDjica:
    """The result of DP-djICA as published.

    Attributes
    ----------
    unmixing : ndarray
        Unmixing matrix, (components, voxels).
    claimed_epsilon : float
        eps_pca + J eps, per time point, with delta 0.
    verified : str
        Always :data:`RETRACTED`, because of the Wishart step.
    verified_iterations : float
        J eps, the part of the claim that holds per time point if the clipping is public (theorem 1). Per person,
        multiply it by the number of time points.
    """

    unmixing: FloatArray
    claimed_epsilon: float
    verified: str
    verified_iterations: float


def dp_djica(
    rows_by_site: Sequence[FloatArray],
    n_components: int,
    *,
    epsilon_pca: float,
    epsilon_round: float,
    n_iter: int,
    rng: Generator,
    learning_rate: float | None = None,
    local_rank: int | None = None,
    step: str = "sum",
) -> DpDjica:
    """Run algorithms 1 to 3 of DP-djICA as printed, with rows clipped to norm 1/(2 sqrt(D)); it has no guarantee.

    Parameters
    ----------
    rows_by_site : sequence of ndarray
        The records of every site.
    n_components : int
        Final rank r.
    epsilon_pca, epsilon_round : float
        Of the PCA and of one round.
    n_iter : int
        Most rounds, J.
    rng : Generator
        Of all noise.
    learning_rate : float or None
        First rate; None for the paper's, 0.015 / ln r.
    local_rank : int or None
        Rank k of the sites' own PCA, at least r; None for r.
    step : str
        "sum", as printed: a round adds up the gradients of all sites and records. "mean" divides by the number of
        records, so that one rate suits every number; the figures use it.
    """
    if step not in ("sum", "mean"):
        raise InvalidParameter("step", 'be "sum" or "mean"', repr(step), 'Use "sum" for the algorithm as printed.')
    width = rows_by_site[0].shape[1]
    clipped = [_clipped(rows, 1 / (2 * math.sqrt(width))) for rows in rows_by_site]
    directions = private_global_pca(clipped, n_components, epsilon=epsilon_pca, rng=rng, local_rank=local_rank)
    reduced = [rows @ directions for rows in clipped]
    turn = _gradient_ascent(reduced, n_iter, learning_rate, 1e-6, epsilon=epsilon_round, rng=rng, summed=step == "sum")
    return DpDjica(
        unmixing=turn @ directions.T,
        claimed_epsilon=epsilon_pca + n_iter * epsilon_round,
        verified=RETRACTED,
        verified_iterations=n_iter * epsilon_round,
    )


def private_global_pca(
    rows_by_site: Sequence[FloatArray],
    n_components: int,
    *,
    epsilon: float,
    rng: Generator,
    local_rank: int | None = None,
) -> FloatArray:
    """Run PrivateGlobalPCA (algorithm 2), sites in random order; it has no guarantee.

    Ranks are cut as printed: a site keeps at most the rank of its own data (which no noise protects), a merged matrix
    at least that of what it received, and the result at most that of the last one.
    """
    rank = n_components if local_rank is None else local_rank
    if rank < n_components:
        raise InvalidParameter(
            "local_rank",
            f"be at least n_components, {n_components}",
            rank,
            "Keep as many directions at the sites as are wanted in the end.",
        )
    carried: FloatArray | None = None
    for index in rng.permutation(len(rows_by_site)):
        own = min(rank, _rank(rows_by_site[index]))
        local = _private_local_pca(rows_by_site[index].T, own, epsilon, rng)
        if carried is None:
            carried = local
            continue
        # Perturbing a released value again adds error but no privacy; kept because the paper does it.
        carried = _private_local_pca(np.hstack([local, carried]), max(own, _rank(carried)), epsilon, rng)
    assert carried is not None
    top = carried[:, -min(n_components, _rank(carried)) :]
    normed: FloatArray = top / np.linalg.norm(top, axis=0)
    return normed


def _rank(matrix: FloatArray) -> int:
    """Return the rank, from the smaller Gram matrix."""
    gram = matrix.T @ matrix if matrix.shape[1] <= matrix.shape[0] else matrix @ matrix.T
    return int(np.linalg.matrix_rank(gram, hermitian=True))


def _private_local_pca(columns: FloatArray, n_components: int, epsilon: float, rng: Generator) -> FloatArray:
    """Run PrivateLocalPCA (algorithm 1): add a Wishart matrix with d + 1 degrees of freedom and scale 1/(2 eps)."""
    width = len(columns)
    draws = rng.standard_normal((width, width + 1)) / math.sqrt(2 * epsilon)
    values, vectors = np.linalg.eigh(columns @ columns.T + draws @ draws.T)
    result: FloatArray = vectors[:, -n_components:] * np.sqrt(values[-n_components:])
    return result


def wishart_delta(epsilon: float, extra_degrees: int, scale: float) -> float:
    """Return the exact delta of adding Wishart_d(d + m, scale I) to a sum of x x', |x| <= 1, for one record set to 0.

    With m = 1 and scale = 1/(2 eps) this is the published mechanism: delta is 1 - exp(-eps) at *every* epsilon.
    Sound choices need more degrees of freedom (Sheffet 2019), e.g. m = 33 at scale 1 for (1, 1e-5). The loss
    depends on Y, a chi-squared variable with m + 1 degrees of freedom.
    """
    half = (extra_degrees - 1) / 2

    def lost(y: float) -> float:
        if scale * y <= 1:
            return 1.0
        loss = -half * math.log1p(-1 / (scale * y)) - 1 / (2 * scale)
        return max(0.0, -math.expm1(epsilon - loss))

    def gained(y: float) -> float:
        loss = -half * math.log1p(1 / (scale * y)) + 1 / (2 * scale)
        return max(0.0, -math.expm1(epsilon - loss))

    return max(_expected(lost, extra_degrees + 1, 1 / scale), _expected(gained, extra_degrees + 1, 1 / scale))


def wishart_row_delta(epsilon: float, width: int) -> float:
    """Return the delta of the published PCA of DP-djICA, whose rows of ``width`` columns have norm 1/(2 sqrt(width)).

    An output that is not at least x x' in the positive semidefinite order proves that x is absent. Wishart noise with
    width + 1 degrees of freedom and scale 1/(2 epsilon) gives one with probability 1 - exp(-epsilon |x|^2): the
    smallest multiple of x x' that W exceeds is a chi-squared variable with two degrees of freedom.
    """
    return -math.expm1(-epsilon / (4 * width))


def _expected(value: Callable[[float], float], degrees: int, edge: float) -> float:
    """Return the mean of a function of a chi-squared variable, integrated between the points where it is not smooth."""
    law = chi2(degrees)
    points = sorted({0.0, edge, *law.ppf([1e-15, 1e-9, 1e-6, 1e-4, 0.01, 0.1, 0.5, 0.9]), float(law.isf(1e-15))})

    def weighted(y: float) -> float:
        return float(value(y) * law.pdf(y))

    return sum(quad(weighted, low, high, limit=200)[0] for low, high in pairwise(points))


def _gradient_ascent(
    rows_by_site: Sequence[FloatArray],
    n_iter: int,
    learning_rate: float | None,
    tolerance: float,
    *,
    epsilon: float | None,
    rng: Generator | None,
    summed: bool = False,
) -> FloatArray:
    """Run algorithm 3: natural-gradient infomax, with Laplace noise in Z if an epsilon is given.

    A ``summed`` step adds the gradients of all sites, each with its own identity, as printed; otherwise it is a mean.
    """
    n_terms = len(rows_by_site) if summed else 1
    width = rows_by_site[0].shape[1]
    n_rows = sum(len(rows) for rows in rows_by_site)
    turn, bias, last = np.eye(width), np.zeros(width), np.zeros((width, width))
    rate = 0.015 / math.log(width) if learning_rate is None else learning_rate
    for _ in range(n_iter):
        gradient, shift = np.zeros((width, width)), np.zeros(width)
        for rows in rows_by_site:
            sources = rows @ turn.T + bias
            if epsilon is not None and rng is not None:
                # |W|_1 is the largest column sum. The noisy Z must be used everywhere, or Z would be revealed.
                sources = sources + rng.laplace(scale=np.abs(turn).sum(axis=0).max() / epsilon, size=sources.shape)
            scores = -np.tanh(sources / 2)
            gradient += scores.T @ sources
            shift += scores.sum(axis=0)
        scale = 1 if summed else n_rows
        change = rate * (n_terms * np.eye(width) + gradient / scale) @ turn
        # Learning-rate adjustment (algorithm 3, line 15): too large a rate ends in a cycle of two iterates.
        rate *= 0.8 if opposes(change, last) else 1.0
        last = change
        turn, bias = turn + change, bias + rate * shift / scale
        if not np.isfinite(turn).all() or np.abs(turn).max() > 1e6:
            turn, bias, rate = np.eye(width), np.zeros(width), rate / 2
        elif float((change**2).sum()) < tolerance:
            break
    return turn


def _clipped(rows: FloatArray, bound: float) -> FloatArray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    result: FloatArray = rows * np.minimum(1.0, bound / np.maximum(norms, 1e-300))
    return result
