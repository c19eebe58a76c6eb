"""Epoch set-up of RECOVER: fresh secrets for every round, shared among the sites in sealed boxes.

Each round of each site has three secrets of its own, none of which serves another round:

* ``SUM``: the seed of the self-mask of the vector that is summed;
* ``COVER``: the seed of the self-mask of the vector that is released by itself (CAPE's release);
* ``KEY``: an X25519 private key, from which the pair masks of the summed vector follow.

An epoch is exactly `n_rounds` independent set-ups of Bonawitz et al. (2017), rounds 0 and 1, sent together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dpcape.core.errors import InvalidMessage, ProtocolError
from dpcape.core.secure_sum import shamir
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.identity import Identity, verify
from dpcape.core.secure_sum.links import Links
from dpcape.core.secure_sum.messages import Offer
from dpcape.core.secure_sum.transcript import digest, remembered_digest

SUM, COVER, KEY = 0, 1, 2
N_KINDS = 3
SECRET_BYTES = shamir.SECRET_BYTES
SHARE_BYTES = shamir.SHARE_BYTES
LARGEST_EPOCH = 100_000
# Encodings of the points of small order on Curve25519 and of its twist, without the top bit, which X25519 ignores:
# 0, 1, two points of order 8, p - 1, p and p + 1. An exchange with any of them gives zero, whatever the other key.
_PRIME = 2**255 - 19
_SMALL_ORDER = frozenset(
    number.to_bytes(32, "little")
    for number in (
        0,
        1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
        _PRIME - 1,
        _PRIME,
        _PRIME + 1,
    )
)
_PublicPart = tuple[str, int, int, bytes, bytes, bytes, bytes]
_KINDS = (int, int, bytes, bytes, bytes, bytes)
_NONCE = bytes(12)  # every box has a key of its own, used once


def make_offer(links: Links, identity: Identity, *, epoch: int, n_rounds: int) -> tuple[Offer, bytearray]:
    """Return an offer with fresh secrets, and the secrets as (SUM, COVER, KEY) round by round."""
    secrets = bytearray(os.urandom(n_rounds * N_KINDS * SECRET_BYTES))
    unsigned = Offer(
        sender=links.name,
        epoch=epoch,
        n_rounds=n_rounds,
        keys=b"".join(public_key(secret_at(secrets, r, KEY)) for r in range(n_rounds)),
        sum_commitments=_commitments(links, secrets, epoch=epoch, kind=SUM),
        cover_commitments=_commitments(links, secrets, epoch=epoch, kind=COVER),
        boxes={},
        signature=b"",
    )
    body = offer_body(unsigned, links.session_id)
    boxes = _seal(links, _shares(links, secrets), body=body)
    return msgspec.structs.replace(unsigned, boxes=boxes, signature=identity.sign(body)), secrets


def check_offers(
    offers: Sequence[Offer], *, config: Config, session_id: bytes, pinned: Mapping[str, bytes]
) -> tuple[dict[str, Offer], bytes]:
    """Return offers by sender and the epoch's digest, or raise unless all are well formed, signed and of one epoch."""
    for offer in offers:
        if not isinstance(offer, Offer):
            raise InvalidMessage("offers", "be Offer messages", type(offer).__name__, "Start a new run.")
    roster = config.check_roster([offer.sender for offer in offers], within=config.sites)
    if config.n_neighbours and len(roster) < len(config.sites):
        why = "a site's is missing, and with n_neighbours all sites must offer"
        raise ProtocolError("The offers were refused", why, "Start a new run with the sites that are present.")
    for offer in offers:
        _check_form(offer)
    by_sender = {offer.sender: offer for offer in sorted(offers, key=lambda offer: offer.sender)}
    public = tuple(_public_part(offer) for offer in by_sender.values())
    return by_sender, _checked_digest(public, session_id, tuple(pinned[name] for name in roster))


# Cached, because sites in one process receive the same offers; refusals raise and are not cached.
@lru_cache(maxsize=4)
def _checked_digest(offers: tuple[_PublicPart, ...], session_id: bytes, publics: tuple[bytes, ...]) -> bytes:
    """Return the epoch's digest, or raise unless the offers are signed, of one epoch, and their keys fit for use."""
    bodies: list[bytes | str] = []
    for (*signed, signature), public in zip(offers, publics, strict=True):
        body = remembered_digest("offer", session_id, *signed)
        sender = str(signed[0])
        if not verify(public, signature, body):
            why = "it is not signed by its pinned identity for this session"
            raise ProtocolError(f"The offer of site {sender} was refused", why, "Compare fingerprints with that site.")
        bodies += (sender, body)
    if len({(epoch, n_rounds) for _, epoch, n_rounds, *_ in offers}) != 1:
        must = "be for one epoch and one number of rounds"
        raise InvalidMessage("offers", must, "several epochs or numbers", "Start a new run.")
    keys = {sender: [entry(table, r) for r in range(n_rounds)] for sender, _, n_rounds, table, *_ in offers}
    _refuse_repeated_keys(keys)
    _refuse_small_order(keys)
    return digest("epoch", session_id, *bodies)


def open_box(links: Links, offer: Offer) -> bytearray:
    """Return the shares that the sender of an offer dealt to this site, three per round."""
    body = offer_body(offer, links.session_id)
    box = offer.boxes.get(links.name) if isinstance(offer.boxes, dict) else None
    if not isinstance(box, bytes):
        what = f"The offer of site {offer.sender} was refused"
        raise ProtocolError(what, "it has no box for this site", "Start a new run.")
    key = _box_key(links, offer.sender, dealer=offer.sender, receiver=links.name, body=body)
    try:
        content = AESGCM(key).decrypt(_NONCE, box, body)
    except InvalidTag:
        what = f"The box of site {offer.sender} could not be opened"
        raise ProtocolError(what, "it was tampered with or misdirected", "Start a new run.") from None
    if len(content) != offer.n_rounds * N_KINDS * SHARE_BYTES:
        must = f"have {offer.n_rounds * N_KINDS * SHARE_BYTES} bytes, three shares per round"
        raise InvalidMessage(f"The box of site {offer.sender}", must, len(content), "Exclude the site.")
    # Elements below 2^256 begin with a zero byte: nearly always all of them do.
    if any(content[::SHARE_BYTES]):
        for start in range(0, len(content), SHARE_BYTES):
            shamir.decode(content[start : start + SHARE_BYTES])
    return bytearray(content)


def offer_body(offer: Offer, session_id: bytes) -> bytes:
    """Return what the sender signs: everything but the boxes."""
    *signed, _ = _public_part(offer)
    return remembered_digest("offer", session_id, *signed)


def _public_part(offer: Offer) -> _PublicPart:
    """Return everything but the boxes."""
    tables = (offer.keys, offer.sum_commitments, offer.cover_commitments)
    return (offer.sender, offer.epoch, offer.n_rounds, *tables, offer.signature)


def commitment(session_id: bytes, sender: str, *, epoch: int, round: int, kind: int, seed: bytes) -> bytes:
    """Return the commitment to a seed; it is hiding, because the seed has 256 random bits."""
    return digest("commitment", session_id, sender, epoch, round, kind, seed)


def public_key(private: bytes) -> bytes:
    """Return the X25519 public key of a round key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def secret_at(secrets: bytes | bytearray, round: int, kind: int) -> bytes:
    """Return one secret of a round."""
    return bytes(secrets[_slice(round, kind, SECRET_BYTES)])


def share_at(shares: bytes | bytearray, round: int, kind: int) -> bytes:
    """Return one share of a round."""
    return bytes(shares[_slice(round, kind, SHARE_BYTES)])


def wipe_secret(secrets: bytearray, round: int, kind: int) -> None:
    """Overwrite one secret of a round."""
    secrets[_slice(round, kind, SECRET_BYTES)] = bytes(SECRET_BYTES)


def wipe_share(shares: bytearray, round: int, kind: int) -> None:
    """Overwrite one share of a round."""
    shares[_slice(round, kind, SHARE_BYTES)] = bytes(SHARE_BYTES)


def entry(table: bytes, round: int) -> bytes:
    """Return the key or commitment of a round."""
    return table[round * 32 : (round + 1) * 32]


def _slice(round: int, kind: int, width: int) -> slice:  # type: ignore[explicit-any]
    start = (round * N_KINDS + kind) * width
    return slice(start, start + width)


def _commitments(links: Links, secrets: bytearray, *, epoch: int, kind: int) -> bytes:
    """Return the commitments to one kind of seed, round by round."""
    n_rounds = len(secrets) // (N_KINDS * SECRET_BYTES)
    return b"".join(
        commitment(links.session_id, links.name, epoch=epoch, round=r, kind=kind, seed=secret_at(secrets, r, kind))
        for r in range(n_rounds)
    )


def _shares(links: Links, secrets: bytearray) -> list[bytes]:
    """Return the shares of all secrets, one string for each of their holders in order."""
    graph, n_secrets = links.graph, len(secrets) // SECRET_BYTES
    split = [
        shamir.split(
            bytes(secrets[k * SECRET_BYTES : (k + 1) * SECRET_BYTES]),
            threshold=graph.threshold(links.name),
            n_shares=len(graph.holders(links.name)),
        )
        for k in range(n_secrets)
    ]
    return [b"".join(column) for column in zip(*split, strict=True)]


def _seal(links: Links, shares: Sequence[bytes], *, body: bytes) -> dict[str, bytes]:
    """Return one box for each holder, authenticated together with the signed part of the offer."""
    boxes = {}
    for peer, content in zip(links.graph.holders(links.name), shares, strict=True):
        if peer != links.name:
            key = _box_key(links, peer, dealer=links.name, receiver=peer, body=body)
            boxes[peer] = AESGCM(key).encrypt(_NONCE, content, body)
    return boxes


def _box_key(links: Links, peer: str, *, dealer: str, receiver: str, body: bytes) -> bytes:
    """Return the key of a single box, bound to the pair, the direction and the offer."""
    return links.key(peer, digest("box", links.session_id, dealer, receiver, body))


def _check_form(offer: Offer) -> None:
    """Refuse an offer that is malformed."""
    tables = (offer.keys, offer.sum_commitments, offer.cover_commitments)
    if (type(offer.epoch), type(offer.n_rounds), *map(type, tables), type(offer.signature)) == _KINDS:
        # Fast path for well-formed offers, because every site checks every offer.
        lengths = {32 * offer.n_rounds, *map(len, tables)}
        if 0 <= offer.epoch < 2**63 and 1 <= offer.n_rounds <= LARGEST_EPOCH and len(lengths) == 1:
            return
    numbers = (offer.epoch, offer.n_rounds)
    if any(not isinstance(n, int) or isinstance(n, bool) or not 0 <= n < 2**63 for n in numbers):
        must, got = "be integers in [0, 2^63)", f"{numbers!r:.80}"
        raise InvalidMessage(f"The epoch and n_rounds of site {offer.sender}", must, got, "Exclude the site.")
    if not 1 <= offer.n_rounds <= LARGEST_EPOCH:
        raise InvalidMessage("n_rounds", f"be between 1 and {LARGEST_EPOCH}", offer.n_rounds, "Use several epochs.")
    if any(not isinstance(table, bytes) or len(table) != 32 * offer.n_rounds for table in tables):
        raise InvalidMessage(
            f"The offer of site {offer.sender}",
            "have 32 bytes per round in each table",
            "a different length or type",
            "Exclude the site.",
        )
    if not isinstance(offer.signature, bytes):
        raise ProtocolError(f"The signature of site {offer.sender} must be bytes", remedy="Exclude the site.")


def _refuse_repeated_keys(keys: Mapping[str, Sequence[bytes]]) -> None:
    """Refuse offers in which a round key serves two sites or two rounds."""
    every = [key for own in keys.values() for key in own]
    if len(set(every)) != len(every):
        raise InvalidMessage("round keys", "be distinct", "one key twice")


def _refuse_small_order(keys: Mapping[str, Sequence[bytes]]) -> None:
    """Refuse round keys of small order now, before a site is charged: masking, where they would fail, comes later."""
    for sender, own in keys.items():
        for key in own:
            if key[:31] + bytes([key[31] & 0x7F]) in _SMALL_ORDER:
                remedy = "Nothing was charged for this epoch. Install the same dpcape version everywhere."
                raise ProtocolError(f"The offer of site {sender} was refused", "a round key is of small order", remedy)


def forget_offers() -> None:
    """Clear the cache of checked offers."""
    _checked_digest.cache_clear()
