"""Base classes of protocols: parameters, the adversary's view, and the roles of coordinator and site."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeVar
from typing import Protocol as Interface

import msgspec
import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidMessage, InvalidParameter, SiteLost
from dpcape.core.messages import FromSite, Request, Submit, ToSite, Vector
from dpcape.core.noise import NoiseSource
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import ProtocolSettings, Terms
from dpcape.core.protocols.parameters import ProtocolParameter
from dpcape.core.secure_sum.identity import Identity

_ReplyT = TypeVar("_ReplyT")


class Protocol(ABC):
    """Base class of protocols, which make noise large at a site and small in the sum.

    A protocol's parameters are public and hashable; ``coordinator`` and ``site_role`` return its two roles for one
    allowance. ``view`` states what an adversary sees; the guarantee follows from it.

    The class variables describe the protocol. Commands, study files, plans, the planner's page and privacy cards read
    them and do not depend on any protocol's name.

    Attributes
    ----------
    name : str
        Name in study files, commands and messages.
    title : str
        Name in running text and pictures.
    summary : str
        What distinguishes it, in a few words that follow the title.
    seen : str
        What the aggregator sees, in the words of the privacy card.
    parameters : tuple of ProtocolParameter
        Parameters of the constructor.
    refused : mapping from str to str
        Parameters of other protocols that would imply a guarantee this one does not give, with the reason. Parameters
        that are neither here nor in ``parameters`` are ignored: the guarantee holds for any value of them.
    rank : int
        Position in lists of protocols.
    least_sites : int
        Smallest number of sites.
    too_few : str
        Advice for fewer sites.
    vectors : int
        Vectors of the statistic's length that are counted per site and release.
    plannable : bool
        Whether plans can be made; if so, there is a ``closed_form``.
    adds_noise : bool
        Whether the protocol adds noise; without it nothing is protected.
    shares_noise : bool
        Whether sites add cancelling noise besides their own; only then may a shared scale be above 0.
    needs_dealer : bool
        Whether a third party deals noise.
    equal_demands : bool
        Whether every site adds the same noise, whatever its own sensitivity and epsilon.
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
    def closed_form(n_sites: float, n_honest: float, ratio: float) -> tuple[float, float]:
        """Return the shared scale and a site's exposure to the worst coalition, where all own scales are one.

        Parameters
        ----------
        n_sites : float
            Number of sites.
        n_honest : float
            Least number of honest sites among those that finish.
        ratio : float
            The ``cancelling_ratio``; unused by protocols without one.
        """
        raise NotImplementedError("A plannable protocol must override closed_form.")

    @property
    def colluding(self) -> int:
        """Number of sites that may share everything they know with the aggregator; 0 if there is no such parameter."""
        # Not validated here: check_colluding validates it.
        n_colluding: int = getattr(self, "n_colluding", 0)
        return n_colluding

    @property
    def dealt_by(self) -> str:
        """Name of the participant that deals noise; empty if there is none, or it is in the process of the study."""
        name: str = getattr(self, "dealer", "")
        return name

    @abstractmethod
    def settings(self, n_sites: int) -> ProtocolSettings:
        """Return the parameters as they are sent to sites, checked for ``n_sites`` sites."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: ProtocolSettings) -> Protocol:
        """Return the protocol with these settings."""

    @abstractmethod
    def n_honest(self, n_sites: int) -> int:
        """Return the least number of honest sites among those that finish."""

    @abstractmethod
    def unit_scales(self, demands: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return own and shared scales up to one common factor."""

    @abstractmethod
    def cover(self, own_scales: FloatArray, shared_scales: FloatArray) -> FloatArray:
        """Return how much each site's noise protects the others."""

    @abstractmethod
    def view(
        self,
        n_sites: int,
        *,
        honest: Sequence[int] | None = None,
        own_scales: FloatArray | None = None,
        shared_scales: FloatArray | None = None,
    ) -> AdversaryView:
        """Return the view of one coordinate of one release: the aggregator with all sites outside ``honest``."""

    def exposure(self, site: int, honest: Sequence[int], own_scales: FloatArray, shared_scales: FloatArray) -> float:
        """Return the exposure of one honest site in the view; a closed form must agree with it (``tests/laws``)."""
        view = self.view(own_scales.size, honest=honest, own_scales=own_scales, shared_scales=shared_scales)
        return float(view.exposures()[site])

    @abstractmethod
    def adversary(self) -> str:
        """Return, in words, the adversary the guarantee holds against."""

    def assumptions(self) -> tuple[str, ...]:
        """Return, in words, the assumptions of the guarantee."""
        return ()

    @abstractmethod
    def coordinator(self, messenger: Messenger, terms: Terms) -> CoordinatorRole:
        """Return the coordinator's role for one allowance."""

    @abstractmethod
    def site_role(self, site: SiteContext) -> SiteRole:
        """Return the site's role for one allowance."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a release: the integer sum over the survivors, and their names."""

    total: IntArray
    survivors: tuple[str, ...]


class Messenger(Interface):
    """Interface that sends the coordinator's messages to the sites of one allowance and returns their replies."""

    def ask(self, messages: Mapping[str, ToSite]) -> tuple[dict[str, FromSite], tuple[str, ...]]:
        """Send one message per site; return the replies and the sites that did not answer. A refusal raises."""

    @property
    def identities(self) -> Mapping[str, bytes]:
        """Public keys of the sites, as the sites stated them."""

    @property
    def keys(self) -> Mapping[str, bytes]:
        """Public box keys that the sites sent when the allowance was opened."""

    @property
    def dealer(self) -> str | None:
        """Name of the noise dealer, if there is one."""


class CoordinatorRole(ABC):
    """Role of the coordinator in a protocol, for one allowance."""

    def __init__(self, messenger: Messenger, terms: Terms) -> None:
        self._messenger = messenger
        self._terms = terms
        # A site that did not agree to the terms cannot answer later.
        self._present = tuple(site for site in terms.sites if site in messenger.keys)
        # Hook for audits: called with every vector that is readable here, with its kind and its site.
        self.on_read: Callable[[str, str, IntArray], None] | None = None

    @abstractmethod
    def run(self, request: Request, plan: ReleaseNoise, size: int) -> Outcome:
        """Run one release and return its outcome."""

    def _ask_all(
        self, sites: Sequence[str], make: Callable[[str], ToSite], kind: type[_ReplyT]
    ) -> tuple[dict[str, _ReplyT], tuple[str, ...]]:
        """Ask each site; return the replies, all of the given kind, and the sites that did not answer."""
        answers, missing = self._messenger.ask({site: make(site) for site in sites})
        replies: dict[str, _ReplyT] = {}
        for site, reply in answers.items():
            if not isinstance(reply, kind):
                remedy = "Install the same dpcape version everywhere."
                raise InvalidMessage(site, f"answer with {kind.__name__}", type(reply).__name__, remedy)
            replies[site] = reply
        return replies, tuple(missing)

    def _read(self, what: str, site: str, vector: IntArray) -> IntArray:
        """Return ``vector`` after passing it to ``on_read``."""
        if self.on_read is not None:
            self.on_read(what, site, vector)
        return vector

    def _add_plain(self, replies: Mapping[str, Vector], size: int) -> IntArray:
        """Return the sum of plain releases, or raise unless all are int64 vectors of length ``size``."""
        total = np.zeros(size, dtype=np.int64)
        for site, reply in replies.items():
            release = reply.array.decode()
            if release.dtype != np.int64 or release.shape != (size,):
                must, got = f"be {size} integers of int64", f"shape {release.shape} of {release.dtype}"
                raise InvalidMessage(f"The release of {site}", must, got, "Install the same dpcape version everywhere.")
            total += self._read("release", site, release)
        return total

    def _require_enough(self, present: Sequence[str], when: str) -> None:
        least = self._terms.settings.minimum_sites
        if len(present) < least:
            lost = sorted(set(self._terms.sites) - set(present))
            why = f"only {len(present)} of {least} required sites {when} (lost: {', '.join(lost)})"
            remedy = "Sites already charged stay charged. Start a new run when the lost sites are back."
            raise SiteLost("The run failed", why, remedy)


class SiteContext(Interface):
    """Interface that a site's role uses: it never sees records, only totals on the grid, once per release."""

    name: str
    terms: Terms
    identity: Identity
    pinned: Mapping[str, bytes]

    def begin(self, request: Request) -> ReleaseNoise:
        """Check a request against the site's own calculation; return the noise the site computed."""

    def size(self, request: Request) -> int:
        """Return the length of the requested statistic."""

    def steps(self, request: Request) -> IntArray:
        """Charge and count the release, then return the site's weighted total in grid steps."""

    def noise(self, *labels: str | int) -> NoiseSource:
        """Return the noise source for these labels."""


class SiteRole(ABC):
    """Role of a site in a protocol, for one allowance."""

    def __init__(self, site: SiteContext) -> None:
        self._site = site

    def completes(self, message: ToSite) -> int | None:
        """Return the number of the release that answering this message completed; None if it completed none."""
        return message.request.release if isinstance(message, Submit) else None

    def forget(self) -> None:  # noqa: B027 - most protocols keep nothing
        """Overwrite what is secret: the allowance is over."""

    @abstractmethod
    def answer(self, message: ToSite) -> FromSite:
        """Return the reply to one message, or raise."""

    def key(self) -> bytes:
        """Return the public key with which messages to this role are sealed; empty if it needs none."""
        return b""


def with_colluders(who: str, n_colluding: int) -> str:
    """Return, in words, an adversary with colluding sites."""
    if n_colluding == 0:
        return f"{who}, with no colluding site"
    return f"{who} together with any {n_colluding} site{'s' if n_colluding > 1 else ''}"


def check_colluding(n_colluding: int, n_sites: int) -> None:
    """Refuse a number of colluding sites that leaves no honest site."""
    if not isinstance(n_colluding, int) or isinstance(n_colluding, bool) or n_colluding < 0:
        must = "be a whole number of at least 0"
        raise InvalidParameter("n_colluding", must, repr(n_colluding), "Write for example 1.")
    if n_colluding > n_sites - 1:
        must = f"be at most {n_sites - 1} with {n_sites} sites"
        raise InvalidParameter("n_colluding", must, n_colluding, "At least one site must be honest.")


def check_least_sites(protocol: Protocol, n_sites: int) -> None:
    """Refuse fewer sites than a protocol needs."""
    if n_sites < protocol.least_sites:
        must = f"have at least {protocol.least_sites} sites"
        raise InvalidParameter(type(protocol).__name__, must, n_sites, protocol.too_few)


def check_minimum(minimum_sites: int | None, n_sites: int, least: int = 1, why: str = "") -> int:
    """Return ``minimum_sites`` (None: ``n_sites``), or raise if it is not from ``least`` to ``n_sites``."""
    if minimum_sites is None:
        return n_sites
    if not isinstance(minimum_sites, int) or isinstance(minimum_sites, bool):
        raise InvalidParameter("minimum_sites", "be a whole number or None", repr(minimum_sites), "None means all.")
    if not least <= minimum_sites <= n_sites:
        reason = f" {why}" if why else ""
        raise InvalidParameter("minimum_sites", f"be between {least} and {n_sites} here", f"{minimum_sites}.{reason}")
    return minimum_sites


def request_digest(request: Request) -> bytes:
    """Return the digest of a request: its number, statistic, public values, and the noise of all sites.

    All masks are bound to it, and it is signed with the survivor set. Sites with other statistics or
    other noise then have nothing that adds up: each would rely on noise that the others do not add.
    """
    return hashlib.sha256(b"dpcape request 1" + msgspec.msgpack.encode(request)).digest()


def on_grid(total: FloatArray, step: float) -> IntArray:
    """Return a weighted total in grid steps."""
    steps = total / step
    return np.rint(steps, out=steps).astype(np.int64)
