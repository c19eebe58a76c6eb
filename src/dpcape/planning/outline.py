"""Outline of a study or an estimator: its releases in order, their noise and the guarantee; nothing is spent.

Stewards read it before they approve a study.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpcape.analyses.description import Analysis, Public
from dpcape.analyses.footprint import footprint_of
from dpcape.core.facts import PublicFacts
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import Terms, check_terms
from dpcape.core.protocols.protocol import Protocol
from dpcape.guarantee.guarantee import Guarantee, guarantee_of
from dpcape.planning.planned import PlannedRelease, TermsFor, planned_releases, plans_of
from dpcape.study.study import Study
from dpcape.transport.footprint import Footprint


@dataclass(frozen=True)
class Step:
    """Release from the point of view of one site.

    Attributes
    ----------
    statistic : str
        Name of the statistic.
    size : int
        How many numbers it contains.
    mean_scale : float
        Standard deviation of the noise in the mean over all sites, at a diagonal entry.
    site_scale : float
        Standard deviation of all noise on this site's own mean.
    reach : float
        Largest change that replacing one record makes to this site's own mean.
    instead : str
        Name of the statistic that an earlier result may choose instead; empty if there is none.
    """

    statistic: str
    size: int
    mean_scale: float
    site_scale: float
    reach: float
    instead: str = ""


@dataclass(frozen=True)
class Outline:
    """Planned releases with their noise.

    Attributes
    ----------
    terms : Terms
        Terms for which the noise is calibrated.
    protocol : Protocol
        Protocol the sites run.
    releases : tuple of PlannedRelease
        Releases in order; a repeated release is listed once.
    plans : tuple of ReleaseNoise
        Noise of each release.
    footprint : Footprint
        Memory that the releases and their results need.
    """

    terms: Terms
    protocol: Protocol
    releases: tuple[PlannedRelease, ...]
    plans: tuple[ReleaseNoise, ...]
    footprint: Footprint

    def each(self) -> list[tuple[PlannedRelease, ReleaseNoise]]:
        """Return every release with its noise; repeated releases appear as often as they are made."""
        return [
            (release, plan)
            for release, plan in zip(self.releases, self.plans, strict=True)
            for _ in range(release.times)
        ]

    def guarantee(
        self,
        *,
        replayable: bool = False,
        stated: Sequence[str] = (),
        separation: Mapping[str, str] | None = None,
        shows_heads: bool = False,
    ) -> Guarantee:
        """Return what could be claimed.

        ``stated`` is what it rests on besides proof, in words; ``separation`` has the mode in which an engine is kept
        from the records of sites, as far as it is known; ``shows_heads`` says that sites have ledgers on disk.
        """
        assumed = [entry.statistic.assumption for entry in self.releases if entry.statistic.assumption]
        plans = [plan for _, plan in self.each()]
        return guarantee_of(
            self.terms,
            self.protocol,
            plans,
            replayable=replayable,
            stated=tuple(dict.fromkeys([*stated, *assumed])),
            separation=separation,
            shows_heads=shows_heads,
            by_site=any(entry.statistic.by_site for entry in self.releases),
            in_single=any(entry.statistic.in_single for entry in self.releases),
        )

    def scale(self, plan: ReleaseNoise) -> float:
        """Return the noise scale on the mean over all sites."""
        return plan.sum_scale(self.terms.sites) / self.terms.divisor(self.terms.sites)

    def steps(self, site: str) -> list[Step]:
        """Return the releases from the point of view of a site."""
        return [self._step(release, plan, site) for release, plan in self.each()]

    def _step(self, release: PlannedRelease, plan: ReleaseNoise, site: str) -> Step:
        own_records = self.terms.n_records[site] * self.terms.coefficient(site)
        return Step(
            statistic=release.statistic.name,
            size=release.statistic.released_size,
            mean_scale=self.scale(plan),
            site_scale=math.hypot(plan.own_scales[site], _left_of_draw(plan, site)) / own_records,
            reach=plan.output_sensitivities[site] / own_records,
            instead=release.instead,
        )


def outline_of(
    analysis: Analysis, public: Public, facts: PublicFacts, terms_for: TermsFor, protocol: Protocol
) -> Outline:
    """Return the outline of an analysis, for these public numbers and under the terms for its shares."""
    releases = planned_releases(analysis, public, facts, terms_for, protocol)
    terms = terms_for([entry.share for entry in releases for _ in range(entry.times)])
    plans = tuple(plans_of(releases, terms, protocol))
    return Outline(terms, protocol, releases, plans, footprint_of(analysis, public))


def outline(study: Study, n_records: Mapping[str, int]) -> Outline:
    """Return the outline of a study at sites of these sizes."""
    protocol, facts = study.protocol(), study.facts()

    def terms_for(shares: Sequence[float]) -> Terms:
        epsilons = {site: study.epsilon_of(site) for site in study.sites} if protocol.adds_noise else {}
        terms = Terms(
            allowance="plan",
            settings=protocol.settings(len(study.sites)),
            epsilons=epsilons,
            delta=study.delta,
            shares=tuple(shares),
            n_records={site: n_records[site] for site in study.sites},
            weights=study.weights,
            facts=facts,
        )
        check_terms(terms, adds_noise=protocol.adds_noise)
        return terms

    return outline_of(study.description, study.public(n_records), facts, terms_for, protocol)


def _left_of_draw(plan: ReleaseNoise, site: str) -> float:
    """Return the scale of a site's cancelling noise: its draw minus the mean of all draws."""
    scales, n_sites = plan.shared_scales, len(plan.shared_scales)
    others = math.fsum(scale**2 for name, scale in scales.items() if name != site)
    return math.sqrt((scales[site] * (n_sites - 1)) ** 2 + others) / n_sites
