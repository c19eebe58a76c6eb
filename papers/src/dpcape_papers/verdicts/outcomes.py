"""From counted points to an outcome."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dpcape_papers.experiments.experiment import Outcome


def outcome_of(n_true: int, n: int) -> Outcome:
    """Return what becomes of a statement that is true of ``n_true`` of ``n`` settings: it fails if true of none."""
    if n == 0:
        return "not shown"
    return "fails" if n_true == 0 else "holds" if n_true == n else "holds under conditions"


def as_good(flags: Sequence[bool]) -> Outcome:
    """Return what becomes of "as good as", told for every point whether it is."""
    n_short = len(flags) - sum(flags)
    if not flags:
        return "not shown"
    if 2 * n_short > len(flags):
        return "fails"
    return "holds under conditions" if n_short else "holds"


@dataclass(frozen=True)
class Tally:
    """At how many points one curve is better than another, level with it, and worse."""

    better: int = 0
    level: int = 0
    worse: int = 0
    # Of each point, above 1 where the first curve is better.
    ratios: tuple[float, ...] = field(default=(), compare=False)

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.better + other.better, self.level + other.level, self.worse + other.worse, self.ratios + other.ratios
        )

    @property
    def n(self) -> int:
        """Number of points."""
        return self.better + self.level + self.worse

    @property
    def typical(self) -> float:
        """Median ratio, above 1 where better; nan without ratios."""
        return float(np.median(self.ratios)) if self.ratios else math.nan

    @property
    def outcome(self) -> Outcome:
        """What becomes of "better"."""
        if self.better <= self.worse:
            return "fails" if self.worse else "not shown"
        return "holds" if self.worse == 0 and 2 * self.better >= self.n else "holds under conditions"

    @property
    def never_worse(self) -> Outcome:
        """What becomes of "never worse"."""
        return as_good([True] * (self.better + self.level) + [False] * self.worse)

    def counts(self, unit: str) -> str:
        """Return the three numbers in words."""
        return f"better at {self.better}, level at {self.level}, worse at {self.worse} of {self.n} {unit}"

    def __str__(self) -> str:
        return self.counts("points") + (f", typical ratio {self.typical:.3g}" if self.ratios else "")


class Judged(Protocol):
    """Something counted that has an outcome."""

    @property
    def outcome(self) -> Outcome:
        """What becomes of the claim."""


def agreed(outcomes: Iterable[Outcome]) -> Outcome:
    """Return what is left of a claim that was judged apart for every calibration: their outcome, or conditions."""
    different = set(outcomes)
    if different == {"fails", "not shown"}:
        return "fails"
    return different.pop() if len(different) == 1 else "holds under conditions"


def together(parts: Mapping[str, Judged]) -> tuple[Outcome, str]:
    """Return what is left of a claim that was counted apart for every calibration, and all of them in words."""
    return agreed(part.outcome for part in parts.values()), "; ".join(f"{kind}: {one}" for kind, one in parts.items())
