"""What a schedule is made of: releases, alternatives, refusals."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpcape.formula import Number
from dpcape.statistics import Extent, extent_of

EXACT = "exact"
RELATIVE = "relative"
"""An earlier result sets how large a contribution may be: scales are in units of the largest one."""
AT_MOST = "at most"
"""An earlier result can only make the clip radius smaller: scales are upper bounds."""


@dataclass(frozen=True)
class Release:
    """One entry of a schedule: what is released, with which share of mu^2, and how often.

    Attributes
    ----------
    statistic : str
        Name of the statistic.
    numbers : mapping
        What its extent follows from.
    share : float
        Part of mu^2, each time.
    times : int
        How often it is made.
    known : str
        Whether its noise is known exactly, relative to the largest contribution, or as an upper bound.
    when : bool
        Whether it is made at all.
    feeds : bool
        Whether later clip radii follow from its noise; only then does ``yield`` return it.
    assumption : str
        What the diameter rests on besides proof, in words; empty for a proved one.
    """

    statistic: str
    numbers: Mapping[str, Any]
    share: Number = 1.0
    times: Number = 1
    known: Any = EXACT
    when: Any = True
    feeds: bool = False
    assumption: str = ""

    @property
    def extent(self) -> Extent:
        """Size, diameter, radius and rounding of the statistic."""
        return extent_of(self.statistic, **self.numbers)


@dataclass(frozen=True)
class Either:
    """Two releases of which an earlier result chooses one; both take the same share."""

    first: Release
    second: Release


@dataclass(frozen=True)
class Refusal:
    """What cannot be done, and the text that says so.

    Attributes
    ----------
    when : bool
        Whether it applies.
    text : str
        The error, with names in braces for ``values``.
    values : mapping
        Numbers the text shows.
    """

    when: Any
    text: str
    values: Mapping[str, Any] = field(default_factory=dict)


Step = Release | Either | Refusal
Schedule = Callable[[Any], Generator[Step, Any, None]]
"""Yields what is released, in order, from public numbers.

Each ``yield`` of a release that ``feeds`` others returns the standard deviation of its noise on the mean over all
sites, and None of any other. Clip radii may use it; shares, times and conditions may not.
"""
