"""A federation of kept releases: results are rebuilt without asking a site and without a charge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dpcape.core.errors import Failed, ProtocolError
from dpcape.core.messages import Describe, Request, decode_to_site
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.protocols.protocol import Outcome
from dpcape.core.protocols.registry import from_settings
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.federation.kept_releases import KeptReleases, same_terms
from dpcape.transport.messenger import SiteMessenger
from dpcape.transport.transport import Transport


class ReleaseMissing(ProtocolError):
    """A release that the analysis needs is not in the folder."""


class RebuiltFederation(Federation):
    """The sites as they described themselves when an allowance was opened; none of them is asked.

    Parameters
    ----------
    folder : str or Path
        The folder ``releases`` of a run.
    """

    def __init__(self, folder: str | Path) -> None:
        releases = KeptReleases(folder)
        opened = releases.allowance()
        if opened is None:
            raise Failed(f"{str(folder)!r} holds no kept releases", remedy="Name a run's folder 'releases'.")
        self._allowance = opened
        super().__init__(
            _Remembered(opened.described, opened.dealers),
            protocol=from_settings(opened.terms.settings),
            weights=opened.terms.weights or None,
            releases=releases,
            enclosure=opened.enclosure,
        )

    @property
    def epsilon(self) -> float | dict[str, float]:
        """The epsilon of the allowance: one number where all sites have the same."""
        values = set(self._allowance.terms.epsilons.values())
        if len(values) > 1:
            return dict(self._allowance.terms.epsilons)
        return values.pop() if values else 1.0

    @property
    def delta(self) -> float:
        """The delta of the allowance."""
        return self._allowance.terms.delta

    def allow(
        self,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        shares: Sequence[float] = (1.0,),
        *,
        stated: Sequence[str] = (),
    ) -> Allowance:
        """Return the kept allowance, if its terms are the requested ones."""
        terms = same_terms(self._allowance.terms, self.terms(epsilon, delta, shares))
        messenger = SiteMessenger(self._transport, terms.allowance, self._identities, None)
        return _KeptOnly(self, terms, messenger, self._on_release, releases=self._releases, stated=stated)


class _KeptOnly(Allowance):
    """Allowance whose releases all come from the folder."""

    def _outcome(self, request: Request, plan: ReleaseNoise, size: int) -> tuple[Outcome, float]:
        if request.release not in self._kept:
            why = f"release {request.release + 1} of {len(self._terms.shares)} is not in the folder"
            raise ReleaseMissing("The result was not rebuilt", why, "Go on with: dpcape run --resume.")
        return super()._outcome(request, plan, size)


class _Remembered(Transport):
    """Sites, and a noise dealer, that answer with the description they once gave."""

    def __init__(self, described: Mapping[str, bytes], dealers: Mapping[str, bytes]) -> None:
        self._sites, self._dealers = tuple(sorted(described)), tuple(dealers)
        self._described = {**described, **dealers}

    @property
    def sites(self) -> tuple[str, ...]:
        return self._sites

    @property
    def dealer(self) -> str | None:
        return self._dealers[0] if self._dealers else None

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        if not all(isinstance(decode_to_site(data)[1], Describe) for data in messages_by_site.values()):
            raise ProtocolError("The message was not sent", "the sites are known from kept releases only")
        return {name: self._described[name] for name in messages_by_site}, ()
