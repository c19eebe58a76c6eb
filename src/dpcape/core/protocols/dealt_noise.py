"""Boxes of a noise dealer: their form, what they are bound to, and a check that the dealt noise sums to zero.

A box is ``signature (64 bytes) | root (32) | sealed part``; the root is the digest of the sealed parts of all boxes of
one deal. The sealed part holds the scales of all sites, a pad, and the site's share.

The check. With coefficients a that follow from the root, site i answers ``<a, s_i> + u_i`` modulo a prime, for its
share s_i and pad u_i; the aggregator requires the answers to sum to zero. The pads of a deal are uniform and sum to
zero.

* It hides the shares. A site answers once per release, and pads of two deals are independent, so no pad serves twice.
  Take the honest sites that answered for one deal. If an honest site is not among them, their pads are uniform and
  independent of everything else the adversary has. If none is missing, the sum of their pads is known and nothing else;
  the sum of their answers is then minus that of the colluders' answers, which the adversary can compute.
* It finds a dealer out. If the shares sum to d, not zero, the answers sum to zero for at most one value of the
  coefficient of a non-zero entry of d. Coefficients have 62 bits and follow from a digest of what was dealt: a dealer
  has to try about 2^62 deals to pass once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from dpcape.core.arrays import IntArray
from dpcape.core.errors import ProtocolError
from dpcape.core.noise import NoiseSource
from dpcape.core.secure_sum.identity import SIGNATURE_BYTES, Identity, verify

# Name under which a noise dealer without a name of its own, in the same process, is pinned and addressed.
DEALER = "dealer"
# A prime above every sum of shares.
MODULUS = 2**127 - 1
PAD_BYTES = 16
ROOT_BYTES = 32
_CHUNK = 1 << 16
_LOW = (1 << 32) - 1
_COEFFICIENT = np.uint64((1 << 31) - 1)


def box_context(terms: bytes, release: int, request: bytes, site: str, sites: Sequence[str]) -> bytes:
    """Return what a box is bound to: terms, release, request (its digest), receiver and the sites of the deal."""
    return f"dpcape dealt 5\0{terms.hex()}\0{release}\0{request.hex()}\0{site}\0{_names(sites)}\0".encode()


def key_statement(terms: bytes, site: str, public: bytes) -> bytes:
    """Return what a site signs, so that the dealer deals only among sites with the same terms."""
    return f"dpcape box key 2\0{terms.hex()}\0{site}\0".encode() + public


def root_of(sealed: Mapping[str, bytes]) -> bytes:
    """Return the digest of the sealed parts of one deal."""
    digests = [hashlib.sha256(sealed[site]).digest() for site in sorted(sealed)]
    return hashlib.sha256(f"dpcape dealt root\0{_names(list(sealed))}\0".encode() + b"".join(digests)).digest()


def signed_box(dealer: Identity, context: bytes, root: bytes, sealed: bytes) -> bytes:
    """Return the box with a sealed part, signed by the dealer."""
    return dealer.sign(context + root + sealed) + root + sealed


def opened_parts(box: bytes, context: bytes, dealer: bytes) -> tuple[bytes, bytes]:
    """Return (root, sealed part) of a box that the dealer of this public key signed for this context."""
    signature, root, sealed = parts_of(box)
    if not verify(dealer, signature, context + root + sealed):
        why = "it is not signed by the pinned dealer for this site, study and release"
        raise ProtocolError("The dealt noise was refused", why, "Compare fingerprints with the dealer.")
    return root, sealed


def parts_of(box: bytes) -> tuple[bytes, bytes, bytes]:
    """Return (signature, root, sealed part) of a box."""
    end = SIGNATURE_BYTES + ROOT_BYTES
    return box[:SIGNATURE_BYTES], box[SIGNATURE_BYTES:end], box[end:]


def pads(sites: Sequence[str], source: NoiseSource) -> dict[str, int]:
    """Draw pads that are uniform and sum to zero."""
    # Twice as many bits as the modulus has: the remainder is uniform up to 2^-127.
    drawn = {
        site: int.from_bytes(source.child("pad", site).token(2 * PAD_BYTES), "big") % MODULUS for site in sites[1:]
    }
    return {sites[0]: -sum(drawn.values()) % MODULUS, **drawn}


def answer_of(share: IntArray, pad: int, context: bytes, root: bytes) -> bytes:
    """Return a site's answer in the check; ``context`` is the same for all sites of a deal."""
    seed = hashlib.sha256(b"dpcape dealt check\0" + context + root).digest()
    return ((checksum(share, seed) + pad) % MODULUS).to_bytes(PAD_BYTES, "big")


def sums_to_zero(answers: Sequence[bytes]) -> bool:
    """Return whether the answers of all sites sum to zero."""
    return sum(int.from_bytes(answer, "big") for answer in answers) % MODULUS == 0


def checksum(vector: IntArray, seed: bytes) -> int:
    """Return the sum of the entries times coefficients of 62 bits that follow from a seed, modulo the prime."""
    stream = Cipher(AES(seed), CTR(bytes(16))).encryptor()
    total = 0
    for start in range(0, vector.size, _CHUNK):
        chunk = vector[start : start + _CHUNK].astype(np.int64, copy=False)
        words = np.frombuffer(stream.update(bytes(8 * chunk.size)), dtype="<u8")
        low, high = words & _COEFFICIENT, (words >> np.uint64(32)) & _COEFFICIENT
        total += _product(low, chunk) + (_product(high, chunk) << 31)
    return total % MODULUS


def _product(coefficients: NDArray[np.uint64], vector: IntArray) -> int:
    """Return the exact product of coefficients below 2^31 and a vector of at most 2^16 entries."""
    lower = coefficients * (vector.view(np.uint64) & np.uint64(_LOW))
    upper = coefficients.astype(np.int64) * (vector >> 32)
    return _total(lower) + (_total(upper) << 32)


def _total(values: NDArray[np.uint64] | IntArray) -> int:
    """Return the exact sum; halves are added apart, since the whole does not fit into 64 bits."""
    shift, mask = values.dtype.type(32), values.dtype.type(_LOW)
    return int(np.sum(values & mask)) + (int(np.sum(values >> shift)) << 32)


def _names(sites: Sequence[str]) -> str:
    return "\0".join(sorted(sites))
