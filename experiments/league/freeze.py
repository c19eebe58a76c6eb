"""Choose the settings of the rivals, on simulated records with seeds that no contest uses; print the best of each grid.

Run: python -m experiments.league.freeze. ``rivals.FROZEN`` holds what it found. The score of a setting is the mean over
epsilons of the logarithm of its mean error, so that no epsilon dominates. Methods with random starts have more seeds.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from experiments.league import contests, rivals

from dpcape.core.privacy.gaussian import mu_of
from dpcape.metrics import captured_ratio, match_components
from dpcape_papers.data import regression as prepared
from dpcape_papers.figures.tensor import simulated

SEEDS, MORE_SEEDS = (901, 902), tuple(range(901, 909))
EPSILONS = (0.1, 0.3, 1.0)


def chosen(name, grid, error, seeds=SEEDS):
    """Print the settings of the least mean log-error."""
    scores = {}
    for setting in product(*grid.values()):
        options = dict(zip(grid, setting, strict=True))
        found = [np.mean([error(seed, epsilon, options) for seed in seeds]) for epsilon in EPSILONS]
        scores[setting] = float(np.mean(np.log(np.maximum(found, 1e-12))))
    best = min(scores, key=scores.get)
    print(name, dict(zip(grid, best, strict=True)), {key: round(value, 3) for key, value in scores.items()}, flush=True)


def subspace(seed, epsilon, options):
    X = contests.low_rank(50, 20_000, seed)
    rivals.FROZEN["subspace iteration"] = options
    found = rivals.subspace_iteration(X, 5, mu_of(epsilon, 1e-5), np.random.default_rng(seed))
    return 1 - captured_ratio(found, X.T @ X / len(X))


def design(X):
    return np.column_stack([np.full(len(X), 0.5), rivals.shortened(X, 1.0)]) / np.sqrt(1.25)


def linear(seed, epsilon, options):
    X, y = contests.simulated_linear(seed)
    train = design(X)
    mu = mu_of(epsilon, 1e-5)
    w = rivals.gradient_descent(train, y, mu, np.random.default_rng(seed), kind="linear", **options)
    return np.mean((y - np.clip(train @ w, -3, 3)) ** 2)


def logistic_rows(seed):
    study = prepared.logistic(20, 20_000, seed=seed)
    X = design(study.features / study.bound)
    return X, study.target.astype(float)


def log_loss(X, y, w):
    return np.mean(np.logaddexp(0, X @ w) - y * (X @ w))


def logistic(seed, epsilon, options):
    X, y = logistic_rows(seed)
    mu = mu_of(epsilon, 1e-5)
    return log_loss(X, y, rivals.gradient_descent(X, y, mu, np.random.default_rng(seed), kind="logistic", **options))


def objective(seed, epsilon, options):
    X, y = logistic_rows(seed)
    return log_loss(X, y, rivals.objective_perturbation(X, y, epsilon, 1e-5, np.random.default_rng(seed), **options))


def matched(found, truth):
    return np.linalg.norm(found[match_components(found, truth)] - truth, axis=1).mean()


def mixture(seed, epsilon, options):
    X, means = simulated.mixture(10, 5, seed, n_records=50_000)
    bound = simulated.mixture_bound(10)
    mu = mu_of(epsilon, 1e-5)
    return matched(rivals.em_mixture(X, 5, bound, 0.05, mu, np.random.default_rng(seed), **options), means)


def topics(seed, epsilon, options):
    counts, truth = simulated.topics(10, 5, seed, n_records=50_000)
    words = counts.toarray().astype(float)
    return matched(rivals.em_topics(words, 5, mu_of(epsilon, 1e-5), np.random.default_rng(seed), **options), truth)


def clusters(seed, epsilon, options):
    X = contests.separated(20, 5, seed)
    centres = rivals.lloyd(X, 5, 1.0, mu_of(epsilon, 1e-5), np.random.default_rng(seed), **options)
    return np.mean(np.min((centres**2).sum(axis=1) - 2 * X @ centres.T, axis=1) + (X**2).sum(axis=1))


def main():
    chosen("subspace iteration", {"n_rounds": (1, 2, 4, 8)}, subspace)
    steps = (1.0, 4.0, 16.0, 50.0)
    chosen("DP-GD, linear", {"n_rounds": (20, 80), "clip": (0.01, 0.03, 0.1, 0.3), "step": steps}, linear)
    chosen("DP-GD, logistic", {"n_rounds": (20, 80), "clip": (0.1, 0.3, 1.0), "step": steps}, logistic)
    chosen("objective perturbation", {"ridge": (1e-5, 1e-4, 1e-3, 1e-2)}, objective)
    chosen("DP-EM", {"n_rounds": (3, 5, 10, 20)}, mixture, MORE_SEEDS)
    chosen("DP-EM, topics", {"n_rounds": (5, 10, 20)}, topics, MORE_SEEDS)
    chosen("DP-Lloyd", {"n_rounds": (3, 5, 8)}, clusters, MORE_SEEDS)


if __name__ == "__main__":
    main()
