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
from dpcape.core.errors import DpcapeWarning

Vector = NDArray[np.float64]
DELTA = 1e-5
FAMILY = 0.01
"""Probability with which all true intervals of the grid together have one cell that is called false."""
N_FEATURES, N_NULL = 10, 2


@dataclass(frozen=True)
class Cell:
    """One setting: family, records, epsilon, sites, columns, spread of the linear predictor, and of responses."""

    family: str
    n_records: int
    epsilon: float
    n_sites: int = 1
    columns: str = "normal"
    effect: float = 0.3
    level: float = 0.7
    most: float = 60.0
    extra: float = 0.0
    law: str = "gamma"
    spread: float = 0.5
    n_classes: int = 3
    offset: bool = False
    n_features: int = N_FEATURES

    def __str__(self) -> str:
        notes = [f"{self.columns} columns", f"effect {self.effect:g}"]
        if self.family in ("poisson", "gamma"):
            notes.append(f"level {self.level:g}")
        if self.family == "gamma":
            notes.append(f"{self.law}, variance {self.spread:g}")
        if self.family == "multinomial":
            notes.append(f"{self.n_classes} classes")
        if self.extra:
            by = ", by one factor" if self.law == "factor" else ""
            notes.append(f"counts vary more ({self.extra:g}{by})")
        if self.offset:
            notes.append("offset")
        if self.n_features != N_FEATURES:
            notes.append(f"{self.n_features} features")
        return f"{self.family}, N{self.n_records}, eps {self.epsilon:g}, {self.n_sites} sites, {', '.join(notes)}"


def features(cell: Cell, rng: np.random.Generator) -> Vector:
    """Return normal columns, or ten as in clinics (uniform, two-valued, skewed, normal)."""
    n = cell.n_records
    if cell.columns == "normal":
        x = rng.normal(size=(n, cell.n_features))
    else:
        two_valued = [rng.choice([-1.0, 1.0], n, p=[share, 1 - share]) for share in (0.5, 0.3, 0.1)]
        skewed = [np.clip(rng.gamma(2, 0.25, n) - 0.5, -1, 1) for _ in range(3)]
        x = np.column_stack([rng.uniform(-1, 1, n), *two_valued, *skewed, np.clip(rng.normal(0, 0.4, (n, 3)), -1, 1)])
    return np.asarray(x / math.sqrt(float((x**2).sum(axis=1).mean())) / 1.2)


def simulated(cell: Cell, rng: np.random.Generator) -> tuple[Vector, Vector, Vector, Vector]:
    """Return features, responses, coefficients, the last two of which are zero, and intercepts: one row per predictor.

    The first column is the offset where there is one: its coefficient is 1.
    """
    x = features(cell, rng)
    predictors = cell.n_classes - 1 if cell.family == "multinomial" else 1
    coefficients = rng.normal(size=(predictors, cell.n_features))
    coefficients[:, -N_NULL:] = 0.0
    coefficients *= cell.effect / np.std(x @ coefficients.T, axis=0)[:, np.newaxis]
    if cell.offset:
        coefficients[:, 0] = 1.0
    intercepts = {"logistic": np.array([-0.5]), "multinomial": np.linspace(0.3, -0.5, predictors)}.get(
        cell.family, np.array([0.0 if cell.family == "gaussian" else cell.level])
    )
    return x, responses(cell, x @ coefficients.T + intercepts, rng), coefficients, intercepts


def responses(cell: Cell, line: Vector, rng: np.random.Generator) -> Vector:
    """Return responses of the family for linear predictors, one column each."""
    n = len(line)
    if cell.family == "multinomial":
        heights = np.exp(np.column_stack([np.zeros(n), line]))
        shares = np.cumsum(heights / heights.sum(axis=1, keepdims=True), axis=1)
        return np.asarray((rng.random(n)[:, np.newaxis] > shares[:, :-1]).sum(axis=1), dtype=np.float64)
    own = line[:, 0]
    if cell.family == "logistic":
        return np.asarray(rng.random(n) < 1 / (1 + np.exp(-own)), dtype=np.float64)
    if cell.family == "gaussian":
        return np.asarray(own + rng.normal(size=n))
    if cell.family == "gamma":
        sd = math.sqrt(math.log(1 + cell.spread))
        gamma = rng.gamma(1 / cell.spread, cell.spread, n)
        return np.asarray(np.exp(own) * (gamma if cell.law == "gamma" else rng.lognormal(-(sd**2) / 2, sd, n)))
    if cell.law == "factor":
        return np.asarray(rng.negative_binomial(np.exp(own) / cell.extra, 1 / (1 + cell.extra)), dtype=np.float64)
    more = rng.gamma(1 / cell.extra, cell.extra, n) if cell.extra else 1.0
    return np.asarray(rng.poisson(np.exp(own) * more), dtype=np.float64)


def fitted(x: Vector, y: Vector, cell: Cell, seed: int) -> GeneralizedLinearModel:
    """Return the private model, with noise that can be repeated."""
    target: dict[str, Any] = {
        "logistic": {"classes": [0.0, 1.0]},
        "multinomial": {"classes": np.arange(float(cell.n_classes)).tolist()},
        "gaussian": {"response": (-5, 5)},
    }.get(cell.family, {"response": (0, cell.most)})
    parts = np.array_split(np.arange(len(x)), cell.n_sites)
    held = {f"site-{at}": labelled(x[part], y[part], bound=1.0, **target) for at, part in enumerate(parts)}
    protocol = Independent() if cell.n_sites == 1 else Cape(n_colluding=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        offset = 0 if cell.offset else None
        model = GeneralizedLinearModel(cell.family, epsilon=cell.epsilon, delta=DELTA, offset=offset)
        return model.fit(Federation(in_process(held, noise=Replay(seed)), protocol=protocol))


def maximum_likelihood(x: Vector, y: Vector, family: str, n_classes: int, *, offset: bool) -> Vector:
    """Return the coefficients without noise, one row per predictor."""
    known = x[:, 0] if offset else np.zeros(len(x))
    design = np.column_stack([np.ones(len(x)), x[:, 1 if offset else 0 :]])
    predictors, width = (n_classes - 1 if family == "multinomial" else 1), design.shape[1]
    found = np.zeros((predictors, width))
    found[:, 0] = math.log(max(y.mean(), 1e-9)) if family in ("poisson", "gamma") else 0.0
    for _ in range(25):
        line = design @ found.T + known[:, np.newaxis]
        if family == "multinomial":
            heights = np.exp(line)
            mean = heights / (1 + heights.sum(axis=1, keepdims=True))
            left = (y[:, np.newaxis] == np.arange(1, n_classes)) - mean
        else:
            mean = {"gaussian": line, "logistic": 1 / (1 + np.exp(-line))}.get(family, np.exp(line))
            left = y[:, np.newaxis] - mean
        if family == "gamma":
            left = left / mean
        curvature = np.zeros((predictors, width, predictors, width))
        for one in range(predictors):
            for other in range(predictors):
                weight = {"gaussian": np.ones(len(x)), "gamma": np.ones(len(x)), "poisson": mean[:, one]}.get(
                    family, mean[:, one] * ((one == other) - mean[:, other])
                )
                curvature[one, :, other] = (design * weight[:, np.newaxis]).T @ design
        size = predictors * width
        step = np.linalg.solve(curvature.reshape(size, size), (left.T @ design).ravel())
        found = found + step.reshape(found.shape)
    return np.asarray(found[:, 1:])


def measured(cell: Cell, runs: int) -> dict[str, Any]:
    """Return errors, coverage of all intervals, and how often a zero coefficient has p <= 0.05."""
    errors, without, hits, false, constants = [], [], 0, 0, 0
    free = slice(1 if cell.offset else 0, None)
    for run in range(runs):
        x, y, truth, intercepts = simulated(cell, np.random.default_rng([run, cell.n_records]))
        model = fitted(x, y, cell, run)
        interval, shape = model.interval_.reshape(2, *truth.shape), truth.shape
        errors.append(np.mean((model.coef_.reshape(shape) - truth)[:, free] ** 2))
        exact = maximum_likelihood(x, y, cell.family, cell.n_classes, offset=cell.offset)
        without.append(np.mean((exact - truth[:, free]) ** 2))
        hits += int(np.sum(((interval[0] <= truth) & (truth <= interval[1]))[:, free]))
        false += int(np.sum(model.p_values_.reshape(shape)[:, -N_NULL:] <= 0.05))
        low, high = np.reshape(model.intercept_interval_, (2, -1))
        constants += int(np.sum((low <= intercepts) & (intercepts <= high)))
    predictors = len(truth)
    trials, nulls = runs * truth[:, free].size, runs * predictors * N_NULL
    # Only a gamma law says what the cut-off part of a positive response is.
    known = cell.family != "gamma" or cell.law == "gamma"
    return {
        "cell": str(cell),
        "runs": runs,
        "rmse": math.sqrt(np.mean(errors)),
        "without noise": math.sqrt(np.mean(without)),
        "share": hits / trials,
        "trials": trials,
        "p_value": float(binom.cdf(hits, trials, 0.95)),
        "false": false / nulls,
        "false p_value": float(binom.sf(false - 1, nulls, 0.05)),
        "intercepts": constants / (runs * predictors) if known else None,
        "intercepts p_value": float(binom.cdf(constants, runs * predictors, 0.95)) if known else 1.0,
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
    Cell("poisson", 50_000, 3.0, effect=0.5, level=-0.36, extra=0.5, n_features=3),
    Cell("poisson", 50_000, 3.0, effect=0.5, level=-0.36, extra=0.2, law="factor", n_features=3),
    Cell("poisson", 50_000, 3.0, effect=0.5, level=-0.9, extra=0.2, law="factor", n_features=3),
    Cell("poisson", 100_000, 1.0),
    Cell("poisson", 20_000, 1.0, 4, offset=True),
    Cell("gaussian", 20_000, 1.0, offset=True),
    Cell("logistic", 20_000, 2.0, offset=True),
    Cell("gamma", 5000, 3.0),
    Cell("gamma", 20_000, 1.0),
    Cell("gamma", 20_000, 1.0, 4, columns="clinical", spread=0.2),
    Cell("gamma", 20_000, 1.0, spread=1.0, effect=0.5, most=200.0),
    Cell("gamma", 20_000, 3.0, law="lognormal", spread=1.0, most=200.0),
    Cell("gamma", 100_000, 1.0, columns="clinical"),
    Cell("multinomial", 20_000, 3.0, effect=0.5),
    Cell("multinomial", 100_000, 1.0, 4, columns="clinical", effect=0.8),
    Cell("multinomial", 50_000, 3.0, effect=0.8, n_classes=5),
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
            # What few features leave out is a small part of a slope, which takes many data sets to see.
            found[str(cell)] = measured(cell, given.runs * (12 if cell.n_features < N_FEATURES else 1))
            print(
                {
                    name: round(value, 4) if isinstance(value, float) else value
                    for name, value in found[str(cell)].items()
                }
            )
    cells = [found[str(cell)] for cell in GRID]
    limit = FAMILY / len(cells)
    refuted = [
        entry["cell"]
        for entry in cells
        if min(entry["p_value"], entry["false p_value"], entry["intercepts p_value"]) < limit
    ]
    given.out.write_text(json.dumps({"cells": cells, "refuted": refuted}, indent=1) + "\n", encoding="utf-8")
    print("refuted:", refuted)


if __name__ == "__main__":
    main()
