"""What a statistic must fulfil for its diameter to protect anybody, and a search for records that break it.

A site searches before it answers for a statistic that is not part of dpcape; :mod:`dpcape.testing` lets an author
search her own. Records are synthetic. Finding nothing proves nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import BLOCK_ROWS
from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import AnyStatistic
from dpcape.core.totals import total_of
from dpcape.records.from_numbers import numbers_per_unit, records_from
from dpcape.site.pair_search import Effort, farthest_pair

AT_A_SITE = Effort(n_candidates=60, n_rounds=12, n_steps=12)
# Records of a synthetic site in which one is replaced.
_SITE = 40
# Tolerance for floating-point error in a distance, relative to the diameter.
_SLACK = 1e-9
_EXTREMES = (0.0, 1e-300, 1e-20, 1e20, 1e100)


@dataclass(frozen=True)
class LawReport:
    """What a search for violations found.

    Attributes
    ----------
    diameter, radius : float
        As stated.
    distance : float
        Largest distance found between the contributions of two possible units.
    length : float
        Largest length found of one contribution.
    rounding : float
        Largest part found of the rounding that is stated.
    """

    diameter: float
    radius: float
    distance: float
    length: float
    rounding: float


def require_laws(statistic: AnyStatistic, facts: PublicFacts, *, effort: Effort = AT_A_SITE) -> LawReport:
    """Return what a search found, or refuse the statistic and say what it breaks.

    Parameters
    ----------
    statistic : Statistic
        Built for records with these facts.
    facts : PublicFacts
        What synthetic records are made after.
    effort : Effort
        How long to search for two units that are far apart.
    """
    _require_extent(statistic, facts)
    _require_finite(statistic, facts)
    distance, length = _require_diameter(statistic, facts, effort)
    rounding = _require_sums(statistic, facts)
    return LawReport(statistic.diameter, statistic.radius, distance, length, rounding)


def _total(statistic: AnyStatistic, facts: PublicFacts, numbers: FloatArray) -> FloatArray:
    return total_of(statistic, records_from(facts, numbers))


def _site(facts: PublicFacts) -> FloatArray:
    """Return the numbers of a synthetic site."""
    return 0.5 * np.random.default_rng(2).standard_normal((_SITE, numbers_per_unit(facts)))  # not protective randomness


def _require_extent(statistic: AnyStatistic, facts: PublicFacts) -> None:
    """Refuse a statistic whose instance and static extent differ, or whose total has another size."""
    extent = type(statistic).extent(**statistic.numbers)
    pairs = {
        "size": (statistic.size, extent.size),
        "diameter": (statistic.diameter, extent.diameter),
        "radius": (statistic.radius, extent.radius),
        "rounding": (statistic.rounding(_SITE), extent.rounding(_SITE)),
        "sensitivity": (statistic.sensitivity(_SITE), extent.sensitivity(_SITE)),
    }
    for name, (own, stated) in pairs.items():
        if own != stated:
            raise InvalidParameter(
                f"the {name} of the statistic {statistic.name!r}",
                f"be what its extent says ({stated:.6g})",
                f"{own:.6g}",
                "Leave the property as it is and change extent.",
            )
        if not 0 <= own < math.inf:
            raise InvalidParameter(
                f"the {name} of the statistic {statistic.name!r}", "be finite and not negative", repr(own)
            )
    if statistic.diameter == 0:
        raise InvalidParameter(f"the diameter of the statistic {statistic.name!r}", "be positive", "0")
    shape = _total(statistic, facts, _site(facts)).shape
    if shape != (statistic.size,):
        must, remedy = f"be a vector of {statistic.size} numbers", "Pack it, or correct the size in extent."
        raise InvalidParameter(f"the total of the statistic {statistic.name!r}", must, f"shape {shape}", remedy)


def _require_finite(statistic: AnyStatistic, facts: PublicFacts) -> None:
    """Refuse a statistic that has no finite total for some possible records."""
    width = numbers_per_unit(facts)
    for size in _EXTREMES:
        for unit in (np.full(width, size), np.eye(width)[0] * -size):
            with np.errstate(all="ignore"):
                total = _total(statistic, facts, unit[np.newaxis])
            if not np.isfinite(total).all():
                raise InvalidParameter(
                    f"the total of the statistic {statistic.name!r}",
                    "be finite for every possible record",
                    f"NaN or infinity for a record whose values are {size:g} times the bound before clipping",
                    "Let such a record contribute zeros: a site's refusal would reveal that it exists.",
                )


def _require_diameter(statistic: AnyStatistic, facts: PublicFacts, effort: Effort) -> tuple[float, float]:
    """Return the largest distance and length found; refuse the statistic if they exceed what it states."""

    def contribution(unit: FloatArray) -> FloatArray:
        return _total(statistic, facts, unit[np.newaxis])

    pair, distance = farthest_pair(contribution, numbers_per_unit(facts), seed=1, effort=effort)
    length = max(float(np.linalg.norm(contribution(unit))) for unit in pair)
    rounding = statistic.rounding(1)
    # Negated, because NaN compares false: this way NaN is refused.
    if not distance <= statistic.diameter * (1 + _SLACK) + 2 * rounding:
        must = "hold for every pair of records"
        got = f"{statistic.diameter:.6g} where two possible records are {distance:.6g} apart"
        raise InvalidParameter(f"the diameter of the statistic {statistic.name!r}", must, got, "State a larger one.")
    if not length <= statistic.radius * (1 + _SLACK) + rounding:
        must, got = "hold for every record", f"{statistic.radius:.6g} where a possible record contributes {length:.6g}"
        raise InvalidParameter(f"the radius of the statistic {statistic.name!r}", must, got, "State a larger one.")
    site = _site(facts)
    totals = [_total(statistic, facts, np.vstack([unit, site[1:]])) for unit in pair]
    moved = float(np.linalg.norm(totals[0] - totals[1]))
    if not moved <= statistic.sensitivity(_SITE) + _SLACK * statistic.diameter:
        raise InvalidParameter(
            f"a total of the statistic {statistic.name!r}",
            f"move by at most {statistic.sensitivity(_SITE):.6g} when one of {_SITE} records is replaced",
            f"{moved:.6g}",
            "Let a record's contribution depend on that record only.",
        )
    return distance, length


def _require_sums(statistic: AnyStatistic, facts: PublicFacts) -> float:
    """Return the part of the stated rounding that was met; refuse totals that are not sums over single records."""
    site = _site(facts)
    singles = np.array([_total(statistic, facts, unit[np.newaxis]) for unit in site])
    largest = 0.0
    for change, positions in _rearranged(len(site)):
        total = _total(statistic, facts, site[positions])
        expected = np.array([math.fsum(column) for column in singles[positions].T])
        error, allowed = float(np.linalg.norm(total - expected)), statistic.rounding(len(positions))
        # The contributions of single records have rounding errors too.
        allowed += len(positions) * statistic.rounding(1)
        if not error <= max(allowed, 1e-6 * statistic.radius):
            raise InvalidParameter(
                f"a total of the statistic {statistic.name!r}",
                "be the sum over its records",
                f"one that is {error:.6g} away from that sum (the radius is {statistic.radius:.6g}) when {change}",
                "Let a record's contribution depend on that record only.",
            )
        if error > allowed:
            raise InvalidParameter(
                f"the rounding of the statistic {statistic.name!r}",
                "bound the error of its total",
                f"{allowed:.3g} where {len(positions)} records are off by {error:.3g}",
                "State a larger one.",
            )
        largest = max(largest, error / allowed if allowed else 0.0)
    return largest


def _rearranged(n_records: int) -> Iterator[tuple[str, np.ndarray[tuple[int], np.dtype[np.int64]]]]:
    """Yield what is done to a site's records, and which records it then holds."""
    order = np.arange(n_records)
    replaced = order.copy()
    replaced[n_records // 2] = 0
    yield "nothing was changed", order
    yield "nothing was changed, for the second time", order
    yield "records were permuted", order[::-1]
    yield "records were permuted", np.roll(order, 1)
    yield "one record was replaced", replaced
    yield "the site was split", order[: n_records // 2]
    yield "the site was split", order[n_records // 2 :]
    yield "the site had one record more", np.resize(order, n_records + 1)
    yield "the site had more records than a block", np.resize(order, BLOCK_ROWS + 3)
