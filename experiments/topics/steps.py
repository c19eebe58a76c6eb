"""Steps of expectation-maximisation after the moments: q_comp with and without, means of any angle; writes CSV.

Means are unit vectors of any angle: nothing is drawn again, and cosines up to .9 occur. Shares, clip and number of
steps were chosen on seeds 100 to 205; what is written is on others. One site, so that mechanisms are compared.

Usage: python steps.py [--seeds 10] [--out results]
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

import numpy as np

from dpcape import Federation, Independent, MixtureModel, Replay, in_process, rows
from dpcape.core.errors import UtilityWarning
from dpcape.metrics import component_error, match_components

N_RECORDS, DELTA, FIRST_SEED = 100_000, 1e-5, 5000
EPSILONS = (0.03, 0.1, 0.3, 1.0)
# Columns, components, variance, and the range from which weights are drawn before they are normalised.
_USUAL, _UNEQUAL = (0.5, 1.5), (0.1, 3.0)
SETTINGS = ((10, 5, 0.05, _USUAL), (10, 5, 0.05, _UNEQUAL), (50, 10, 0.05, _USUAL), (50, 10, 0.01, _USUAL))


def mixture(n_features, n_components, variance, spread, seed):
    """Return records, unit means of any angle, and weights."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(n_components, n_features))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    weights = rng.uniform(*spread, n_components)
    weights /= weights.sum()
    which = rng.choice(n_components, N_RECORDS, p=weights)
    return means[which] + np.sqrt(variance) * rng.normal(size=(N_RECORDS, n_features)), means, weights


def run(seeds):
    for n_features, n_components, variance, spread in SETTINGS:
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            X, means, weights = mixture(n_features, n_components, variance, spread, seed)
            held = rows(X, bound=1 + np.sqrt(variance * n_features))
            cosine = np.max(means @ means.T - 2 * np.eye(n_components))
            for epsilon in EPSILONS:
                for n_iter in (0, "auto"):
                    fed = Federation(in_process({"one": held}, noise=Replay(seed)), protocol=Independent())
                    options = {"epsilon": epsilon, "delta": DELTA, "noise_variance": variance, "n_iter": n_iter}
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", UtilityWarning)
                        model = MixtureModel(n_components, **options).fit(fed)
                    order = match_components(model.means_, means)
                    yield (
                        *(n_features, n_components, variance, spread[0], epsilon, n_iter, seed, f"{cosine:.2f}"),
                        f"{component_error(model.means_, means):.5f}",
                        f"{np.linalg.norm(model.means_[order] - means, axis=1).mean():.5f}",
                        f"{np.abs(model.weights_[order] - weights).sum():.5f}",
                    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    names = ("D", "K", "v", "least_weight", "epsilon", "n_iter", "seed", "cosine", "q_comp", "matched", "weights")
    table = list(run(options.seeds))
    with (options.out / "steps.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([names, *table])
    for key in sorted({row[:5] for row in table}):
        means = {
            n_iter: [np.mean([float(row[at]) for row in table if row[:6] == (*key, n_iter)]) for at in (8, 9, 10)]
            for n_iter in (0, "auto")
        }
        print(*key, *(f"{before:.4f}->{after:.4f}" for before, after in zip(*means.values(), strict=True)))


if __name__ == "__main__":
    main()
