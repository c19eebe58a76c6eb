"""What a plan is made of: a release, how often it is made, and the consortium it is made by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from dpcape.facts import Facts
from dpcape.privacy.terms import Terms, check_terms
from dpcape.protocols import Protocol
from dpcape.statistics import Statistic

EXACT = "exact"
RELATIVE = "relative"
"""An earlier result sets how large a contribution may be: scales are in units of the largest one."""
AT_MOST = "at most"
"""An earlier result can only make the clip radius smaller: scales are upper bounds."""


@dataclass(frozen=True)
class PlannedRelease:
    """A release, how often it is made, and the share of mu^2 it takes each time.

    Attributes
    ----------
    known : str
        Whether the scales are those of the run (``EXACT``), ``RELATIVE`` or ``AT_MOST``; mu is exact in each case.
    """

    statistic: Statistic
    share: float = 1.0
    times: int = 1
    known: str = EXACT


@dataclass(frozen=True)
class Setting:
    """Sites with their numbers of records, the protocol they run, and the promise."""

    sizes: Mapping[str, int]
    protocol: Protocol
    epsilon: float
    delta: float

    def terms(self, facts: Facts, shares: Sequence[float], weights: Mapping[str, float] | None = None) -> Terms:
        """Return the terms of releases with these shares, or refuse what cannot be."""
        terms = Terms(
            allowance="plan",
            settings=self.protocol.settings(len(self.sizes)),
            epsilons=dict.fromkeys(self.sizes, float(self.epsilon)),
            delta=float(self.delta),
            shares=tuple(shares),
            n_records=dict(self.sizes),
            weights=dict(weights or {}),
            facts=facts,
        )
        check_terms(terms)
        return terms


Releases = Callable[[Setting], Sequence[PlannedRelease]]
"""Shares and clip radii may follow from sizes and from noise: what is released is known for a setting."""
