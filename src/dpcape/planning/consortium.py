"""Consortium that a plan is for: sites with their sizes, the protocol, and the guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpcape.core.facts import PublicFacts
from dpcape.core.privacy.terms import Terms, check_terms
from dpcape.core.protocols.protocol import Protocol


@dataclass(frozen=True)
class Consortium:
    """Consortium that a plan is for.

    Attributes
    ----------
    sizes : mapping
        Number of records of each site.
    protocol : Protocol
        Protocol the sites run.
    epsilon : float
        Privacy parameter epsilon, the same at all sites.
    delta : float
        Privacy parameter delta.
    """

    sizes: Mapping[str, int]
    protocol: Protocol
    epsilon: float
    delta: float

    def terms(self, facts: PublicFacts, shares: Sequence[float], weights: Mapping[str, float] | None = None) -> Terms:
        """Return the terms of releases with these shares; invalid terms raise."""
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
        check_terms(terms, adds_noise=self.protocol.adds_noise)
        return terms
