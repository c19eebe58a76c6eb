"""Verdicts on trends: whether a curve gets better along x."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from dpcape_papers.experiments.experiment import Outcome
from dpcape_papers.experiments.results import Results
from dpcape_papers.verdicts.comparing import TOLERANCE, Curve, Yardstick, by_point, ratios
from dpcape_papers.verdicts.outcomes import Tally


@dataclass(frozen=True)
class Trend:
    """A curve's steps between neighbouring points, and from the first to the last point of each panel."""

    steps: Tally
    ends: Tally
    # Curves that start at the ceiling and cannot get better: they decide nothing.
    full: int = 0

    def __add__(self, other: Trend) -> Trend:
        return Trend(self.steps + other.steps, self.ends + other.ends, self.full + other.full)

    @property
    def outcome(self) -> Outcome:
        """Verdict on "better and better", decided by the ends; a worse step lowers "holds" and "not shown"."""
        outcome = self.ends.outcome
        if not self.steps.worse:
            return outcome
        spoilt: dict[Outcome, Outcome] = {"holds": "holds under conditions", "not shown": "fails"}
        return spoilt.get(outcome, outcome)

    def __str__(self) -> str:
        if not self.ends.n:
            return self._at_the_ceiling or "no curves to compare"
        whole = f"from the first to the last point {self.ends.counts('curves')}{self.ends.factor}"
        return f"{whole}; from point to point {self.steps.counts('steps')}{self._at_the_ceiling and '; '}" + (
            self._at_the_ceiling
        )

    @property
    def _at_the_ceiling(self) -> str:
        return f"{self.full} curves start within 1% of the best possible" if self.full else ""


def trend(rows: Results, curve: Curve, yardstick: Yardstick, ceiling: Curve | None = None) -> Trend:
    """Return the trend of a curve along x in every panel; rows must have one measure.

    Panels in which the curve starts within 1% of the ``ceiling`` are left out, because it cannot get better there.
    """
    found = Trend(Tally(), Tally())
    full = _at_ceiling(rows, curve, yardstick, ceiling)
    for panel, points in by_point(rows, curve).items():
        values = list(points.values())
        if panel in full:
            found += Trend(Tally(), Tally(), full=1)
            continue
        steps = [yardstick.compare(after, before) for before, after in pairwise(values)]
        if steps:
            found += Trend(sum(steps, Tally()), yardstick.compare(values[-1], values[0]))
    return found


def _at_ceiling(rows: Results, curve: Curve, yardstick: Yardstick, ceiling: Curve | None) -> set[str]:
    """Return the panels in which the curve starts as good as the ceiling."""
    if ceiling is None:
        return set()
    sign = 1 if yardstick.better == "larger" else -1
    firsts = {panel: points[min(points)] for panel, points in ratios(rows, curve, ceiling).items() if points}
    return {panel for panel, ratio in firsts.items() if ratio**sign >= 1 - TOLERANCE}
