"""Gibbs sweep of the factor release: compiled pass, batched LAPACK, and a naive loop over features."""

from __future__ import annotations

import resource

import numpy as np
from timing import cpu_times, show

from dpcape.factor_release.gibbs_sampler import StandardisedFeatures, Workspace, gibbs_sweep, svd_start
from dpcape.factor_release.kernels import feature_pass, kernel_named
from dpcape.factor_release.markov_chain import ChainSettings, MarkovChain
from dpcape.factor_release.priors import MultiplicativeGamma


def naive_pass(gram, cross, squares, precision, local, tau, normals, exponentials, gammas, rate, loadings, rss):
    """The same draws, one feature at a time, as the conditionals are usually written down."""
    for j in range(cross.shape[1]):
        Q = np.diag(local[:, j] * tau) + precision[j] * gram
        L = np.linalg.cholesky(Q)
        mean = np.linalg.solve(Q, precision[j] * cross[:, j])
        loadings[:, j] = mean + np.linalg.solve(L.T, normals[:, j])
        row = loadings[:, j]
        rss[j] = max(squares[j] - 2 * row @ cross[:, j] + row @ gram @ row, 0.0)
        precision[j] = gammas[j] / (rate + rss[j] / 2)
        local[:, j] = (exponentials[0, :, j] + exponentials[1, :, j]) / (1.5 + tau * row**2 / 2)
    return np.sum(local * loadings**2, axis=1)


def sweeper(features, n_factors, kernel):
    """Return a function that makes one whole sweep."""
    prior, rng, work = MultiplicativeGamma(), np.random.default_rng(0), Workspace()
    state = svd_start(features, prior, n_factors)
    return lambda: gibbs_sweep(state, features, prior=prior, kernel=kernel, rng=rng, work=work)


def made_features(n, p, n_true=10):
    rng = np.random.default_rng(1)
    signal = rng.standard_normal((n, n_true)) @ rng.standard_normal((n_true, p))
    return StandardisedFeatures(signal + rng.standard_normal((n, p)))


def sweeps(n, p, n_factors):
    features = made_features(n, p)
    E, L, s = (np.random.default_rng(2).standard_normal(d) for d in ((n, n_factors), (n_factors, p), (p,)))
    tasks = {
        "numba": sweeper(features, n_factors, kernel_named("numba")),
        "lapack": sweeper(features, n_factors, feature_pass),
        "gemms": lambda: (E.T @ features.values, features.values @ L.T, (L * s) @ L.T),
    }
    tasks["numba"]()  # compiles
    best = cpu_times(tasks, rounds=12)
    best |= cpu_times({"naive": sweeper(features, n_factors, naive_pass)}, rounds=2)
    best["numba"] = min(best["numba"], cpu_times({"numba": tasks["numba"]}, rounds=12)["numba"])
    case = f"p={p:,} n={n} K={n_factors}: "
    show(case + "naive loop / compiled sweep", best["naive"] / best["numba"], ">= 35")
    show(case + "batched LAPACK / compiled sweep", best["lapack"] / best["numba"], ">= 4.5")
    show(case + "compiled sweep / its matrix products", best["numba"] / best["gemms"], "<= 3.5 (K=12), 7.5 (K=18)")
    print(f"{'  colour: 20,000 compiled sweeps, minutes of one core':<72} {best['numba'] * 20000 / 60:8.2f}")


def memory(n=49, p=100_000, n_factors=18):
    """Peak memory of a chain over what the features alone take."""
    features = made_features(n, p)
    plan = ChainSettings(n_factors, False, "multiplicative", 3, 5, 1, (0,))
    MarkovChain(features, plan).run()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    unit = 8 * (p * n_factors + n * p)
    show(f"p={p:,} n={n} K={n_factors}: peak bytes of the process / 8 (pK + np)", peak / unit, "<= 20, not O(p K^2)")


def main():
    memory()
    sweeps(100, 10_000, 12)
    sweeps(49, 100_000, 18)


if __name__ == "__main__":
    main()
