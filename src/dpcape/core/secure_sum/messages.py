"""Messages between sites and aggregator: plain frozen structs, sent as MessagePack.

Vectors are sent separately, as raw little-endian words.
"""

from __future__ import annotations

import msgspec


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, repr_omit_defaults=False):
    """Base class of messages, whose representation shows only the sender."""

    sender: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sender={self.sender!r})"


class Hello(_Message, frozen=True):
    """First message of a site in a session.

    Attributes
    ----------
    nonce : bytes
        16 fresh random bytes.
    key : bytes
        The site's fresh X25519 public key for this session, 32 bytes.
    signature : bytes
        Ed25519 signature of the identity on all of this and on the configuration.
    """

    nonce: bytes
    key: bytes
    signature: bytes


class Offer(_Message, frozen=True):
    """Round secrets of one site for an epoch: public parts signed, shares in one sealed box per peer.

    Attributes
    ----------
    epoch, n_rounds : int
        Number of the epoch in the session, and how many rounds it serves.
    keys : bytes
        X25519 public keys of the rounds, 32 bytes each.
    sum_commitments, cover_commitments : bytes
        SHA-256 commitments to the two self-mask seeds of each round, 32 bytes each.
    boxes : dict[str, bytes]
        AES-GCM box for each peer, by name.
    signature : bytes
        Ed25519 signature on everything but the boxes, which are bound to it by their own authentication.
    """

    epoch: int
    n_rounds: int
    keys: bytes
    sum_commitments: bytes
    cover_commitments: bytes
    boxes: dict[str, bytes]
    signature: bytes

    def addressed_to(self, receiver: str) -> Offer:
        """Return a copy with only the receiver's box."""
        boxes = {receiver: self.boxes[receiver]} if receiver in self.boxes else {}
        return msgspec.structs.replace(self, boxes=boxes)


class Opening(_Message, frozen=True):
    """Secrets that a survivor reveals after the survivor set is settled.

    Attributes
    ----------
    epoch, round : int
        Which round is opened.
    sum_seed, cover_seed : bytes
        The sender's own seeds of the masks it used in the round; empty for a mask it did not use.
    key_shares : dict[str, bytes]
        Shares of the round keys of dropped sites, by name.
    """

    epoch: int
    round: int
    sum_seed: bytes
    cover_seed: bytes
    key_shares: dict[str, bytes]


class SeedShares(_Message, frozen=True):
    """Shares of the seeds of survivors that were lost before they opened.

    Attributes
    ----------
    epoch, round : int
        Which round is opened.
    sum_shares, cover_shares : dict[str, bytes]
        Shares by the name of the lost survivor; empty for a mask the round did not use.
    """

    epoch: int
    round: int
    sum_shares: dict[str, bytes]
    cover_shares: dict[str, bytes]
