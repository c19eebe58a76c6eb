"""Secure sum of statistics with each site's own noise: the aggregator sees only the sum (distributed Gaussian)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidMessage, ProtocolError
from dpcape.core.messages import Array, FromSite, Request, Submit, ToSite, Vector
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import ProtocolSettings, Terms
from dpcape.core.protocols.independent import noisy_total
from dpcape.core.protocols.parameters import MINIMUM_SITES, N_COLLUDING, N_NEIGHBOURS, ProtocolParameter
from dpcape.core.protocols.protocol import (
    CoordinatorRole,
    Messenger,
    Outcome,
    Protocol,
    SiteContext,
    SiteRole,
    request_digest,
    with_colluders,
)
from dpcape.core.protocols.secure_session import (
    TOO_FEW_FOR_A_SUM,
    SessionCoordinator,
    SessionSite,
    check_sum_neighbours,
    check_sum_sites,
    sum_assumptions,
)
from dpcape.core.secure_sum.fixed_point import from_ring, to_ring


@dataclass(frozen=True, kw_only=True)
class SecureSum(Protocol):
    """Noise added at the sites and hidden in a secure sum.

    Never more noise than :class:`Cape`, and the aggregator does not see any site's statistic. The sum recovers from
    drop-outs.

    Parameters
    ----------
    n_colluding : int
        Number of sites that may share everything they know with the aggregator; no default.
    minimum_sites : int or None
        Number of sites that must finish; None for all. Noise is calibrated for the fewest.
    n_neighbours : int or None
        Largest number of sites that a site shares masks with, for hundreds of sites; None for all. Noise and guarantee
        do not depend on it; a set of survivors that colluding sites might split is refused.

    Privacy
    -------
    Holds against the aggregator colluding with any ``n_colluding`` sites, honest but curious, if at least
    ``minimum_sites`` finish. View: the sum over the survivors, minus the colluders' parts.
    """

    n_colluding: int
    minimum_sites: int | None = None
    n_neighbours: int | None = None

    name: ClassVar[str] = "secure-sum"
    title: ClassVar[str] = "secure sum"
    summary: ClassVar[str] = "only the sum is seen"
    seen: ClassVar[str] = "The aggregator sees the noisy sum over the sites that finish, and no site's part of it."
    parameters: ClassVar[tuple[ProtocolParameter, ...]] = (N_COLLUDING, MINIMUM_SITES, N_NEIGHBOURS)
    rank: ClassVar[int] = 2
    least_sites: ClassVar[int] = 3
    too_few: ClassVar[str] = TOO_FEW_FOR_A_SUM
    vectors: ClassVar[int] = 2

    @staticmethod
    def closed_form(n_sites: float, n_honest: float, ratio: float) -> tuple[float, float]:
        return 0.0, 1 / math.sqrt(n_honest)

    def settings(self, n_sites: int) -> ProtocolSettings:
        least = check_sum_sites(self, n_sites, self.minimum_sites)
        return ProtocolSettings(
            name=self.name,
            n_colluding=self.n_colluding,
            minimum_sites=least,
            n_neighbours=check_sum_neighbours(self.n_neighbours, n_sites, self.n_colluding, least),
        )

    @classmethod
    def from_settings(cls, settings: ProtocolSettings) -> SecureSum:
        return cls(
            n_colluding=settings.n_colluding,
            minimum_sites=settings.minimum_sites,
            n_neighbours=settings.n_neighbours or None,
        )

    def n_honest(self, n_sites: int) -> int:
        return self.settings(n_sites).minimum_sites - self.n_colluding

    def unit_scales(self, demands: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.ones_like(demands), np.zeros_like(demands)

    def cover(self, own_scales: FloatArray, shared_scales: FloatArray) -> FloatArray:
        return own_scales**2

    def view(
        self,
        n_sites: int,
        *,
        honest: Sequence[int] | None = None,
        own_scales: FloatArray | None = None,
        shared_scales: FloatArray | None = None,
    ) -> AdversaryView:
        members = np.zeros((1, n_sites))
        members[0, list(range(n_sites) if honest is None else honest)] = 1.0
        own = np.ones(n_sites) if own_scales is None else own_scales
        return AdversaryView(shift=members, mixing=members, variances=own**2)

    def exposure(self, site: int, honest: Sequence[int], own_scales: FloatArray, shared_scales: FloatArray) -> float:
        scale = math.hypot(*own_scales[list(honest)])
        return 1 / scale if scale else math.inf

    def adversary(self) -> str:
        return with_colluders("the aggregator", self.n_colluding)

    def assumptions(self) -> tuple[str, ...]:
        return sum_assumptions(self.n_neighbours)

    def coordinator(self, messenger: Messenger, terms: Terms) -> CoordinatorRole:
        return _SecureSumCoordinator(messenger, terms)

    def site_role(self, site: SiteContext) -> SiteRole:
        return _SecureSumSite(site)


class _SecureSumCoordinator(SessionCoordinator):
    def run(self, request: Request, plan: ReleaseNoise, size: int) -> Outcome:
        gathered = self._next_round(len(self._terms.shares) - request.release)
        context = request_digest(request)
        submit = Submit(request=request, roster=self._present)
        vectors, _ = self._ask_vectors(gathered, submit, context, size=size, word_bytes=plan.word_bytes)
        self._require_enough(tuple(vectors), "had sent their masked total")
        for site, words in vectors.items():
            gathered.add_masked(site, words)
        self._settle(gathered, request.release, context)
        total = self._read("sum", "", from_ring(gathered.total(), plan.word_bytes))
        return Outcome(total=total, survivors=gathered.survivors)


class _SecureSumSite(SessionSite):
    def __init__(self, site: SiteContext) -> None:
        super().__init__(site)
        self._submitted: dict[int, bytes] = {}

    def answer_release(self, message: ToSite) -> FromSite:
        if not isinstance(message, Submit):
            remedy = "Install the same dpcape version everywhere."
            raise InvalidMessage("A message to a site under SecureSum", "be Submit", type(message).__name__, remedy)
        request = message.request
        plan = self._site.begin(request)
        number = self._enter(request.release)
        total = noisy_total(self._site, request)
        context = request_digest(request)
        self._submitted = {request.release: context}
        session = self._running()
        masked = session.recover_mask(round=number, vector=to_ring(total), context=context)
        return Vector(array=Array.of_words(masked, plan.word_bytes), relied_on=session.sign_context(round=number))

    def context(self, release: int) -> bytes:
        if release not in self._submitted:
            why = "it is not for the current release"
            raise ProtocolError("The survivor set was not signed", why, "Start a new run.")
        return self._submitted[release]
