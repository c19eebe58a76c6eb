"""How exact survival curves are, how often intervals cover, and what the log-rank test finds and does not find.

Run: python experiments/everyday/survival.py [--runs 300] [--only size coverage test gbsg2]

``survival.json`` in this folder has the figures of docs/analyses/survival.md. The part "gbsg2" needs lifelines, whose
data it reads (pip install lifelines==0.30.3 in an environment of its own); without it the part is left out.
``tests/inference/test_survival.py`` runs a few cells with fewer repetitions.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dpcape import Cape, Federation, Independent, KaplanMeier, LogRank, Replay, in_process, table
from dpcape.core.errors import DpcapeWarning

Vector = NDArray[np.float64]
DELTA = 1e-5
FAMILY = 0.01
"""Probability with which all true intervals and tests of a grid together have one cell that is called false."""

COLUMNS: dict[str, Any] = {
    "survival": {"time": "time", "event": "event", "range": [0, 1]},
    "arm": {"levels": [0, 1]},
}
TIMES = (0.125, 0.25, 0.5, 0.75, 1.0)
EVENTS: dict[str, tuple[Callable[[np.random.Generator, int], Vector], Callable[[float], float]]] = {
    "constant": (lambda rng, n: rng.exponential(1 / 0.9, n), lambda t: math.exp(-0.9 * t)),
    "late": (lambda rng, n: 1.2 * rng.weibull(2.0, n), lambda t: math.exp(-((t / 1.2) ** 2))),
    "early": (lambda rng, n: 0.8 * rng.weibull(0.5, n), lambda t: math.exp(-math.sqrt(t / 0.8))),
    "rare": (lambda rng, n: rng.exponential(20.0, n), lambda t: math.exp(-t / 20)),
    "two times": (
        lambda rng, n: rng.choice([0.31, 0.62, 5.0], n, p=[0.4, 0.3, 0.3]),
        lambda t: 1.0 if t < 0.31 else 0.6 if t < 0.62 else 0.3,
    ),
}
ENDS: dict[str, Callable[[np.random.Generator, int], Vector]] = {
    "uniform": lambda rng, n: rng.uniform(0.2, 2.0, n),
    "constant": lambda rng, n: rng.exponential(1.5, n),
    "at two times": lambda rng, n: rng.choice([0.53, 1.7], n),
    "none": lambda rng, n: np.full(n, 9.0),
}


@dataclass(frozen=True)
class Cell:
    """One setting: records, epsilon, sites, hazard and how follow-up ends."""

    n_records: int
    epsilon: float
    n_sites: int = 1
    events: str = "constant"
    ends: str = "uniform"

    def __str__(self) -> str:
        return (
            f"N{self.n_records}, eps {self.epsilon:g}, {self.n_sites} sites, "
            f"events {self.events}, follow-up ends {self.ends}"
        )


def federation_of(data: dict[str, Vector], cell: Cell, seed: int, columns: dict[str, Any] | None = None) -> Federation:
    """Return sites with noise that can be repeated."""
    parts = np.array_split(np.arange(cell.n_records), cell.n_sites)
    held = {
        f"site-{at}": table({name: values[part] for name, values in data.items()}, columns=columns or COLUMNS)
        for at, part in enumerate(parts)
    }
    protocol = Independent() if cell.n_sites == 1 else Cape(n_colluding=1)
    return Federation(in_process(held, noise=Replay(seed)), protocol=protocol)


def followed(cell: Cell, rng: np.random.Generator) -> dict[str, Vector]:
    """Return times to an event; arms do not differ."""
    event, end = EVENTS[cell.events][0](rng, cell.n_records), ENDS[cell.ends](rng, cell.n_records)
    arm = rng.integers(0, 2, cell.n_records).astype(float)
    return {"time": np.minimum(event, end), "event": (event <= end).astype(float), "arm": arm}


def fitted(data: dict[str, Vector], cell: Cell, seed: int, **options: Any) -> KaplanMeier:
    """Return the curves of both arms."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = KaplanMeier(epsilon=cell.epsilon, delta=DELTA, by="arm", **options)
        return model.fit(federation_of(data, cell, seed))


def coverage(cell: Cell, runs: int) -> list[dict[str, Any]]:
    """Return how often intervals contain the truth and how wide they are: of all records, at five times."""
    truth = EVENTS[cell.events][1]
    hits, widths = np.zeros(len(TIMES)), np.zeros(len(TIMES))
    at_median, median_width = 0, 0.0
    median = next((t for t in np.linspace(0, 1, 100_001) if truth(t) <= 0.5), math.inf)
    for run in range(runs):
        model = fitted(followed(cell, np.random.default_rng([run, cell.n_records])), cell, run)
        for at, time in enumerate(TIMES):
            _, (low, high) = model.at(time)
            hits[at] += low - 1e-9 <= truth(time) <= high + 1e-9
            widths[at] += (high - low) / runs
        # A median that is not reached is known to be later than the last time.
        median_width += float(np.diff(np.minimum(model.median_interval_[:, 0], 1.0))[0])
        at_median += int(model.median_interval_[0, 0] <= median + 1e-9 <= model.median_interval_[1, 0] + 2e-9)
    found = [(f"at {time:g}", hit, width) for time, hit, width in zip(TIMES, hits, widths, strict=True)]
    return [
        {
            "cell": f"{name}: {cell}",
            "share": hit / runs,
            "p_value": float(binom.cdf(hit, runs, 0.95)),
            "width": width,
            "trials": runs,
        }
        for name, hit, width in (*found, ("median", at_median, median_width / runs))
    ]


def size_cell(cell: Cell, runs: int) -> dict[str, Any]:
    """Return the mean largest error against the curve without noise, of all and of one arm, at eight times."""
    errors = {"all": 0.0, "one arm": 0.0}
    width = 0.0
    times = np.arange(1, 9) / 8
    for run in range(runs):
        data = followed(cell, np.random.default_rng([run, 3]))
        model = fitted(data, cell, run)
        for name, group, chosen in (("all", "all", data["arm"] > -1), ("one arm", "1", data["arm"] == 1)):
            exact = product_limit(data["time"][chosen], data["event"][chosen], times)
            found = np.array([model.at(time, group=group)[0] for time in times])
            errors[name] += float(np.abs(found - exact).max()) / runs
        width += float(np.mean([np.diff(model.at(time, group="1")[1])[0] for time in times])) / runs
    return {"cell": str(cell), "runs": runs, **errors, "width of one arm": width}


def product_limit(time: Vector, event: Vector, at: Vector) -> Vector:
    """Return the Kaplan-Meier estimate of pooled records."""
    order, died = np.unique(time[event == 1], return_counts=True)
    at_risk = len(time) - np.searchsorted(np.sort(time), order, side="left")
    curve = np.append(1.0, np.cumprod(1 - died / at_risk))
    return np.asarray(curve[np.searchsorted(order, at, side="right")])


def differences(cell: Cell, runs: int, *, ratio: float = 1.0, unequal: bool = False) -> dict[str, Any]:
    """Return how often the log-rank test finds a difference; ``unequal`` follow-up ends earlier in one arm."""
    found = 0
    for run in range(runs):
        rng = np.random.default_rng([run, cell.n_records, 11])
        arm = rng.integers(0, 2, cell.n_records)
        event = rng.exponential(1 / (0.9 * np.where(arm == 1, ratio, 1.0)))
        end = np.where(
            (arm == 1) & unequal, rng.uniform(0.05, 1.0, cell.n_records), rng.uniform(0.2, 2, cell.n_records)
        )
        data = {"time": np.minimum(event, end), "event": (event <= end).astype(float), "arm": arm.astype(float)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DpcapeWarning)
            model = LogRank(by="arm", epsilon=cell.epsilon, delta=DELTA).fit(federation_of(data, cell, run))
        found += model.p_values_ <= 0.05
    kind = f"hazard ratio {ratio:g}" + (", follow-up ends earlier in one arm" if unequal else "")
    about = {"cell": f"N{cell.n_records}, eps {cell.epsilon:g}, {cell.n_sites} sites, {kind}"}
    level = {"p_value": float(binom.sf(found - 1, runs, 0.05))} if ratio == 1 else {}
    return {**about, "share": found / runs, **level, "trials": runs}


def gbsg2(epsilon: float, runs: int, *, horizon: float = 1825.0) -> dict[str, Any] | None:
    """Return the mean largest error on real patients at three sites under CAPE, eight bins over five years."""
    try:
        from lifelines.datasets import load_gbsg2
    except ImportError:
        return None
    patients = load_gbsg2()
    time, event = (patients[name].to_numpy(dtype=float) for name in ("time", "cens"))
    columns = {"survival": {"time": "time", "event": "event", "range": [0, 2700]}}
    exact = product_limit(time, event, horizon * np.arange(9) / 8)
    errors, cell = [], Cell(len(time), epsilon, 3)
    for run in range(runs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DpcapeWarning)
            model = KaplanMeier(epsilon=epsilon, delta=DELTA, bins=8, horizon=horizon)
            model.fit(federation_of({"time": time, "event": event}, cell, run, columns))
        errors.append(float(np.abs(model.survival_[:, 0] - exact).max()))
    return {
        "cell": f"gbsg2, {len(time)} patients, eps {epsilon:g}",
        "runs": runs,
        "largest error": float(np.mean(errors)),
    }


GRID = [
    Cell(300, 1.0),
    *(Cell(700, 1.0, 1, events, ends) for events in EVENTS for ends in ("constant", "at two times")),
    *(Cell(3000, 0.3, 1, events, "uniform") for events in EVENTS),
    Cell(3000, 3.0, 4, "late", "none"),
    Cell(50_000, 1.0, 4, "constant", "constant"),
    Cell(50_000, 1.0, 1, "early", "at two times"),
]


def main() -> None:
    """Run the parts that are asked for and write their figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--only", nargs="*", default=["size", "coverage", "test", "gbsg2"])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("survival.json"))
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
    if "size" in given.only:
        grid = [Cell(n, epsilon) for n in (300, 700, 3000, 20_000) for epsilon in (1.0, 3.0)]
        found["size"] = [size_cell(cell, given.runs // 2) for cell in grid]
    if "coverage" in given.only:
        found["coverage"] = [entry for cell in GRID for entry in coverage(cell, given.runs)]
        limit = FAMILY / len(found["coverage"])
        found["refuted"] = [entry["cell"] for entry in found["coverage"] if entry["p_value"] < limit]
    if "test" in given.only:
        sizes = [Cell(700, 1.0), Cell(700, 3.0), Cell(3000, 1.0, 4)]
        found["test"] = [differences(cell, given.runs, unequal=unequal) for cell in sizes for unequal in (False, True)]
        found["test"] += [differences(cell, given.runs, ratio=0.75) for cell in sizes]
    if "gbsg2" in given.only and gbsg2(1.0, 1) is not None:
        found["gbsg2"] = [gbsg2(epsilon, given.runs) for epsilon in (1.0, 3.0)]
    given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for part in given.only:
        for entry in found.get(part, []):
            print({name: round(value, 4) if isinstance(value, float) else value for name, value in entry.items()})
    print("refuted:", found.get("refuted"))


if __name__ == "__main__":
    main()
