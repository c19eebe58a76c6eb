"""Zero-sum noise from a trusted dealer (capeCCA paper): no agreement among sites is needed.

The dealer seals each site's share in a box; the aggregator forwards boxes it cannot open. Privacy requires that the
dealer does not collude with the aggregator: if it did, only a site's own noise would protect the site.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpcape.arrays import IntArray
from dpcape.errors import DpcapeError, ProtocolError
from dpcape.noise import NoiseSource
from dpcape.privacy.calibration import ReleaseNoise
from dpcape.privacy.terms import ProtocolSettings, Terms
from dpcape.protocols.independent import noisy_total
from dpcape.protocols.parameters import CANCELLING_RATIO, MINIMUM_SITES, N_COLLUDING, ProtocolParameter
from dpcape.protocols.protocol import (
    CoordinatorRole,
    Messenger,
    Outcome,
    SiteContext,
    SiteRole,
    check_colluding,
    check_least_sites,
)
from dpcape.protocols.zero_sum import ZeroSum, check_ratio
from dpcape.secure_sum import Identity, zero_sum_share
from dpcape.secure_sum.box import BoxKey, seal
from dpcape.secure_sum.identity import SIGNATURE_BYTES, verify
from dpcape.transport.messages import (
    Array,
    Deal,
    Dealt,
    FromSite,
    Refused,
    Request,
    Submit,
    ToSite,
    Vector,
    decode_to_site,
    encode,
)

_log = logging.getLogger(__name__)

# Name under which the noise dealer is pinned and addressed.
DEALER = "dealer"
# More than any study has.
LARGEST_RELEASE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Dealer(ZeroSum):
    """Zero-sum noise dealt by a trusted third party.

    Parameters
    ----------
    n_colluding : int
        Number of sites that may share everything they know with the aggregator; no default.
    cancelling_ratio : float
        As in :class:`Cape`.

    Privacy
    -------
    Holds against the aggregator colluding with any ``n_colluding`` sites, if the dealer is honest and keeps the shares
    secret. All sites must finish: nobody could correct for one that drops out. View: releases of the honest sites, and
    the shares of the colluders, hence the sum of the others' (all shares sum to zero). The sum of draws is never
    revealed, but counting it as known changes nothing: the shares are independent of it.
    """

    n_colluding: int
    cancelling_ratio: float = 100.0

    name: ClassVar[str] = "dealer"
    title: ClassVar[str] = "dealer"
    summary: ClassVar[str] = "a third party deals it"
    seen: ClassVar[str] = (
        "The aggregator sees the noisy total of every site. Noise that a third party dealt cancels in the sum over "
        "sites; each site's own stays in the result."
    )
    parameters: ClassVar[tuple[ProtocolParameter, ...]] = (N_COLLUDING, CANCELLING_RATIO)
    refused: ClassVar[Mapping[str, str]] = {MINIMUM_SITES.name: "all sites must finish"}
    rank: ClassVar[int] = 4
    least_sites: ClassVar[int] = 2
    too_few: ClassVar[str] = "Use Independent()."
    vectors: ClassVar[int] = 2
    needs_dealer: ClassVar[bool] = True

    def settings(self, n_sites: int) -> ProtocolSettings:
        check_least_sites(self, n_sites)
        check_colluding(self.n_colluding, n_sites)
        return ProtocolSettings(
            name=self.name,
            n_colluding=self.n_colluding,
            minimum_sites=n_sites,
            cancelling_ratio=check_ratio(self.cancelling_ratio),
        )

    @classmethod
    def from_settings(cls, settings: ProtocolSettings) -> Dealer:
        return cls(n_colluding=settings.n_colluding, cancelling_ratio=settings.cancelling_ratio)

    def n_honest(self, n_sites: int) -> int:
        return n_sites - self.n_colluding

    def assumptions(self) -> tuple[str, ...]:
        return (
            "sites and aggregator follow the protocol (honest but curious)",
            "the noise dealer is honest and tells nobody what it dealt",
            "X25519, HKDF-SHA-256 and AES-256-GCM are secure",
        )

    def coordinator(self, messenger: Messenger, terms: Terms) -> CoordinatorRole:
        return _DealerCoordinator(messenger, terms)

    def site_role(self, site: SiteContext) -> SiteRole:
        return _DealerSite(site)


class _DealerCoordinator(CoordinatorRole):
    def run(self, request: Request, plan: ReleaseNoise, size: int) -> Outcome:
        boxes = self._deal(request, plan, size)
        replies, missing = self._ask_all(self._present, lambda site: Submit(request=request, box=boxes[site]), Vector)
        self._require_enough(tuple(set(self._present) - set(missing)), "answered")
        return Outcome(total=self._add_plain(replies, size), survivors=tuple(sorted(replies)))

    def _deal(self, request: Request, plan: ReleaseNoise, size: int) -> dict[str, bytes]:
        dealer = self._messenger.dealer
        if dealer is None:
            raise ProtocolError(
                "Dealer must have a transport with a noise dealer; got a transport without one. Use in_process(), or "
                "choose Cape."
            )
        message = Deal(
            terms=self._terms.digest(),
            release=request.release,
            size=size,
            shared_steps={site: plan.shared_steps(site) for site in self._present},
            receivers=dict(self._messenger.keys),
        )
        replies, _ = self._ask_all((dealer,), lambda _: message, Dealt)
        if dealer not in replies:
            raise ProtocolError(
                "The release failed because the noise dealer did not answer. Nothing was released. Start a new run."
            )
        boxes: dict[str, bytes] = replies[dealer].boxes
        if set(boxes) != set(self._present):
            raise ProtocolError(
                "The release failed because the noise dealer did not send one box per site. Nothing was released. "
                "Install the same dpcape version everywhere."
            )
        return boxes


class _DealerSite(SiteRole):
    def __init__(self, site: SiteContext) -> None:
        super().__init__(site)
        if DEALER not in site.pinned:
            raise ProtocolError(
                "The noise dealer must be pinned at every site; got no key for it. Pin its public key at this site."
            )
        self._key: BoxKey | None = BoxKey()

    def forget(self) -> None:
        self._key = None

    def _kept_key(self) -> BoxKey:
        if self._key is None:
            raise ProtocolError("The request was refused because its allowance is over. Open a new one.")
        return self._key

    def key(self) -> bytes:
        """Return the box key signed by the site, so that nobody in between can put its own in place."""
        public = self._kept_key().public
        return self._site.identity.sign(_key_statement(self._site.terms.digest(), self._site.name, public)) + public

    def answer(self, message: ToSite) -> FromSite:
        if not isinstance(message, Submit):
            raise ProtocolError(
                f"A message to a site under Dealer must be Submit; got {type(message).__name__}. "
                "Install the same dpcape version everywhere."
            )
        request = message.request
        size = self._site.size(request)
        plan = self._site.begin(request)
        context = _box_context(self._site.terms.digest(), request.release, self._site.name, self._site.terms.sites)
        signature, box = message.box[:SIGNATURE_BYTES], message.box[SIGNATURE_BYTES:]
        if not verify(self._site.pinned[DEALER], signature, context + box):
            raise ProtocolError(
                "The dealt noise was refused because it is not signed by the pinned dealer. Compare fingerprints with "
                "the dealer."
            )
        share = _checked_share(self._kept_key().open(box, context), plan, self._site.terms.sites, size)
        total = noisy_total(self._site, request)
        total += share
        return Vector(array=Array.of(total))


def _checked_share(opened: bytes, plan: ReleaseNoise, sites: Sequence[str], size: int) -> IntArray:
    """Return the dealt share, or raise unless the dealer used the scales this site computed for all of ``sites``."""
    if len(opened) != 8 * (len(sites) + size):
        raise ProtocolError(
            f"Dealt noise must have {8 * (len(sites) + size)} bytes; got {len(opened)}. "
            "Install the same dpcape version everywhere."
        )
    told = np.frombuffer(opened, dtype="<f8", count=len(sites))
    if not np.allclose(told, [plan.shared_steps(site) for site in sites], rtol=1e-9, atol=0.0):
        raise ProtocolError(
            "The dealt noise was refused because its scale differs from this site's calculation. Install the same "
            "dpcape version everywhere."
        )
    share: IntArray = np.frombuffer(opened, dtype="<i8", offset=8 * len(sites)).astype(np.int64)
    return share


def _box_context(terms: bytes, release: int, site: str, sites: Sequence[str]) -> bytes:
    """Return what a box is bound to: terms, release, receiver and the sites whose noise sums to zero."""
    names = "\0".join(sorted(sites))
    return f"dpcape dealt 3\0{terms.hex()}\0{release}\0{site}\0{names}\0".encode()


def _key_statement(terms: bytes, site: str, public: bytes) -> bytes:
    """Return what a site signs, so that the dealer deals only among sites with the same terms."""
    return f"dpcape box key 2\0{terms.hex()}\0{site}\0".encode() + public


class NoiseDealer:
    """Trusted third party that answers ``Deal`` with sealed shares that sum to zero."""

    def __init__(self, identity: Identity, noise: NoiseSource) -> None:
        self.identity = identity
        self._noise = noise
        self._pinned: dict[str, bytes] = {}
        # Which releases were dealt, as bits of a number, by the digest of the terms.
        self._dealt: dict[bytes, int] = {}
        self._n_dealt = 0

    def pin(self, identities: Mapping[str, bytes]) -> None:
        """Set the public keys of the consortium's sites."""
        self._pinned = dict(identities)

    def answer(self, data: bytes) -> bytes:
        """Return the encoded reply to one message, or a refusal."""
        allowance = ""
        try:
            allowance, message = decode_to_site(data)
            if not isinstance(message, Deal):
                raise ProtocolError(f"A message to the noise dealer must be Deal; got {type(message).__name__}.")
            return encode(Dealt(boxes=self._deal(message)), allowance=allowance)
        except DpcapeError as error:
            return encode(Refused(error=type(error).__name__, text=str(error)), allowance=allowance)
        except Exception as error:  # fail closed, as a site does
            _log.exception("the noise dealer could not answer")
            text = f"The noise dealer failed with {type(error).__name__}. See its log."
            return encode(Refused(error="ProtocolError", text=text), allowance=allowance)

    def _deal(self, message: Deal) -> dict[str, bytes]:
        dealt = self._dealt.get(message.terms, 0)
        if not 0 <= message.release < LARGEST_RELEASE:
            raise ProtocolError(f"a release must be numbered from 0 to {LARGEST_RELEASE - 1}; got {message.release}.")
        if dealt >> message.release & 1:
            raise ProtocolError(
                "The request was refused because noise was already dealt for this release. Start a new run."
            )
        keys = {site: self._checked_key(message.terms, site, key) for site, key in message.receivers.items()}
        if set(keys) != set(message.shared_steps):
            raise ProtocolError(
                "The request was refused because its receivers differ from the sites with scales. Install the same "
                "dpcape version everywhere."
            )
        self._dealt[message.terms] = dealt | 1 << message.release
        self._n_dealt += 1
        return self._shares(message, keys)

    def _checked_key(self, terms: bytes, site: str, key: bytes) -> bytes:
        signature, public = key[:SIGNATURE_BYTES], key[SIGNATURE_BYTES:]
        if site not in self._pinned or not verify(self._pinned[site], signature, _key_statement(terms, site, public)):
            raise ProtocolError(
                f"The box key of {site} was refused because it is not signed by that site's pinned identity. Compare "
                "fingerprints with the site."
            )
        return public

    def _shares(self, message: Deal, keys: Mapping[str, bytes]) -> dict[str, bytes]:
        sites = sorted(keys)
        source = self._noise.child(DEALER, self._n_dealt)
        draws: dict[str, IntArray] = {
            site: source.child(site).integer_gaussian(message.shared_steps[site], message.size) for site in sites
        }
        agreed: IntArray = np.sum(list(draws.values()), axis=0)
        # Each site receives the scales of all shares, so that it need not trust the aggregator.
        scales = np.array([message.shared_steps[site] for site in sites], dtype="<f8").tobytes()
        boxes = {}
        for rank, site in enumerate(sites):
            share = draws[site] - zero_sum_share(agreed, len(sites), rank=rank)
            context = _box_context(message.terms, message.release, site, sites)
            box = seal(keys[site], scales + share.astype("<i8").tobytes(), context)
            boxes[site] = self.identity.sign(context + box) + box
        return boxes
