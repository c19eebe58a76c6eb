"""Outcomes of claims, from counts of points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from dpcape_papers.experiments.experiment import Outcome


def outcome_of(n_true: int, n: int) -> Outcome:
    """Return the verdict on a claim that holds in ``n_true`` of ``n`` settings."""
    if n == 0:
        return "not shown"
    return "fails" if n_true == 0 else "holds" if n_true == n else "holds under conditions"


def as_good(flags: Sequence[bool]) -> Outcome:
    """Return the verdict on "as good as", given for every point whether it is true there."""
    n_short = len(flags) - sum(flags)
    if not flags:
        return "not shown"
    if 2 * n_short > len(flags):
        return "fails"
    return "holds under conditions" if n_short else "holds"


def reached(flags: Sequence[bool]) -> Outcome:
    """Return the verdict on "for large enough ...", given for every panel whether its largest point is enough.

    A larger value than those tried may be enough, so that the claim is not refuted where none was.
    """
    if not any(flags):
        return "not shown"
    return "holds" if all(flags) else "holds under conditions"


@dataclass(frozen=True)
class Tally:
    """The number of points at which one curve is better than another, level with it, or worse."""

    better: int = 0
    level: int = 0
    worse: int = 0
    # One per point, above 1 where the first curve is better.
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
        """Median ratio, above 1 where the first curve is better; NaN without ratios."""
        return float(np.median(self.ratios)) if self.ratios else math.nan

    @property
    def outcome(self) -> Outcome:
        """Verdict on "better"."""
        if self.better <= self.worse:
            return "fails" if self.worse else "not shown"
        return "holds" if self.worse == 0 and 2 * self.better >= self.n else "holds under conditions"

    @property
    def never_worse(self) -> Outcome:
        """Verdict on "never worse"."""
        return as_good([True] * (self.better + self.level) + [False] * self.worse)

    def counts(self, unit: str) -> str:
        """Return the three counts in words."""
        if not self.n:
            return f"no {unit} to compare"
        named = {"better": self.better, "worse": self.worse, "no clear difference": self.level}
        (first, count), *rest = [(word, count) for word, count in named.items() if count]
        whole = f"all {self.n} {unit}" if count == self.n > 1 else f"{count} of {self.n} {unit}"
        return ", ".join([f"{first} at {whole}", *(f"{word} at {count}" for word, count in rest)])

    def __str__(self) -> str:
        return self.counts("points") + self.factor

    @property
    def factor(self) -> str:
        """The median ratio in words; empty without ratios."""
        return f" (typically {self.typical:.3g} times as good)" if self.ratios else ""


class Judged(Protocol):
    """Interface of counts that have an outcome."""

    @property
    def outcome(self) -> Outcome:
        """Verdict on the claim."""


def agreed(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the joint verdict on a claim judged separately for each calibration.

    It is their common verdict; "fails" if they are "fails" and "not shown"; otherwise "holds under conditions".
    """
    different = set(outcomes)
    if different == {"fails", "not shown"}:
        return "fails"
    return different.pop() if len(different) == 1 else "holds under conditions"


# The calibration that is judged alone, if any: see `judging_only`.
_ALONE: ContextVar[str | None] = ContextVar("alone", default=None)


@contextmanager
def judging_only(calibration: str) -> Iterator[None]:
    """Let claims that are counted for each calibration be judged by one of them, within a ``with`` block."""
    token = _ALONE.set(calibration)
    try:
        yield
    finally:
        _ALONE.reset(token)


def together(parts: Mapping[str, Judged]) -> tuple[Outcome, str]:
    """Return the joint verdict on a claim counted separately for each calibration, and the counts in words."""
    alone = _ALONE.get()
    if alone is not None and alone in parts:
        parts = {alone: parts[alone]}
    words = "; ".join(f"with noise {kind}, {one}" for kind, one in parts.items())
    return agreed(part.outcome for part in parts.values()), words
