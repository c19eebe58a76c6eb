"""Identity of a site: a long-lived Ed25519 key, pinned by the other sites."""

from __future__ import annotations

import functools

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpcape.core.errors import InvalidParameter
from dpcape.core.secure_sum.sealed import Sealed
from dpcape.core.secure_sum.transcript import digest, grouped

KEY_BYTES = 32
SIGNATURE_BYTES = 64
_MOST_REMEMBERED = 2**13


class Identity(Sealed):
    """A site's long-lived signing key.

    The other sites pin `public`; operators compare `fingerprint()` over a channel that does not pass through the
    aggregator (telephone, a signed letter). The private key leaves the object only through `private_bytes()`.

    Attributes
    ----------
    public : bytes
        The 32-byte Ed25519 public key.

    Edge cases
    ----------
    ==============================  ==========================
    pickle, copy                    refused (TypeError)
    repr, str                       shows the fingerprint only
    private key of another length   InvalidParameter
    ==============================  ==========================

    Examples
    --------
    >>> identity = Identity.from_private_bytes(bytes(range(32)))
    >>> identity.fingerprint()
    'e9dc 8ae1 4b20 8090 44d5 d4cf f349 9d8d'
    >>> verify(identity.public, identity.sign(b"hello"), b"hello")
    True
    """

    __slots__ = ("_private", "public")

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public: bytes = private.public_key().public_bytes_raw()

    @classmethod
    def generate(cls) -> Identity:
        """Return a new identity from the operating system's generator."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_private_bytes(cls, private: bytes) -> Identity:
        """Return the identity with the private key that `private_bytes` returned."""
        if not isinstance(private, bytes) or len(private) != KEY_BYTES:
            must, got = f"be {KEY_BYTES} bytes", "a different type or length (not shown: it may be secret)"
            raise InvalidParameter("private", must, got, "Load the file written from private_bytes().")
        return cls(Ed25519PrivateKey.from_private_bytes(private))

    def private_bytes(self) -> bytes:
        """Return the private key; store it where only this site can read it."""
        return self._private.private_bytes_raw()

    def fingerprint(self) -> str:
        """Return a short text of the public key, for people to compare."""
        return fingerprint_of(self.public)

    def sign(self, message: bytes) -> bytes:
        """Return a signature; callers sign labelled digests, never bytes chosen by another party."""
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"Identity({self.fingerprint()!r})"


def fingerprint_of(public: bytes) -> str:
    """Return a short text of a public identity key, for people to compare."""
    return grouped(digest("fingerprint", public))


def verify(public: bytes, signature: object, message: bytes) -> bool:
    """Return whether `signature` is valid for `public` and `message`; never raises on malformed input."""
    if not isinstance(signature, bytes) or len(signature) != SIGNATURE_BYTES:
        return False
    # Long messages bypass the cache: a sealed vector is checked by one site only, and would stay in memory.
    return (_is_known_valid if len(message) <= _MOST_REMEMBERED else _is_valid)(public, signature, message)


def _is_valid(public: bytes, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


# Cached, because sites in one process check the same signatures.
_is_known_valid = functools.lru_cache(maxsize=2**13)(_is_valid)


def forget_signatures() -> None:
    """Clear the cache of valid signatures."""
    _is_known_valid.cache_clear()
