"""Prediction and private scaling on real and simulated data: losses at equal guarantee, pooled (one site).

``python -m experiments.regression.purposes`` writes ``purposes.json`` beside this file. Settings (rounds, step, clip,
shares) were chosen on simulated data only, with other seeds.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from experiments.regression import data
from experiments.regression.run import clipped
from numpy.typing import NDArray

from dpcape import Federation, Independent, LinearRegression, LogisticRegression, Replay, in_process, labelled
from dpcape.core.errors import UtilityWarning
from dpcape.metrics import explained_share

Vector = NDArray[np.float64]
WAYS: dict[str, dict[str, Any]] = {
    "one moment": {"purpose": "prediction", "n_iter": 0},
    "prediction": {"purpose": "prediction"},
    "prediction, scaled": {"purpose": "prediction", "scale": "private"},
}
FILE = Path(__file__).with_name("purposes.json")


def fit(model: Any, records: Mapping[str, Any], seed: int) -> Any:
    """Fit quietly, with replayable noise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UtilityWarning)
        return model.fit(
            Federation(in_process(records, noise=Replay(seed)), protocol=Independent(), accept_large_delta=True)
        )


def losses(study: Any, *, delta: float, epsilons: tuple[float, ...], n_runs: int) -> dict[str, dict[str, float]]:
    """Return the mean squared loss of each way at each epsilon."""
    low, high = study.options["response"]
    X, y = clipped(study), np.clip(study.target, low, high)
    table: dict[str, dict[str, float]] = {}
    for name, options in WAYS.items():
        table[name] = {}
        for epsilon in epsilons:
            found = [
                fit(LinearRegression(epsilon=epsilon, delta=delta, **options), study.pooled(), 1000 + seed).predict(X)
                for seed in range(n_runs)
            ]
            table[name][f"{epsilon:g}"] = round(float(np.mean([np.mean((y - one) ** 2) for one in found])), 5)
    return table


def simulated(seed: int, n_records: int = 20_000, width: int = 50) -> tuple[Vector, Vector]:
    """Return features and responses with residual variance .0025."""
    generator = np.random.default_rng(seed)
    beta = generator.standard_normal(width)
    X = generator.standard_normal((n_records, width)) / (1.2 * np.sqrt(width))
    signal = X @ (beta / np.linalg.norm(beta))
    return X, np.clip(0.17 * signal / signal.std() + 0.05 * generator.standard_normal(n_records), -1, 1)


def simulated_losses(n_runs: int) -> dict[str, dict[str, float]]:
    """Return losses on new simulated records, seeds from 500 on."""
    table: dict[str, dict[str, float]] = {}
    for name, options in WAYS.items():
        table[name] = {}
        for epsilon in (0.1, 0.3):
            found = []
            for seed in range(500, 500 + n_runs):
                X, y = simulated(seed, 40_000)
                half = len(y) // 2
                records = {"all": labelled(X[:half], y[:half], bound=1.0, response=(-1, 1))}
                model = fit(LinearRegression(epsilon=epsilon, delta=1e-5, **options), records, seed)
                found.append(float(np.mean((y[half:] - model.predict(X[half:])) ** 2)))
            table[name][f"{epsilon:g}"] = round(float(np.mean(found)), 5)
    return table


def generous(name: str, study: Any, epsilons: tuple[float, ...], *, delta: float, n_runs: int) -> dict[str, Any]:
    """Return R squared where ranges are three times as wide as the records need, for inference and for prediction."""
    X, y = study.features, study.target
    centre, half = (X.max(axis=0) + X.min(axis=0)) / 2, np.maximum((X.max(axis=0) - X.min(axis=0)) / 2, 1e-9)
    ranges = list(zip(centre - 3 * half, centre + 3 * half, strict=True))
    middle, reach = (y.max() + y.min()) / 2, (y.max() - y.min()) / 2
    records = {"all": labelled(X, y, ranges=ranges, response=(middle - 3 * reach, middle + 3 * reach))}
    prepared = (X - centre) / (3 * half)
    ways: dict[str, dict[str, Any]] = {
        "inference": {},
        "inference, scaled": {"scale": "private"},
        "prediction, one moment, scaled": {"purpose": "prediction", "n_iter": 0, "scale": "private"},
        "prediction, scaled": {"purpose": "prediction", "scale": "private"},
    }
    table: dict[str, Any] = {}
    for way, options in ways.items():
        table[way] = {}
        for epsilon in epsilons:
            scores = []
            for seed in range(n_runs):
                model = fit(LinearRegression(epsilon=epsilon, delta=delta, **options), records, 2000 + seed)
                scores.append(explained_share(y, model.predict(prepared)))
            table[way][f"{epsilon:g}"] = round(float(np.median(scores)), 3)
    design = np.column_stack([np.ones(len(X)), prepared])
    best = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return {**table, "no privacy": round(explained_share(y, best), 3)}


def logistic_losses(n_runs: int) -> dict[str, Any]:
    """Return log-loss and accuracy on Covertype."""
    study = data.covertype(binary=True)
    X, labels = clipped(study), study.target
    table: dict[str, Any] = {}
    for name, options in WAYS.items():
        table[name] = {}
        for epsilon in (0.1, 0.3, 1.0):
            found = []
            for seed in range(n_runs):
                model = fit(LogisticRegression(epsilon=epsilon, delta=1e-5, **options), study.pooled(), 3000 + seed)
                odds = model.decision_function(X)
                found.append((np.mean(np.logaddexp(0, odds) - labels * odds), np.mean((odds > 0) == labels)))
            table[name][f"{epsilon:g}"] = [round(float(value), 4) for value in np.mean(found, axis=0)]
    return table


def main(n_runs: int = 5) -> None:
    """Measure everything and write the file."""
    tables = {
        "simulated D50": simulated_losses(n_runs),
        "crime": losses(data.crime(), delta=1e-3, epsilons=(0.3, 1.0), n_runs=n_runs),
        "abide age": losses(data.abide(), delta=1e-3, epsilons=(1.0, 10.0), n_runs=n_runs),
        "blog": losses(data.blog(), delta=1e-3, epsilons=(0.3, 1.0, 3.0, 10.0), n_runs=n_runs),
        "covertype": logistic_losses(2),
    }
    FILE.write_text(json.dumps(tables, indent=1) + "\n")


if __name__ == "__main__":
    main()
