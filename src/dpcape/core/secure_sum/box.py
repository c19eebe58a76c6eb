"""Sealed boxes, which only their receiver can open: a fresh X25519 key, HKDF-SHA-256 and AES-256-GCM.

The key serves one message, so a fixed nonce is safe. A box does not authenticate its sender: callers sign it.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.sealed import Sealed
from dpcape.core.secure_sum.transcript import digest

_KEY_BYTES = 32
_NONCE = bytes(12)


class BoxKey(Sealed):
    """Key pair of a receiver, kept in memory only."""

    __slots__ = ("_private", "public")

    def __init__(self) -> None:
        self._private = X25519PrivateKey.generate()
        self.public: bytes = self._private.public_key().public_bytes_raw()

    def open(self, box: bytes, context: bytes) -> bytes:
        """Return the content of a box sealed for this key and this context."""
        sender = box[:_KEY_BYTES]
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(sender))
            return AESGCM(_box_key(shared, sender, self.public, context)).decrypt(_NONCE, box[_KEY_BYTES:], context)
        except (InvalidTag, ValueError) as error:
            why = "it was changed, or sealed for another site or step"
            raise ProtocolError("The sealed box could not be opened", why, "Start a new run.") from error


def seal(receiver: bytes, message: bytes, context: bytes) -> bytes:
    """Return a box with a message for the owner of the public key ``receiver``."""
    private = X25519PrivateKey.generate()
    sender = private.public_key().public_bytes_raw()
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(receiver))
    except ValueError as error:
        raise ProtocolError("The box key is not a valid X25519 public key", remedy="Start a new run.") from error
    return sender + AESGCM(_box_key(shared, sender, receiver, context)).encrypt(_NONCE, message, context)


def _box_key(shared: bytes, sender: bytes, receiver: bytes, context: bytes) -> bytes:
    info = digest("box", sender, receiver, context)
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(shared)
