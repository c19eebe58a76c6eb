"""How often MultiCCA finds what is not there, what it finds at which size, and a data set of three views.

Run: python experiments/everyday/multi_cca.py [--runs 400] [--only level size digits] [--data FOLDER]

``multi_cca.json`` in this folder has the figures of docs/analyses/multi_cca.md. The part "digits" needs the file
mfeat_digits_6view.npz (UCI Multiple Features) in FOLDER; without it the part is left out.
``tests/inference/test_multi_cca.py`` runs a few cells with fewer repetitions.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpcape import Cape, Exact, Federation, Independent, MultiCCA, Replay, in_process, views
from dpcape.core.errors import DpcapeWarning

Vector = NDArray[np.float64]
DELTA = 1e-5
FAMILY = 0.01
"""Probability with which tests that hold their level in all cells together have one cell that is called false."""

USEFUL = 0.9
"""Share of the correlation found without noise from which on a result is called useful."""


@dataclass(frozen=True)
class Cell:
    """One setting: records, epsilon, widths of the views, shape of the columns, factors that views share."""

    n_records: int
    epsilon: float
    widths: tuple[int, ...] = (5, 5, 5)
    shape: str = "normal"
    center: bool = False
    factors: int = 0

    def __str__(self) -> str:
        words = [f"N{self.n_records}", f"eps {self.epsilon:g}", f"{len(self.widths)} x {self.widths[0]}", self.shape]
        words += ["centred"] * self.center + [f"{self.factors} shared"] * bool(self.factors)
        return ", ".join(words)


def columns(n_records: int, width: int, shape: str, generator: np.random.Generator) -> Vector:
    """Return unrelated columns of variance 1."""
    if shape == "normal":
        return generator.standard_normal((n_records, width))
    if shape == "laplace":
        return generator.laplace(size=(n_records, width)) / np.sqrt(2)
    return generator.exponential(size=(n_records, width)) - 1


def population(cell: Cell, generator: np.random.Generator) -> list[Vector]:
    """Return views that share so many factors, each with a correlation of 0.8, and nothing else."""
    parts = [columns(cell.n_records, width, cell.shape, generator) for width in cell.widths]
    shared = columns(cell.n_records, cell.factors, cell.shape, generator)
    for part in parts:
        part[:, : cell.factors] = np.sqrt(0.8) * shared + np.sqrt(0.2) * part[:, : cell.factors]
    return parts


def fitted(parts: Sequence[Vector], cell: Cell, seed: int, n_components: int | str, *, exact: bool = False) -> MultiCCA:
    """Return the fitted model of one holder; bounds clip few rows."""
    bounds = [1.3 * np.sqrt(part.shape[1]) for part in parts]
    first, second, *more = parts
    held = views(first, second, *more, bounds=bounds)
    protocol = Exact() if exact else Independent()
    federation = Federation(in_process({"here": held}, noise=Replay(seed)), protocol=protocol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        return MultiCCA(n_components, epsilon=cell.epsilon, delta=DELTA, center=cell.center).fit(federation)


def level(cell: Cell, runs: int) -> dict[str, Any]:
    """Return how often more components are called determined than the views share, and pairs called related."""
    wrong, pairs = 0, 0
    for run in range(runs):
        parts = population(cell, np.random.default_rng([run, cell.n_records, 3]))
        model = fitted(parts, cell, run, cell.factors + 1)
        wrong += float(model.p_values_[-1]) <= 0.05
        matrix = np.abs(model.pair_correlations_[-1] - np.eye(len(cell.widths)))
        pairs += bool((matrix > model.pair_noise_level_).any()) and not cell.factors
    return {
        "cell": str(cell),
        "share": wrong / runs,
        "pairs": pairs / runs,
        "p_value": float(binom.sf(max(wrong, pairs) - 1, runs, 0.05)),
        "trials": runs,
    }


def mean_correlations(model: MultiCCA, parts: Sequence[Vector]) -> Vector:
    """Return the mean correlation that the variates of each component have in records."""
    variates = [(part - part.mean(axis=0)) @ model.weights_of(view) for view, part in enumerate(parts)]
    found = []
    for component in range(len(model.correlations_)):
        columns = [scores[:, component] for scores in variates]
        found.append(np.mean([np.corrcoef(*pair)[0, 1] for pair in combinations(columns, 2)]))
    return np.array(found)


def size(cell: Cell, runs: int) -> dict[str, Any]:
    """Return the correlation that found directions have, as a share of that without noise, and the power."""
    kept, found = 0.0, 0
    fresh = population(Cell(100_000, 1.0, cell.widths, cell.shape, factors=cell.factors), np.random.default_rng(99))
    for run in range(runs):
        parts = population(cell, np.random.default_rng([run, cell.n_records, 5]))
        private, exact = (fitted(parts, cell, run, cell.factors, exact=noiseless) for noiseless in (False, True))
        ratio = np.abs(mean_correlations(private, fresh)) / mean_correlations(exact, fresh)
        kept += float(ratio.mean()) / runs
        found += int((private.p_values_ <= 0.05).sum())
    return {"cell": str(cell), "kept": kept, "found": found / (runs * cell.factors), "runs": runs}


def digits(path: Path, epsilon: float, runs: int) -> dict[str, Any]:
    """Return the mean correlation of three components of three views of handwritten digits, eight columns each."""
    stored = np.load(path)
    parts = []
    for name in ("fou", "kar", "zer"):
        raw = np.asarray(stored[name], dtype=np.float64)
        standard = (raw - raw.mean(axis=0)) / raw.std(axis=0)
        # The eight principal directions are taken to be public.
        left = np.linalg.svd(standard, full_matrices=False)[0][:, :8]
        parts.append(left * np.sqrt(len(left)))
    order = np.random.default_rng(0).permutation(len(parts[0]))
    scores, means = [], []
    for run in range(runs):
        held = {
            f"site-{at}": views(*(part[rows] for part in parts), bounds=[np.sqrt(8)] * 3)
            for at, rows in enumerate(np.array_split(order, 4))
        }
        federation = Federation(in_process(held, noise=Replay(run)), protocol=Cape(n_colluding=0))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DpcapeWarning)
            model = MultiCCA(3, epsilon=epsilon, delta=DELTA, center=False).fit(federation)
        scores.append(float(mean_correlations(model, parts).mean()))
        means.append(float(model.correlations_.mean()))
    exact = Federation(in_process({"here": views(*parts, bounds=[100.0] * 3)}), protocol=Exact())
    best = MultiCCA(3, epsilon=1.0, delta=DELTA, center=False).fit(exact)
    return {
        "cell": f"digits, 3 x 8, N{len(order)}, eps {epsilon:g}",
        "mean correlation": float(np.mean(scores)),
        "least": float(np.min(scores)),
        "printed": float(np.mean(means)),
        "without noise": float(mean_correlations(best, parts).mean()),
        "runs": runs,
    }


LEVELS = (
    Cell(500, 1.0),
    Cell(2000, 1.0),
    Cell(2000, 3.0, shape="laplace"),
    Cell(10_000, 3.0, shape="exponential"),
    Cell(3000, 1.0, center=True),
    Cell(20_000, 3.0, shape="exponential", center=True),
    Cell(2000, 3.0, (3, 3, 3, 3)),
    Cell(10_000, 1.0, (8, 8, 8), factors=1),
    Cell(20_000, 3.0, shape="exponential", factors=2),
)
SIZES = tuple(
    Cell(n_records, epsilon, (10, 10, 10), factors=2)
    for epsilon in (1.0, 3.0)
    for n_records in (500, 1000, 2000, 3000, 5000, 10_000, 20_000)
)


def main() -> None:
    """Run the parts that are asked for and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--only", nargs="*", default=["level", "size", "digits"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DPCAPE_DATA", ".")))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("multi_cca.json"))
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
    if "level" in given.only:
        found["level"] = [level(cell, given.runs) for cell in LEVELS]
        limit = FAMILY / len(LEVELS)
        found["refuted"] = [entry["cell"] for entry in found["level"] if entry["p_value"] < limit]
    if "size" in given.only:
        found["size"] = [size(cell, max(4, given.runs // 20)) for cell in SIZES]
    stored = given.data / "mfeat_digits_6view.npz"
    if "digits" in given.only and stored.exists():
        found["digits"] = [digits(stored, epsilon, max(4, given.runs // 10)) for epsilon in (1.0, 3.0)]
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for part in given.only:
        for entry in found.get(part, []):
            print({name: round(value, 4) if isinstance(value, float) else value for name, value in entry.items()})
    print("refuted:", found.get("refuted"))


if __name__ == "__main__":
    main()
