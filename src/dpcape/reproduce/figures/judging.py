"""From rows to outcomes: how often one curve is above another, beyond what runs differ by chance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from dpcape.reproduce.experiment import Outcome
from dpcape.reproduce.results import Results


@dataclass(frozen=True)
class Curve:
    """One curve of a figure."""

    name: str
    calibration: str


@dataclass(frozen=True)
class Tally:
    """At how many points a statement is true, undecided and false."""

    better: int = 0
    equal: int = 0
    worse: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.better + other.better, self.equal + other.equal, self.worse + other.worse)

    @property
    def n(self) -> int:
        """Number of points."""
        return self.better + self.equal + self.worse

    @property
    def outcome(self) -> Outcome:
        """Holds: nowhere false and somewhere true. Fails: not more often true than false."""
        if self.better <= self.worse:
            return "fails"
        return "holds" if self.worse == 0 else "holds under conditions"

    def __str__(self) -> str:
        return f"better at {self.better}, level at {self.equal}, worse at {self.worse} of {self.n} points"


def by_point(rows: Results, curve: Curve, column: str = "x") -> dict[float, dict[int, float]]:
    """Return the values of a curve: point -> run -> value."""
    found: dict[float, dict[int, float]] = {}
    for r in rows.where(curve=curve.name, calibration=curve.calibration):
        found.setdefault(float(r[column]), {})[int(r["run"])] = float(r["value"])  # type: ignore[arg-type]  # numbers
    return found


def compare_curves(
    rows: Results, left: Curve, right: Curve, *, tolerance: float = 0.01, smaller: bool = False
) -> Tally:
    """Count where ``left`` is better than ``right`` (larger, or smaller if ``smaller``) among rows of one measure.

    A point counts only if the mean difference over the runs is significant (Student's t, two-sided, 5 %) and exceeds
    ``tolerance`` of the right-hand value.
    """
    tally = Tally()
    for panel in rows.values("panel"):
        inside = rows.where(panel=panel)
        first, second = by_point(inside, left), by_point(inside, right)
        for point in sorted(first.keys() & second.keys()):
            tally += _verdict(first[point], second[point], tolerance, -1.0 if smaller else 1.0)
    return tally


def _verdict(left: dict[int, float], right: dict[int, float], tolerance: float, sign: float) -> Tally:
    runs = sorted(left.keys() & right.keys())
    difference = sign * (np.array([left[run] for run in runs]) - np.array([right[run] for run in runs]))
    mean = float(difference.mean())
    least = max(_chance(difference), tolerance * abs(float(np.mean([right[run] for run in runs]))))
    return Tally(better=int(mean > least), equal=int(abs(mean) <= least), worse=int(mean < -least))


def _chance(differences: NDArray[np.float64]) -> float:
    """Return how far a mean of so many differences strays by chance; one run alone cannot tell."""
    if differences.size < 2:
        return 0.0
    error = float(differences.std(ddof=1)) / math.sqrt(differences.size)
    return float(student.ppf(0.975, differences.size - 1)) * error


def trend(rows: Results, curve: Curve, *, tolerance: float = 0.01, smaller: bool = False) -> Tally:
    """Count the steps along x at which a curve gets better, stays level or gets worse, over all panels."""
    tally = Tally()
    for panel in rows.values("panel"):
        points = by_point(rows.where(panel=panel), curve)
        steps = sorted(points)
        for before, after in pairwise(steps):
            tally += _verdict(points[after], points[before], tolerance, -1.0 if smaller else 1.0)
    return tally


def ratios(rows: Results, left: Curve, right: Curve) -> dict[str, dict[float, float]]:
    """Return mean(left) / mean(right) for every panel and point."""
    found: dict[str, dict[float, float]] = {}
    for panel in rows.values("panel"):
        inside = rows.where(panel=panel)
        first, second = by_point(inside, left), by_point(inside, right)
        found[str(panel)] = {
            point: float(np.mean(list(first[point].values())) / np.mean(list(second[point].values())))
            for point in sorted(first.keys() & second.keys())
        }
    return found


def all_or_some(flags: Sequence[bool]) -> Outcome:
    """Holds if all are true, fails if none is."""
    if not flags or not any(flags):
        return "fails"
    return "holds" if all(flags) else "holds under conditions"


def listed(values: Iterable[float]) -> str:
    """Return numbers with three digits, separated by commas."""
    return ", ".join(format(value, ".3g") for value in values)
