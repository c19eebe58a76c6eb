"""One Gibbs sweep of the Bayesian factor model, its start, and the adaptation of the number of factors.

Model (paper equation (3), rows are subjects): x_ij = sum_h eta_ih lambda_jh + e_ij, eta ~ N(0, I), e_ij ~
N(0, 1/s_j). Order of a sweep: factors, then the pass over features (loadings, residual and local
precisions), then the column precisions, then the scale move; so that E'X is formed once and residuals come
from sufficient statistics.

The generators used here are ordinary numpy ones. They protect nothing: what is released has no formal
guarantee.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import solve_triangular

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.factor_release.kernels import FeaturePass
from dpcape.factor_release.priors import Prior

# Prior of the residual precisions, Gamma(shape, rate), for features scaled to unit variance ([BD11] section 4.1).
RESIDUAL_SHAPE, RESIDUAL_RATE = 1.0, 0.3


@dataclass(frozen=True)
class StandardisedFeatures:
    """Standardised features of all subjects, n x p, with their sums of squares."""

    values: FloatArray
    squares: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "squares", np.einsum("ij,ij->j", self.values, self.values))


@dataclass
class ChainState:
    """Current state of a chain, with K factors, n subjects and p features."""

    factors: FloatArray  # n x K
    loadings: FloatArray  # K x p
    local: FloatArray  # K x p, phi
    precision: FloatArray  # p, residual precisions s
    increments: FloatArray  # K, parameter of the column precisions
    rss: FloatArray  # p, residual sums of squares at the last pass
    sweep: int = 0

    @property
    def n_factors(self) -> int:
        """Number of factors now in the model."""
        return int(self.loadings.shape[0])


class Workspace:
    """Buffers for the random numbers of a pass, reallocated when the number of factors changes."""

    def __init__(self) -> None:
        self.normals = np.empty((0, 0))
        self.exponentials = np.empty((0, 0, 0))

    def fill(self, shape: tuple[int, int], rng: np.random.Generator) -> None:
        """Draw the standard normals and exponentials of one pass."""
        if self.normals.shape != shape:
            self.normals, self.exponentials = np.empty(shape), np.empty((2, *shape))
        rng.standard_normal(out=self.normals)
        rng.standard_exponential(out=self.exponentials)


def principal_scores(values: FloatArray, n_factors: int) -> tuple[FloatArray, FloatArray]:
    """Return scores (n x K, unit mean square, signs fixed) and loadings (K x p) of the truncated SVD."""
    n = values.shape[0]
    _, vectors = np.linalg.eigh(values @ values.T)
    scores = vectors[:, ::-1][:, :n_factors]
    signs = np.sign(scores[np.abs(scores).argmax(axis=0), np.arange(n_factors)])
    scores = scores * signs * np.sqrt(n)
    return scores, scores.T @ values / n


def svd_start(features: StandardisedFeatures, prior: Prior, n_factors: int) -> ChainState:
    """Start a chain at the truncated SVD; from a random start redundant factors hardly ever shrink."""
    scores, loadings = principal_scores(features.values, n_factors)
    n = scores.shape[0]
    rss = np.maximum(features.squares - n * np.einsum("kp,kp->p", loadings, loadings), 0.0)
    tau = 1.0 / np.maximum(np.mean(loadings**2, axis=1), 1e-12)
    return ChainState(
        factors=scores,
        loadings=loadings,
        local=np.ones_like(loadings),
        precision=(RESIDUAL_SHAPE + n / 2) / (RESIDUAL_RATE + rss / 2),
        increments=prior.from_precisions(tau),
        rss=rss,
    )


def draw_factors(state: ChainState, features: StandardisedFeatures, rng: np.random.Generator) -> FloatArray:
    """Draw eta_i ~ N(V L'S x_i, V) with V = (I + L'S L)^-1 for all subjects at once."""
    weighted = state.loadings * state.precision
    Q = weighted @ state.loadings.T
    Q[np.diag_indices_from(Q)] += 1.0
    C = np.linalg.cholesky(Q)
    right = solve_triangular(C, (features.values @ weighted.T).T, lower=True)
    right += rng.standard_normal(right.shape)
    return np.ascontiguousarray(solve_triangular(C, right, lower=True, trans="T").T)


def gibbs_sweep(
    state: ChainState,
    features: StandardisedFeatures,
    *,
    prior: Prior,
    kernel: FeaturePass,
    rng: np.random.Generator,
    work: Workspace,
) -> None:
    """Advance the chain by one sweep, in place."""
    n, n_features = features.values.shape
    state.factors = draw_factors(state, features, rng)
    work.fill(state.loadings.shape, rng)
    column_sums = kernel(
        state.factors.T @ state.factors,
        state.factors.T @ features.values,
        features.squares,
        state.precision,
        state.local,
        prior.precisions(state.increments),
        work.normals,
        work.exponentials,
        rng.standard_gamma(RESIDUAL_SHAPE + n / 2, n_features),
        RESIDUAL_RATE,
        state.loadings,
        state.rss,
    )
    state.increments = prior.draw(state.increments, column_sums, n_features, rng)
    scale, state.increments = prior.scale_move(state.increments, np.sum(state.factors**2, axis=0), n, rng)
    state.factors /= scale
    state.loadings *= scale[:, None]
    state.sweep += 1


@dataclass(frozen=True)
class Adaptation:
    """When and how the number of factors changes ([BD11] section 3.2).

    At sweep t the chain adapts with probability exp(intercept + slope t). A column is redundant when at
    least ``proportion`` of its loadings lie within ``neighbourhood`` of zero (features have unit variance).
    Redundant columns are removed; if there is none, a column is added from the prior.
    """

    intercept: float = -1.0
    slope: float = -5e-4
    neighbourhood: float = 0.1
    proportion: float = 0.8
    first_sweep: int = 20

    def due(self, sweep: int, rng: np.random.Generator) -> bool:
        """Decide whether this sweep adapts; always consumes one random number."""
        return bool(rng.random() < np.exp(self.intercept + self.slope * sweep)) and sweep > self.first_sweep

    def redundant(self, loadings: FloatArray) -> BoolArray:
        """Mark the redundant columns."""
        return np.asarray(np.mean(np.abs(loadings) < self.neighbourhood, axis=1) >= self.proportion)

    def apply(self, state: ChainState, prior: Prior, *, largest: int, rng: np.random.Generator) -> ChainState:
        """Return the state after one adaptation."""
        redundant = self.redundant(state.loadings)
        if redundant.any():
            kept = ~redundant
            if not kept.any():
                kept[0] = True
            return select(state, prior, kept)
        return extend(state, prior, rng) if state.n_factors < largest else state


def select(state: ChainState, prior: Prior, kept: BoolArray) -> ChainState:
    """Return the state with the marked columns only."""
    precisions = prior.precisions(state.increments)[kept]
    return replace(
        state,
        factors=np.ascontiguousarray(state.factors[:, kept]),
        loadings=np.ascontiguousarray(state.loadings[kept]),
        local=np.ascontiguousarray(state.local[kept]),
        increments=prior.from_precisions(precisions),
    )


def extend(state: ChainState, prior: Prior, rng: np.random.Generator) -> ChainState:
    """Return the state with one more column, drawn from the prior."""
    increments = np.append(state.increments, prior.from_prior(False, rng))
    local: FloatArray = rng.standard_gamma(1.5, (state.loadings.shape[1],)) / 1.5
    scale = 1.0 / np.sqrt(local * prior.precisions(increments)[-1])
    return replace(
        state,
        factors=np.column_stack([state.factors, rng.standard_normal(state.factors.shape[0])]),
        loadings=np.vstack([state.loadings, rng.standard_normal(local.shape) * scale]),
        local=np.vstack([state.local, local]),
        increments=increments,
    )
