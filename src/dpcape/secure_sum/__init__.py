"""Secure sum: sites compute a sum whose addends nobody sees.

Two profiles on Ed25519 identities, X25519, HKDF-SHA-256, AES-256 and arithmetic modulo 2^64:

* RETRY (`Session.retry_mask`, `retry_sum`): one message per site, nothing ever revealed; a drop-out costs a
  new attempt with freshly drawn inputs.
* RECOVER (`Session.offer` ... `Session.open`, `RecoverRound`): Bonawitz et al. (2017) with secrets that
  belong to one round, so that inputs which cannot be drawn again survive drop-outs.

Everything here is a state machine driven by messages; protocols and transports deliver them. docs/secure_sum.md
proves that this is private, and states its limits.
"""

from dpcape.secure_sum.aggregate import RecoverRound
from dpcape.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.secure_sum.config import Config, check_neighbours
from dpcape.secure_sum.fixed_point import check_range, from_ring, packed, to_ring, unpacked, zero_sum_share
from dpcape.secure_sum.identity import Identity, fingerprint_of
from dpcape.secure_sum.masking import retry_sum
from dpcape.secure_sum.messages import Hello, Offer, Opening, SeedShares
from dpcape.secure_sum.session import Session
from dpcape.secure_sum.signed_head import SignedHead

__all__ = [
    "AggregatorEpoch",
    "Config",
    "Hello",
    "Identity",
    "Offer",
    "Opening",
    "RecoverRound",
    "SeedShares",
    "Session",
    "SignedHead",
    "check_neighbours",
    "check_range",
    "fingerprint_of",
    "from_ring",
    "packed",
    "retry_sum",
    "to_ring",
    "unpacked",
    "zero_sum_share",
]
