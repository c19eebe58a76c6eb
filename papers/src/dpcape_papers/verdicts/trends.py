"""Verdicts on trends: whether a curve gets better along x."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from dpcape_papers.experiments.experiment import Outcome
from dpcape_papers.experiments.results import Results
from dpcape_papers.verdicts.comparing import Curve, Yardstick, by_point
from dpcape_papers.verdicts.outcomes import Tally


@dataclass(frozen=True)
class Trend:
    """A curve's steps between neighbouring points, and from the first to the last point of each panel."""

    steps: Tally
    ends: Tally

    def __add__(self, other: Trend) -> Trend:
        return Trend(self.steps + other.steps, self.ends + other.ends)

    @property
    def outcome(self) -> Outcome:
        """Verdict on "better and better", decided by the ends; a worse step lowers "holds" and "not shown"."""
        outcome = self.ends.outcome
        if not self.steps.worse:
            return outcome
        spoilt: dict[Outcome, Outcome] = {"holds": "holds under conditions", "not shown": "fails"}
        return spoilt.get(outcome, outcome)

    def __str__(self) -> str:
        ratio = f", typical ratio {self.ends.typical:.3g}" if self.ends.ratios else ""
        return f"from first to last point {self.ends.counts('curves')}{ratio}; {self.steps.counts('steps')}"


def trend(rows: Results, curve: Curve, yardstick: Yardstick) -> Trend:
    """Return the trend of a curve along x in every panel; rows must have one measure."""
    found = Trend(Tally(), Tally())
    for points in by_point(rows, curve).values():
        values = list(points.values())
        steps = [yardstick.compare(after, before) for before, after in pairwise(values)]
        if steps:
            found += Trend(sum(steps, Tally()), yardstick.compare(values[-1], values[0]))
    return found
