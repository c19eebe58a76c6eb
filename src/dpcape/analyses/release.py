"""Steps of a schedule: releases, alternatives and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent
from dpcape.core.statistic import extent_of

if TYPE_CHECKING:
    from dpcape.analyses.description import Public

EXACT = "exact"
RELATIVE = "relative"
"""An earlier result sets the largest contribution: scales are relative to it."""
AT_MOST = "at most"
"""An earlier result can only reduce the clip radius: scales are upper bounds."""


@dataclass(frozen=True)
class Release:
    """Release in a schedule: a statistic, its share of mu^2, and the number of times it is made.

    Attributes
    ----------
    statistic : str
        Name of the statistic.
    numbers : mapping
        Public numbers that determine its extent.
    share : float
        Share of mu^2, each time.
    times : int
        How many times it is made.
    known : str
        Whether its noise is known exactly (EXACT), relative to the largest contribution (RELATIVE), or as an upper
        bound (AT_MOST).
    when : bool
        Whether it is made at all.
    feeds : bool
        Whether later clip radii depend on its noise; only then does ``yield`` return the noise scale.
    assumption : str
        Assumption under which the diameter holds, in words; empty if the diameter is proved.
    inner : str
        Name of the statistic of another package that is enclosed in this one; empty for dpcape's own.
    stated : Extent or None
        Extent as another package states it, where that package is not loaded.
    """

    statistic: str
    numbers: Mapping[str, float | None]
    share: float = 1.0
    times: float = 1
    known: object = EXACT
    when: bool = True
    feeds: bool = False
    assumption: str = ""
    inner: str = ""
    stated: Extent | None = None

    @property
    def extent(self) -> Extent:
        """Size, diameter, radius and rounding of the statistic."""
        return self.stated or extent_of(self.statistic, **self.numbers)


@dataclass(frozen=True)
class Either:
    """Two alternative releases with the same share; an earlier result chooses one.

    Attributes
    ----------
    first : Release
        Release that plans count.
    second : Release
        Release that may replace it.
    most : float
        Numbers of the second release up to which it may replace the first.
    """

    first: Release
    second: Release
    most: float = math.inf

    @property
    def possible(self) -> tuple[Release, ...]:
        """The releases that may be made, whatever earlier results are."""
        return (self.first, self.second) if self.second.extent.size <= self.most else (self.first,)


@dataclass(frozen=True)
class Refusal:
    """Refusal of a study: a condition and the error.

    Attributes
    ----------
    when : bool
        Whether the study is refused.
    error : InvalidParameter
        The error, with the names of ``values`` in braces.
    values : mapping
        Numbers that the error shows.
    """

    when: bool
    error: InvalidParameter
    values: Mapping[str, object] = field(default_factory=dict)


Step: TypeAlias = Release | Either | Refusal
Steps: TypeAlias = Generator[Step, Any, None]
"""Steps of a schedule; what is sent back is the noise scale of a release that feeds others, or None."""
Schedule: TypeAlias = "Callable[[Public], Steps]"
"""Generator function from public numbers to the releases, in order.

A ``yield`` of a release that ``feeds`` others returns the standard deviation of its noise on the mean over all sites;
any other ``yield`` returns None. Clip radii may depend on it; shares, times and conditions may not.
"""
