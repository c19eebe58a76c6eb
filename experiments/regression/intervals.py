"""Coverage and width of the intervals of regressions, over a grid.

Run: python -m experiments.regression.intervals [RUNS [DOUBTFUL]] [linear | logistic]

Writes ``intervals.json`` beside this file; docs/analyses/intervals_regression.md shows it. Seeds are fixed. A cell is
tested by an exact one-sided binomial test of coverage .95; coefficients of one run are treated as independent.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from experiments.regression.sums import SumRounds, Vector
from scipy.stats import binom

from dpcape.analyses.regression import LOGISTIC_SHARES, MOST_SPREAD_NOISE, SPREAD_SHARE
from dpcape.core.privacy.gaussian import mu_of
from dpcape.estimators.linear.regression_rounds import Asked, linear_inference, weights_of
from dpcape.estimators.linear.score_rounds import logistic_inference
from dpcape.statistics.regression_rounds import SPREAD_CLIP

FILE = Path(__file__).with_name("intervals.json")


class Cell(NamedTuple):
    """One setting: model, columns, records, epsilon, factor of the bound, features, errors, coefficients."""

    model: str
    width: int
    n_records: int
    epsilon: float
    factor: float
    features: str
    errors: str
    effects: str


class Measured(NamedTuple):
    """What was found in a cell."""

    n_runs: int
    coverage: float
    p_value: float
    no_answer: float
    median_width: float
    oracle_width: float


def features_of(kind: str, shape: tuple[int, int], generator: np.random.Generator) -> Vector:
    """Return features with rows about one long."""
    drawn = {
        "uniform": lambda: generator.uniform(-1.7, 1.7, shape),
        "normal": lambda: generator.standard_normal(shape),
        "skewed": lambda: generator.exponential(1.0, shape) - 1,
        "binary": lambda: (generator.random(shape) < 0.2).astype(float),
    }[kind]()
    return np.asarray(drawn / (1.3 * math.sqrt(shape[1])))


def effects_of(kind: str, width: int, *, logistic: bool) -> Vector:
    """Return true coefficients."""
    # Small enough that no response leaves its range, where it would be clipped.
    size = 3.0 if logistic else 0.15
    if kind == "zero":
        return np.zeros(width)
    if kind == "large":
        return np.eye(width)[0] * 2 * size
    return size * np.where(np.arange(width) % 2, 1.0, -1.0) / math.sqrt(width / 3)


def run(cell: Cell, generator: np.random.Generator) -> tuple[Vector, Vector, Vector, Vector]:
    """Return truth, lower and upper ends, and the widths of Wald intervals that know the true moments."""
    logistic = cell.model == "logistic"
    x = features_of(cell.features, (cell.n_records, cell.width), generator)
    beta = effects_of(cell.effects, cell.width, logistic=logistic)
    bound = cell.factor * float(np.quantile(np.linalg.norm(x[:2000], axis=1), 0.95))
    mu = mu_of(cell.epsilon, 1e-5)
    options: dict[str, Any] = {"bound": bound, "mu": mu, "generator": generator}
    a, _ = weights_of(bound, intercept=True)
    if logistic:
        odds = x @ beta - 0.5
        y = (generator.random(cell.n_records) < 1 / (1 + np.exp(-odds))).astype(int)
        found = logistic_inference(SumRounds(x, y, shares=LOGISTIC_SHARES, classes=True, **options), Asked(0.95))
        unit, widths = 1.0, _logistic_oracle(x, odds, bound, mu * math.sqrt(LOGISTIC_SHARES[-1]))
    else:
        errors = 0.03 * generator.standard_normal(cell.n_records)
        if cell.errors == "unequal":
            errors *= 0.3 + np.abs(x[:, 0]) / x[:, 0].std()
        y = np.clip(x @ beta + errors, -1, 1)
        p = cell.width + 1
        noise = math.sqrt(2 * p) * SPREAD_CLIP / (mu * cell.n_records * math.sqrt(SPREAD_SHARE))
        released = noise <= MOST_SPREAD_NOISE
        shares = (1 - SPREAD_SHARE, SPREAD_SHARE) if released else (1.0,)
        found = linear_inference(SumRounds(x, y, shares=shares, **options), Asked(0.95), spread_released=released)
        unit, widths = 1 / a, _linear_oracle(x, y - x @ beta, beta, bound, mu * math.sqrt(shares[0]))
    assert found.low is not None
    assert found.high is not None
    return beta, unit * found.low[1:], unit * found.high[1:], widths


def _weighted(x: Vector, bound: float) -> tuple[Vector, Vector]:
    weights = np.minimum(1.0, bound / np.maximum(np.linalg.norm(x, axis=1), 1e-300))
    return np.column_stack([np.full(len(x), bound / 2), x]) * weights[:, None], weights


def _linear_oracle(x: Vector, errors: Vector, beta: Vector, bound: float, mu: float) -> Vector:
    a, _ = weights_of(bound, intercept=True)
    v, weights = _weighted(x, bound)
    inverse = np.linalg.inv(v.T @ v / len(x))
    scale = math.sqrt(2) * (1.25 * bound**2 + a**2) / (len(x) * mu)
    theta = a * np.append(0.0, beta)
    turned = inverse @ theta
    noise = scale**2 / 2 * ((1 + theta @ theta) * inverse @ inverse + np.outer(turned, turned))
    scores = v * (a * weights * errors)[:, None]
    sampling = inverse @ (scores.T @ scores / len(x) ** 2) @ inverse
    return np.asarray(2 * 1.96 * np.sqrt(np.diag(noise + sampling)[1:]) / a)


def _logistic_oracle(x: Vector, odds: Vector, bound: float, mu: float) -> Vector:
    v, weights = _weighted(x, bound)
    chance = 1 / (1 + np.exp(-odds))
    each = (chance * (1 - chance))[:, None]
    inverse = np.linalg.inv((v * each).T @ v / len(x))
    reach = math.sqrt(1.25) * bound
    noise = (reach**2 / 2 / (len(x) * mu) * 4 / reach) ** 2 * inverse @ inverse
    sampling = inverse @ ((v * each * (weights**2)[:, None]).T @ v / len(x) ** 2) @ inverse
    return np.asarray(2 * 1.96 * np.sqrt(np.diag(noise + sampling)[1:]))


def measured(cell: Cell, n_runs: int, seed: int) -> Measured:
    """Return coverage and widths of a cell."""
    generator = np.random.default_rng([seed, *cell_number(cell)])
    held, widths, oracle = [], [], []
    for _ in range(n_runs):
        beta, low, high, wald = run(cell, generator)
        held.append((low <= beta) & (beta <= high))
        widths.append(high - low)
        oracle.append(wald)
    covered, total = int(np.sum(held)), int(np.size(held))
    finite = np.isfinite(widths)
    return Measured(
        n_runs,
        round(covered / total, 4),
        float(binom.cdf(covered, total, 0.95)),
        round(1 - float(np.mean(finite)), 3),
        round(float(np.median(np.asarray(widths)[finite])), 5) if finite.any() else math.inf,
        round(float(np.median(oracle)), 5),
    )


def cell_number(cell: Cell) -> list[int]:
    """Return whole numbers that tell cells apart, for seeds."""
    words = {word: place for place, word in enumerate(("linear", "logistic", "uniform", "normal", "skewed", "binary"))}
    words |= {"equal": 0, "unequal": 1, "zero": 0, "large": 1, "dense": 2}
    return [words[value] if isinstance(value, str) else int(1000 * value) for value in cell]


def grid() -> list[Cell]:
    """Return the cells."""
    cells = []
    for width, n_records in ((3, 424), (3, 20_000), (10, 5_000), (10, 20_000)):
        for epsilon in (0.1, 1.0, 10.0):
            for factor in (1.0, 5.0):
                for features, errors, effects in (
                    ("uniform", "equal", "dense"),
                    ("skewed", "unequal", "dense"),
                    ("normal", "equal", "zero"),
                    ("normal", "equal", "large"),
                ):
                    cells.append(Cell("linear", width, n_records, epsilon, factor, features, errors, effects))
    cells += [Cell("linear", 3, 20_000, 10.0, factor, "uniform", "equal", "dense") for factor in (20.0, 200.0)]
    cells += [Cell("linear", 3, 200_000, 0.1, 1.0, "skewed", "unequal", "dense")]
    cells += [
        Cell("linear", width, n_records, epsilon, 1.0, "normal", "equal", effects)
        for width, n_records in ((20, 5_000), (50, 20_000))
        for epsilon in (1.0, 3.0)
        for effects in ("zero", "large")
    ]
    for n_records, epsilon in ((2_000, 3.0), (20_000, 0.3), (20_000, 1.0), (20_000, 10.0)):
        for features in ("normal", "skewed", "binary"):
            for effects in ("zero", "large", "dense"):
                cells.append(Cell("logistic", 3, n_records, epsilon, 1.0, features, "equal", effects))
    cells += [Cell("logistic", 10, 20_000, 1.0, factor, "normal", "equal", "dense") for factor in (1.0, 5.0)]
    return cells


def main(n_runs: int = 200, n_doubtful: int = 1000, *, model: str = "") -> None:
    """Measure all cells, those with a small p-value again with more runs, and write the file.

    Of one model alone if it is named; the stored rows of the other stay.
    """
    rows = [row for row in json.loads(FILE.read_text()) if row["model"] != model] if model else []
    for cell in grid():
        if model not in ("", cell.model):
            continue
        found = measured(cell, n_runs if cell.width < 20 else 60, seed=1)
        if found.p_value < 0.05:
            found = measured(cell, n_doubtful if cell.width < 20 else 200, seed=2)
        rows.append({**cell._asdict(), **found._asdict()})
        print(*cell, found, flush=True)
    FILE.write_text(json.dumps(rows, indent=1).replace("Infinity", "null") + "\n")


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    main(*numbers, model="".join(word for word in sys.argv[1:] if not word.isdecimal()))
