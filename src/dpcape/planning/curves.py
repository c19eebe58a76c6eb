"""Expected error against epsilon: the planned study and three alternatives with the same guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpcape.core.errors import InvalidParameter
from dpcape.core.protocols.independent import Independent
from dpcape.core.protocols.protocol import Protocol
from dpcape.planning.consortium import Consortium
from dpcape.planning.measures import Measure
from dpcape.planning.planned import Releases
from dpcape.planning.study_plan import aggregate_scales, terms_of

# Powers of ten between which the smallest epsilon is searched.
_LOW, _HIGH = -3.0, 3.0


@dataclass(frozen=True)
class Scenario:
    """Releases at sites of given sizes, under a protocol and a delta.

    Attributes
    ----------
    releases : callable
        Function from a consortium to its releases.
    sizes : mapping
        Number of records of each site.
    protocol : Protocol
        Protocol the sites run.
    delta : float
        Privacy parameter delta.
    weights : mapping
        Weight of each site in the mean; empty for weights by size.
    """

    releases: Releases
    sizes: Mapping[str, int]
    protocol: Protocol
    delta: float
    weights: Mapping[str, float] = field(default_factory=dict)

    def error(self, measure: Measure, epsilon: float) -> float | None:
        """Return the expected error, or None if no noise scale gives this guarantee."""
        try:
            releases = self.releases(Consortium(self.sizes, self.protocol, epsilon, self.delta))
            terms = terms_of(releases, self.sizes, self.protocol, epsilon, self.delta, weights=self.weights)
            return measure.value(aggregate_scales(releases, terms, self.protocol))
        except InvalidParameter:
            return None

    def smallest_epsilon(self, measure: Measure, wanted: float) -> float | None:
        """Return the smallest epsilon from 0.001 to 1000 whose expected error is at most ``wanted``, or None."""
        high = _HIGH
        # For very large epsilon no plan exists: start from the largest that has one.
        while high > _LOW and self.error(measure, 10**high) is None:
            high -= 0.25
        if not self._reaches(measure, high, wanted):
            return None
        low = _LOW
        if self._reaches(measure, low, wanted):
            return 10**low
        for _ in range(36):
            middle = (low + high) / 2
            if self._reaches(measure, middle, wanted):
                high = middle
            else:
                low = middle
        return 10**high

    def _reaches(self, measure: Measure, power: float, wanted: float) -> bool:
        error = self.error(measure, 10**power)
        return error is not None and error <= wanted


def scenarios(
    releases: Releases,
    sizes: Mapping[str, int],
    protocol: Protocol,
    delta: float,
    *,
    weights: Mapping[str, float] | None = None,
) -> dict[str, Scenario]:
    """Return the planned study and its alternatives: pooled data, independent noise, and the largest site only."""
    largest = max(sizes, key=lambda site: (sizes[site], site))

    def scenario(sizes: Mapping[str, int], protocol: Protocol) -> Scenario:
        return Scenario(releases, sizes, protocol, delta)

    return {
        "pooled": scenario({"pooled": sum(sizes.values())}, Independent()),
        "chosen": Scenario(releases, sizes, protocol, delta, weights or {}),
        "conventional": Scenario(releases, sizes, Independent(), delta, weights or {}),
        "alone": scenario({largest: sizes[largest]}, Independent()),
    }
