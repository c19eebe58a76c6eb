"""Where the settings of logistic predictions come from: simulated records of four kinds, beside DP-GD.

``python -m experiments.regression.logistic`` prints the log-loss on rows clipped to the bound for several settings: the
share of the start, the limits of the unit of residuals, and the step. No contest of the league uses these records.
"""

from __future__ import annotations

import argparse
import math
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from experiments.league import rivals
from experiments.regression.sums import SumRounds
from numpy.typing import NDArray

from dpcape.analyses import regression as settings
from dpcape.core.privacy.gaussian import mu_of
from dpcape.estimators.linear import regression_rounds as solver

Vector = NDArray[np.float64]
N_ITER = 24


class Family(NamedTuple):
    """Simulated records of one kind and size, and the epsilons at which they are tried."""

    kind: str
    width: int
    n_records: int
    delta: float
    epsilons: tuple[float, ...]


class Settings(NamedTuple):
    """What is tried: share of the start, limits of the unit, noise that decides between them, step."""

    start: float
    units: tuple[float, float]
    noise: float
    step: float


FAMILIES = (
    Family("even", 20, 20_000, 1e-5, (0.1, 0.3, 1.0)),
    Family("even", 50, 20_000, 1e-5, (0.3, 1.0)),
    Family("correlated", 20, 20_000, 1e-5, (0.1, 0.3, 1.0)),
    Family("skewed", 15, 10_000, 1e-5, (0.3, 1.0)),
    Family("separable", 30, 600, 1e-3, (0.3, 1.0, 3.0)),
)
CHOSEN = Settings(settings.START_SHARE, settings.LOGISTIC_UNITS, settings.LOGISTIC_NOISE, solver._STEP)
TRIED = {
    "chosen": CHOSEN,
    "start of 0.1": CHOSEN._replace(start=0.1),
    "unit always 8": CHOSEN._replace(units=(8.0, 8.0)),
    "unit always 16": CHOSEN._replace(units=(16.0, 16.0)),
    "step of 0.3": CHOSEN._replace(step=0.3),
}


def drawn(family: Family, seed: int) -> tuple[Vector, NDArray[np.int64]]:
    """Return rows, most of them of length at most 1, and labels 0 and 1."""
    random = np.random.default_rng(seed)
    shape = family.n_records, family.width
    if family.kind == "separable":
        labels = random.random(family.n_records) < 0.4
        factors = random.normal(size=(family.n_records, 3)) + 2.0 * (labels[:, None] - 0.4)
        rows = factors @ random.normal(size=(3, family.width)) + 0.5 * random.normal(size=shape)
        return rows / np.quantile(np.linalg.norm(rows, axis=1), 0.8), labels.astype(np.int64)
    order = np.arange(1, family.width + 1)
    if family.kind == "correlated":
        rows = random.normal(size=shape) @ (random.normal(size=(family.width, family.width)) * order**-0.7).T
        rows /= np.median(np.linalg.norm(rows, axis=1))
    elif family.kind == "skewed":
        rows = random.exponential(size=shape) * order**-0.3
        rows /= np.quantile(np.linalg.norm(rows, axis=1), 0.9)
    else:
        rows = random.normal(size=shape) / math.sqrt(family.width)
    odds = rows @ random.normal(size=family.width)
    odds = (odds - odds.mean()) * (2.0 if family.kind == "even" else 1.5) / odds.std() + 0.3
    return rows, (random.random(family.n_records) < 1 / (1 + np.exp(-odds))).astype(np.int64)


def log_loss(design: Vector, labels: NDArray[np.int64], coefficients: Vector) -> float:
    """Return the mean log-loss."""
    odds = design @ coefficients
    return float(np.mean(np.logaddexp(0, odds) - labels * odds))


class _Shortened(SumRounds):
    """Sums of rows that are shortened alone."""

    def mean(self, statistic: str, **public: Any) -> Any:
        return super().mean(statistic, weighted=False, **public)


def ours(family: Family, epsilon: float, seed: int, tried: Settings) -> float:
    """Return the loss of dpcape's solver with these settings."""
    rows, labels = drawn(family, seed)
    shares = [tried.start, *[(1 - tried.start) / N_ITER] * N_ITER]
    source, mu = np.random.default_rng(1000 + seed), mu_of(epsilon, family.delta)
    rounds = _Shortened(rows, labels, bound=1.0, mu=mu, shares=shares, generator=source, classes=True)
    with (
        mock.patch.object(solver, "LOGISTIC_UNITS", tried.units),
        mock.patch.object(settings, "LOGISTIC_UNITS", tried.units),
        mock.patch.object(settings, "LOGISTIC_NOISE", tried.noise),
        mock.patch.object(solver, "_STEP", tried.step),
    ):
        found = solver.logistic_prediction(rounds, n_iter=N_ITER, ridge=0.0)
    _, constant = solver.weights_of(1.0, intercept=True)
    design = np.column_stack([np.full(len(rows), constant), rivals.shortened(rows, 1.0)])
    return log_loss(design, labels, found.values)


def rival(family: Family, epsilon: float, seed: int) -> float:
    """Return the loss of DP-GD with the league's settings."""
    rows, labels = drawn(family, seed)
    design = np.column_stack([np.full(len(rows), 0.5), rivals.shortened(rows, 1.0)]) / math.sqrt(1.25)
    mu, source = mu_of(epsilon, family.delta), np.random.default_rng(seed)
    return log_loss(design, labels, rivals.gradient_descent(design, labels, mu, source, kind="logistic"))


def main() -> None:
    """Print one line per kind of records and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=300, help="first seed")
    asked = parser.parse_args()
    seeds = range(asked.first, asked.first + asked.seeds)
    print("records; epsilon; DP-GD;", "; ".join(TRIED))
    for family in FAMILIES:
        for epsilon in family.epsilons:
            others = np.mean([rival(family, epsilon, seed) for seed in seeds])
            found = [np.mean([ours(family, epsilon, seed, tried) for seed in seeds]) for tried in TRIED.values()]
            name = f"{family.kind}, {family.width} columns, N {family.n_records}"
            print(f"{name}; {epsilon:g}; {others:.4f};", "; ".join(f"{value:.4f}" for value in found), flush=True)


if __name__ == "__main__":
    main()
