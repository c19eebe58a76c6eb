"""Coverage of regression intervals through the protocol: sites under CAPE, drop-outs, weights, private scaling.

Run: python -m experiments.regression.federated [--runs 200]

Every run is a whole study: four sites of unequal size (or one), the noise of the protocol, private scaling and the
bound on effects where a cell asks for them. ``federated.json`` has the figures of
docs/analyses/intervals_regression.md. A cell is called false if an exact one-sided binomial test rejects 95% at 1% over
all cells together; doubtful ones run again with five times as many runs and other seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from experiments.intervals.components import Losing
from numpy.typing import NDArray
from scipy.stats import binom

from dpcape import Cape, Federation, Independent, LinearRegression, LogisticRegression, Replay, in_process, labelled
from dpcape.core.errors import DpcapeWarning

FILE = Path(__file__).with_name("federated.json")
DELTA = 1e-5
SIZES = (0.48, 0.08, 0.24, 0.2)
Matrix = NDArray[np.float64]


class Cell(NamedTuple):
    """One setting.

    Attributes
    ----------
    model : "linear" or "logistic".
    sites : "one", or four under CAPE of which one may collude: "four", "lost" (one never answers), "equal weights",
        or both.
    features : "normal", "skewed" or "binary".
    width : columns.
    n_records : records, all sites together.
    epsilon : privacy parameter.
    wide : how many times wider the ranges are than the records need; 0 for a bound that fits, without ranges.
    scale : "private" or None.
    effect_bound : largest effect that is assumed, for private scaling.
    """

    model: str
    sites: str
    features: str
    width: int
    n_records: int
    epsilon: float
    wide: float = 0.0
    scale: str | None = None
    effect_bound: float | None = 3.0

    @property
    def label(self) -> str:
        """Return the cell in words."""
        given = f"ranges x{self.wide:g}" if self.wide else "bound x1"
        scale = f", scale=private, effect_bound={self.effect_bound}" if self.scale else ""
        sizes = f"D{self.width}, N{self.n_records}, eps {self.epsilon:g}"
        return f"{self.model}: {self.sites}, {self.features}, {sizes}, {given}{scale}"


def entries(kind: str, shape: tuple[int, int], generator: np.random.Generator) -> Matrix:
    """Return features of standard deviation near 1, between -7 and 7."""
    if kind == "skewed":
        return np.minimum(generator.exponential(size=shape) - 1, 7.0)
    if kind == "binary":
        return 2.0 * (generator.random(shape) < 0.3)
    return np.clip(generator.standard_normal(shape), -7, 7)


def study(cell: Cell, generator: np.random.Generator, seed: int) -> tuple[Matrix, Matrix]:
    """Return the true coefficients per unit of the prepared columns, and the intervals."""
    # Columns have different spreads; the first two have effects of opposite signs.
    spreads = np.geomspace(1.0, 4.0, cell.width)
    X = entries(cell.features, (cell.n_records, cell.width), generator) * spreads
    beta = np.zeros(cell.width)
    beta[:2] = [0.8, -0.4]
    linear = X / spreads @ beta
    half = 7 * spreads * cell.wide if cell.wide else np.ones(cell.width)
    shape: dict[str, Any] = {"ranges": [(-end, end) for end in half]} if cell.wide else {}
    if not cell.wide:
        shape = {"bound": float(np.quantile(np.linalg.norm(X[:2000], axis=1), 0.95))}
    if cell.model == "linear":
        y: Any = linear + 0.5 * generator.standard_normal(cell.n_records)
        shape["response"] = (-12.0, 12.0)
    else:
        y = (generator.random(cell.n_records) < 1 / (1 + np.exp(-linear))).astype(int)
        shape["classes"] = [0, 1]
    ends = np.concatenate([[0], np.cumsum(np.round(np.array(SIZES) * cell.n_records).astype(int))])
    parts = [slice(None)] if cell.sites == "one" else [slice(ends[at], ends[at + 1]) for at in range(4)]
    held = {f"site{at}": labelled(X[part], y[part], **shape) for at, part in enumerate(parts)}
    options: dict[str, Any] = {"epsilon": cell.epsilon, "delta": DELTA, "scale": cell.scale}
    if cell.model == "linear":
        model: Any = LinearRegression(effect_bound=cell.effect_bound, **options)
    else:
        model = LogisticRegression(**options)
    fitted = model.fit(_federation(cell, held, seed))
    return beta / spreads * half, fitted.interval_


def _federation(cell: Cell, held: dict[str, Any], seed: int) -> Federation:
    if cell.sites == "one":
        return Federation(in_process(held, noise=Replay(seed)), protocol=Independent(), accept_large_delta=True)
    protocol = Cape(n_colluding=1, minimum_sites=3)
    line = Losing(held, Replay(seed)) if "lost" in cell.sites else in_process(held, noise=Replay(seed))
    weights = dict.fromkeys(held, 1 / len(held)) if "equal weights" in cell.sites else None
    return Federation(line, protocol=protocol, weights=weights, accept_large_delta=True)


def measured(cell: Cell, n_runs: int, seed: int) -> dict[str, Any]:
    """Return coverage, its p-value, the median width and the share of infinite intervals of a cell."""
    generator = np.random.default_rng([seed, cell.width, cell.n_records])
    held, widths = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        for number in range(n_runs):
            truth, (low, high) = study(cell, generator, seed * 10**5 + number)
            held.append((low <= truth) & (truth <= high))
            widths.append(high - low)
    covered, total = int(np.sum(held)), int(np.size(held))
    finite = np.isfinite(widths)
    width = float(np.median(np.asarray(widths)[finite])) if finite.any() else math.inf
    return {
        "cell": cell.label,
        "runs": n_runs,
        "coverage": round(covered / total, 4),
        "p_value": float(binom.cdf(covered, total, 0.95)),
        "no_answer": round(1 - float(np.mean(finite)), 3),
        "median_width": round(width, 4) if math.isfinite(width) else None,
    }


def grid() -> list[Cell]:
    """Return all cells."""
    cells = [
        Cell(model, sites, features, 3, 5000, 3.0)
        for model, features in (("linear", "normal"), ("linear", "skewed"), ("logistic", "binary"))
        for sites in ("four", "lost", "equal weights")
    ]
    cells += [
        Cell(model, sites, features, 4, 10_000, 3.0, 3.0, "private")
        for model, features in (("linear", "normal"), ("linear", "skewed"), ("logistic", "normal"))
        for sites in ("one", "lost")
    ]
    cells += [Cell("linear", "one", "normal", 4, 2000, 1.0, 3.0, "private", bound) for bound in (3.0, 30.0, None)]
    cells += [Cell("linear", "one", "skewed", 5, 20_000, 1.0, 3.0, "private", bound) for bound in (3.0, None)]
    cells += [Cell("linear", "lost of equal weights", "normal", 3, 5000, 3.0)]
    cells += [Cell("linear", "equal weights", "normal", 4, 10_000, 3.0, 3.0, "private")]
    return cells


def main() -> None:
    """Run the grid, print it, and write it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    results = []
    for cell in grid():
        start = time.perf_counter()
        found = measured(cell, given.runs, seed=1)
        if found["p_value"] < 0.05:
            found = measured(cell, 5 * given.runs, seed=2)
        results.append(found)
        figures = f"{found['coverage']:.3f} of {found['runs']}  p {found['p_value']:.2g}  none {found['no_answer']:.2f}"
        print(f"{cell.label:90s} {figures}  {time.perf_counter() - start:.0f} s", flush=True)
        given.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
