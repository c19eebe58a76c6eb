"""How exact hazard ratios are against those of pooled records, how often intervals cover, and what is found by chance.

Run: python experiments/everyday/cox.py [--runs 300] [--only size coverage chance gbsg2]

``cox.json`` in this folder has the figures of docs/analyses/cox.md. The parts "size" and "gbsg2" need lifelines
(pip install lifelines==0.30.3 in an environment of its own); without it they are left out.
``tests/inference/test_cox.py`` runs a few cells with fewer repetitions.
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

from dpcape import Cape, Cox, Federation, Independent, Replay, in_process, table
from dpcape.core.errors import DpcapeWarning

Vector = NDArray[np.float64]
DELTA = 1e-5
FAMILY = 0.01
"""Probability with which all true intervals and tests of a grid together have one cell that is called false."""

EFFECTS = (0.4, -0.3, 0.6, 0.0, 0.2)
"""Log hazard ratios: per standard deviation of a number, or of the second level against the first (the third)."""
HAZARDS = {
    "rising": (1.6, 0.9),
    "falling": (0.6, 0.9),
    "constant": (1.0, 0.9),
    "rare": (1.0, 0.12),
    "frequent": (1.0, 4.0),
    "steep": (0.3, 1.5),
    "at visits": (1.0, 0.9),
}
N_VISITS = 12
"""Visits at which events are seen, for hazards "at visits"."""


@dataclass(frozen=True)
class Cell:
    """One setting: records, columns, epsilon, sites, hazard, and how large effects are."""

    n_records: int
    n_columns: int
    epsilon: float
    n_sites: int = 1
    hazard: str = "rising"
    strength: float = 1.0

    def __str__(self) -> str:
        return (
            f"N{self.n_records}, {self.n_columns} columns, eps {self.epsilon:g}, {self.n_sites} sites, "
            f"hazard {self.hazard}, effects x {self.strength:g}"
        )

    @property
    def effects(self) -> Vector:
        """True log hazard ratios."""
        return self.strength * np.resize(EFFECTS, self.n_columns)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [f"x{number}" for number in range(self.n_columns)]


def columns_of(cell: Cell) -> dict[str, Any]:
    """Return the public columns: four standard deviations to both sides, and two levels for every fifth."""
    covariates = {name: [0, 1] if at % 5 == 2 else (-4, 4) for at, name in enumerate(cell.names)}
    levels = {name: {"levels": entry} if isinstance(entry, list) else entry for name, entry in covariates.items()}
    return {"survival": {"time": "time", "event": "event", "range": [0, 1]}, **levels}


def followed(cell: Cell, rng: np.random.Generator) -> dict[str, Vector]:
    """Return correlated columns and times to an event; follow-up ends earlier for large values of the first column."""
    values = rng.normal(size=(cell.n_records, cell.n_columns))
    values[:, 1::2] = 0.87 * values[:, 1::2] + 0.5 * values[:, :1]
    values[:, 2::5] = rng.random((cell.n_records, len(range(2, cell.n_columns, 5)))) < 0.3
    shape, rate = HAZARDS[cell.hazard]
    relative = np.exp(np.clip(values, -4, 4) @ cell.effects)
    event = (rng.exponential(size=cell.n_records) / (rate * relative)) ** (1 / shape)
    if cell.hazard == "at visits":
        event = np.ceil(event * N_VISITS) / N_VISITS
    end = rng.uniform(0.2, 2.0, cell.n_records) * np.exp(-0.2 * values[:, 0])
    data = dict(zip(cell.names, values.T, strict=True))
    return {**data, "time": np.minimum(event, end), "event": (event <= end).astype(float)}


def fitted(data: dict[str, Vector], cell: Cell, seed: int, columns: dict[str, Any] | None = None) -> Cox:
    """Return hazard ratios with noise that can be repeated."""
    parts = np.array_split(np.arange(cell.n_records), cell.n_sites)
    held = {
        f"site-{at}": table({name: values[part] for name, values in data.items()}, columns=columns or columns_of(cell))
        for at, part in enumerate(parts)
    }
    protocol = Independent() if cell.n_sites == 1 else Cape(n_colluding=1)
    names = [name for name in (columns or columns_of(cell)) if name != "survival"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = Cox(names, epsilon=cell.epsilon, delta=min(DELTA, 0.5 / cell.n_records))
        return model.fit(Federation(in_process(held, noise=Replay(seed)), protocol=protocol))


def coverage(cell: Cell, runs: int) -> dict[str, Any]:
    """Return how often intervals contain the truth, are open, and how wide they are where they are not.

    Coefficients of one fit are not independent, so the exact test is of the coefficient that is covered least, with
    the number of coefficients in its level.
    """
    hits, is_open, widths = np.zeros(cell.n_columns), 0, []
    found = np.zeros(cell.n_columns)
    for run in range(runs):
        model = fitted(followed(cell, np.random.default_rng([run, cell.n_records, 5])), cell, run)
        low, high = model.interval_
        hits += (low <= cell.effects) & (cell.effects <= high)
        found += model.p_values_ <= 0.05
        if np.isfinite(model.standard_errors_).all():
            widths.append(high - low)
        else:
            is_open += 1
    p_value = min(1.0, cell.n_columns * float(binom.cdf(hits.min(), runs, 0.95)))
    return {
        "cell": str(cell),
        "share": float(hits.mean() / runs),
        "least": float(hits.min() / runs),
        "p_value": p_value,
        "open": is_open / runs,
        "width": float(np.mean(widths)) if widths else None,
        "found": (found / runs).round(3).tolist(),
        "trials": runs,
    }


def chance(cell: Cell, runs: int) -> dict[str, Any]:
    """Return how often a column without effect is found, beside others that have one."""
    found = 0
    null = int(np.flatnonzero(cell.effects == 0)[0])
    for run in range(runs):
        model = fitted(followed(cell, np.random.default_rng([run, cell.n_records, 7])), cell, run)
        found += int(model.p_values_[null] <= 0.05)
    return {
        "cell": str(cell),
        "share": found / runs,
        "p_value": float(binom.sf(found - 1, runs, 0.05)),
        "trials": runs,
    }


def pooled(data: dict[str, Vector], names: list[str]) -> tuple[Vector, Vector] | None:
    """Return coefficients and standard errors of lifelines, follow-up ending at the end of the range."""
    try:
        import pandas as pd
        from lifelines import CoxPHFitter
    except ImportError:
        return None
    frame = pd.DataFrame({name: data[name] for name in names})
    frame["time"], frame["event"] = np.minimum(data["time"], 1.0), data["event"] * (data["time"] < 1)
    model = CoxPHFitter().fit(frame, "time", "event")
    return np.array(model.params_), np.array(model.standard_errors_)


def size_cell(cell: Cell, runs: int) -> dict[str, Any] | None:
    """Return the root mean square difference to lifelines, in its standard errors, and how often nothing is known."""
    differences, is_open, widths = [], 0, []
    for run in range(runs):
        data = followed(cell, np.random.default_rng([run, 3]))
        exact = pooled(data, cell.names)
        if exact is None:
            return None
        model = fitted(data, cell, run)
        differences.append((model.coef_ - exact[0]) / exact[1])
        is_open += not np.isfinite(model.standard_errors_).all()
        if np.isfinite(model.standard_errors_).all():
            widths.append(np.mean(model.standard_errors_ / exact[1]))
    return {
        "cell": str(cell),
        "runs": runs,
        "difference / SE": float(np.sqrt(np.mean(np.square(differences)))),
        "open": is_open / runs,
        "SE / SE": float(np.mean(widths)) if widths else None,
    }


def gbsg2(epsilon: float, runs: int) -> dict[str, Any] | None:
    """Return the same on real patients: age, tumour size, positive nodes, grade and hormone therapy, three sites."""
    try:
        from lifelines.datasets import load_gbsg2
    except ImportError:
        return None
    patients = load_gbsg2()
    data = {name: patients[name].to_numpy(dtype=float) for name in ("age", "tsize")}
    data["nodes"] = np.log1p(patients["pnodes"].to_numpy(dtype=float))
    data["hormones"] = (patients["horTh"] == "yes").to_numpy(dtype=float)
    data["time"], data["event"] = patients["time"].to_numpy(dtype=float) / 2700, patients["cens"].to_numpy(dtype=float)
    names = ["age", "tsize", "nodes", "hormones"]
    columns = {
        "survival": {"time": "time", "event": "event", "range": [0, 1]},
        "age": (20, 90),
        "tsize": (0, 100),
        "nodes": (0, 4),
        "hormones": {"levels": [0, 1]},
    }
    exact = pooled(data, names)
    if exact is None:
        return None
    cell = Cell(len(patients), 4, epsilon, 3)
    models = [fitted(data, cell, run, columns) for run in range(runs)]
    differences = [(model.coef_ - exact[0]) / exact[1] for model in models]
    return {
        "cell": f"gbsg2, {len(patients)} patients, eps {epsilon:g}",
        "runs": runs,
        "difference / SE": float(np.sqrt(np.mean(np.square(differences)))),
        "open": float(np.mean([not np.isfinite(model.standard_errors_).all() for model in models])),
    }


GRID = [
    Cell(1000, 1, 3.0),
    Cell(2000, 2, 1.0),
    Cell(4000, 2, 1.0, 4, "falling"),
    Cell(4000, 5, 3.0, 4, "rising"),
    Cell(4000, 5, 3.0, 1, "constant", 2.0),
    Cell(8000, 5, 1.0, 3, "rising"),
    Cell(10_000, 5, 1.0, 1, "frequent"),
    Cell(20_000, 10, 1.0, 1, "constant"),
    Cell(10_000, 2, 3.0, 1, "rare"),
    Cell(20_000, 5, 1.0, 1, "falling", 2.0),
    Cell(20_000, 2, 1.0, 1, "at visits", 2.0),
    Cell(50_000, 5, 1.0, 1, "falling", 2.0),
    Cell(50_000, 2, 1.0, 1, "steep", 2.0),
    Cell(50_000, 5, 3.0, 1, "frequent", 2.0),
    Cell(200_000, 5, 1.0, 1, "falling", 2.0),
]


def main() -> None:
    """Run the parts that are asked for and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--only", nargs="*", default=["size", "coverage", "chance", "gbsg2"])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("cox.json"))
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
    if "size" in given.only and size_cell(Cell(200, 1, 10.0), 1) is not None:
        sizes = [(2000, 2, 1.0), (5000, 2, 1.0), (5000, 5, 1.0), (2000, 5, 3.0), (20_000, 5, 1.0), (20_000, 5, 3.0)]
        sizes += [(20_000, 10, 1.0), (100_000, 5, 1.0), (20_000, 2, 1.0)]
        # Differences with ten columns vary most from data set to data set.
        runs = max(given.runs // 5, 6)
        found["size"] = [size_cell(Cell(n, p, e, 4), runs * (3 if p == 10 else 1)) for n, p, e in sizes]
    if "coverage" in given.only:
        # Cells with many records take long, and are repeated less.
        found["coverage"] = [coverage(cell, given.runs // (4 if cell.n_records > 50_000 else 1)) for cell in GRID]
        limit = FAMILY / len(GRID)
        found["refuted"] = [entry["cell"] for entry in found["coverage"] if entry["p_value"] < limit]
    if "chance" in given.only:
        cells = [Cell(4000, 5, 3.0), Cell(8000, 5, 1.0), Cell(2000, 1, 1.0, 1, "rising", 0.0)]
        found["chance"] = [chance(cell, given.runs) for cell in cells]
    if "gbsg2" in given.only and gbsg2(1.0, 1) is not None:
        found["gbsg2"] = [gbsg2(epsilon, max(given.runs // 10, 6)) for epsilon in (1.0, 3.0, 10.0)]
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for part in given.only:
        for entry in found.get(part, []):
            print({name: round(value, 4) if isinstance(value, float) else value for name, value in entry.items()})
    print("refuted:", found.get("refuted"))


if __name__ == "__main__":
    main()
