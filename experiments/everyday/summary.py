"""How exact a summary (Table 1) is, how often its intervals cover, and from which size on it is useful.

Run: python experiments/everyday/summary.py [--runs 200] [--only encoding size coverage abide] [--data FOLDER]

``summary.json`` in this folder has the figures of docs/analyses/summary.md. The part "abide" needs the file
abide_phenotypes.csv of the Preprocessed Connectomes Project in FOLDER; without it the part is left out.
``tests/inference/test_summary.py`` runs a few cells with fewer repetitions.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, gamma, norm

from dpcape import Cape, Federation, Independent, Replay, Summary, in_process, table
from dpcape.core.errors import DpcapeWarning
from dpcape.core.facts import PublicColumn
from dpcape.statistics.cells import encoding

Vector = NDArray[np.float64]
DELTA = 1e-5
FAMILY = 0.01
"""Probability with which all true 95% intervals of the grid together have one cell that is called false."""

COLUMNS: Mapping[str, Any] = {
    "age": (5, 65),
    "years": (5, 65),
    "score": (40, 160),
    "dose": (0, 2),
    "stage": {"levels": [1, 2, 3]},
    "sex": {"levels": [0, 1]},
    "eyes": {"levels": [0, 1]},
    "hand": {"levels": [0, 1, 2]},
    "group": {"levels": [0, 1]},
}


def population(n_records: int, generator: np.random.Generator) -> dict[str, Vector]:
    """Return eight columns and a group: skewed, whole numbers, normal, almost all near zero; and categories."""
    age = 5 + gamma.rvs(1.8, scale=6.5, size=n_records, random_state=generator)
    found = {
        "age": age,
        "years": np.floor(5 + gamma.rvs(1.8, scale=6.5, size=n_records, random_state=generator)),
        "score": generator.normal(105, 15, n_records),
        "dose": generator.exponential(0.12, n_records),
        "stage": generator.choice([1.0, 2.0, 3.0], n_records, p=[0.7, 0.25, 0.05]),
        "sex": (generator.random(n_records) < 0.85).astype(float),
        "eyes": (generator.random(n_records) < 0.3).astype(float),
        "hand": generator.choice([0.0, 1.0, 2.0], n_records, p=[0.89, 0.1, 0.01]),
        "group": (generator.random(n_records) < 0.4).astype(float),
    }
    found["score"][generator.random(n_records) < 0.1] = math.nan
    return found


@cache
def truth() -> dict[tuple[str, str, str], float]:
    """Return the figures of the population."""
    clipped = {
        "age": lambda q: 5 + gamma.ppf(q, 1.8, scale=6.5),
        "years": lambda q: math.floor(5 + gamma.ppf(q, 1.8, scale=6.5)),
        "score": lambda q: norm.ppf(q, 105, 15),
        "dose": lambda q: -0.12 * math.log(1 - q),
    }
    found = {(name, "quantile", f"{q:g}"): float(of(q)) for name, of in clipped.items() for q in (0.25, 0.5, 0.75)}
    # Moments are of values moved into their range.
    levels = (np.arange(200_000) + 0.5) / 200_000
    values = {
        "age": 5 + gamma.ppf(levels, 1.8, scale=6.5),
        "years": np.floor(5 + gamma.ppf(levels, 1.8, scale=6.5)),
        "score": norm.ppf(levels, 105, 15),
        "dose": -0.12 * np.log1p(-levels),
    }
    for name, all_values in values.items():
        low, high = COLUMNS[name]
        inside = np.clip(all_values, low, high)
        found[name, "mean", ""], found[name, "sd", ""] = float(inside.mean()), float(inside.std())
    shares = {"stage": {"1": 0.7, "2": 0.25, "3": 0.05}, "sex": {"1": 0.85}, "hand": {"2": 0.01}}
    found |= {(name, "share", level): share for name, entry in shares.items() for level, share in entry.items()}
    return found


@dataclass(frozen=True)
class Cell:
    """One setting: records, epsilon, sites."""

    n_records: int
    epsilon: float
    n_sites: int = 1

    def __str__(self) -> str:
        return f"N{self.n_records}, eps {self.epsilon:g}, {self.n_sites} sites"


def fitted(data: Mapping[str, Vector], cell: Cell, seed: int, **options: Any) -> Summary:
    """Return a summary by group, with noise that can be repeated."""
    parts = np.array_split(np.arange(len(data["group"])), cell.n_sites)
    held = {
        f"site-{at}": table({name: values[part] for name, values in data.items()}, columns=COLUMNS)
        for at, part in enumerate(parts)
    }
    protocol = Independent() if cell.n_sites == 1 else Cape(n_colluding=1)
    federation = Federation(in_process(held, noise=Replay(seed)), protocol=protocol)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        return Summary(by=["group"], epsilon=cell.epsilon, delta=DELTA, **options).fit(federation)


def coverage(cell: Cell, runs: int) -> list[dict[str, Any]]:
    """Return, for every figure of one group, how often its interval contains the truth, and how wide it is."""
    known = truth()
    hits, widths, errors = (dict.fromkeys(known, 0.0) for _ in range(3))
    for run in range(runs):
        data = population(cell.n_records, np.random.default_rng([run, cell.n_records]))
        model = fitted(data, cell, run)
        for key, value in known.items():
            low, high = model.interval(*key, group="1")
            hits[key] += low - 1e-9 <= value <= high + 1e-9
            widths[key] += (high - low) / runs
            errors[key] += (model.figure(*key, group="1") - value) ** 2 / runs
    return [
        {
            "cell": f"{' '.join(part for part in key if part)}: {cell}",
            "share": hits[key] / runs,
            "p_value": float(binom.cdf(hits[key], runs, 0.95)),
            "width": widths[key],
            "rmse": math.sqrt(errors[key]),
            "trials": runs,
        }
        for key in known
    ]


def size_cells(cell: Cell, runs: int) -> dict[str, Any]:
    """Return errors against the same table without noise, for the group of 40%."""
    errors: dict[str, float] = {}
    for run in range(runs):
        data = population(cell.n_records, np.random.default_rng([run, 7]))
        model = fitted(data, cell, run)
        mine = {name: values[data["group"] == 1] for name, values in data.items()}
        wanted = {
            "count": (("", "records", ""), len(mine["age"])),
            "age median": (("age", "quantile", "0.5"), float(np.median(mine["age"]))),
            "age mean": (("age", "mean", ""), float(np.clip(mine["age"], 5, 65).mean())),
            "age sd": (("age", "sd", ""), float(np.clip(mine["age"], 5, 65).std())),
            "score median": (("score", "quantile", "0.5"), float(np.nanmedian(mine["score"]))),
            "sex share": (("sex", "share", "1"), float(mine["sex"].mean())),
        }
        for name, (key, value) in wanted.items():
            errors[name] = errors.get(name, 0.0) + (model.figure(*key, group="1") - value) ** 2 / runs
    return {"cell": str(cell), "runs": runs, **{name: math.sqrt(value) for name, value in errors.items()}}


def encoding_ratios() -> list[dict[str, float]]:
    """Return the largest standard deviation of a cumulative count, against a histogram of the same sensitivity."""
    found = []
    for bins in (16, 32, 64, 128):
        rows = encoding(PublicColumn("x", "number", 0.0, 1.0), bins)[:-1, :-1]
        own = _largest_spread(np.linalg.inv(rows @ rows.T))
        # A bin of a histogram is 1/sqrt(2) long, so that two bins are 1 apart.
        flat = _largest_spread(2 * np.eye(bins))
        found.append({"bins": bins, "own": own, "flat": flat, "ratio": own / flat})
    return found


def _largest_spread(covariance: Vector) -> float:
    """Return the largest standard deviation of a cumulative count, given the public total."""
    gain = covariance.sum(axis=1)
    given = covariance - np.outer(gain, gain) / gain.sum()
    summed = np.cumsum(np.cumsum(given, axis=0), axis=1)
    return math.sqrt(float(np.diagonal(summed).max()))


ABIDE = {
    "AGE_AT_SCAN": (5, 65),
    "SEX": {"levels": [1, 2]},
    "HANDEDNESS_CATEGORY": ["R", "L", "Ambi"],
    "FIQ": (40, 160),
    "VIQ": (40, 160),
    "PIQ": (40, 160),
    "EYE_STATUS_AT_SCAN": {"levels": [1, 2]},
    "func_mean_fd": (0, 2),
    "DX_GROUP": {"levels": [1, 2]},
}


def abide(path: Path, epsilon: float, runs: int) -> dict[str, Any]:
    """Return errors by diagnosis on real phenotypes of 15 sites under CAPE, one colluding."""
    with path.open(encoding="utf-8") as stream:
        people = list(csv.DictReader(stream))
    sites = np.array([person["SITE_ID"] for person in people])
    data = {name: _column(people, name, spec) for name, spec in ABIDE.items()}
    groups = data["DX_GROUP"]
    held = {
        str(site): table({name: values[sites == site] for name, values in data.items()}, columns=ABIDE)
        for site in sorted(set(sites))
    }
    errors: dict[str, float] = {}
    for run in range(runs):
        federation = Federation(in_process(held, noise=Replay(run)), protocol=Cape(n_colluding=1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DpcapeWarning)
            model = Summary(by=["DX_GROUP"], epsilon=epsilon, delta=DELTA).fit(federation)
        for group in (1, 2):
            age, iq = (data[name][groups == group] for name in ("AGE_AT_SCAN", "FIQ"))
            wanted = {
                "count": (("", "records", ""), len(age)),
                "age median": (("AGE_AT_SCAN", "quantile", "0.5"), float(np.median(age))),
                "age mean": (("AGE_AT_SCAN", "mean", ""), float(age.mean())),
                "FIQ median": (("FIQ", "quantile", "0.5"), float(np.nanmedian(iq))),
            }
            for name, (key, value) in wanted.items():
                errors[name] = errors.get(name, 0.0) + (model.figure(*key, group=str(group)) - value) ** 2 / (2 * runs)
    return {
        "cell": f"ABIDE, {len(people)} people, eps {epsilon:g}",
        "runs": runs,
        **{name: math.sqrt(value) for name, value in errors.items()},
    }


def _column(people: list[dict[str, str]], name: str, spec: object) -> Any:
    """Return a column; -9999 and empty cells are missing."""
    if isinstance(spec, list):
        return np.array([person[name] or None for person in people], dtype=object)
    numbers = np.array([float(person[name] or "nan") for person in people])
    return np.where(numbers < -9000, math.nan, numbers)


def main() -> None:
    """Run the parts that are asked for and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--only", nargs="*", default=["encoding", "size", "coverage", "abide"])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("DPCAPE_DATA", ".")))
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("summary.json"))
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
    if "encoding" in given.only:
        found["encoding"] = encoding_ratios()
    if "size" in given.only:
        grid = [Cell(n, epsilon) for n in (800, 3000, 20_000) for epsilon in (1.0, 3.0)]
        found["size"] = [size_cells(cell, given.runs) for cell in grid]
    if "coverage" in given.only:
        cells = [Cell(800, 3.0), Cell(800, 1.0), Cell(5000, 1.0, 4), Cell(50_000, 1.0), Cell(100_000, 3.0, 4)]
        found["coverage"] = [entry for cell in cells for entry in coverage(cell, given.runs)]
        limit = FAMILY / len(found["coverage"])
        found["refuted"] = [entry["cell"] for entry in found["coverage"] if entry["p_value"] < limit]
    if "abide" in given.only and (given.data / "abide_phenotypes.csv").exists():
        found["abide"] = [abide(given.data / "abide_phenotypes.csv", epsilon, given.runs) for epsilon in (1.0, 3.0)]
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for part in given.only:
        for entry in found.get(part, []):
            print({name: round(value, 4) if isinstance(value, float) else value for name, value in entry.items()})
    print("refuted:", found.get("refuted"))


if __name__ == "__main__":
    main()
