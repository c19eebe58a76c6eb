"""Independent noise: every site protects its own release by itself (the papers' "conventional" scheme)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidMessage
from dpcape.core.messages import Array, FromSite, Request, Submit, ToSite, Vector
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import ProtocolSettings, Terms
from dpcape.core.protocols.parameters import MINIMUM_SITES, ProtocolParameter
from dpcape.core.protocols.protocol import (
    CoordinatorRole,
    Messenger,
    Outcome,
    Protocol,
    SiteContext,
    SiteRole,
    check_minimum,
)


@dataclass(frozen=True)
class Independent(Protocol):
    """Independent noise: each site adds enough to protect itself from everyone else.

    With n equal sites the aggregate carries sqrt(n) times the noise of pooled data. It is the only protocol for a
    single site, where it is ordinary centralised differential privacy.

    Parameters
    ----------
    minimum_sites : int or None
        Number of sites needed for a result; None for all. It does not affect privacy.

    Privacy
    -------
    Holds against everyone outside the site, even if all of them collude. View: one row per site, its release. A site
    that drops out changes nothing for the others.
    """

    minimum_sites: int | None = None

    name: ClassVar[str] = "independent"
    title: ClassVar[str] = "independent noise"
    summary: ClassVar[str] = "each site protects itself"
    seen: ClassVar[str] = "The aggregator sees the noisy total of every site."
    parameters: ClassVar[tuple[ProtocolParameter, ...]] = (MINIMUM_SITES,)
    rank: ClassVar[int] = 3
    equal_demands: ClassVar[bool] = False

    @staticmethod
    def closed_form(n_sites: float, n_honest: float, ratio: float) -> tuple[float, float]:
        return 0.0, 1.0

    def settings(self, n_sites: int) -> ProtocolSettings:
        least = check_minimum(self.minimum_sites, n_sites)
        return ProtocolSettings(name=self.name, n_colluding=n_sites - 1, minimum_sites=least)

    @classmethod
    def from_settings(cls, settings: ProtocolSettings) -> Independent:
        return cls(minimum_sites=settings.minimum_sites)

    def n_honest(self, n_sites: int) -> int:
        return 1

    def unit_scales(self, demands: FloatArray) -> tuple[FloatArray, FloatArray]:
        return demands.copy(), np.zeros_like(demands)

    def cover(self, own_scales: FloatArray, shared_scales: FloatArray) -> FloatArray:
        return np.zeros_like(own_scales)

    def view(
        self,
        n_sites: int,
        *,
        honest: Sequence[int] | None = None,
        own_scales: FloatArray | None = None,
        shared_scales: FloatArray | None = None,
    ) -> AdversaryView:
        own = np.ones(n_sites) if own_scales is None else own_scales
        return AdversaryView(shift=np.eye(n_sites), mixing=np.eye(n_sites), variances=own**2)

    def adversary(self) -> str:
        return "everyone outside the site, all other sites and the aggregator together"

    def coordinator(self, messenger: Messenger, terms: Terms) -> CoordinatorRole:
        return PlainCoordinator(messenger, terms)

    def site_role(self, site: SiteContext) -> SiteRole:
        return _IndependentSite(site)


class PlainCoordinator(CoordinatorRole):
    """Coordinator that asks every site for its release and adds them, without agreement or masks."""

    def run(self, request: Request, plan: ReleaseNoise, size: int) -> Outcome:
        replies, missing = self._ask_all(self._present, lambda _: Submit(request=request), Vector)
        self._require_enough(tuple(set(self._present) - set(missing)), "answered")
        return Outcome(total=self._add_plain(replies, size), survivors=tuple(sorted(replies)))


class _IndependentSite(SiteRole):
    def answer(self, message: ToSite) -> FromSite:
        if not isinstance(message, Submit):
            remedy = "Install the same dpcape version everywhere."
            raise InvalidMessage("A message to a site under Independent", "be Submit", type(message).__name__, remedy)
        return Vector(array=Array.of(noisy_total(self._site, message.request)))


def noisy_total(site: SiteContext, request: Request) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the site's total in grid steps plus its own noise."""
    plan = site.begin(request)
    noise = site.noise("own", request.release)
    total = site.steps(request)
    total += noise.integer_gaussian(plan.own_steps(site.name), total.size)
    return total
