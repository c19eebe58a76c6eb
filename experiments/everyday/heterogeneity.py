"""How often intervals over sites cover: of the mean beyond these sites, the variance between them, a further site.

Run: python experiments/everyday/heterogeneity.py [--runs 300] [--only coverage size]

``heterogeneity.json`` in this folder has the figures of docs/analyses/heterogeneity.md.
``tests/inference/test_heterogeneity.py`` runs a few cells with fewer repetitions.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from dpcape import Federation, Heterogeneity, Independent, Replay, in_process, table
from dpcape.core.errors import DpcapeWarning

DELTA = 1e-5
FAMILY = 0.01
"""Probability with which all true intervals of a grid together have one cell that is called false."""
FIGURES = ("mean", "tau", "further site", "these sites")


@dataclass(frozen=True)
class Cell:
    """One setting: sites, records of a site, standard deviation between sites, epsilon, and whether sizes differ."""

    n_sites: int
    n_records: int
    tau: float
    epsilon: float
    unequal: bool = False

    def __str__(self) -> str:
        sizes = "of unequal size, mean" if self.unequal else "of"
        return f"{self.n_sites} sites {sizes} {self.n_records}, tau {self.tau:g}, eps {self.epsilon:g}"


def people(cell: Cell, rng: np.random.Generator) -> tuple[dict[str, Any], np.ndarray]:
    """Return records of all sites, and the true means of the sites; the spread within sites is 1, skewed."""
    means = rng.normal(0, cell.tau, cell.n_sites)
    sizes = np.full(cell.n_sites, cell.n_records)
    if cell.unequal:
        weights = np.geomspace(1, 8, cell.n_sites)
        sizes = np.maximum((cell.n_records * cell.n_sites * weights / weights.sum()).astype(int), 10)
    site = np.repeat(np.arange(cell.n_sites), sizes)
    values = means[site] + (rng.gamma(4.0, 0.5, len(site)) - 2.0)
    return {"site": site, "value": values}, means


def fitted(data: dict[str, Any], cell: Cell, seed: int) -> Heterogeneity:
    """Return random effects with noise that can be repeated."""
    columns = {"site": {"levels": list(range(cell.n_sites))}, "value": (-5, 8)}
    held = {"all": table(data, columns=columns)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = Heterogeneity("site", epsilon=cell.epsilon, delta=DELTA)
        return model.fit(Federation(in_process(held, noise=Replay(seed)), protocol=Independent()))


def coverage(cell: Cell, runs: int) -> list[dict[str, Any]]:
    """Return how often intervals contain the truth, and how wide they are."""
    hits, widths = dict.fromkeys(FIGURES, 0), {name: [] for name in FIGURES}
    for run in range(runs):
        rng = np.random.default_rng([run, cell.n_sites, cell.n_records])
        data, means = people(cell, rng)
        further = rng.normal(0, cell.tau)
        model = fitted(data, cell, run)
        here = float(np.average(means, weights=np.bincount(data["site"])))
        truths = (0.0, cell.tau, further, here)
        ends = (model.interval_, model.tau_interval_, model.prediction_interval_, model.pooled_interval_)
        for name, truth, interval in zip(FIGURES, truths, ends, strict=True):
            low, high = interval[:, 0]
            hits[name] += bool(low - 1e-12 <= truth <= high)
            widths[name].append(high - low)
    return [
        {
            "cell": f"{name}: {cell}",
            "share": hits[name] / runs,
            "p_value": float(binom.cdf(hits[name], runs, 0.95)),
            "width": float(np.median(widths[name])),
            "trials": runs,
        }
        for name in FIGURES
    ]


def size_cell(cell: Cell, runs: int) -> dict[str, Any]:
    """Return how often differences between sites are found, and how well they are known."""
    found, errors, widths = 0, [], []
    for run in range(runs):
        data, _ = people(cell, np.random.default_rng([run, 17]))
        model = fitted(data, cell, run)
        found += bool(model.tau_interval_[0, 0] > 0)
        errors.append(model.tau_[0] - cell.tau)
        widths.append(np.diff(model.interval_[:, 0])[0])
    return {
        "cell": str(cell),
        "runs": runs,
        "found": found / runs,
        "error of tau": float(np.sqrt(np.mean(np.square(errors)))),
        "width": float(np.median(widths)),
    }


GRID = [
    Cell(3, 500, 0.1, 1.0),
    Cell(3, 2000, 0.3, 3.0, unequal=True),
    Cell(5, 100, 0.2, 3.0),
    Cell(5, 500, 0.0, 1.0, unequal=True),
    Cell(15, 300, 0.1, 1.0, unequal=True),
    Cell(15, 300, 0.3, 3.0),
    Cell(30, 300, 0.1, 1.0, unequal=True),
]


def main() -> None:
    """Run the parts that are asked for and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--only", nargs="*", default=["coverage", "size"])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("heterogeneity.json"))
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
    if "coverage" in given.only:
        found["coverage"] = [entry for cell in GRID for entry in coverage(cell, given.runs)]
        limit = FAMILY / len(found["coverage"])
        found["refuted"] = [entry["cell"] for entry in found["coverage"] if entry["p_value"] < limit]
    if "size" in given.only:
        cells = [Cell(s, n, 0.2, e) for s, n in ((5, 500), (15, 300), (15, 1000), (30, 300)) for e in (1.0, 3.0)]
        found["size"] = [size_cell(cell, given.runs // 4) for cell in cells]
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for part in given.only:
        for entry in found.get(part, []):
            print({name: round(value, 4) if isinstance(value, float) else value for name, value in entry.items()})
    print("refuted:", found.get("refuted"))


if __name__ == "__main__":
    main()
