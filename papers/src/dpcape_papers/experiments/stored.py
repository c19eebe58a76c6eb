"""Stored results: mean, spread and number of runs of the figures as their authors ran them, at the papers' sizes.

They are our own numbers, in small files of this package, so that nobody has to run for hours to see them. A fresh run
is compared with them by ``dpcape reproduce --compare``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpcape_papers.experiments.replica import REPLICA
from dpcape_papers.experiments.results import VERIFIED, Row, number

FOLDER = Path(__file__).parents[1] / "stored"


class StoredPoint(NamedTuple):
    """One point: its mean, standard deviation and number of runs."""

    panel: str
    curve: str
    measure: str
    x: str
    mean: float
    spread: float
    n_runs: int
    calibration: str = REPLICA

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        """What two runs of the same point share."""
        return self.panel, self.curve, self.measure, self.x, self.calibration


@dataclass(frozen=True)
class Recheck:
    """How many points of a fresh run agree with the stored ones."""

    name: str
    n_points: int
    n_agreeing: int

    def __str__(self) -> str:
        return f"{self.name}: {self.n_agreeing} of {self.n_points} points agree with the stored run"


def points_of(rows: Iterable[Row]) -> list[StoredPoint]:
    """Return the points of the rows that repeat what the authors ran, with their noise or with verified noise."""
    values: dict[tuple[str, str, str, str, str], list[float]] = {}
    for r in rows:
        kind = str(r["calibration"])
        if kind == REPLICA or (kind == VERIFIED and r.get("original")):
            key = (str(r["panel"]), str(r["curve"]), str(r["measure"]), f"{number(r, 'x'):.5g}", kind)
            values.setdefault(key, []).append(number(r, "value"))
    return [
        StoredPoint(panel, curve, measure, x, float(f"{np.mean(found):.6g}"), _spread(found), len(found), kind)
        for (panel, curve, measure, x, kind), found in values.items()
    ]


def _spread(values: list[float]) -> float:
    return float(f"{np.std(values, ddof=1):.3g}") if len(values) > 1 else 0.0


def store(name: str, rows: Iterable[Row], folder: Path = FOLDER) -> Path:
    """Write the points of a figure, and return the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(StoredPoint._fields)
        writer.writerows(points_of(rows))
    return path


def load(name: str, folder: Path = FOLDER) -> list[StoredPoint]:
    """Return the stored points of a figure; empty if there are none."""
    path = folder / f"{name}.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return [
            StoredPoint(
                panel=r["panel"],
                curve=r["curve"],
                measure=r["measure"],
                x=r["x"],
                mean=float(r["mean"]),
                spread=float(r["spread"]),
                n_runs=int(r["n_runs"]),
                # Files of figures without verified points lack the column.
                calibration=r.get("calibration") or REPLICA,
            )
            for r in csv.DictReader(file)
        ]


def recheck(name: str, rows: Iterable[Row], folder: Path = FOLDER) -> Recheck:
    """Compare a fresh run with the stored one at the points they share.

    A point agrees if the difference of the means is at most three times its standard error, taken from the larger
    spread; points that do not vary must be equal up to rounding.
    """
    fresh = {point.place: point for point in points_of(rows)}
    pairs = [(fresh[point.place], point) for point in load(name, folder) if point.place in fresh]
    return Recheck(name, len(pairs), sum(_agree(*pair) for pair in pairs))


def _agree(one: StoredPoint, two: StoredPoint) -> bool:
    margin = 3 * max(one.spread, two.spread) * math.sqrt(1 / one.n_runs + 1 / two.n_runs)
    return abs(one.mean - two.mean) <= max(margin, 1e-5 * abs(two.mean))
