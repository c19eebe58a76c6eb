"""What may be claimed for an allowance: the figures of every site, and everything they rest on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol as Interface

from dpcape.privacy.calibrate import Plan, Scheme, target_mus
from dpcape.privacy.collusion import epsilons_by_colluders
from dpcape.privacy.gaussian import compose
from dpcape.privacy.guarantee import CONDITIONAL, NONE, VERIFIED, Guarantee, SiteGuarantee
from dpcape.privacy.terms import Terms, epsilon_reserve, printed_epsilon, tail_reserve

PUBLIC_FACTS = ("site sizes", "dimensions", "names of columns and classes", "bounds", "number of releases")
ONE_SITE_EACH = "a person appears at one site only (one at k sites is protected less: mu is up to k times larger)"


class Described(Scheme, Interface):
    """A scheme that says in words whom it protects against, and what it rests on."""

    def adversary(self) -> str:
        """Say in words whom the guarantee holds against."""

    def assumptions(self) -> tuple[str, ...]:
        """Say in words what the guarantee rests on besides arithmetic."""


def guarantee_of(
    terms: Terms,
    protocol: Described,
    plans: Sequence[Plan],
    *,
    took_part: Sequence[str] = (),
    replayable: bool = False,
    stated: tuple[str, ...] = (),
) -> Guarantee:
    """Return the guarantee of an allowance whose first releases followed ``plans``; the rest counts in full.

    ``took_part`` are the sites in every release so far. ``stated`` are assumptions of the statistics' authors; with
    any, the figures are conditional, not verified.
    """
    sites = {site: _site_guarantee(terms, plans, site) for site in terms.sites}
    worst = max(sites.values(), key=lambda entry: entry.epsilon)
    return Guarantee(
        epsilon=worst.epsilon,
        delta=terms.delta,
        mu=worst.mu,
        epsilon_output_only=_output_only(terms, plans),
        unit=terms.facts.unit,
        owner_note=terms.facts.owner_note,
        against=protocol.adversary(),
        protocol=type(protocol).__name__,
        public=PUBLIC_FACTS,
        releases=len(terms.shares),
        n_colluding=terms.settings.n_colluding,
        minimum_sites=terms.settings.minimum_sites,
        took_part=tuple(sorted(took_part)),
        sites=sites,
        assumptions=(ONE_SITE_EACH, *protocol.assumptions(), *stated),
        status=_status(terms, stated),
        replayable=replayable,
        by_colluders=epsilons_by_colluders(terms, protocol, plans),
    )


def _status(terms: Terms, stated: tuple[str, ...]) -> str:
    if not terms.epsilons:
        return NONE
    return CONDITIONAL if stated else VERIFIED


def _site_guarantee(terms: Terms, plans: Sequence[Plan], site: str) -> SiteGuarantee:
    if not terms.epsilons:
        mu, epsilon = math.inf, math.inf
    else:
        mu = compose([*(plan.mus[site] for plan in plans), _unused_mu(terms, plans, site)])
        epsilon = _epsilon(terms, site, mu)
    return SiteGuarantee(mu=mu, epsilon=epsilon, delta=terms.delta, n_records=terms.n_records[site])


def _unused_mu(terms: Terms, plans: Sequence[Plan], site: str) -> float:
    """Return what the releases that are allowed and were not made may still cost."""
    return target_mus(terms)[site] * math.sqrt(math.fsum(terms.shares[len(plans) :]))


def _epsilon(terms: Terms, site: str, mu: float) -> float:
    return printed_epsilon(terms.delta, mu, gap=epsilon_reserve(terms.epsilons[site]), tail=tail_reserve(terms.delta))


def _output_only(terms: Terms, plans: Sequence[Plan]) -> float:
    """Return the worst site's epsilon against somebody who sees nothing but the results.

    The result carries the own noise of at least ``minimum_sites`` sites; those with the least are counted.
    """
    if not terms.epsilons:
        return math.inf
    least = terms.settings.minimum_sites
    epsilons = []
    for site in terms.sites:
        mus = []
        for plan in plans:
            others = sorted(scale for name, scale in plan.own_scales.items() if name != site)[: least - 1]
            covered = math.hypot(plan.own_scales[site], *others)
            mus.append(plan.output_sensitivities[site] / covered)
        epsilons.append(_epsilon(terms, site, compose([*mus, _unused_mu(terms, plans, site)])))
    return max(epsilons)
