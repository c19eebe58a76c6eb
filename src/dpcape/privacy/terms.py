"""What an allowance is calibrated for: the public contract between coordinator and sites."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import msgspec

from dpcape.errors import InvalidParameter
from dpcape.facts import PublicFacts
from dpcape.privacy.gaussian import SMALLEST_DELTA, epsilon_of

# What is kept back for what integer noise adds to an ideal Gaussian (docs/noise.md): it turns an ideal
# (epsilon, delta) into (epsilon + gap, e^gap delta + tail). Gaps stay below epsilon_reserve and tails below
# tail_reserve, so an ideal view calibrated to epsilon - epsilon_reserve and delta (1 - DELTA_RESERVE) is enough:
# e^(5e-7) (1 - 1e-6) + 1e-7 < 1.
DELTA_RESERVE = 1e-6
_TAIL_SHARE = 1e-7
_LARGEST_GAP = 5e-7


def epsilon_reserve(epsilon: float) -> float:
    """Return the part of epsilon kept back for integer noise."""
    return min(1e-5 * epsilon, _LARGEST_GAP)


def tail_reserve(delta: float) -> float:
    """Return the part of delta kept back for the draws' cut-off."""
    return _TAIL_SHARE * delta


def printed_epsilon(delta: float, mu: float, *, gap: float, tail: float) -> float:
    """Return the epsilon that is true at ``delta`` for a view that is ``mu``-GDP up to (gap, tail)."""
    ideal = (delta - tail) * math.exp(-gap)
    return epsilon_of(ideal, mu) + gap if ideal >= SMALLEST_DELTA else math.inf


class ProtocolSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A protocol's name and its parameters, with ``minimum_sites`` made explicit."""

    name: str
    n_colluding: int = 0
    minimum_sites: int = 1
    cancelling_ratio: float = 0.0


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything the noise of an allowance follows from. Public.

    Attributes
    ----------
    allowance : str
        Unique name of the allowance.
    settings : ProtocolSettings
        The protocol and its parameters.
    epsilons : mapping
        epsilon per site; empty when the protocol adds no noise.
    delta : float
        The delta of every site.
    shares : tuple of float
        Shares of mu^2, one per release, adding to at most one.
    n_records : mapping
        Records per site.
    weights : mapping
        Weight of each site in the aggregate, adding to one; empty for weights proportional to ``n_records``.
    facts : Facts
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
        """Records of all sites together."""
        return sum(self.n_records.values())

    def coefficient(self, site: str) -> float:
        """Return what the site multiplies its total by, so that totals over all records carry the weights."""
        if not self.weights:
            return 1.0
        return self.weights[site] * self.total_records / self.n_records[site]

    def divisor(self, survivors: tuple[str, ...]) -> float:
        """Return what the sum over ``survivors`` is divided by to become a weighted mean."""
        if not self.weights:
            return float(sum(self.n_records[site] for site in survivors))
        return self.total_records * math.fsum(self.weights[site] for site in survivors)

    def digest(self) -> bytes:
        """SHA-256 of the canonical form: what a secure-sum session is bound to."""
        return hashlib.sha256(b"dpcape terms 1" + msgspec.json.encode(self, order="sorted")).digest()


def check_terms(terms: Terms, *, adds_noise: bool) -> None:
    """Refuse terms that mean nothing, in one clear sentence.

    Parameters
    ----------
    terms : Terms
        The terms as they are, or as they travelled.
    adds_noise : bool
        Whether the protocol of the terms adds noise. The terms alone must not decide it: without an epsilon, a
        protocol that protects would pass for one that does not.
    """
    if not terms.shares or any(not share > 0 for share in terms.shares):
        raise InvalidParameter(f"shares must be positive, one per release; got {terms.shares!r}.")
    if math.fsum(terms.shares) > 1 + 1e-9:
        raise InvalidParameter(f"shares must add to at most 1; got a sum of {math.fsum(terms.shares)!r}.")
    if adds_noise:
        check_epsilons(terms.epsilons, terms.sites)
        if not 0 < terms.delta < 1:
            raise InvalidParameter(f"delta must be strictly between 0 and 1; got {terms.delta!r}.")
    elif terms.epsilons:
        raise InvalidParameter("epsilon must be empty where exact totals are released; got numbers.")
    if any(count < 1 for count in terms.n_records.values()):
        raise InvalidParameter("every site must hold at least one record; got a site with none. Leave it out.")
    if terms.weights:
        check_weights(terms.weights, terms.sites)


def check_epsilons(epsilons: Mapping[str, float], sites: tuple[str, ...]) -> None:
    """Refuse epsilons that are not one positive number per site."""
    if set(epsilons) != set(sites):
        raise InvalidParameter(
            f"epsilon must be one number or one per site ({', '.join(sites)}); got {sorted(epsilons)}."
        )
    for site, epsilon in epsilons.items():
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise InvalidParameter(
                f"epsilon must be a positive finite number; got {epsilon!r} for {site!r}. "
                "To run without privacy use protocol=Exact() and say so in the report."
            )


def check_weights(weights: Mapping[str, float], sites: tuple[str, ...]) -> None:
    """Refuse weights that are not one positive number per site adding to one."""
    if set(weights) != set(sites):
        raise InvalidParameter(f"weights must be given for every site ({', '.join(sites)}); got {sorted(weights)}.")
    if any(not (weight > 0 and math.isfinite(weight)) for weight in weights.values()):
        raise InvalidParameter("weights must be positive finite numbers; leave a site out instead of weighing it 0.")
    if abs(math.fsum(weights.values()) - 1) > 1e-9:
        raise InvalidParameter(f"weights must add to 1; got a sum of {math.fsum(weights.values())!r}.")
