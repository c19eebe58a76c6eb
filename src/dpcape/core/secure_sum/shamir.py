"""Shamir's secret sharing of 32-byte secrets over the prime field of 2^256 + 297 elements.

The prime is the least above 2^256, so every 32-byte string is a field element; a share takes 33 bytes.
Python integers suffice: one secret costs microseconds for ten holders and milliseconds for two hundred.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Mapping
from functools import lru_cache

from dpcape.core.errors import InvalidMessage, ProtocolError

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33
_DRAWN_BYTES = 64


def split(secret: bytes, *, threshold: int, n_shares: int) -> list[bytes]:
    """Return shares 1..n_shares of a secret; any `threshold` of them rebuild it and fewer reveal nothing.

    The first ``threshold - 1`` shares are drawn from the operating system's generator; with the secret, the value at 0,
    they determine the polynomial and so the other shares. Values of a uniformly drawn polynomial have the same
    distribution, since polynomials and their values at `threshold` points correspond one to one.
    """
    points = [int.from_bytes(secret, "big"), *_drawn(threshold - 1)]
    others = [sum(map(operator.mul, weights, points)) % PRIME for weights in _extensions(threshold, n_shares)]
    return [value.to_bytes(SHARE_BYTES, "big") for value in (*points[1:], *others)]


def combine(shares: Mapping[int, bytes]) -> bytes:
    """Return the secret rebuilt from exactly as many shares as the threshold, by index from 1.

    Wrong shares rebuild a wrong secret: the caller checks the result against a commitment.
    """
    indices = tuple(sorted(shares))
    weights = _weights(indices, 0)
    value = sum(w * decode(shares[i]) for w, i in zip(weights, indices, strict=True)) % PRIME
    if value >> 256:
        raise ProtocolError("The shares do not rebuild a 32-byte secret", "a share is wrong", "Try other shares.")
    return value.to_bytes(SECRET_BYTES, "big")


def consistent(shares: Mapping[int, bytes], *, index: int, share: bytes) -> bool:
    """Return whether `share` of `index` lies on the polynomial defined by `shares` (exactly threshold many)."""
    indices = tuple(sorted(shares))
    weights = _weights(indices, index)
    value = sum(w * decode(shares[i]) for w, i in zip(weights, indices, strict=True)) % PRIME
    return value == decode(share)


def decode(share: object) -> int:
    """Return the field element of one share, or raise if the share is malformed."""
    if not isinstance(share, bytes) or len(share) != SHARE_BYTES:
        got = "a different type or length"
        raise InvalidMessage("A share", f"be {SHARE_BYTES} bytes", got, "The sender is at fault.")
    value = int.from_bytes(share, "big")
    if value >= PRIME:
        raise InvalidMessage("A share", "be a field element", "a value above the prime", "The sender is at fault.")
    return value


def _drawn(number: int) -> list[int]:
    """Return random field elements; reducing 512 bits leaves them within 2^-255 of uniform."""
    random = os.urandom(_DRAWN_BYTES * number)
    return [
        int.from_bytes(random[start : start + _DRAWN_BYTES], "big") % PRIME
        for start in range(0, len(random), _DRAWN_BYTES)
    ]


@lru_cache(maxsize=8)
def _extensions(threshold: int, n_shares: int) -> tuple[tuple[int, ...], ...]:
    """Return the Lagrange weights of the points 0 .. threshold - 1 for each of the values at threshold .. n_shares.

    The weight of i at k is (-1)^(t-1-i) k (k-1) ... (k-t+1) / ((k - i) i! (t-1-i)!).
    """
    top = threshold - 1
    bottoms = [(-1) ** (top - i) * math.factorial(i) * math.factorial(top - i) for i in range(threshold)]
    inverses = [pow(bottom, -1, PRIME) for bottom in bottoms]
    gaps = [0, *(pow(gap, -1, PRIME) for gap in range(1, n_shares + 1))]
    products = [(k, math.prod(range(k - top, k + 1)) % PRIME) for k in range(threshold, n_shares + 1)]
    return tuple(
        tuple(product * gaps[k - i] % PRIME * inverse % PRIME for i, inverse in enumerate(inverses))
        for k, product in products
    )


@lru_cache(maxsize=256)
def _weights(indices: tuple[int, ...], at: int) -> tuple[int, ...]:
    """Return the Lagrange weights of the points `indices` for the value at `at`; cached, for many secrets."""
    if len(set(indices)) != len(indices) or any(i < 1 for i in indices):
        raise InvalidMessage("share indices", "be distinct and positive", indices, "Count from 1.")
    return tuple(_weight(indices, i, at) for i in indices)


def _weight(indices: tuple[int, ...], i: int, at: int) -> int:
    """Return the Lagrange weight of one point; the factors are small, so one reduction at the end is enough."""
    top = math.prod(at - j for j in indices if j != i)
    bottom = math.prod(i - j for j in indices if j != i)
    return top * pow(bottom, -1, PRIME) % PRIME
