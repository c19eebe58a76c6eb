"""One unambiguous digest for everything that is signed, committed to or used as key context."""

from __future__ import annotations

import functools
import hashlib
import hmac

VERSION = "dpcape secure sum 1"
_MOST_REMEMBERED = 256


@functools.lru_cache(maxsize=2**10)
def _prefix(kind: bytes, length: int) -> bytes:
    """Return the type mark and the length of a part."""
    return kind + length.to_bytes(8, "big")


@functools.lru_cache(maxsize=2**12)
def _text(text: str) -> bytes:
    """Return a text with its type and length; cached, because labels and site names repeat."""
    encoded = text.encode()
    return _prefix(b"s", len(encoded)) + encoded


_START = _text(VERSION)


def digest(label: str, *parts: bytes | str | int) -> bytes:
    """Return the SHA-256 of a label and parts, each preceded by its type and length.

    Type and length make the encoding injective: two different lists of parts are never encoded as the same string.
    Integers must lie in [0, 2^64).
    """
    pieces = [_START, _text(label)]
    for part in parts:
        if isinstance(part, bytes):
            pieces += (_prefix(b"b", len(part)), part)
        elif isinstance(part, str):
            # Long texts bypass the cache: text received in a message may be of any length.
            pieces.append(_text(part) if len(part) <= _MOST_REMEMBERED else _text.__wrapped__(part))
        else:
            pieces += (b"i", part.to_bytes(8, "big"))
    return hashlib.sha256(b"".join(pieces)).digest()


# For public parts alone. Sites in one process compute the digests of the same hellos, offers and sets.
remembered_digest = functools.lru_cache(maxsize=2**11, typed=True)(digest)


def forget_digests() -> None:
    """Clear the cache of earlier sessions' digests: an offer of a thousand rounds takes 96 kB."""
    remembered_digest.cache_clear()


def equal(first: bytes, second: bytes) -> bool:
    """Return whether two byte strings are equal, in time that does not depend on where they differ."""
    return hmac.compare_digest(first, second)


def grouped(value: bytes) -> str:
    """Return the first 16 bytes as eight groups of four hexadecimal digits, for people to compare.

    128 bits make it infeasible to find a second value with the same text.
    """
    text = value[:16].hex()
    return " ".join(text[i : i + 4] for i in range(0, 32, 4))
