"""Curves compared point by point, with the spread over the runs in mind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from dpcape.reproduce.experiment import Outcome
from dpcape.reproduce.results import Results

# Ratios closer to 1 than this count as equal, however small the spread.
CLOSE = 1.02
Curve = tuple[str, str]  # name and calibration


@dataclass(frozen=True)
class Score:
    """At how many points the first of two curves has the smaller value, the same, or the larger one."""

    better: int
    equal: int
    worse: int
    ratio: float  # median over the points of second over first

    @property
    def points(self) -> int:
        """Number of points compared."""
        return self.better + self.equal + self.worse

    @property
    def outcome(self) -> Outcome:
        """Holds if never worse and better at half of the points or more; fails if not better more often than worse."""
        if self.better <= self.worse:
            return "fails"
        return "holds" if self.worse == 0 and 2 * self.better >= self.points else "holds under conditions"

    def __str__(self) -> str:
        text = f"smaller at {self.better} of {self.points} points, no clear difference at {self.equal}"
        return f"{text}, larger at {self.worse}, median ratio {self.ratio:.3g}"


def score(results: Results, first: Curve, second: Curve, *, close: float = CLOSE) -> Score:
    """Compare two curves at every panel and x they share; smaller values are better.

    Runs are paired and compared on the log scale: a difference counts if a t test over the runs (two-sided, 5 %) finds
    it and the ratio exceeds ``close``.
    """
    signs, ratios = [], []
    for key, left in _values(results, first).items():
        right = _values(results, second).get(key, {})
        runs = sorted(set(left) & set(right), key=str)
        if runs:
            change = np.log([right[run] / left[run] for run in runs])
            signs.append(_sign(change, close))
            ratios.append(float(change.mean()))
    middle = math.exp(float(np.median(ratios))) if ratios else math.nan
    return Score(signs.count(1), signs.count(0), signs.count(-1), middle)


def total(scores: Iterable[Score]) -> Score:
    """Return several comparisons as one."""
    found = list(scores)
    ratio = float(np.median([one.ratio for one in found]))
    return Score(sum(s.better for s in found), sum(s.equal for s in found), sum(s.worse for s in found), ratio)


def weaker(outcomes: Sequence[Outcome]) -> Outcome:
    """Return what is left of a claim that came out as each of these: all the same, or under conditions."""
    return outcomes[0] if len(set(outcomes)) == 1 else "holds under conditions"


def ends(results: Results, curve: Curve, *, close: float = CLOSE) -> Score:
    """Compare the value at the largest x with that at the smallest, panel by panel."""
    scores = []
    for panel in results.values("panel"):
        here = results.where(panel=panel, curve=curve[0], calibration=curve[1])
        places = sorted(float(x) for x in here.values("x") if x is not None)
        if len(places) > 1:
            last, start = ([{**r, "x": 0.0} for r in here.where(x=x)] for x in (places[-1], places[0]))
            both = [{**r, "curve": "last"} for r in last] + [{**r, "curve": "start"} for r in start]
            scores.append(score(Results(both), ("last", curve[1]), ("start", curve[1]), close=close))
    return total(scores)


def reached_at(results: Results, curve: Curve, target: float | None = None) -> float:
    """Return the x from which a curve stays at ``target`` or below; inf if it does not.

    Runs are averaged on the log scale, points joined by straight lines on logarithmic axes. Without a target it is
    twice the non-private curve.
    """
    logs = Results({**r, "value": math.log(float(r["value"] or 1.0))} for r in results)
    (found,) = logs.series(curve=curve[0], calibration=curve[1])
    (plain,) = logs.series(curve="non-private")
    excess = found.mean - (plain.mean + math.log(2) if target is None else math.log(target))
    if excess[-1] > 0:
        return math.inf
    above = np.flatnonzero(excess > 0)
    if not len(above):
        return float(found.x[0])
    left = int(above[-1])
    share = excess[left] / (excess[left] - excess[left + 1])
    return float(np.exp((1 - share) * np.log(found.x[left]) + share * np.log(found.x[left + 1])))


def _values(results: Results, curve: Curve) -> dict[tuple[object, object], dict[object, float]]:
    found: dict[tuple[object, object], dict[object, float]] = {}
    for r in results.where(curve=curve[0], calibration=curve[1]):
        found.setdefault((r["panel"], r["x"]), {})[r["run"]] = float(r["value"] or 0.0)
    return found


def _sign(change: np.ndarray, close: float) -> int:
    mean = float(change.mean())
    if abs(mean) <= math.log(close):
        return 0
    if len(change) > 1:
        noise = float(change.std(ddof=1)) / math.sqrt(len(change))
        if abs(mean) <= float(student.ppf(0.975, len(change) - 1)) * noise:
            return 0
    return 1 if mean > 0 else -1
