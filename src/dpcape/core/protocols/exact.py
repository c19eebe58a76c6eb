"""Exact totals without noise, for checks on poolable data. Every result states this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidMessage
from dpcape.core.messages import Array, FromSite, Submit, ToSite, Vector
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.terms import ProtocolSettings, Terms
from dpcape.core.protocols.independent import PlainCoordinator
from dpcape.core.protocols.parameters import MINIMUM_SITES, N_COLLUDING
from dpcape.core.protocols.protocol import CoordinatorRole, Messenger, Protocol, SiteContext, SiteRole


@dataclass(frozen=True)
class Exact(Protocol):
    """Sites release exact totals: NO PRIVACY.

    The aggregator learns every site's statistic. A site whose ledger has a ceiling refuses.

    Privacy
    -------
    None: mu and epsilon are infinite.
    """

    name: ClassVar[str] = "exact"
    title: ClassVar[str] = "exact totals"
    summary: ClassVar[str] = "no noise, nothing protected"
    seen: ClassVar[str] = "The aggregator sees the exact total of every site."
    refused: ClassVar[Mapping[str, str]] = {
        N_COLLUDING.name: "exact totals protect from nobody",
        MINIMUM_SITES.name: "all sites must finish",
    }
    rank: ClassVar[int] = 5
    plannable: ClassVar[bool] = False
    adds_noise: ClassVar[bool] = False

    def settings(self, n_sites: int) -> ProtocolSettings:
        return ProtocolSettings(name=self.name, minimum_sites=n_sites)

    @classmethod
    def from_settings(cls, settings: ProtocolSettings) -> Exact:
        return cls()

    def n_honest(self, n_sites: int) -> int:
        return n_sites

    def unit_scales(self, demands: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.zeros_like(demands), np.zeros_like(demands)

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
        return AdversaryView(shift=np.eye(n_sites), mixing=np.zeros((n_sites, 1)), variances=np.ones(1))

    def adversary(self) -> str:
        return "nobody: exact totals are released"

    def coordinator(self, messenger: Messenger, terms: Terms) -> CoordinatorRole:
        return PlainCoordinator(messenger, terms)

    def site_role(self, site: SiteContext) -> SiteRole:
        return _ExactSite(site)


class _ExactSite(SiteRole):
    def answer(self, message: ToSite) -> FromSite:
        if not isinstance(message, Submit):
            remedy = "Install the same dpcape version everywhere."
            raise InvalidMessage("A message to a site under Exact", "be Submit", type(message).__name__, remedy)
        self._site.begin(message.request)
        return Vector(array=Array.of(self._site.steps(message.request)))
