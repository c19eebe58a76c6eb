"""The right to a fixed number of releases, used one by one."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from dpcape.core.arrays import FloatArray
from dpcape.core.enclosed import enclosed_statistic
from dpcape.core.errors import AllowanceExceeded, UtilityWarning
from dpcape.core.limits import check_size
from dpcape.core.messages import Request, public_arrays
from dpcape.core.privacy.calibration import NoisePlans, ReleaseNoise
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.protocol import Outcome
from dpcape.core.statistic import AnyStatistic, Statistic, is_own
from dpcape.federation.kept_releases import KeptRelease, KeptReleases, kept_release
from dpcape.guarantee.guarantee import Guarantee, guarantee_of
from dpcape.guarantee.release_record import ReleaseRecord
from dpcape.transport.footprint import footprint_of_release
from dpcape.transport.messenger import SiteMessenger

if TYPE_CHECKING:
    from dpcape.federation.federation import Federation


M = TypeVar("M")

NOT_COUNTED = (
    "Records that cannot be read contribute zero, and this result does not count them: if a site has some, the result "
    "is too small by their share. Each site's own check fails above 1%."
)
# z-score below 1 at which the share of valid records is applied, for one release. With more releases the threshold
# rises, so that the false-alarm probability of a whole fit stays the same.
_VALID_SHARE_Z = 4.0
_LEAST_SHARE = 0.05


class ValidShare(NamedTuple):
    """Share of valid records in a release.

    Attributes
    ----------
    share : float
        The share, as released; 1 where all records are known to be valid, or nobody counts them.
    scale : float
        Standard deviation of its noise.
    was_divided : bool
        Whether the release was divided by it, because it is clearly below one.
    """

    share: float = 1.0
    scale: float = 0.0
    was_divided: bool = False

    @property
    def divisor(self) -> float:
        """What the release was divided by."""
        return self.share if self.was_divided else 1.0


class Allowance:
    """A calibrated right to a fixed number of releases.

    ``mean`` is the only verb. Each release uses its own share of mu^2; one more than allowed raises, before anything
    leaves a site. Releases that are kept on disk are taken from there; one that a site has begun and that is not kept
    is lost. ``counted`` is the share of valid records in the last release.
    """

    _kept: Mapping[int, KeptRelease] = {}
    _releases: KeptReleases | None = None
    lost: frozenset[int] = frozenset()
    uncertain: list[str]
    valid: float = 1.0
    """Share of valid records by which the last mean was divided; its noise grew by the same."""
    counted: ValidShare
    memory_checked: bool = False
    """Whether there was memory for all releases when the first was made: then later ones are not refused for it."""

    def __init__(
        self,
        federation: Federation,
        terms: Terms,
        messenger: SiteMessenger,
        on_release: Callable[[ReleaseRecord], None] | None,
        *,
        releases: KeptReleases | None = None,
        n_begun: int = 0,
        stated: Sequence[str] = (),
        deltas: Mapping[str, float] | None = None,
    ) -> None:
        self._federation, self._terms, self._deltas = federation, terms, deltas or {}
        self._protocol = federation.protocol
        self._coordinator = self._protocol.coordinator(messenger, terms)
        self._releases = releases
        self._kept = {} if releases is None else releases.releases()
        self.lost = frozenset(range(max([n_begun, *(number + 1 for number in self._kept)]))) - self._kept.keys()
        self.uncertain = []
        self.counted = ValidShare()
        self._noise_plans = NoisePlans(terms, self._protocol)
        self._plans: list[ReleaseNoise] = []
        self._stated = list(stated)
        self._by_site = False
        self._in_single = False
        self._on_release = on_release
        self.releases: list[ReleaseRecord] = []

    @property
    def left(self) -> int:
        """Releases not yet used."""
        ahead = sum(number >= len(self._plans) for number in self.lost)
        return len(self._terms.shares) - len(self._plans) - ahead

    def plan(self, statistic: AnyStatistic, release: int | None = None) -> ReleaseNoise:
        """Return the noise the next release (or release number ``release``) would have; spends nothing."""
        number = len(self._plans) if release is None else release
        if not 0 <= number < len(self._terms.shares):
            why = f"its allowance has {len(self._terms.shares)} releases"
            remedy = "Open a new allowance, which is charged separately."
            raise AllowanceExceeded(f"Release {number + 1} was not begun", why, remedy)
        requested = self._requested(statistic)
        check_size(requested.name, requested.released_size)
        terms = self._terms
        needed = footprint_of_release(
            requested.released_size, terms.facts.n_features, terms.total_records, len(terms.sites)
        )
        if not (self._plans and self.memory_checked):
            self._federation.require_memory(f"The release {requested.name!r}", needed, is_charged=bool(self._plans))
        return self._noise_plans.plan(number, requested)

    def _requested(self, statistic: AnyStatistic) -> AnyStatistic:
        """Return what the sites are asked for: what other packages compute is enclosed, where a study says how."""
        enclosure = self._federation.enclosure
        if enclosure is None or (is_own(type(statistic)) and not statistic.assumption):
            return statistic
        return enclosed_statistic(statistic, enclosure)

    def mean(self, statistic: Statistic[Any, M]) -> M:
        """Return the private mean of a statistic over the records of all sites that finish."""
        while len(self._plans) in self.lost:
            # A lost release was charged, so it counts in the guarantee as if it had been made.
            self._plans.append(self.plan(statistic))
        number = len(self._plans)
        plan, requested = self.plan(statistic), self._requested(statistic)
        if self._releases is not None and number not in self._kept:
            self._releases.require_space(requested.released_size, self.left)
        # Count the release before asking for it: it is used up even if it fails.
        self._plans.append(plan)
        if requested.assumption and requested.assumption not in self._stated:
            self._stated.append(requested.assumption)
        self._by_site = self._by_site or requested.by_site
        self._in_single = self._in_single or requested.in_single
        request = Request(release=number, statistic=requested.name, public=public_arrays(requested.public), plan=plan)
        outcome, step = self._outcome(request, plan, requested.released_size)
        divisor = self._terms.divisor(outcome.survivors)
        mean = outcome.total.astype(np.float64) * (step / divisor)
        self._note(number, requested, plan, outcome.survivors, divisor, float(np.linalg.norm(mean[:-1])))
        return statistic.unpack(self._per_valid_record(requested, mean))

    def _per_valid_record(self, statistic: AnyStatistic, mean: FloatArray) -> FloatArray:
        """Return the packed mean, divided by the released share of valid records where that is clearly below one.

        Invalid records contribute zero and count in the divisor. A share that noise alone explains changes nothing.
        """
        packed, weight = mean[:-1], statistic.count_weight
        self.valid = 1.0
        self.counted = ValidShare()
        if self._terms.facts.invalid != "zero":
            return packed
        if weight == 0:
            if NOT_COUNTED not in self.uncertain:
                self.uncertain.append(NOT_COUNTED)
            return packed
        share, scale = float(mean[-1]) / weight, self.releases[-1].scale / weight
        self.counted = ValidShare(share, scale)
        spread = self._threshold_z * scale
        if share >= 1 - spread - 1e-9 or share < max(_LEAST_SHARE, spread):
            return packed
        warnings.warn(
            f"about {100 * (1 - share):.2g}% of the records cannot be read at their sites and contributed zero; the "
            "result was divided by the released number of valid records. Ask the sites to check their data.",
            UtilityWarning,
            stacklevel=3,
        )
        self.valid = share
        self.counted = ValidShare(share, scale, was_divided=True)
        corrected: FloatArray = packed / share
        return corrected

    @property
    def _threshold_z(self) -> float:
        """Threshold z-score with the false-alarm probability of one release at :data:`_VALID_SHARE_Z` (Bonferroni)."""
        return -float(ndtri(ndtr(-_VALID_SHARE_Z) / len(self._terms.shares)))

    def _outcome(self, request: Request, plan: ReleaseNoise, size: int) -> tuple[Outcome, float]:
        """Return a release and its grid step: from the folder, or from the sites, and then kept before it is used."""
        kept = self._kept.get(request.release)
        if kept is not None:
            return kept.outcome(request, size), kept.step
        outcome = self._coordinator.run(request, plan, size)
        if self._releases is not None:
            self._releases.keep(kept_release(self._terms.allowance, request, plan.step, outcome))
        return outcome, plan.step

    def _note(
        self,
        number: int,
        statistic: AnyStatistic,
        plan: ReleaseNoise,
        survivors: tuple[str, ...],
        divisor: float,
        length: float | None = None,
    ) -> None:
        release = ReleaseRecord(
            number=number,
            n_releases=len(self._terms.shares),
            statistic=statistic.name,
            scale=plan.sum_scale(survivors) / divisor,
            survivors=survivors,
            n_records=sum(self._terms.n_records[site] for site in survivors),
            mus=dict(plan.mus),
            size=statistic.released_size,
            length=length,
        )
        self.releases.append(release)
        if self._on_release is not None:
            self._on_release(release)

    def guarantee(self) -> Guarantee:
        """Return what may be claimed for everything this allowance may release, used or not."""
        took_part = set(self._terms.sites) if self.releases else set()
        return guarantee_of(
            self._terms,
            self._protocol,
            self._plans,
            took_part=tuple(took_part.intersection(*(release.survivors for release in self.releases))),
            replayable=self._federation.replayable,
            stated=tuple(self._stated),
            separation=self._federation.separation,
            clusters=self._federation.clusters,
            shows_heads=self._federation.shows_heads,
            by_site=self._by_site,
            in_single=self._in_single,
            deltas=self._deltas,
        )
