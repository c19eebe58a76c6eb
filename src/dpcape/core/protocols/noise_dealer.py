"""The noise dealer: a participant without records that deals sealed noise which sums to zero."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dpcape.core._version import __version__
from dpcape.core.arrays import IntArray
from dpcape.core.errors import DpcapeError, InvalidMessage, ProtocolError
from dpcape.core.messages import (
    MAX_ENTRIES,
    Deal,
    DealerDescribed,
    Dealt,
    Describe,
    FromSite,
    Refused,
    ToSite,
    decode_to_site,
    encode,
)
from dpcape.core.noise import NoiseSource
from dpcape.core.protocols.dealt_noise import DEALER, PAD_BYTES, box_context, key_statement, pads, root_of, signed_box
from dpcape.core.secure_sum.box import seal
from dpcape.core.secure_sum.fixed_point import zero_sum_share
from dpcape.core.secure_sum.identity import SIGNATURE_BYTES, Identity, verify

_log = logging.getLogger(__name__)

# Upper limit on release numbers, far above what any study uses.
LARGEST_RELEASE = 1_000_000


class NoiseDealer:
    """Trusted third party that answers ``Deal`` with sealed shares that sum to zero. It holds no records.

    Parameters
    ----------
    identity : Identity
        Signs the boxes.
    noise : NoiseSource
        Where shares and pads come from.
    separation : str
        Mode in which an engine is kept from the identity and the noise; empty without an engine.
    sites : sequence of str
        Sites of the study, the only ones noise is dealt to; empty deals to any that are pinned.
    record : callable or None
        Called with the allowance and its terms' digest before noise is dealt for the first time; may refuse.
    """

    def __init__(
        self,
        identity: Identity,
        noise: NoiseSource,
        *,
        separation: str = "",
        sites: Sequence[str] = (),
        record: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self.identity = identity
        self._noise = noise
        self._separation, self._sites, self._record = separation, frozenset(sites), record
        self._pinned: dict[str, bytes] = {}
        # Which releases were dealt, as bits of a number, by the digest of the terms and the receivers' keys.
        self._dealt: dict[tuple[bytes, frozenset[bytes]], int] = {}
        self._n_dealt = 0

    def pin(self, identities: Mapping[str, bytes]) -> None:
        """Set the public keys of the consortium's sites."""
        self._pinned = dict(identities)

    def answer(self, data: bytes) -> bytes:
        """Return the encoded reply to one message, or a refusal."""
        allowance = ""
        try:
            allowance, message = decode_to_site(data)
            return encode(self._answer(allowance, message), allowance=allowance)
        except DpcapeError as error:
            return encode(Refused(error=type(error).__name__, text=str(error)), allowance=allowance)
        except Exception as error:  # fail closed, as a site does
            _log.exception("the noise dealer could not answer")
            text = f"The noise dealer failed with {type(error).__name__}. See its log."
            return encode(Refused(error="ProtocolError", text=text), allowance=allowance)

    def _answer(self, allowance: str, message: ToSite) -> FromSite:
        if isinstance(message, Describe):
            return DealerDescribed(
                identity=self.identity.public,
                replayable=self._noise.replayable,
                version=__version__,
                separation=self._separation,
            )
        if not isinstance(message, Deal):
            raise InvalidMessage("A message to the noise dealer", "be Deal", type(message).__name__)
        return Dealt(boxes=self._deal(allowance, message))

    def _deal(self, allowance: str, message: Deal) -> dict[str, bytes]:
        if not 0 <= message.release < LARGEST_RELEASE:
            raise InvalidMessage("a release", f"be numbered from 0 to {LARGEST_RELEASE - 1}", message.release)
        if not 0 <= message.size <= MAX_ENTRIES:
            raise InvalidMessage("a release", f"have 0 to {MAX_ENTRIES} entries", message.size)
        keys = {site: self._checked_key(message.terms, site, key) for site, key in message.receivers.items()}
        if set(keys) != set(message.shared_steps) or not keys or (self._sites and set(keys) != self._sites):
            why = "its receivers are not the sites of the study, each with a scale"
            raise ProtocolError("The request was refused", why, "Install the same dpcape version everywhere.")
        # After a crash sites have new keys, and nobody can open noise that was sealed for the old ones.
        deal = (message.terms, frozenset(keys.values()))
        dealt = self._dealt.get(deal, 0)
        if dealt >> message.release & 1:
            why = "noise was already dealt for this release"
            raise ProtocolError("The request was refused", why, "Start a new run.")
        if not dealt and self._record is not None:
            self._record(allowance, message.terms)
        self._dealt[deal] = dealt | 1 << message.release
        self._n_dealt += 1
        return self._boxes(message, keys)

    def _checked_key(self, terms: bytes, site: str, key: bytes) -> bytes:
        signature, public = key[:SIGNATURE_BYTES], key[SIGNATURE_BYTES:]
        if site not in self._pinned or not verify(self._pinned[site], signature, key_statement(terms, site, public)):
            why = "it is not signed by that site's pinned identity"
            raise ProtocolError(f"The box key of {site} was refused", why, "Compare fingerprints with the site.")
        return public

    def _boxes(self, message: Deal, keys: Mapping[str, bytes]) -> dict[str, bytes]:
        sites = sorted(keys)
        source = self._noise.child(DEALER, self._n_dealt)
        shares, pad = self._shares(message, sites, source), pads(sites, source)
        # Each site receives the scales of all shares, so that it need not trust the aggregator.
        scales = np.array([message.shared_steps[site] for site in sites], dtype="<f8").tobytes()
        contexts = {site: box_context(message.terms, message.release, message.request, site, sites) for site in sites}
        sealed = {}
        for site in sites:
            content = scales + pad[site].to_bytes(PAD_BYTES, "big") + shares[site].astype("<i8").tobytes()
            sealed[site] = seal(keys[site], content, contexts[site])
        root = root_of(sealed)
        return {site: signed_box(self.identity, contexts[site], root, sealed[site]) for site in sites}

    def _shares(self, message: Deal, sites: Sequence[str], source: NoiseSource) -> dict[str, IntArray]:
        """Draw noise of the given scales that sums to zero."""
        draws: dict[str, IntArray] = {
            site: source.child(site).integer_gaussian(message.shared_steps[site], message.size) for site in sites
        }
        agreed: IntArray = np.sum(list(draws.values()), axis=0)
        return {site: draws[site] - zero_sum_share(agreed, len(sites), rank=rank) for rank, site in enumerate(sites)}
