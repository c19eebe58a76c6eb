"""How often PLS finds what is not there, and what it finds at which size.

Run: python experiments/everyday/pls.py [--runs 400] [--only level size]

``pls.json`` in this folder has the figures of docs/analyses/pls.md. ``tests/inference/test_pls.py`` runs a few cells
with fewer repetitions.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpcape import PLS, Exact, Federation, Independent, Replay, in_process, views
from dpcape.core.errors import DpcapeWarning

Vector = NDArray[np.float64]
DELTA = 1e-5
FAMILY = 0.01
"""Probability with which tests that hold their level in all cells together have one cell that is called false."""


@dataclass(frozen=True)
class Cell:
    """One setting: records, epsilon, widths, shape of the columns, factors that the views share, scaling."""

    n_records: int
    epsilon: float
    widths: tuple[int, int] = (8, 5)
    shape: str = "normal"
    factors: int = 0
    scale: str | None = None

    def __str__(self) -> str:
        words = [f"N{self.n_records}", f"eps {self.epsilon:g}", " x ".join(map(str, self.widths)), self.shape]
        words += ["scaled"] * bool(self.scale) + [f"{self.factors} shared"] * bool(self.factors)
        return ", ".join(words)


def columns(n_records: int, width: int, shape: str, generator: np.random.Generator) -> Vector:
    """Return unrelated columns of variance 1 and mean 0."""
    if shape == "normal":
        return generator.standard_normal((n_records, width))
    return generator.exponential(size=(n_records, width)) - 1


def population(cell: Cell, generator: np.random.Generator) -> tuple[Vector, Vector]:
    """Return two views whose columns have falling spreads; the first ones share factors, with a correlation of 0.8."""
    shared = columns(cell.n_records, cell.factors, cell.shape, generator)
    found = []
    for width in cell.widths:
        part = columns(cell.n_records, width, cell.shape, generator)
        part[:, : cell.factors] = np.sqrt(0.8) * shared + np.sqrt(0.2) * part[:, : cell.factors]
        found.append(part * np.linspace(1.0, 0.3, width) + 0.5)
    return found[0], found[1]


def fitted(parts: tuple[Vector, Vector], cell: Cell, seed: int, n_components: int, *, exact: bool = False) -> PLS:
    """Return the fitted model of one holder."""
    held = views(*parts, bounds=[1.5 * np.sqrt(part.shape[1]) for part in parts])
    federation = Federation(
        in_process({"here": held}, noise=Replay(seed)), protocol=Exact() if exact else Independent()
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        return PLS(n_components, epsilon=cell.epsilon, delta=DELTA, scale=cell.scale).fit(federation)


def level(cell: Cell, runs: int) -> dict[str, Any]:
    """Return how often more pairs are called determined than the views share."""
    wrong = 0
    for run in range(runs):
        parts = population(cell, np.random.default_rng([run, cell.n_records, 3]))
        wrong += float(fitted(parts, cell, run, cell.factors + 1).p_values_[-1]) <= 0.05
    return {
        "cell": str(cell),
        "share": wrong / runs,
        "p_value": float(binom.sf(wrong - 1, runs, 0.05)),
        "trials": runs,
    }


def size(cell: Cell, runs: int) -> dict[str, Any]:
    """Return the covariance that found directions have in fresh records, as a share of that without noise."""
    kept, found = 0.0, 0
    fresh = population(Cell(100_000, 1.0, cell.widths, cell.shape, cell.factors), np.random.default_rng(99))
    for run in range(runs):
        parts = population(cell, np.random.default_rng([run, cell.n_records, 5]))
        private, exact = (fitted(parts, cell, run, cell.factors, exact=noiseless) for noiseless in (False, True))
        each = []
        for model in (private, exact):
            x, y = model.transform(*fresh)
            each.append(np.abs(((x - x.mean(axis=0)) * (y - y.mean(axis=0))).mean(axis=0)))
        kept += float((each[0] / each[1]).mean()) / runs
        found += int((private.p_values_ <= 0.05).sum())
    return {"cell": str(cell), "kept": kept, "found": found / (runs * cell.factors), "runs": runs}


LEVELS = (
    Cell(1000, 1.0),
    Cell(5000, 1.0),
    Cell(5000, 3.0, shape="exponential"),
    Cell(50_000, 3.0, shape="exponential"),
    Cell(5000, 1.0, scale="private"),
    Cell(10_000, 3.0, factors=1),
)
SIZES = tuple(
    Cell(n_records, epsilon, (20, 10), factors=1)
    for epsilon in (1.0, 3.0)
    for n_records in (500, 1000, 2000, 5000, 10_000)
)


def main() -> None:
    """Run the parts that are asked for and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", nargs="*", default=["level", "size"])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("pls.json"))
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
    if "level" in given.only:
        found["level"] = [level(cell, given.runs) for cell in LEVELS]
        limit = FAMILY / len(LEVELS)
        found["refuted"] = [entry["cell"] for entry in found["level"] if entry["p_value"] < limit]
    if "size" in given.only:
        found["size"] = [size(cell, max(4, given.runs // 20)) for cell in SIZES]
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for part in given.only:
        for entry in found.get(part, []):
            print({name: round(value, 4) if isinstance(value, float) else value for name, value in entry.items()})
    print("refuted:", found.get("refuted"))


if __name__ == "__main__":
    main()
