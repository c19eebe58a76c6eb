"""The messages that cross the wire: frozen, versioned, nothing executable.

A message names a statistic and carries public arrays; the site builds the statistic from its own installed code.
Everything is MessagePack, also in process, so that both ways of running meet the same checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcape.core.errors import InvalidMessage, ProtocolError
from dpcape.core.facts import PublicFacts
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import Terms
from dpcape.core.secure_sum.fixed_point import SHORT_BYTES, WORD_BYTES, packed, unpacked
from dpcape.core.secure_sum.messages import Hello, Offer, Opening, SeedShares
from dpcape.core.secure_sum.signed_head import SignedHead
from dpcape.core.statistic import PublicValue

VERSION = 5
# Refused before anything is allocated: no analysis here needs a longer vector or message.
MAX_ENTRIES = 2**28
MAX_BYTES = 2**31
_SHORT_WORDS = "<u6"  # as `secure_sum.packed` writes them; NumPy has no such type
_DTYPES = {"<f8", "<i8", "<u8", "<f4", "<i4", "|u1", "|b1", _SHORT_WORDS}


class _Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag=True):
    pass


class Array(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A numeric array as bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: NDArray[Any]) -> Array:
        """Encode an array."""
        dtype = array.dtype.newbyteorder("<") if array.dtype.byteorder == ">" else array.dtype
        contiguous = np.ascontiguousarray(array, dtype=dtype)
        return cls(contiguous.dtype.str, tuple(array.shape), contiguous.tobytes())

    @classmethod
    def of_words(cls, words: NDArray[np.uint64], word_bytes: int) -> Array:
        """Encode a vector of words by their lowest six bytes, or by all eight."""
        if word_bytes == WORD_BYTES:
            return cls.of(words)
        return cls(_SHORT_WORDS, (words.size,), packed(words))

    def decode(self) -> NDArray[Any]:
        """Decode to a read-only array; refuse whatever is not a plain number type of the announced size."""
        if self.dtype not in _DTYPES:
            raise InvalidMessage("an array's type", f"be one of {sorted(_DTYPES)}", repr(self.dtype))
        if any(side < 0 for side in self.shape) or math.prod(self.shape) > MAX_ENTRIES:
            raise InvalidMessage("an array", f"have at most {MAX_ENTRIES} entries", f"shape {self.shape}")
        short = self.dtype == _SHORT_WORDS
        item = SHORT_BYTES if short else np.dtype(self.dtype).itemsize
        if len(self.data) != math.prod(self.shape) * item:
            raise InvalidMessage(f"an array of shape {self.shape}", "have matching bytes", len(self.data))
        flat = unpacked(self.data) if short else np.frombuffer(self.data, dtype=self.dtype)
        return flat.reshape(self.shape)


class Request(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Statistic of release number ``release``, and the noise the coordinator computed for it."""

    release: int
    statistic: str
    public: dict[str, int | float | str | bool | Array]
    plan: ReleaseNoise


# Messages to a site.
class Describe(_Body, frozen=True):
    """Ask what the site holds, and state the ledger head it showed last, so that it detects a restored backup."""

    seen_length: int = 0
    seen_head: str = ""


class Open(_Body, frozen=True):
    """Propose an allowance; nothing is charged yet.

    ``heads`` are the heads of the ledgers of the other sites, and those of this site that the others keep.
    """

    terms: Terms
    heads: tuple[SignedHead, ...] = ()


class Reopen(_Body, frozen=True):
    """Ask to resume an allowance after a crash, under its existing charge; ``heads`` as in :class:`Open`."""

    terms: Terms
    heads: tuple[SignedHead, ...] = ()


class Greet(_Body, frozen=True):
    """Ask for a secure-sum hello among these sites; ``session`` counts the sessions of the allowance."""

    sites: tuple[str, ...]
    session: int


class Join(_Body, frozen=True):
    """Hand every site's hello to a site; it answers with its offer of per-round secrets."""

    hellos: tuple[Hello, ...]
    epoch: int
    n_rounds: int


class Renew(_Body, frozen=True):
    """Ask for the offer of a further epoch of the running session."""

    epoch: int
    n_rounds: int


class Accept(_Body, frozen=True):
    """Hand every site's offer to a site."""

    offers: tuple[Offer, ...]


class Draw(_Body, frozen=True):
    """Ask for the masked draw of shared noise (CAPE, first trip)."""

    request: Request
    attempt: int
    roster: tuple[str, ...]


class Submit(_Body, frozen=True):
    """Ask for the release itself. ``agreed`` is the sum of draws in CAPE, ``box`` names the deal of a noise dealer."""

    request: Request
    attempt: int = 0
    roster: tuple[str, ...] = ()
    agreed: Array | None = None
    box: bytes = b""


class Correct(_Body, frozen=True):
    """Ask for the masked draw again, for the one correction after a drop-out."""

    release: int


class Sign(_Body, frozen=True):
    """Ask for the signature on the survivor set."""

    release: int
    survivors: tuple[str, ...]


class Unmask(_Body, frozen=True):
    """Ask to open the round for the signed survivor set; ``relied_on`` are the context signatures of the missing."""

    release: int
    survivors: tuple[str, ...]
    signatures: dict[str, bytes]
    missing: tuple[str, ...] = ()
    relied_on: dict[str, bytes] = {}


class Deal(_Body, frozen=True):
    """Ask the dealer for sealed zero-sum noise, under terms and for a request given by their digests."""

    terms: bytes
    request: bytes
    release: int
    size: int
    shared_steps: dict[str, float]
    receivers: dict[str, bytes]


class CheckDealt(_Body, frozen=True):
    """Hand a site its sealed noise of a release; it answers with its part of the check that all noise sums to zero."""

    request: Request
    box: bytes


# Messages from a site.
class Described(_Body, frozen=True):
    """What a site holds, in public, the identity it signs with, and the head of its ledger.

    ``separation`` names the mode in which an engine is kept from the records; it is empty without an engine. ``signed``
    is the head under the site's signature, ``peers`` the heads of other sites that this one keeps. ``computed_on``
    names a cluster of the site's own on which totals are computed; it is not sent if the site's process computes them.
    """

    facts: PublicFacts
    identity: bytes
    replayable: bool
    version: str
    ledger_length: int = 0
    ledger_head: str = ""
    separation: str = ""
    signed: SignedHead | None = None
    peers: tuple[SignedHead, ...] = ()
    computed_on: str | msgspec.UnsetType = msgspec.UNSET


class Agreed(_Body, frozen=True):
    """The site agrees; ``key`` receives sealed noise from a dealer."""

    key: bytes = b""


class Reopened(_Body, frozen=True):
    """The site resumes: ``next_release`` is the first release it has not begun; ``key`` as in :class:`Agreed`."""

    next_release: int
    key: bytes = b""


class Accepted(_Body, frozen=True):
    """The site accepted an epoch; ``signature`` says which."""

    signature: bytes


class Greeting(_Body, frozen=True):
    """A secure-sum hello."""

    hello: Hello


class Offered(_Body, frozen=True):
    """An offer of per-round secrets."""

    offer: Offer


class Vector(_Body, frozen=True):
    """A vector: a release, or a masked one. ``relied_on`` signs the context of a masked release, else is not sent."""

    array: Array
    relied_on: bytes | msgspec.UnsetType = msgspec.UNSET


class Signed(_Body, frozen=True):
    """A signature on the survivor set."""

    signature: bytes


class Opened(_Body, frozen=True):
    """What opens a round."""

    opening: Opening


class Recovered(_Body, frozen=True):
    """Shares that rebuild the seeds of lost survivors."""

    shares: SeedShares


class Dealt(_Body, frozen=True):
    """Sealed noise, one box per site."""

    boxes: dict[str, bytes]


class DealerDescribed(_Body, frozen=True):
    """The noise dealer as it describes itself; it holds no records. ``separation`` as in :class:`Described`."""

    identity: bytes
    replayable: bool
    version: str
    separation: str = ""


class DealtChecked(_Body, frozen=True):
    """A site's part of the check that dealt noise sums to zero; it reveals nothing else of the noise."""

    answer: bytes


class Refused(_Body, frozen=True):
    """The site does not answer; ``error`` names the kind, ``text`` holds nothing that depends on records."""

    error: str
    text: str


ToSite = (
    Describe
    | Open
    | Reopen
    | Greet
    | Join
    | Renew
    | Accept
    | Draw
    | Submit
    | Correct
    | Sign
    | Unmask
    | Deal
    | CheckDealt
)
FromSite = (
    Described
    | Agreed
    | Reopened
    | Accepted
    | Greeting
    | Offered
    | Vector
    | Signed
    | Opened
    | Recovered
    | Dealt
    | DealerDescribed
    | DealtChecked
    | Refused
)


class _Envelope(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    allowance: str
    body: msgspec.Raw


_envelopes = msgspec.msgpack.Decoder(_Envelope)
_to_site: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToSite)
_from_site: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromSite)


def encode(body: ToSite | FromSite, *, allowance: str = "") -> bytes:
    """Return the wire form of a message."""
    raw = msgspec.Raw(msgspec.msgpack.encode(body))
    return msgspec.msgpack.encode(_Envelope(version=VERSION, allowance=allowance, body=raw))


def decode_to_site(data: bytes) -> tuple[str, ToSite]:
    """Return (allowance, message) of what a site receives."""
    return _decode(data, _to_site)


def decode_from_site(data: bytes) -> tuple[str, FromSite]:
    """Return (allowance, message) of what a site sent."""
    return _decode(data, _from_site)


def _decode(data: bytes, decoder: msgspec.msgpack.Decoder[Any]) -> tuple[str, Any]:
    if len(data) > MAX_BYTES:
        raise InvalidMessage("a message", f"have at most {MAX_BYTES} bytes", len(data))
    try:
        envelope = _envelopes.decode(data)
        if envelope.version != VERSION:
            remedy = "Install the same dpcape version everywhere."
            raise InvalidMessage("A message", f"be of version {VERSION}", envelope.version, remedy)
        return envelope.allowance, decoder.decode(envelope.body)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        remedy = "Install the same dpcape version everywhere."
        raise ProtocolError("The message could not be read", remedy=remedy) from error


def public_arrays(public: Mapping[str, PublicValue]) -> dict[str, int | float | str | bool | Array]:
    """Return public values with arrays encoded, and numpy's numbers as Python's."""
    return {key: _public_value(value) for key, value in public.items()}


def _public_value(value: PublicValue) -> int | float | str | bool | Array:
    if isinstance(value, np.ndarray):
        return Array.of(value)
    plain: int | float | str | bool = value.item() if isinstance(value, np.generic) else value
    return plain


def decode_public(public: Mapping[str, Any]) -> dict[str, PublicValue]:
    """Invert :func:`public_arrays`."""
    return {key: value.decode() if isinstance(value, Array) else value for key, value in public.items()}
