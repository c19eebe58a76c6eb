"""Run the chains and combine their draws."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.progress import Progress
from scipy.stats import chi2

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import ConvergenceWarning
from dpcape.factor_release.diagnostics import summarise
from dpcape.factor_release.gibbs_sampler import StandardisedFeatures
from dpcape.factor_release.markov_chain import WEAKLY_IDENTIFIED, ChainSettings, MarkovChain
from dpcape.factor_release.markov_chain_files import load_chain, save_chain

# Vehtari et al. (2021) recommend 1.01 for final results; above 1.1 chains plainly disagree and we say so.
R_HAT_LIMIT = 1.1


@dataclass(frozen=True)
class Posterior:
    """Draws of the factors on a common frame, and posterior means of the rest."""

    draws: FloatArray  # n_draws x n x K
    loadings: FloatArray  # K x p, posterior mean on the same frame
    residual_variance: FloatArray  # p
    loading_spread: FloatArray  # p, posterior variance of the loadings of a feature, summed over factors
    n_factors_trace: list[int]
    diagnostics: dict[str, dict[str, float]]

    @property
    def factors(self) -> FloatArray:
        """Posterior mean of the factors, n x K."""
        return np.asarray(self.draws.mean(axis=0))

    def project(self, features: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw factors of further subjects without touching the chains; n_draws x m x K.

        Given the training data a loading is its posterior mean plus an error, so a new subject's feature
        has variance residual + eta'V eta around the mean loadings, with E[eta eta'] = I. The posterior
        *mean* loadings must be used: single draws, or least-squares loadings, add error to the regressors
        and attenuate the new factors.
        """
        weight = 1.0 / (self.residual_variance + self.loading_spread)
        weighted = self.loadings * weight
        covariance = np.linalg.inv(weighted @ self.loadings.T + np.eye(len(self.loadings)))
        mean = (features @ weighted.T) @ covariance
        noise = rng.standard_normal((len(self.draws), *mean.shape))
        return np.asarray(mean + noise @ np.linalg.cholesky(covariance).T)


def starting_number(n: int, n_features: int) -> int:
    """Return where an adaptive chain starts: 5 log p ([BD11] section 3.2), at most half the subjects."""
    return max(1, min(int(np.ceil(5 * np.log(max(n_features, 2)))), n // 2, n_features))


def _run_one(
    features: StandardisedFeatures,
    plan: ChainSettings,
    number: int,
    *,
    kernel: str,
    folder: Path | None,
    every: int,
    bar: Progress | None,
) -> MarkovChain:
    """Run chain ``number``, from its checkpoint if there is one."""
    chain = MarkovChain(features, plan, kernel=kernel)
    path = None if folder is None else folder / f"chain-{number}.npz"
    if path is not None and path.exists():
        chain = load_chain(chain, path)
    task = None if bar is None else bar.add_task(f"chain {number + 1}", total=plan.n_sweeps)

    def tick(chain: MarkovChain) -> None:
        if path is not None and (chain.state.sweep % every == 0 or chain.done):
            save_chain(chain, path)
        if bar is not None and task is not None:
            bar.update(task, completed=chain.state.sweep)

    return chain.run(tick=tick)


def run_chains(
    features: StandardisedFeatures,
    plan: ChainSettings,
    *,
    n_chains: int,
    kernel: str = "auto",
    checkpoint: Path | None = None,
    checkpoint_every: int = 500,
    progress: bool = False,
    warn: bool = True,
) -> Posterior:
    """Run the chains one after another; the first settles the number of factors, the others take it over."""
    if checkpoint is not None:
        checkpoint.mkdir(parents=True, exist_ok=True)
    bar: AbstractContextManager[Progress | None] = Progress() if progress else nullcontext(None)
    chains: list[MarkovChain] = []
    with bar as shown:
        for number in range(n_chains):
            its_plan = replace(plan, seed=(*plan.seed, number))
            if chains:
                its_plan = replace(its_plan, n_factors=chains[0].state.n_factors, adaptive=False)
            chains.append(
                _run_one(
                    features, its_plan, number, kernel=kernel, folder=checkpoint, every=checkpoint_every, bar=shown
                )
            )
    posterior = combine(chains)
    if warn:
        _warn_if_apart(posterior.diagnostics, n_chains, plan.n_draws)
    return posterior


def short_chain(features: FloatArray, n_factors: int, prior: str, *, seed: tuple[int, ...], kernel: str) -> FloatArray:
    """Fit the model to fewer subjects with a short chain from the SVD; return draws of their factors."""
    plan = ChainSettings(n_factors, False, prior, n_burn_in=100, n_draws=50, thin=2, seed=seed)
    centred = features - features.mean(axis=0)
    return run_chains(StandardisedFeatures(centred), plan, n_chains=1, kernel=kernel, warn=False).draws


def combine(chains: list[MarkovChain]) -> Posterior:
    """Put the draws of finished chains together; all are on the same frame."""
    kept = [chain.kept for chain in chains if chain.kept is not None]
    count = sum(k.count for k in kept)
    loadings = sum((k.loadings_sum for k in kept), np.zeros(1)) / count
    squares = sum((k.squares_sum for k in kept), np.zeros(1)) / count
    diagnostics = summarise(np.stack([k.monitors for k in kept]), chains[0].monitor_names())
    return Posterior(
        draws=np.concatenate([k.factors for k in kept]),
        loadings=loadings,
        residual_variance=sum((k.variance_sum for k in kept), np.zeros(1)) / count,
        loading_spread=np.maximum(squares - np.sum(loadings**2, axis=0), 0.0),
        n_factors_trace=chains[0].n_factors_trace,
        diagnostics=diagnostics,
    )


def largest_r_hat(diagnostics: dict[str, dict[str, float]]) -> float:
    """Return the largest R-hat over the quantities that the data identify."""
    values = [d["r_hat"] for name, d in diagnostics.items() if not name.startswith(WEAKLY_IDENTIFIED)]
    return max((v for v in values if np.isfinite(v)), default=1.0)


def r_hat_limit(n_chains: int, n_draws: int, n_quantities: int) -> float:
    """Return the R-hat that independent draws exceed in one run of a thousand, but at least 1.1.

    For m half-chains of h independent draws, h (R-hat^2 - 1) is about chi-square with m - 1 degrees of freedom
    over m - 1. Both the plain and the folded statistic of every quantity are looked at.
    """
    halves, length = 2 * n_chains, max(n_draws // 2, 1)
    quantile = chi2.isf(1e-3 / (2 * n_quantities), halves - 1) / (halves - 1)
    return max(R_HAT_LIMIT, float(np.sqrt(1.0 + quantile / length)))


def _warn_if_apart(diagnostics: dict[str, dict[str, float]], n_chains: int, n_draws: int) -> None:
    worst, limit = largest_r_hat(diagnostics), r_hat_limit(n_chains, n_draws, len(diagnostics))
    if worst > limit:
        warnings.warn(
            f"The chains have not mixed: the largest R-hat is {worst:.2f}, above {limit:.2f}. "
            "Use a longer burn-in and more draws.",
            ConvergenceWarning,
            stacklevel=3,
        )
