"""Comparison of two curves, or of two points of one curve, run by run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import t as student

from dpcape.core.arrays import FloatArray
from dpcape_papers.experiments.results import Results, number
from dpcape_papers.verdicts.outcomes import Tally

TOLERANCE, SIGNIFICANCE = 0.01, 0.05
Runs = Mapping[int, float]


@dataclass(frozen=True)
class Curve:
    """The name and calibration of a curve."""

    name: str
    calibration: str

    def of(self, rows: Results) -> Results:
        """Return the rows of this curve."""
        return rows.where(curve=self.name, calibration=self.calibration)


@dataclass(frozen=True)
class Yardstick:
    """Which values of a measure are better, and which differences count.

    Parameters
    ----------
    better : {'larger', 'smaller'}
        Which values are better.
    log : bool
        Whether logarithms are compared; values must then be positive.
    tolerance : float
        Relative difference up to which two means count as equal, however little the runs vary.
    exact : bool
        Whether the values are computed and not measured, so that a single run decides. A single measured run does not.
    """

    better: Literal["larger", "smaller"]
    log: bool = False
    tolerance: float = TOLERANCE
    exact: bool = False

    def compare(self, first: Runs, second: Runs) -> Tally:
        """Return the tally of one point: whether the first is better, over the runs they share; empty for one run."""
        runs = sorted(first.keys() & second.keys())
        if not runs or (len(runs) == 1 and not self.exact):
            return Tally()
        one, two = (np.array([values[run] for run in runs], dtype=np.float64) for values in (first, second))
        lost = bool(np.isnan(one).any()), bool(np.isnan(two).any())
        if any(lost):
            # NaN means that a method failed. It counts as worse; leaving the point out would favour the method.
            return Tally(better=int(lost == (False, True)), worse=int(lost == (True, False)))
        sign = 1.0 if self.better == "larger" else -1.0
        change = sign * (np.log(one) - np.log(two) if self.log else one - two)
        least = math.log1p(self.tolerance) if self.log else self.tolerance * abs(float(two.mean()))
        mean, least = float(change.mean()), max(least, _chance(change))
        return Tally(int(mean > least), int(abs(mean) <= least), int(mean < -least), self._ratio(one, two, sign))

    def _ratio(self, one: FloatArray, two: FloatArray, sign: float) -> tuple[float, ...]:
        if self.log:
            return (math.exp(sign * float(np.mean(np.log(one) - np.log(two)))),)
        means = float(one.mean()), float(two.mean())
        return ((means[0] / means[1]) ** sign,) if min(means) > 0 else ()


def _chance(change: FloatArray) -> float:
    """Return the half-width of the confidence interval of the mean difference; 0 for a single run."""
    if change.size < 2:
        return 0.0
    error = float(change.std(ddof=1)) / math.sqrt(change.size)
    return float(student.isf(SIGNIFICANCE / 2, change.size - 1)) * error


def by_point(rows: Results, curve: Curve) -> dict[str, dict[float, dict[int, float]]]:
    """Return the values of a curve as panel -> x (ascending) -> run -> value."""
    found: dict[str, dict[float, dict[int, float]]] = {}
    for row in curve.of(rows):
        points = found.setdefault(str(row["panel"]), {})
        points.setdefault(number(row, "x"), {})[int(number(row, "run"))] = number(row, "value")
    return {panel: dict(sorted(points.items())) for panel, points in found.items()}


def compare_curves(rows: Results, first: Curve, second: Curve, yardstick: Yardstick) -> Tally:
    """Count the points at which the first curve is better than the second; rows must have one measure."""
    left, right = by_point(rows, first), by_point(rows, second)
    pairs = [
        yardstick.compare(runs, right.get(panel, {}).get(x, {}))
        for panel, points in left.items()
        for x, runs in points.items()
    ]
    return sum(pairs, Tally())


def change(rows: Results, curve: Curve, yardstick: Yardstick, *, start: float, end: float) -> Tally:
    """Count the panels in which a curve is better at x = ``end`` than at ``start``."""
    points = by_point(rows, curve).values()
    return sum((yardstick.compare(one.get(end, {}), one.get(start, {})) for one in points), Tally())


def ratios(rows: Results, first: Curve, second: Curve) -> dict[str, dict[float, float]]:
    """Return the mean of the first curve divided by that of the second, for every panel and x they share."""
    left, right = by_point(rows, first), by_point(rows, second)
    return {
        panel: {x: _mean(runs) / _mean(right[panel][x]) for x, runs in points.items() if x in right[panel]}
        for panel, points in left.items()
        if panel in right
    }


def _mean(runs: Runs) -> float:
    return float(np.mean(list(runs.values())))
