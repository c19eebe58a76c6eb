"""Private scaling for inference on ABIDE, with ranges chosen without a look at the records.

Run: python -m experiments.intervals.abide [--data FOLDER] [--runs 60]

Full-scale IQ from phenotypes by regression, and the first canonical correlation of two sets of phenotypes; missing
values are medians, so that all 833 people count, or people with missing values are left out (642). ``abide.json`` has
the figures of docs/analyses/intervals_regression.md and cca.md. The file abide_phenotypes.csv is that of the
Preprocessed Connectomes Project.
"""

from __future__ import annotations

import argparse
import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcape import CCA, Federation, Independent, LinearRegression, Replay, in_process, labelled, views
from dpcape.core.errors import UtilityWarning
from dpcape.metrics import explained_share

Vector = NDArray[np.float64]
FILE = Path(__file__).with_name("abide.json")
# Any phenotype but IQ, whose range is a setting.
RANGES = {"AGE_AT_SCAN": (0, 100), "SEX": (1, 2), "DX_GROUP": (1, 2), "func_mean_fd": (0, 5)}
MODELS = (
    ("DX_GROUP", "VIQ", "PIQ"),
    ("AGE_AT_SCAN", "SEX", "DX_GROUP", "VIQ", "PIQ"),
    ("AGE_AT_SCAN", "SEX", "DX_GROUP", "VIQ", "PIQ", "func_mean_fd"),
)
FIRST_SEED = 9_000


def columns(path: Path, names: tuple[str, ...], *, filled: bool) -> dict[str, Vector]:
    """Return columns, with medians for missing values or without the people who have any."""
    with path.open(newline="") as file:
        people = list(csv.DictReader(file))
    found = {name: np.array([float(one[name] or "nan") for one in people]) for name in names}
    known = ~np.any([np.isnan(values) for values in found.values()], axis=0)
    if not filled:
        return {name: values[known] for name, values in found.items()}
    return {name: np.where(np.isnan(values), np.nanmedian(values), values) for name, values in found.items()}


def ranges_of(names: tuple[str, ...], most: float) -> list[tuple[float, float]]:
    """Return public ranges; scores of intelligence go from 0 to ``most``."""
    return [RANGES.get(name, (0.0, most)) for name in names]


def prepared(values: Vector, ranges: list[tuple[float, float]]) -> Vector:
    """Return columns as the sites prepare them."""
    low, high = np.array(ranges, dtype=float).T
    return np.asarray((values - (low + high) / 2) / ((high - low) / 2))


def stacked(found: dict[str, Vector], names: tuple[str, ...]) -> Vector:
    """Return columns side by side."""
    return np.column_stack([found[name] for name in names])


def regression(path: Path, names: tuple[str, ...], most: float, delta: float, n_runs: int) -> dict[str, Any]:
    """Return medians of R squared of the coefficients with intervals, of predictions, and without privacy."""
    found = columns(path, (*names, "FIQ"), filled=True)
    x, y, ranges = stacked(found, names), found["FIQ"], ranges_of(names, most)
    records = {"all": labelled(x, y, ranges=ranges, response=(0.0, most))}
    rows = prepared(x, ranges)
    design = np.column_stack([np.ones(len(rows)), rows])
    ways: dict[str, dict[str, Any]] = {
        "inference": {},
        "inference, scaled": {"scale": "private"},
        "prediction, scaled": {"scale": "private", "purpose": "prediction"},
    }
    row: dict[str, Any] = {"columns": len(names), "people": len(y), "IQ to": most, "delta": delta}
    for way, options in ways.items():
        kept, predicted = [], []
        for seed in range(FIRST_SEED, FIRST_SEED + n_runs):
            sites = Federation(in_process(records, noise=Replay(seed)), protocol=Independent(), accept_large_delta=True)
            model = LinearRegression(epsilon=1.0, delta=delta, **options).fit(sites)
            kept.append(explained_share(y, rows @ model.coef_ + model.intercept_))
            predicted.append(model.score(rows, y))
        row[way] = {"coef_": round(float(np.median(kept)), 2), "predict": round(float(np.median(predicted)), 2)}
    best = design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return {**row, "no privacy": round(explained_share(y, best), 3)}


def correlation(path: Path, most: float, delta: float, n_runs: int, *, filled: bool) -> dict[str, Any]:
    """Return the mean share of the first canonical correlation that the found pair has."""
    first, second = ("AGE_AT_SCAN", "FIQ", "SEX"), ("VIQ", "PIQ")
    found = columns(path, (*first, *second), filled=filled)
    x, y = stacked(found, first), stacked(found, second)
    ranges = ranges_of(first, most), ranges_of(second, most)
    records = {"all": views(x, y, ranges=ranges)}
    one, other = prepared(x, ranges[0]), prepared(y, ranges[1])
    left, right = (np.linalg.qr(part - part.mean(axis=0))[0] for part in (one, other))
    best = float(np.linalg.svd(left.T @ right, compute_uv=False)[0])
    row: dict[str, Any] = {"people": len(x), "IQ to": most, "delta": delta}
    for way, options in {"centred": {"center": True}, "scaled": {"scale": "private"}}.items():
        shares = []
        for seed in range(FIRST_SEED, FIRST_SEED + n_runs):
            sites = Federation(in_process(records, noise=Replay(seed)), protocol=Independent(), accept_large_delta=True)
            model = CCA(n_components=1, epsilon=1.0, delta=delta, **options).fit(sites)
            pair = np.corrcoef(one @ model.x_weights_[:, 0], other @ model.y_weights_[:, 0])
            shares.append(abs(float(pair[0, 1])) / best)
        row[way] = round(float(np.mean(shares)), 2)
    return {**row, "no privacy": round(best, 3)}


def main() -> None:
    """Measure everything, print it and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=Path(__file__).resolve().parents[3] / "shared" / "data")
    parser.add_argument("--runs", type=int, default=60)
    given = parser.parse_args()
    path = given.data / "abide_phenotypes.csv"
    warnings.simplefilter("ignore", UtilityWarning)
    results: dict[str, list[dict[str, Any]]] = {"correlation": [], "regression": []}
    for delta in (1e-3, 1e-5):
        for most in (200.0, 300.0):
            for filled in (False, True):
                results["correlation"].append(correlation(path, most, delta, given.runs, filled=filled))
                print(results["correlation"][-1], flush=True)
        for most in (200.0, 250.0):
            for names in MODELS:
                results["regression"].append(regression(path, names, most, delta, given.runs))
                print(results["regression"][-1], flush=True)
    FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
