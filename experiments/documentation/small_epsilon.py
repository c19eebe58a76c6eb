"""The tables "what to expect at small epsilon" of docs/analyses: PCA, CCA and k-means on synthetic data.

Run: python experiments/documentation/small_epsilon.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcape import CCA, PCA, Cape, Federation, Independent, KMeans, Replay, in_process, rows, views
from dpcape.metrics import captured_ratio

Matrix = NDArray[np.float64]

SITES = ("lyon", "oslo", "lima", "rome")
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-5
PROTOCOLS = {"cape": Cape(n_colluding=1), "conventional": Independent()}


def clipped(X: Matrix) -> Matrix:
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)


def federation(held: list[object], protocol: object, seed: int) -> Federation:
    sites = dict(zip(SITES, held, strict=False))
    return Federation(in_process(sites, noise=Replay(seed)), protocol=protocol)


def table(score: Callable[[object, float, int], object], n_runs: int) -> dict[str, list[object]]:
    return {
        name: [
            np.round(np.mean([score(protocol, epsilon, seed) for seed in range(n_runs)], axis=0), 3)
            for epsilon in EPSILONS
        ]
        for name, protocol in PROTOCOLS.items()
    }


def pca(rng: np.random.Generator) -> None:
    spectrum = np.r_[np.full(5, 0.12), np.full(45, 0.4 / 45)]
    X = rng.normal(size=(20_000, 50)) * np.sqrt(spectrum)
    moment = clipped(X).T @ clipped(X) / len(X)

    def score(protocol: object, epsilon: float, seed: int, n_sites: int = 4) -> float:
        held = [rows(part, bound=1.0) for part in np.split(X, 4)[:n_sites]]
        model = PCA(5, epsilon=epsilon, delta=DELTA).fit(federation(held, protocol, seed))
        return captured_ratio(model.components_, moment)

    print("PCA, share of energy", table(score, 3))
    alone = [np.mean([score(Independent(), epsilon, seed, 1) for seed in range(3)]) for epsilon in EPSILONS]
    print("PCA, one site alone", np.round(alone, 3))


def cca(rng: np.random.Generator) -> None:
    shared, strength = rng.normal(size=(20_000, 2)), np.array([0.9, 0.6])
    second = shared * strength + rng.normal(size=(20_000, 2)) * np.sqrt(1 - strength**2)
    X, Y = (np.hstack([part, rng.normal(size=(20_000, 8))]) @ rotation(rng) / 4 for part in (shared, second))

    def score(protocol: object, epsilon: float, seed: int) -> Matrix:
        held = [views(x, y, bounds=(1.0, 1.0)) for x, y in zip(np.split(X, 4), np.split(Y, 4), strict=True)]
        model = CCA(2, epsilon=epsilon, delta=DELTA).fit(federation(held, protocol, seed))
        pairs = zip(*(scores.T for scores in model.transform(clipped(X), clipped(Y))), strict=True)
        true = [abs(np.corrcoef(x, y)[0, 1]) for x, y in pairs]
        return np.array([*true, *model.correlations_])

    print("CCA, true and printed correlations", table(score, 3))


def rotation(rng: np.random.Generator) -> Matrix:
    return np.linalg.qr(rng.normal(size=(10, 10)))[0]


def k_means(rng: np.random.Generator) -> None:
    centres = np.array([[0.6, 0.0], [-0.3, 0.5], [-0.3, -0.5]])
    X = centres[rng.integers(0, 3, 5000)] + rng.normal(0, 0.1, (5000, 2))

    def score(protocol: object, epsilon: float, seed: int) -> float:
        held = [rows(part, bound=1.0) for part in np.split(X, 4)]
        found = KMeans(3, epsilon=epsilon, delta=DELTA).fit(federation(held, protocol, seed)).cluster_centers_
        return float(np.mean([np.linalg.norm(found - centre, axis=1).min() for centre in centres]))

    print("k-means, mean distance from the truth", table(score, 5))


if __name__ == "__main__":
    # At the smallest epsilon analyses warn that noise dominates, which is what these tables show.
    warnings.simplefilter("ignore")
    for part in (pca, cca, k_means):
        part(np.random.default_rng(0))
