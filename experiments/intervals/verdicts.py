"""How often clusters, mixtures, networks, topics and independent components are called determined where there are none.

Run: python -m experiments.intervals.verdicts [--runs 200] [--only kmeans ...]

Each cell has records without what is sought (or, where it says so, with it), and counts the studies in which something
is called determined. ``verdicts.json`` has the figures of docs/analyses/intervals_components.md. A cell is called false
if an exact one-sided binomial test rejects 5%, at 1% over all cells together.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binom

from dpcape import (
    Federation,
    Independent,
    JointICA,
    KMeans,
    MixtureModel,
    NetworkClassifier,
    Replay,
    TopicModel,
    documents,
    in_process,
    labelled,
    rows,
    subjects,
)
from dpcape.core.errors import DpcapeWarning
from dpcape.postprocessing.verdicts import DETERMINED

FILE = Path(__file__).with_name("verdicts.json")
Draws = np.random.Generator


class Cell(NamedTuple):
    """One setting: analysis, kind of records, columns, records, epsilon, and whether there is something to find."""

    analysis: str
    records: str
    width: int
    n_records: int
    epsilon: float
    there: bool = False

    @property
    def label(self) -> str:
        """Return the cell in words."""
        return f"{self.analysis}: {self.records}, D{self.width}, N{self.n_records}, eps {self.epsilon:g}"


def fitted(model: Any, held: Any, seed: int) -> Any:
    """Return the model, fitted to the records of one site."""
    federation = Federation(in_process({"here": held}, noise=Replay(seed)), protocol=Independent())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        return model.fit(federation)


def kmeans(cell: Cell, generator: Draws, seed: int) -> Any:
    """Fit three clusters to rows that are all the same, or to three clusters."""
    places = np.eye(cell.width)[: 3 if cell.there else 1] * 0.6
    X = places[generator.integers(len(places), size=cell.n_records)]
    X = X + (0.05 if cell.there else 0.0) * generator.normal(size=X.shape) / np.sqrt(cell.width)
    return fitted(KMeans(3, epsilon=cell.epsilon, delta=1e-5, random_state=seed), rows(X, bound=1.0), seed)


def mixture(cell: Cell, generator: Draws, seed: int) -> Any:
    """Fit two components to one, which has a mean of its own, or to two."""
    places = np.eye(cell.width)[: 2 if cell.there else 1] * 0.8
    X = places[generator.integers(len(places), size=cell.n_records)]
    X = X + 0.2 / np.sqrt(cell.width) * generator.normal(size=X.shape)
    model = MixtureModel(2, epsilon=cell.epsilon, delta=1e-5, noise_variance=0.04 / cell.width)
    return fitted(model, rows(X, bound=1.2), seed)


def network(cell: Cell, generator: Draws, seed: int) -> Any:
    """Fit a classifier to labels that have nothing to do with the rows, or to a linear rule."""
    X = generator.normal(size=(cell.n_records, cell.width)) / np.sqrt(cell.width)
    y = X[:, 0] > 0 if cell.there else generator.random(cell.n_records) < 0.5
    hidden = 0 if "linear" in cell.records else 10
    model = NetworkClassifier(hidden, epsilon=cell.epsilon, delta=1e-5, random_state=seed)
    return fitted(model, labelled(X, y.astype(int), bound=1.0, classes=[0, 1]), seed)


def topics(cell: Cell, generator: Draws, seed: int) -> Any:
    """Fit two topics to documents that have none, or to two."""
    shares = np.full((1, cell.width), 1 / cell.width)
    if cell.there:
        first = np.arange(cell.width) < cell.width // 2
        shares = np.stack([first, ~first]) / [[first.sum()], [(~first).sum()]]
    each = generator.integers(len(shares), size=cell.n_records)
    counts = generator.multinomial(10, shares[each])
    return fitted(TopicModel(2, epsilon=cell.epsilon, delta=1e-5, document_length=10), documents(counts), seed)


def ica(cell: Cell, generator: Draws, seed: int) -> Any:
    """Fit components to normal rows, which have none, or to independent ones with long tails."""
    shape = (cell.n_records, cell.width)
    S = generator.laplace(size=shape) / np.sqrt(2) if cell.there else generator.normal(size=shape)
    turn = np.linalg.qr(generator.normal(size=(cell.width, cell.width)))[0]
    held = subjects([S @ turn], bound=3 * np.sqrt(cell.width), unit="record")
    return fitted(JointICA(cell.width, epsilon=cell.epsilon, delta=1e-5, basis=np.eye(cell.width)), held, seed)


FITS: dict[str, Callable[[Cell, Draws, int], Any]] = {
    "kmeans": kmeans,
    "mixture": mixture,
    "network": network,
    "topics": topics,
    "ica": ica,
}


def grid() -> list[Cell]:
    """Return all cells."""
    sizes = [(3, 500, 1.0), (3, 5000, 0.3), (3, 5000, 10.0), (12, 5000, 1.0), (12, 20_000, 3.0)]
    cells = [Cell("kmeans", "all rows equal", *size) for size in sizes]
    cells += [Cell("mixture", "one component", *size) for size in sizes]
    cells += [Cell("network", "linear, random labels", *size) for size in sizes]
    cells += [Cell("network", "hidden units, random labels", *size) for size in (*sizes[:3], (12, 1000, 50.0))]
    cells += [Cell("topics", "no topics", width, n, e) for width, n, e in ((15, 1000, 1.0), (15, 10_000, 50.0))]
    cells += [Cell("ica", "normal rows", width, n, e) for width, n, e in ((2, 1000, 1.0), (4, 20_000, 10.0))]
    for analysis, records in (
        ("kmeans", "three clusters"),
        ("mixture", "two components"),
        ("network", "linear, a linear rule"),
        ("network", "hidden units, a linear rule"),
    ):
        cells += [Cell(analysis, records, width, n, e, True) for width, n, e in ((3, 5000, 1.0), (12, 20_000, 3.0))]
    cells += [Cell("topics", "two topics", 15, 10_000, 3.0, True), Cell("ica", "laplace rows", 4, 20_000, 3.0, True)]
    return cells


def run(cell: Cell, n_runs: int, seed: int = 1) -> int:
    """Return in how many studies something is called determined; where there is something, everything."""
    generator = np.random.default_rng([seed, cell.width, cell.n_records])
    count = 0
    for number in range(n_runs):
        words = [entry.word for entry in FITS[cell.analysis](cell, generator, seed * 10**5 + number).verdicts_]
        count += set(words) == {DETERMINED} if cell.there else DETERMINED in words
    return count


def main() -> None:
    """Run the cells, print them, and write them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=list(FITS))
    parser.add_argument("--out", type=Path, default=FILE)
    given = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    if given.out.exists():
        results = {row["cell"]: row for row in json.loads(given.out.read_text())}
    for cell in grid():
        if cell.analysis not in given.only:
            continue
        start = time.perf_counter()
        runs = given.runs if not cell.there else given.runs // 5
        count = run(cell, runs)
        p_value = 1.0 if cell.there else float(binom.sf(count - 1, runs, 0.05))
        results[cell.label] = {
            "cell": cell.label,
            "there": cell.there,
            "runs": runs,
            "determined": count,
            "p_value": p_value,
        }
        print(f"{cell.label:70s} {count} of {runs}  p {p_value:.3g}  {time.perf_counter() - start:.0f} s", flush=True)
        given.out.write_text(json.dumps(list(results.values()), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
