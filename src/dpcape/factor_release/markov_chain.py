"""One Markov chain: adapt, burn in, keep draws; a chain that is stopped and continued gives the same draws."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.alignment import rotation_onto
from dpcape.factor_release.gibbs_sampler import (
    Adaptation,
    ChainState,
    StandardisedFeatures,
    Workspace,
    extend,
    gibbs_sweep,
    principal_scores,
    select,
    svd_start,
)
from dpcape.factor_release.kernels import kernel_named
from dpcape.factor_release.priors import IndependentGamma, MultiplicativeGamma, Prior

# Share of the burn-in during which the number of factors may change; the rest runs with the number settled on.
ADAPTING_SHARE = 0.7
N_MONITORED = 16
WEAKLY_IDENTIFIED = "communality"


@dataclass(frozen=True)
class ChainSettings:
    """What a chain will do; part of the fingerprint that a saved chain must match."""

    n_factors: int
    adaptive: bool
    prior: str
    n_burn_in: int
    n_draws: int
    thin: int
    seed: tuple[int, ...]
    neighbourhood: float = 0.1
    proportion: float = 0.8

    @property
    def n_sweeps(self) -> int:
        """Total number of sweeps."""
        return self.n_burn_in + self.n_draws * self.thin

    @property
    def n_adapting(self) -> int:
        """Sweeps during which the number of factors may change."""
        return int(ADAPTING_SHARE * self.n_burn_in) if self.adaptive else 0

    def prior_object(self) -> Prior:
        """Return the prior by name."""
        return MultiplicativeGamma() if self.prior == "multiplicative" else IndependentGamma()


@dataclass
class KeptDraws:
    """What is kept of a chain: aligned factors of each draw, running sums of the rest."""

    factors: FloatArray  # draws x n x K, aligned
    loadings_sum: FloatArray  # K x p, aligned
    squares_sum: FloatArray  # p, sum of |lambda_j|^2
    variance_sum: FloatArray  # p, sum of residual variances
    monitors: FloatArray  # draws x quantities
    count: int = 0


def _empty_kept(n_draws: int, n: int, n_factors: int, n_features: int) -> KeptDraws:
    return KeptDraws(
        factors=np.zeros((n_draws, n, n_factors)),
        loadings_sum=np.zeros((n_factors, n_features)),
        squares_sum=np.zeros(n_features),
        variance_sum=np.zeros(n_features),
        monitors=np.zeros((n_draws, 1 + 3 * min(N_MONITORED, n_features))),
    )


class MarkovChain:
    """A chain on standardised features; ``run`` takes it to the end of its plan."""

    def __init__(self, features: StandardisedFeatures, plan: ChainSettings, *, kernel: str = "auto") -> None:
        self.features, self.plan = features, plan
        self.prior = plan.prior_object()
        self.kernel = kernel_named(kernel)
        # Posterior sampling by seed: nothing is protected by it.
        self.rng = np.random.default_rng(np.random.SeedSequence(list(plan.seed)))
        self.adaptation = Adaptation(neighbourhood=plan.neighbourhood, proportion=plan.proportion)
        self.state = self._start()
        self.n_factors_trace: list[int] = []
        self.work = Workspace()
        self.kept: KeptDraws | None = None
        self.frame = np.empty((0, 0))

    def _start(self) -> ChainState:
        """SVD start, spread out a little so that R-hat compares chains that began apart."""
        state = svd_start(self.features, self.prior, self.plan.n_factors)
        root_mean_square = np.sqrt(np.mean(state.loadings**2, axis=1, keepdims=True))
        state.loadings = state.loadings + 0.2 * root_mean_square * self.rng.standard_normal(state.loadings.shape)
        state.precision = state.precision * np.exp(0.2 * self.rng.standard_normal(state.precision.shape))
        return state

    @property
    def largest(self) -> int:
        """The largest number of factors that can be identified."""
        return int(min(self.features.values.shape[0] - 1, self.features.values.shape[1]))

    @property
    def done(self) -> bool:
        """Whether the plan is finished."""
        return self.state.sweep >= self.plan.n_sweeps

    def run(self, until: int | None = None, tick: Callable[[MarkovChain], None] | None = None) -> MarkovChain:
        """Sweep to the end of the plan, or to sweep number ``until``; call ``tick`` after each sweep."""
        end = self.plan.n_sweeps if until is None else min(until, self.plan.n_sweeps)
        while self.state.sweep < end:
            self._step()
            if tick is not None:
                tick(self)
        return self

    def _step(self) -> None:
        gibbs_sweep(self.state, self.features, prior=self.prior, kernel=self.kernel, rng=self.rng, work=self.work)
        sweep = self.state.sweep
        if sweep <= self.plan.n_adapting:
            self._adapt(sweep)
        if sweep > self.plan.n_burn_in and (sweep - self.plan.n_burn_in) % self.plan.thin == 0:
            self._keep()

    def _adapt(self, sweep: int) -> None:
        if self.adaptation.due(sweep, self.rng):
            self.state = self.adaptation.apply(self.state, self.prior, largest=self.largest, rng=self.rng)
        # The column just added from the prior is on trial; the settled number does not count it.
        self.n_factors_trace.append(int(max((~self.adaptation.redundant(self.state.loadings)).sum(), 1)))
        if sweep == self.plan.n_adapting:
            self._settle()

    def _settle(self) -> None:
        """Fix the number of factors at its most frequent value over the later half of the adapting sweeps."""
        later = np.asarray(self.n_factors_trace[len(self.n_factors_trace) // 2 :])
        target = int(np.bincount(later).argmax())
        if self.state.n_factors > target:
            order = np.argsort(-np.sum(self.state.loadings**2, axis=1))
            kept = np.zeros(self.state.n_factors, dtype=bool)
            kept[order[:target]] = True
            self.state = select(self.state, self.prior, kept)
        while self.state.n_factors < target:
            self.state = extend(self.state, self.prior, self.rng)

    def _keep(self) -> None:
        n, n_features = self.features.values.shape
        if self.kept is None:
            self.kept = _empty_kept(self.plan.n_draws, n, self.state.n_factors, n_features)
        if self.frame.size == 0:
            self.frame, _ = principal_scores(self.features.values, self.state.n_factors)
        rotation = rotation_onto(self.state.factors, self.frame)
        kept, variance = self.kept, 1.0 / self.state.precision
        kept.factors[kept.count] = self.state.factors @ rotation
        kept.loadings_sum += rotation.T @ self.state.loadings
        kept.squares_sum += np.einsum("kp,kp->p", self.state.loadings, self.state.loadings)
        kept.variance_sum += variance
        kept.monitors[kept.count] = self._monitors(variance)
        kept.count += 1

    def _monitored(self) -> NDArray[np.intp]:
        n_features = self.features.values.shape[1]
        return np.linspace(0, n_features - 1, min(N_MONITORED, n_features)).astype(np.intp)

    def _monitors(self, variance: FloatArray) -> FloatArray:
        """Log-likelihood; and of some features the fitted variance, residual variance and communality.

        The likelihood depends on factors and loadings through their product only. Fitted variances
        lambda'(E'E/n)lambda are such quantities; communalities |lambda|^2 are not, and drift with every
        invertible mix of the factors, along which the chain moves by about 1/sqrt(p) a sweep.
        """
        n = self.features.values.shape[0]
        some = self._monitored()
        state, loadings = self.state, self.state.loadings[:, some]
        fit = float(np.sum(n * np.log(state.precision) - state.precision * state.rss)) / 2
        fitted_variance = np.sum((state.factors @ loadings) ** 2, axis=0) / n
        return np.concatenate([[fit], fitted_variance, variance[some], np.sum(loadings**2, axis=0)])

    def monitor_names(self) -> list[str]:
        """Names of the monitored quantities, in order; communalities are the weakly identified ones."""
        kinds = ("fitted variance", "residual variance", WEAKLY_IDENTIFIED)
        return ["log-likelihood", *[f"{kind} {j}" for kind in kinds for j in self._monitored()]]

    def describe(self) -> str:
        """Return the plan as JSON text."""
        return json.dumps(asdict(self.plan), sort_keys=True)
