"""What every protocol has: parameters, a view, and two halves, coordinator and site."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from typing import Protocol as Interface

import numpy as np

from dpcape.arrays import FloatArray, IntArray
from dpcape.errors import InvalidParameter, ProtocolError, SiteLost
from dpcape.formula import Number
from dpcape.noise import NoiseSource
from dpcape.privacy.adversary_view import AdversaryView
from dpcape.privacy.calibration import ReleaseNoise
from dpcape.privacy.terms import ProtocolSettings, Terms
from dpcape.protocols.parameters import ProtocolParameter
from dpcape.secure_sum import Identity
from dpcape.transport.messages import FromSite, Request, Submit, ToSite, Vector


class Protocol(ABC):
    """How sites add noise so that it is large at a site and small in the sum.

    A protocol's parameters are public and hashable; its two halves are made per allowance by ``coordinator`` and
    ``site_role``. What an adversary sees is written in ``view``; everything the guarantee says follows from it.

    The class variables describe the protocol. Commands, study files, plans, the planner's page and privacy cards read
    them, and know no protocol by name.

    Attributes
    ----------
    name : str
        Name in study files, commands and messages.
    title : str
        Name in running text and pictures.
    summary : str
        What distinguishes it, in a few words beside the title.
    seen : str
        What the aggregator sees, in the words of the privacy card.
    parameters : tuple of ProtocolParameter
        Parameters of the constructor.
    refused : mapping from str to str
        Parameters of other protocols that would promise something this one does not keep, with the reason. Those that
        are neither here nor in ``parameters`` are ignored: the guarantee holds for any value of them.
    rank : int
        Place where protocols are listed.
    least_sites : int
        Fewest sites; ``too_few`` says what to do with fewer.
    vectors : int
        Vectors of the statistic's length that are counted per site and release.
    plannable : bool
        Whether plans can be made; then there is a ``closed_form``.
    adds_noise : bool
        Whether anything is protected.
    shares_noise : bool
        Whether sites add noise that cancels in the sum, beside their own; only then may a shared scale be above 0.
    needs_dealer : bool
        Whether a third party deals noise.
    equal_demands : bool
        Whether every site adds the same noise, whatever its own data ask for.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    seen: ClassVar[str]
    parameters: ClassVar[tuple[ProtocolParameter, ...]] = ()
    refused: ClassVar[Mapping[str, str]] = {}
    rank: ClassVar[int] = 100
    least_sites: ClassVar[int] = 1
    too_few: ClassVar[str] = ""
    vectors: ClassVar[int] = 1
    plannable: ClassVar[bool] = True
    adds_noise: ClassVar[bool] = True
    shares_noise: ClassVar[bool] = False
    needs_dealer: ClassVar[bool] = False
    equal_demands: ClassVar[bool] = True

    @staticmethod
    def closed_form(n_sites: Number, n_honest: Number, ratio: Number) -> tuple[Number, Number]:
        """Return the shared scale and a site's exposure to the worst coalition, where all own scales are one.

        Parameters
        ----------
        n_sites : float or Formula
            Number of sites.
        n_honest : float or Formula
            Least number of honest sites among those that finish.
        ratio : float or Formula
            The ``cancelling_ratio``; unused where there is none.
        """
        raise NotImplementedError("a protocol that is plannable must have a closed form; write closed_form")

    @property
    def colluding(self) -> int:
        """Sites that may pool what they know with the aggregator, beyond what the protocol allows for anyway."""
        # Handed on as it is: check_colluding must see what was given.
        given: int = getattr(self, "n_colluding", 0)
        return given

    @abstractmethod
    def settings(self, n_sites: int) -> ProtocolSettings:
        """Return the parameters as they travel, checked for ``n_sites`` sites."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: ProtocolSettings) -> Protocol:
        """Rebuild the protocol at a site."""

    @abstractmethod
    def n_honest(self, n_sites: int) -> int:
        """Least number of honest sites among those that finish."""

    @abstractmethod
    def unit_scales(self, demands: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Own and shared scales up to one common factor."""

    @abstractmethod
    def cover(self, own_scales: FloatArray, shared_scales: FloatArray) -> FloatArray:
        """How much each site's noise protects the others."""

    @abstractmethod
    def view(
        self,
        n_sites: int,
        *,
        honest: Sequence[int] | None = None,
        own_scales: FloatArray | None = None,
        shared_scales: FloatArray | None = None,
    ) -> AdversaryView:
        """What the aggregator, colluding with all sites outside ``honest``, sees of one coordinate of one release."""

    @abstractmethod
    def adversary(self) -> str:
        """Say in words whom the guarantee holds against."""

    def assumptions(self) -> tuple[str, ...]:
        """Say in words what the guarantee rests on besides arithmetic."""
        return ()

    @abstractmethod
    def coordinator(self, messenger: Messenger, terms: Terms) -> CoordinatorRole:
        """Return the coordinator's half for one allowance."""

    @abstractmethod
    def site_role(self, site: SiteContext) -> SiteRole:
        """Return the site's half for one allowance."""


@dataclass(frozen=True)
class Outcome:
    """What a release came to: the integer sum over the sites that finished, and who they were."""

    total: IntArray
    survivors: tuple[str, ...]


class Messenger(Interface):
    """Sends the coordinator's messages to the sites of one allowance, and returns their replies."""

    def ask(self, messages: Mapping[str, ToSite]) -> tuple[dict[str, FromSite], tuple[str, ...]]:
        """Send one message per site; return the replies and who is missing. A refusal raises."""

    @property
    def identities(self) -> Mapping[str, bytes]:
        """Public keys of the sites, as they described themselves."""

    @property
    def keys(self) -> Mapping[str, bytes]:
        """Public box keys the sites answered with when the allowance was opened."""

    @property
    def dealer(self) -> str | None:
        """Name of the noise dealer, if there is one."""


class CoordinatorRole(ABC):
    """The aggregator's half of a protocol, for one allowance."""

    def __init__(self, messenger: Messenger, terms: Terms) -> None:
        self._messenger = messenger
        self._terms = terms
        # Who did not agree to the terms cannot answer later either.
        self._present = tuple(site for site in terms.sites if site in messenger.keys)
        # An audit's eye: called with every vector that can be read here, in clear, by what it is and whose it is.
        self.on_read: Callable[[str, str, IntArray], None] | None = None

    @abstractmethod
    def run(self, request: Request, plan: ReleaseNoise, size: int) -> Outcome:
        """Carry one release through and return the sum."""

    def _ask_all(
        self, sites: Sequence[str], make: Callable[[str], ToSite], kind: type[Any]
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Ask each site; return replies of the wanted kind and the sites that did not answer."""
        replies, missing = self._messenger.ask({site: make(site) for site in sites})
        for site, reply in replies.items():
            if not isinstance(reply, kind):
                raise ProtocolError(f"{site} must answer with {kind.__name__}; got {type(reply).__name__}.")
        return replies, tuple(missing)

    def _read(self, what: str, site: str, vector: IntArray) -> IntArray:
        """Return ``vector``, shown to whoever watches."""
        if self.on_read is not None:
            self.on_read(what, site, vector)
        return vector

    def _add_plain(self, replies: Mapping[str, Vector], size: int) -> IntArray:
        """Add plain releases, refusing anything but int64 vectors of the right length."""
        total = np.zeros(size, dtype=np.int64)
        for site, reply in replies.items():
            release = reply.array.decode()
            if release.dtype != np.int64 or release.shape != (size,):
                raise ProtocolError(f"the release of {site} must be {size} whole numbers; got shape {release.shape}.")
            total += self._read("release", site, release)
        return total

    def _require_enough(self, present: Sequence[str], when: str) -> None:
        least = self._terms.settings.minimum_sites
        if len(present) < least:
            lost = sorted(set(self._terms.sites) - set(present))
            raise SiteLost(
                f"at least {least} sites must finish; got {len(present)} {when} (lost: {', '.join(lost)}). "
                "No result was formed, and what sites have charged stays charged."
            )


class SiteContext(Interface):
    """What a site's half may use: it never sees records, only totals on the grid, once per release."""

    name: str
    terms: Terms
    identity: Identity
    pinned: Mapping[str, bytes]

    def begin(self, request: Request) -> ReleaseNoise:
        """Check a request against the site's own computation; return the site's plan."""

    def size(self, request: Request) -> int:
        """Length of the statistic the request names."""

    def steps(self, request: Request) -> IntArray:
        """Charge, count the release, and only then compute the site's weighted total in grid steps."""

    def noise(self, *labels: str | int) -> NoiseSource:
        """Return the noise source for these labels."""


class SiteRole(ABC):
    """The site's half of a protocol, for one allowance."""

    def __init__(self, site: SiteContext) -> None:
        self._site = site

    def completes(self, message: ToSite) -> int | None:
        """Return the number of the release that answering this message completed; None if it completed none."""
        return message.request.release if isinstance(message, Submit) else None

    def forget(self) -> None:  # noqa: B027 - most protocols keep nothing
        """Overwrite what is secret: the allowance is over."""

    @abstractmethod
    def answer(self, message: ToSite) -> FromSite:
        """Answer one message or raise."""

    def key(self) -> bytes:
        """Return the public key under which this half receives sealed messages; empty if it needs none."""
        return b""


def with_colluders(who: str, n_colluding: int) -> str:
    """Say whom the guarantee holds against."""
    if n_colluding == 0:
        return f"{who}, with no colluding site"
    return f"{who} together with any {n_colluding} site{'s' if n_colluding > 1 else ''}"


def check_colluding(n_colluding: int, n_sites: int) -> None:
    """Refuse a number of colluding sites that leaves nobody to protect."""
    if not isinstance(n_colluding, int) or isinstance(n_colluding, bool) or n_colluding < 0:
        raise InvalidParameter(f"n_colluding must be a whole number of at least 0; got {n_colluding!r}.")
    if n_colluding > n_sites - 1:
        raise InvalidParameter(
            f"n_colluding must be at most {n_sites - 1} with {n_sites} sites; got {n_colluding}. "
            "At least one site must be honest."
        )


def check_least_sites(protocol: Protocol, n_sites: int) -> None:
    """Refuse fewer sites than a protocol needs."""
    if n_sites < protocol.least_sites:
        raise InvalidParameter(
            f"{type(protocol).__name__} must have at least {protocol.least_sites} sites; got {n_sites}. "
            f"{protocol.too_few}"
        )


def check_minimum(minimum_sites: int | None, n_sites: int, least: int = 1, why: str = "") -> int:
    """Return ``minimum_sites`` made explicit (None: all sites), refused below ``least`` or above ``n_sites``."""
    if minimum_sites is None:
        return n_sites
    if not isinstance(minimum_sites, int) or isinstance(minimum_sites, bool):
        raise InvalidParameter(f"minimum_sites must be a whole number or None; got {minimum_sites!r}.")
    if not least <= minimum_sites <= n_sites:
        reason = f" {why}" if why else ""
        raise InvalidParameter(
            f"minimum_sites must be between {least} and {n_sites} here; got {minimum_sites}.{reason}"
        )
    return minimum_sites


def on_grid(total: FloatArray, step: float) -> IntArray:
    """Return a weighted total in grid steps."""
    return np.rint(total / step).astype(np.int64)
