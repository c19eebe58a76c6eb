"""Which of two curves is better, decided run by run: the same run has the same data under every scheme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.stats import t as student

from dpcape.reproduce.experiment import Outcome
from dpcape.reproduce.results import PUBLISHED, Results

# A difference of means counts as clear if chance alone would exceed it in fewer runs than this (Student's t).
_CHANCE = 0.05


@dataclass(frozen=True)
class Standing:
    """How often one curve was lower than another, over the points of all panels."""

    n_points: int
    lower: int
    higher: int
    ratio: float  # geometric mean of the ratios of means

    @property
    def outcome(self) -> Outcome:
        """Return what becomes of the claim "clearly lower everywhere"."""
        if self.higher == 0 and 2 * self.lower >= self.n_points:
            return "holds"
        return "holds under conditions" if self.lower > self.higher else "fails"

    def __str__(self) -> str:
        equal = self.n_points - self.lower - self.higher
        return (
            f"clearly lower at {self.lower} of {self.n_points} points, no clear difference at {equal}, clearly higher "
            f"at {self.higher}; typical ratio {self.ratio:.2f}"
        )


Key = tuple[str, str]  # curve, calibration


def standing(results: Results, first: Key, second: Key) -> Standing:
    """Compare two curves at every panel and x they share; a curve without noise may have one point per panel."""
    lower = higher = n_points = 0
    logs = []
    for panel in results.values("panel"):
        rows = results.where(panel=panel)
        for x in rows.where(curve=first[0], calibration=first[1]).values("x"):
            one, two = (_by_run(rows.where(curve=key[0], calibration=key[1], x=x)) for key in (first, second))
            runs = sorted(set(one) & set(two))
            if not runs:
                continue
            change = np.array([one[run] - two[run] for run in runs])
            n_points += 1
            lower += _clearly(-change)
            higher += _clearly(change)
            logs.append(math.log(_mean(one, runs) / _mean(two, runs)))
    return Standing(n_points, lower, higher, math.exp(float(np.mean(logs))) if logs else math.nan)


def trend(results: Results, key: Key) -> tuple[int, int, int]:
    """Return over how many neighbouring points of a curve it falls clearly, rises clearly, and how many there are."""
    falls = rises = n_steps = 0
    for panel in results.values("panel"):
        rows = results.where(panel=panel, curve=key[0], calibration=key[1])
        points = sorted(float(x) for x in rows.values("x"))  # type: ignore[arg-type]  # x is a number
        values = [_by_run(rows.where(x=x)) for x in points]
        for before, after in pairwise(values):
            runs = sorted(set(before) & set(after))
            change = np.array([after[run] - before[run] for run in runs])
            n_steps += 1
            falls += _clearly(-change)
            rises += _clearly(change)
    return falls, rises, n_steps


def judged_trend(results: Results, key: Key) -> tuple[Outcome, str]:
    """Return what becomes of the claim that a curve falls with x, with numbers."""
    falls, rises, n_steps = trend(results, key)
    whole = np.array(_end_to_end(results, key))
    falls_in_all = _clearly(-whole)
    outcome: Outcome = "fails"
    if falls > rises or (falls_in_all and not rises):
        outcome = "holds under conditions" if rises else "holds"
    text = f"clear fall over {falls} of {n_steps} steps, clear rise over {rises}"
    return outcome, f"{text}, from end to end {whole.mean() if len(whole) else 0.0:+.3g} on average"


def _end_to_end(results: Results, key: Key) -> list[float]:
    """Return the change between a curve's first and last point, for every panel and run."""
    changes = []
    for panel in results.values("panel"):
        rows = results.where(panel=panel, curve=key[0], calibration=key[1])
        points = sorted(float(x) for x in rows.values("x"))  # type: ignore[arg-type]  # x is a number
        if len(points) > 1:
            first, last = (_by_run(rows.where(x=x)) for x in (points[0], points[-1]))
            changes += [last[run] - first[run] for run in first if run in last]
    return changes


def claims_hold(results: Results, curve: str) -> tuple[Outcome, str]:
    """Return whether the claimed epsilons of a published curve are what its noise has, with the extremes."""
    rows = [r for r in results.where(curve=curve, calibration=PUBLISHED) if r["claimed_epsilon"] is not None]
    pairs = sorted({(float(r["claimed_epsilon"]), float(r["verified_epsilon"])) for r in rows})  # type: ignore[arg-type]
    kept = sum(real <= claim for claim, real in pairs)
    outcome: Outcome = "holds" if kept == len(pairs) else "fails" if kept == 0 else "holds under conditions"
    ends = [pairs[0], pairs[-1]] if len(pairs) > 1 else pairs
    text = ", ".join(f"claimed {claim:.3g} is really {_number(real)}" for claim, real in ends)
    return outcome, f"true for {kept} of {len(pairs)} settings: {text}"


def worst_ratio(results: Results, first: Key, second: Key, at: Sequence[float]) -> float:
    """Return the largest ratio of the two curves' means over panels, at these x."""
    ratios = []
    for panel in results.values("panel"):
        rows = results.where(panel=panel)
        for x in at:
            found = [rows.mean(curve=key[0], calibration=key[1], x=x) for key in (first, second)]
            if not any(math.isnan(value) for value in found):
                ratios.append(found[0] / found[1])
    return max(ratios, default=math.nan)


def _number(epsilon: float) -> str:
    return "infinite" if math.isinf(epsilon) else f"{epsilon:.3g}"


def _by_run(rows: Results) -> dict[int, float]:
    return {int(r["run"]): float(r["value"]) for r in rows}  # type: ignore[arg-type]  # both are numbers


def _mean(values: dict[int, float], runs: Sequence[int]) -> float:
    return max(float(np.mean([values[run] for run in runs])), 1e-12)


def _clearly(change: np.ndarray) -> bool:
    """Tell whether a change is positive by more than chance over the runs would make it."""
    if len(change) < 2:
        return bool(change[0] > 0) if len(change) else False
    error = float(np.std(change, ddof=1)) / math.sqrt(len(change))
    return bool(change.mean() > student.isf(_CHANCE, len(change) - 1) * error)
