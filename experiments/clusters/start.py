"""Start of k-means in many columns: share of the gain without privacy, from points spread and from private moments.

The gain is by how much centres lower the mean squared distance, against one centre. Shares of mu^2, the number of
coordinates and that of starting points were chosen on `clusters` with seeds 900 to 904; what is written is on others,
and on MNIST (14 x 14 pixels in [0, 1]) with the bound that the range of the pixels gives, 14.

Usage: python start.py [--mnist mnist.npz] [--seeds 5] [--out results]
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans as PlainKMeans

from dpcape import Federation, Independent, KMeans, Replay, in_process, rows

DELTA, EPSILONS, FIRST_SEED = 1e-5, (0.3, 1.0, 3.0), 7000
SIMULATED = ((12, 5), (20, 5), (20, 10), (50, 10), (200, 10))


def clusters(n_features, n_clusters, seed, *, n_records=20_000):
    """Return separated clusters of unequal sizes: centres in the ball of radius .8, rows .15 around them."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_clusters, n_features))
    centres *= (0.8 * rng.uniform(size=n_clusters) ** (1 / n_features) / np.linalg.norm(centres, axis=1))[:, None]
    weights = rng.uniform(0.5, 1.5, n_clusters)
    which = rng.choice(n_clusters, n_records, p=weights / weights.sum())
    return centres[which] + 0.15 / np.sqrt(n_features) * rng.normal(size=(n_records, n_features))


def digits(path):
    """Return the training images of MNIST, 14 x 14."""
    images = np.load(path)["X_train"].reshape(-1, 14, 2, 14, 2) / 255.0
    return images.mean(axis=(2, 4)).reshape(len(images), -1)


def distance(X, centres):
    """Return the mean squared distance to the nearest centre."""
    return float(np.mean(np.min(np.sum(centres**2, axis=1) - 2 * X @ centres.T, axis=1) + np.sum(X**2, axis=1)))


def gains(X, n_clusters, bound, seed):
    """Yield epsilon, start and share of the gain."""
    own = PlainKMeans(n_clusters, n_init=5, random_state=0).fit(X[:: max(1, len(X) // 10_000)]).cluster_centers_
    best = distance(X, PlainKMeans(n_clusters, init=own, n_init=1, max_iter=50).fit(X).cluster_centers_)
    one = distance(X, X.mean(axis=0, keepdims=True))
    held = rows(X, bound=bound)
    for epsilon in EPSILONS:
        for init in ("spread", None):
            fed = Federation(in_process({"one": held}, noise=Replay(seed)), protocol=Independent())
            model = KMeans(n_clusters, epsilon=epsilon, delta=DELTA, init=init).fit(fed)
            yield epsilon, init or "moments", (one - distance(X, model.cluster_centers_)) / (one - best)


def run(mnist, seeds):
    for n_features, n_clusters in SIMULATED:
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            X = clusters(n_features, n_clusters, seed)
            for found in gains(X, n_clusters, 1.0, seed):
                yield (f"simulated {n_features} columns, {n_clusters} clusters", seed, *found)
    if mnist is not None:
        X = digits(mnist)
        for seed in range(FIRST_SEED, FIRST_SEED + seeds):
            for found in gains(X, 10, 14.0, seed):
                yield ("MNIST 14 x 14", seed, *found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    table = list(run(options.mnist, options.seeds))
    with (options.out / "start.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("data", "seed", "epsilon", "start", "gain"))
        writer.writerows((*row[:4], f"{row[4]:.4f}") for row in table)
    for data in dict.fromkeys(row[0] for row in table):
        for epsilon in EPSILONS:
            means = [
                np.mean([row[4] for row in table if (row[0], *row[2:4]) == (data, epsilon, start)])
                for start in ("spread", "moments")
            ]
            print(f"{data}, epsilon {epsilon}: {means[0]:.3f} -> {means[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
