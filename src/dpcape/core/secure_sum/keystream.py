"""Masks: AES-256-CTR keystream read as little-endian 64-bit words.

A mask key serves one vector only (it is derived for one pair or site, round and purpose), so the counter
starts at zero. Words are added in pieces of 256 kB, which keeps the accumulator and the keystream in the
processor's cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from numpy.typing import NDArray

KEY_BYTES = 32
PIECE_WORDS = 32_768
_WORD = np.dtype("<u8")
_FROM_ZERO = modes.CTR(bytes(16))
_SPARE = 15  # older versions of the cryptography package ask for a block less one byte of room


def masked(
    vector: NDArray[np.uint64], *, plus: Sequence[bytes] = (), minus: Sequence[bytes] = ()
) -> NDArray[np.uint64]:
    """Return a copy of `vector` with the masks of the keys in `plus` added and those in `minus` subtracted."""
    result = np.empty(vector.size, dtype=np.uint64)
    streams = [(_stream(key), np.add) for key in plus] + [(_stream(key), np.subtract) for key in minus]
    n_piece = min(PIECE_WORDS, result.size)
    zeros = memoryview(bytes(_WORD.itemsize * n_piece))
    buffer = bytearray(_WORD.itemsize * n_piece + _SPARE)
    words = np.frombuffer(buffer, dtype=_WORD, count=n_piece)
    for start in range(0, result.size, PIECE_WORDS):
        piece = result[start : start + PIECE_WORDS]
        piece[:] = vector[start : start + PIECE_WORDS]
        nothing, mask = zeros[: piece.nbytes], words[: piece.size]
        for stream, combine in streams:
            stream.update_into(nothing, buffer)
            combine(piece, mask, out=piece)
    return result


def expand(key: bytes, context: bytes) -> bytes:
    """Return HKDF-Expand (RFC 5869) of a uniform key: one key bound to `context`."""
    return HKDFExpand(hashes.SHA256(), KEY_BYTES, context).derive(key)


def extract(secret: bytes, *, salt: bytes, context: bytes) -> bytes:
    """Return HKDF (RFC 5869) of a Diffie-Hellman secret: one key bound to `salt` and `context`."""
    return HKDF(hashes.SHA256(), KEY_BYTES, salt, context).derive(secret)


def _stream(key: bytes) -> CipherContext:
    """Return the keystream of a key, from counter zero."""
    return Cipher(algorithms.AES256(key), _FROM_ZERO).encryptor()
