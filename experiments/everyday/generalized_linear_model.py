"""How exact the coefficients of generalised linear models are, and how often their intervals cover.

Run: python experiments/everyday/generalized_linear_model.py [--runs 25] [--only poisson]

``generalized_linear_model.json`` in this folder has the figures of docs/analyses/generalized_linear_model.md.
``tests/inference/test_generalized_linear_model.py`` runs two cells with fewer repetitions.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpcape import Cape, Federation, GeneralizedLinearModel, Independent, Replay, in_process, labelled
from dpcape.errors import DpcapeWarning

Vector = NDArray[np.float64]
DELTA = 1e-5
FAMILY = 0.01
"""Probability with which all true intervals of the grid together have one cell that is called false."""
N_FEATURES, N_NULL = 10, 2


@dataclass(frozen=True)
class Cell:
    """One setting: family, records, epsilon, sites, columns, spread of the linear predictor, and of counts."""

    family: str
    n_records: int
    epsilon: float
    n_sites: int = 1
    columns: str = "normal"
    effect: float = 0.3
    level: float = 0.7
    most: float = 60.0
    extra: float = 0.0

    def __str__(self) -> str:
        more = f", counts vary more ({self.extra:g})" if self.extra else ""
        level = f", level {self.level:g}" if self.family == "poisson" else ""
        about = f"{self.columns} columns, effect {self.effect:g}{level}{more}"
        return f"{self.family}, N{self.n_records}, eps {self.epsilon:g}, {self.n_sites} sites, {about}"


def features(cell: Cell, rng: np.random.Generator) -> Vector:
    """Return ten columns: normal, or as in clinics (uniform, two-valued, skewed, normal)."""
    n = cell.n_records
    if cell.columns == "normal":
        x = rng.normal(size=(n, N_FEATURES))
    else:
        two_valued = [rng.choice([-1.0, 1.0], n, p=[share, 1 - share]) for share in (0.5, 0.3, 0.1)]
        skewed = [np.clip(rng.gamma(2, 0.25, n) - 0.5, -1, 1) for _ in range(3)]
        x = np.column_stack([rng.uniform(-1, 1, n), *two_valued, *skewed, np.clip(rng.normal(0, 0.4, (n, 3)), -1, 1)])
    return np.asarray(x / math.sqrt(float((x**2).sum(axis=1).mean())) / 1.2)


def simulated(cell: Cell, rng: np.random.Generator) -> tuple[Vector, Vector, Vector]:
    """Return features, responses and coefficients, the last two of which are zero."""
    x = features(cell, rng)
    coefficients = rng.normal(size=N_FEATURES)
    coefficients[-N_NULL:] = 0.0
    coefficients *= cell.effect / float(np.std(x @ coefficients))
    line = x @ coefficients
    if cell.family == "logistic":
        y = (rng.random(len(x)) < 1 / (1 + np.exp(0.5 - line))).astype(float)
    elif cell.family == "gaussian":
        y = line + rng.normal(size=len(x))
    else:
        more = rng.gamma(1 / cell.extra, cell.extra, len(x)) if cell.extra else 1.0
        y = rng.poisson(np.exp(cell.level + line) * more).astype(float)
    return x, y, coefficients


def fitted(x: Vector, y: Vector, cell: Cell, seed: int) -> GeneralizedLinearModel:
    """Return the private model, with noise that can be repeated."""
    target: dict[str, Any] = {
        "logistic": {"classes": [0.0, 1.0]},
        "gaussian": {"response": (-5, 5)},
        "poisson": {"response": (0, cell.most)},
    }[cell.family]
    parts = np.array_split(np.arange(len(x)), cell.n_sites)
    held = {f"site-{at}": labelled(x[part], y[part], bound=1.0, **target) for at, part in enumerate(parts)}
    protocol = Independent() if cell.n_sites == 1 else Cape(n_colluding=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = GeneralizedLinearModel(cell.family, epsilon=cell.epsilon, delta=DELTA)
        return model.fit(Federation(in_process(held, noise=Replay(seed)), protocol=protocol))


def maximum_likelihood(x: Vector, y: Vector, family: str) -> Vector:
    """Return the coefficients without noise."""
    design = np.column_stack([np.ones(len(x)), x])
    found = np.zeros(design.shape[1])
    found[0] = math.log(max(y.mean(), 1e-9)) if family == "poisson" else 0.0
    for _ in range(25):
        line = design @ found
        mean = {"gaussian": line, "logistic": 1 / (1 + np.exp(-line)), "poisson": np.exp(line)}[family]
        weight = {"gaussian": np.ones(len(x)), "logistic": mean * (1 - mean), "poisson": mean}[family]
        found = found + np.linalg.solve((design * weight[:, np.newaxis]).T @ design, design.T @ (y - mean))
    return np.asarray(found[1:])


def measured(cell: Cell, runs: int) -> dict[str, Any]:
    """Return errors, coverage of all intervals, and how often a zero coefficient has p <= 0.05."""
    error, without, hits, false = 0.0, 0.0, 0, 0
    for run in range(runs):
        x, y, truth = simulated(cell, np.random.default_rng([run, cell.n_records]))
        model = fitted(x, y, cell, run)
        error += float(np.mean((model.coef_ - truth) ** 2)) / runs
        without += float(np.mean((maximum_likelihood(x, y, cell.family) - truth) ** 2)) / runs
        hits += int(np.sum((model.interval_[0] <= truth) & (truth <= model.interval_[1])))
        false += int(np.sum(model.p_values_[-N_NULL:] <= 0.05))
    trials = runs * N_FEATURES
    return {
        "cell": str(cell),
        "runs": runs,
        "rmse": math.sqrt(error),
        "without noise": math.sqrt(without),
        "share": hits / trials,
        "trials": trials,
        "p_value": float(binom.cdf(hits, trials, 0.95)),
        "false": false / (runs * N_NULL),
        "false p_value": float(binom.sf(false - 1, runs * N_NULL, 0.05)),
    }


GRID = [
    Cell("logistic", 100_000, 1.0, columns="clinical", effect=0.8),
    Cell("logistic", 20_000, 1.0, columns="clinical", effect=0.8),
    Cell("gaussian", 20_000, 1.0, columns="clinical"),
    Cell("poisson", 5000, 1.0),
    Cell("poisson", 20_000, 1.0),
    Cell("poisson", 20_000, 1.0, 4, columns="clinical", effect=0.5),
    Cell("poisson", 20_000, 3.0, effect=0.8),
    Cell("poisson", 20_000, 1.0, level=-1.5, most=20),
    Cell("poisson", 20_000, 1.0, level=3.5, most=200),
    Cell("poisson", 20_000, 3.0, extra=0.1),
    Cell("poisson", 100_000, 1.0),
]


def main() -> None:
    """Run the grid, or the cells whose description has the given words, and write its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=25)
    parser.add_argument("--only", default="")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    given = parser.parse_args()
    stored = json.loads(given.out.read_text("utf-8"))["cells"] if given.only else []
    found = {entry["cell"]: entry for entry in stored}
    for cell in GRID:
        if given.only in str(cell):
            found[str(cell)] = measured(cell, given.runs)
            print(
                {
                    name: round(value, 4) if isinstance(value, float) else value
                    for name, value in found[str(cell)].items()
                }
            )
    cells = [found[str(cell)] for cell in GRID]
    limit = FAMILY / len(cells)
    refuted = [entry["cell"] for entry in cells if min(entry["p_value"], entry["false p_value"]) < limit]
    given.out.write_text(json.dumps({"cells": cells, "refuted": refuted}, indent=1) + "\n", encoding="utf-8")
    print("refuted:", refuted)


if __name__ == "__main__":
    main()
