"""How far out a prediction clips residuals: the data on which ``UNIT_NOISE`` and the rules around it were chosen.

Run: python -m experiments.regression.tails [--seeds 3]

Simulated responses with Gaussian residuals, with skewed residuals, counts with heavy tails, and with hardly any
residuals. Losses of ``n_iter=0`` (one moment), of clipping at 0.1 throughout, and of the rule with several amounts of
noise. No record of a real data set takes part.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import Federation, Independent, LinearRegression, Replay, in_process, labelled
from dpcape.analyses import regression as description
from dpcape.estimators.linear import regression_rounds
from dpcape.metrics import squared_loss

Vector = NDArray[np.float64]
Made = tuple[Vector, Vector, float, tuple[float, float]]
"""Features, responses, bound, and range of the response."""
NOISES = (0.0, 0.01, 0.0125, 0.02)


def gaussian(seed: int, residual: float = 0.05, width: int = 50, effect: float = 0.17) -> Made:
    """Return responses with Gaussian residuals."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20_000, width)) / (1.2 * math.sqrt(width))
    signal = X @ rng.standard_normal(width)
    return X, effect * signal / signal.std() + residual * rng.standard_normal(len(X)), 1.0, (-1, 1)


def precise(seed: int) -> Made:
    """Return responses with residuals of one percent of the half range."""
    return gaussian(seed, residual=0.01, width=20, effect=0.05)


def skewed(seed: int) -> Made:
    """Return log-normal responses near one end of the range."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (10_000, 20))
    slope = rng.standard_normal(20)
    height = X @ slope / np.linalg.norm(slope)
    y = -0.9 + 0.1 * np.exp(1.2 * height + 0.8 * rng.standard_normal(len(X)))
    return X, np.clip(y, -1, 1), math.sqrt(20 / 3), (-1, 1)


def counts(seed: int) -> Made:
    """Return counts of which most are near zero and a few at the end of the range, and rows often beyond the bound."""
    rng = np.random.default_rng(seed)
    activity = np.exp(1.5 * rng.standard_normal(8000))[:, None]
    X = activity ** rng.uniform(0.2, 1.2, 42) * np.exp(0.6 * rng.standard_normal((8000, 42)))
    X = np.column_stack([np.clip(X, 0, 100) / 100, rng.random((8000, 18)) < 0.15])
    rate = 2 * activity[:, 0] * np.exp(0.8 * rng.standard_normal(8000))
    return X, np.clip(rng.poisson(np.minimum(rate, 1e3)), 0, 100).astype(float), 2.0, (0, 100)


SETS: dict[str, Callable[[int], Made]] = {
    "gaussian": gaussian,
    "precise": precise,
    "skewed": skewed,
    "counts": counts,
}


def loss(made: Made, epsilon: float, seed: int, **options: Any) -> float:
    """Return the loss of one fit on its own records, clipped."""
    X, y, bound, response = made
    records = {"one": labelled(X, y, bound=bound, response=response)}
    model = LinearRegression(epsilon=epsilon, delta=1e-5, purpose="prediction", **options)
    model.fit(Federation(in_process(records, noise=Replay(seed)), protocol=Independent(), accept_large_delta=True))
    return squared_loss(np.clip(y, *response), model.predict(X))


def with_noise(noise: float) -> Callable[[float], float]:
    """Return the rule for another amount of noise; zero clips at 0.1 throughout."""
    return lambda at_one: min(max(noise / max(at_one, 1e-300), 1.0), description.LARGEST_UNIT)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    n_seeds = parser.parse_args().seeds
    for name, make in SETS.items():
        for epsilon in (0.3, 1.0, 3.0):
            sets = [make(seed) for seed in range(700, 700 + n_seeds)]
            found = [np.mean([loss(made, epsilon, seed, n_iter=0) for seed, made in enumerate(sets)])]
            for noise in NOISES:
                regression_rounds.residual_unit = with_noise(noise)
                found.append(np.mean([loss(made, epsilon, seed) for seed, made in enumerate(sets)]))
            shown = ", ".join(f"{value:.4g}" for value in found)
            print(f"{name}, epsilon {epsilon}: one moment, then noise {NOISES}: {shown}", flush=True)


if __name__ == "__main__":
    main()
