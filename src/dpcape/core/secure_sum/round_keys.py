"""Keys of a RECOVER round's masks, and what its sites sign; used by sites and the aggregator."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpcape.core.secure_sum.keystream import expand, extract
from dpcape.core.secure_sum.links import agree
from dpcape.core.secure_sum.offers import COVER, SUM
from dpcape.core.secure_sum.transcript import digest

_LABELS = {SUM: "sum", COVER: "cover"}


def self_key(
    seed: bytes, kind: int, *, epoch_digest: bytes, round: int, size: int, bound: bytes | None = None
) -> bytes:
    """Return the key of a self-mask of kind SUM or COVER.

    Who has the seed can compute the key for any `bound`. What keeps the seed of a site with another context from the
    aggregator is that nobody gives a share of it (`reliance`).
    """
    return expand(seed, digest("self", _LABELS[kind], epoch_digest, round, size, *_context_parts(bound)))


def pair_context(epoch_digest: bytes, *, round: int, size: int, bound: bytes | None) -> bytes:
    """Return what the pair mask keys of a round are bound to; the epoch digest covers roster and session.

    With `bound`, the masks of sites with different contexts do not cancel.
    """
    return digest("recover", epoch_digest, round, size, *_context_parts(bound))


def pair_key(private: X25519PrivateKey, public: bytes, *, names: tuple[str, str], context: bytes) -> bytes:
    """Return the mask key of a pair: owner of `private` first, owner of `public` second."""
    shared = agree(private, public, peer=names[1])
    return extract(shared, salt=context, context=digest("pair mask", *sorted(names)))


def reliance(epoch_digest: bytes, *, round: int, context: bytes, site: str) -> bytes:
    """Return what a site signs with its vector: the context it relied on.

    If the site is lost, the others give shares of its seeds only for a signature of the context that is their own.
    """
    return digest("relied on", epoch_digest, round, context, site)


def acceptance(epoch_digest: bytes, site: str) -> bytes:
    """Return what a site signs when it has accepted the offers of an epoch."""
    return digest("accepted", epoch_digest, site)


def statement(
    epoch_digest: bytes, *, round: int, summed: bool, covered: bool, context: bytes, survivors: Sequence[str]
) -> bytes:
    """Return what a survivor signs: the epoch (hence session and roster), the round, what was sent, and the set."""
    return digest("survivors", epoch_digest, round, int(summed), int(covered), context, *survivors)


def _context_parts(bound: bytes | None) -> tuple[int, bytes]:
    """Return the parts of a digest that stand for a context, or for none."""
    return int(bound is not None), bound or b""
