"""Terms of an allowance: the public contract between coordinator and sites."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import msgspec

from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.privacy.gaussian import SMALLEST_DELTA, epsilon_of

# Reserve for integer noise (docs/noise.md), which turns an ideal (epsilon, delta) into (epsilon + gap, e^gap delta +
# tail). Gaps stay below epsilon_reserve and tails below tail_reserve, so an ideal view calibrated to epsilon -
# epsilon_reserve and delta (1 - DELTA_RESERVE) is enough: e^(5e-7) (1 - 1e-6) + 1e-7 < 1.
DELTA_RESERVE = 1e-6
_TAIL_SHARE = 1e-7
_LARGEST_GAP = 5e-7


def epsilon_reserve(epsilon: float) -> float:
    """Return the part of epsilon reserved for integer noise."""
    return min(1e-5 * epsilon, _LARGEST_GAP)


def tail_reserve(delta: float) -> float:
    """Return the part of delta reserved for the cut-off of the draws."""
    return _TAIL_SHARE * delta


def printed_epsilon(delta: float, mu: float, *, gap: float, tail: float) -> float:
    """Return the epsilon that holds at ``delta`` for a view that is ``mu``-GDP up to (gap, tail)."""
    ideal = (delta - tail) * math.exp(-gap)
    return epsilon_of(ideal, mu) + gap if ideal >= SMALLEST_DELTA else math.inf


class ProtocolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Name and parameters of a protocol, with ``minimum_sites`` explicit.

    ``dealer`` names the participant that deals noise; without one it is left out of the encoding, and so of digests.
    ``n_neighbours`` is left out of messages and digests unless it is set.
    """

    name: str
    n_colluding: int = 0
    minimum_sites: int = 1
    cancelling_ratio: float = 0.0
    dealer: str | msgspec.UnsetType = msgspec.UNSET
    n_neighbours: int | msgspec.UnsetType = msgspec.UNSET


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Public terms of an allowance, which determine its noise.

    Attributes
    ----------
    allowance : str
        Unique name of the allowance.
    settings : ProtocolSettings
        The protocol and its parameters.
    epsilons : dict of str to float
        The epsilon of each site; empty if the protocol adds no noise.
    delta : float
        The delta of every site.
    shares : tuple of float
        Shares of mu^2, one per release, summing to at most one.
    n_records : dict of str to int
        Number of records of each site.
    weights : dict of str to float
        Weight of each site in the aggregate, summing to one; empty for weights proportional to ``n_records``.
    facts : PublicFacts
        The public facts that are equal at all sites.
    """

    allowance: str
    settings: ProtocolSettings
    epsilons: dict[str, float]
    delta: float
    shares: tuple[float, ...]
    n_records: dict[str, int]
    weights: dict[str, float]
    facts: PublicFacts

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, sorted."""
        return tuple(sorted(self.n_records))

    @property
    def total_records(self) -> int:
        """Number of records, over all sites."""
        return sum(self.n_records.values())

    def coefficient(self, site: str) -> float:
        """Return the factor of the site's total that gives the sites their weights."""
        if not self.weights:
            return 1.0
        return self.weights[site] * self.total_records / self.n_records[site]

    def divisor(self, survivors: tuple[str, ...]) -> float:
        """Return the divisor that turns the sum over ``survivors`` into a weighted mean."""
        if not self.weights:
            return float(sum(self.n_records[site] for site in survivors))
        return self.total_records * math.fsum(self.weights[site] for site in survivors)

    def digest(self) -> bytes:
        """Return the SHA-256 of the canonical form, to which a secure-sum session is bound."""
        return hashlib.sha256(b"dpcape terms 1" + msgspec.json.encode(self, order="sorted")).digest()


def check_terms(terms: Terms, *, adds_noise: bool) -> None:
    """Refuse invalid terms.

    Parameters
    ----------
    terms : Terms
        The terms, made here or received.
    adds_noise : bool
        Whether the protocol of the terms adds noise. The terms must not decide this themselves: without an epsilon, a
        protocol that protects would pass for one that does not.
    """
    if not terms.shares or any(not share > 0 for share in terms.shares):
        raise InvalidParameter("shares", "be positive, one per release", repr(terms.shares), "Remove shares of 0.")
    if math.fsum(terms.shares) > 1 + 1e-9:
        raise InvalidParameter("shares", "sum to at most 1", repr(math.fsum(terms.shares)), "Divide them by their sum.")
    if adds_noise:
        check_epsilons(terms.epsilons, terms.sites)
        if not 0 < terms.delta < 1:
            raise InvalidParameter("delta", "be strictly between 0 and 1", repr(terms.delta), "Write for example 1e-6.")
    elif terms.epsilons:
        raise InvalidParameter("epsilon", "be empty for exact totals", "numbers", "Choose a protocol that adds noise.")
    if any(count < 1 for count in terms.n_records.values()):
        raise InvalidParameter("Every site", "have at least one record", "a site without records", "Leave it out.")
    if terms.weights:
        check_weights(terms.weights, terms.sites)


def is_large(delta: float, n_records: int) -> bool:
    """Return whether delta is above 1/N: a release that shows a few whole records at random could still keep it."""
    return delta * n_records > 1 + 1e-9


def check_delta(terms: Terms, *, accepted: bool) -> None:
    """Refuse a delta above 1/N, N the public number of records over all sites, unless it was explicitly accepted.

    Sizes of sites are public, so the comparison reveals nothing.
    """
    if terms.epsilons and not accepted and is_large(terms.delta, terms.total_records):
        raise InvalidParameter(
            "delta",
            f"be at most 1/N for N = {terms.total_records} {terms.facts.unit}s",
            f"{terms.delta:g}",
            f"A larger delta allows that some whole {terms.facts.unit}s are revealed. Lower it, or accept it: "
            "accept_large_delta=True in Federation(...), accept_large_delta = true in [study].",
        )


def check_epsilons(epsilons: Mapping[str, float], sites: tuple[str, ...]) -> None:
    """Refuse epsilons that are not one positive number per site."""
    if set(epsilons) != set(sites):
        must = f"be one number, or one for each site ({', '.join(sites)})"
        raise InvalidParameter("epsilon", must, sorted(epsilons), "Name every site once.")
    for site, epsilon in epsilons.items():
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise InvalidParameter(
                "epsilon",
                "be a positive finite number",
                f"{epsilon!r} for {site!r}",
                "To run without privacy, use protocol=Exact(), in a study kind = 'exact', and say so in the report.",
            )


def check_weights(weights: Mapping[str, float], sites: tuple[str, ...]) -> None:
    """Refuse weights that are not one positive number per site, summing to one."""
    if set(weights) != set(sites):
        must = f"be given for each site ({', '.join(sites)})"
        raise InvalidParameter("weights", must, sorted(weights), "Name every site once.")
    for site, weight in weights.items():
        if not (weight > 0 and math.isfinite(weight)):
            got = f"{weight!r} for {site!r}"
            raise InvalidParameter("weights", "be positive and finite", got, "Remove the site instead.")
    if abs(math.fsum(weights.values()) - 1) > 1e-9:
        remedy = "Divide each weight by their sum."
        raise InvalidParameter("weights", "sum to 1", repr(math.fsum(weights.values())), remedy)
