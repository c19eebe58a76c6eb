"""What travels inside an engine's message: signed requests of the coordinator, and signed replies of a site.

An engine knows which participant connected, not which participant may ask, and it may be captured. So each request
is signed with the coordinator's key, which sites pin, and bound to job, study, site and round; each reply is signed
with the site's identity and bound to job, round and the request it answers.

A frame is ``length of header (4 bytes) | header | signature (64 bytes) | body``. The header holds length and digest of
the body, so that a receiver reads a body only after the header was found genuine.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, TypeVar

import msgspec

from dpcape.core.errors import InvalidMessage, ProtocolError
from dpcape.core.secure_sum.identity import SIGNATURE_BYTES, Identity, verify
from dpcape.core.secure_sum.transcript import digest

FRAME_VERSION = 2
# FLARE carries at most 2 GiB in one message; longer frames are refused before they are decoded.
MAX_FRAME_BYTES = 2**31 - 1
MAX_HEADER_BYTES = 2**16
LENGTH_BYTES = 4

Kind = Literal["ready", "round", "ping"]
State = Literal["ok", "busy", "stale", "restarted", "refused"]


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Header of a request: ``number`` is its round, from 1; 0 for what is not a round.

    ``session`` is what the site drew when it opened the study: a recorded request is worthless after a restart.
    ``allowance`` names one that is resumed; a site then opens the study under that allowance's charge.
    """

    version: int = FRAME_VERSION
    kind: Kind
    job: str
    study: str
    site: str
    number: int
    session: str = ""
    allowance: str = ""
    length: int = 0
    digest: bytes = b""


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Header of a reply. ``error`` and ``text`` say why a site refuses; ``about`` is filled when it reports ready."""

    version: int = FRAME_VERSION
    state: State
    number: int
    job: str = ""
    request: bytes = b""
    error: str = ""
    text: str = ""
    about: dict[str, str | float] = {}
    length: int = 0
    digest: bytes = b""


_asks = msgspec.msgpack.Decoder(Ask)
_replies = msgspec.msgpack.Decoder(Reply)
_Frame = TypeVar("_Frame", Ask, Reply)
_ASK, _REPLY = "engine request", "engine reply"


def signed(ask: Ask, identity: Identity, body: bytes = b"") -> bytes:
    """Return the wire form of a request, signed by the coordinator."""
    return _framed(ask, _ASK, identity, body)


def signed_reply(reply: Reply, identity: Identity, body: bytes = b"") -> bytes:
    """Return the wire form of a reply, signed by the site."""
    return _framed(reply, _REPLY, identity, body)


def unsigned_reply(reply: Reply) -> bytes:
    """Return the wire form of a reply to what was not genuine. No coordinator believes it."""
    header = msgspec.msgpack.encode(reply)
    return len(header).to_bytes(LENGTH_BYTES, "big") + header + bytes(SIGNATURE_BYTES)


def header_length(prefix: bytes) -> int:
    """Return how many bytes of header and signature follow the first four bytes of a frame."""
    length = int.from_bytes(prefix, "big")
    if len(prefix) != LENGTH_BYTES or not 0 < length <= MAX_HEADER_BYTES:
        raise InvalidMessage("A frame's header", f"have 1 to {MAX_HEADER_BYTES} bytes", length)
    return length + SIGNATURE_BYTES


def genuine_ask(head: bytes, coordinator: bytes) -> Ask:
    """Return the header of a request if the coordinator signed it.

    Parameters
    ----------
    head : bytes
        Header and signature, without the four bytes of length.
    coordinator : bytes
        The coordinator's public key, as this site pinned it.
    """
    header, signature = head[:-SIGNATURE_BYTES], head[-SIGNATURE_BYTES:]
    if not verify(coordinator, bytes(signature), digest(_ASK, bytes(header))):
        why = "its signature is not the pinned coordinator's"
        raise ProtocolError("The request was refused", why, "Compare fingerprints with the coordinator.")
    ask = _decoded(header, _asks)
    if not 0 <= ask.length <= MAX_FRAME_BYTES or (ask.kind != "round" and ask.length):
        raise InvalidMessage(f"A {ask.kind} request", "have a body of an allowed length", f"{ask.length} bytes")
    return ask


def request_digest(head: bytes) -> bytes:
    """Return what a reply names its request by."""
    return hashlib.sha256(head).digest()


def require_body(header: Ask | Reply, body: bytes | bytearray | memoryview) -> None:
    """Refuse a body that is not the one the signed header announces."""
    if len(body) != header.length or (header.length and hashlib.sha256(body).digest() != header.digest):
        raise ProtocolError("The frame was refused", "its body is not the one that was signed")


def split(frame: object) -> tuple[bytes, memoryview]:
    """Return (header with signature, body) of a frame that is in memory."""
    if not isinstance(frame, bytes | bytearray | memoryview):
        raise InvalidMessage("A frame", "be bytes", type(frame).__name__)
    view = memoryview(frame).cast("B")
    if len(view) > MAX_FRAME_BYTES:
        raise InvalidMessage("A frame", f"have at most {MAX_FRAME_BYTES} bytes", len(view))
    end = LENGTH_BYTES + header_length(bytes(view[:LENGTH_BYTES]))
    if len(view) < end:
        raise ProtocolError("The frame could not be read", "it ends inside its header")
    return bytes(view[LENGTH_BYTES:end]), view[end:]


def decode_ask(frame: object, coordinator: bytes) -> tuple[Ask, bytes]:
    """Return (header, body) of a request if the coordinator signed it; refuse anything else."""
    head, body = split(frame)
    ask = genuine_ask(head, coordinator)
    require_body(ask, body)
    return ask, bytes(body)


def decode_reply(frame: object, site: bytes) -> tuple[Reply, bytes]:
    """Return (header, body) of a reply if the site of this public key signed it; refuse anything else."""
    head, body = split(frame)
    header, signature = head[:-SIGNATURE_BYTES], head[-SIGNATURE_BYTES:]
    if not verify(site, signature, digest(_REPLY, header)):
        raise ProtocolError("The reply was refused", "it is not signed with the site's identity")
    reply = _decoded(header, _replies)
    require_body(reply, body)
    return reply, bytes(body)


def _framed(header: Ask | Reply, label: str, identity: Identity, body: bytes) -> bytes:
    sealed: Any = msgspec.structs.replace(
        header, length=len(body), digest=hashlib.sha256(body).digest() if body else b""
    )
    data = msgspec.msgpack.encode(sealed)
    if len(data) > MAX_HEADER_BYTES:
        raise InvalidMessage("A frame's header", f"have at most {MAX_HEADER_BYTES} bytes", len(data))
    return b"".join((len(data).to_bytes(LENGTH_BYTES, "big"), data, identity.sign(digest(label, data)), body))


def _decoded(header: bytes, decoder: msgspec.msgpack.Decoder[_Frame]) -> _Frame:
    try:
        frame = decoder.decode(header)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        remedy = "Install the same dpcape version everywhere."
        raise ProtocolError("The frame could not be read", remedy=remedy) from error
    if frame.version != FRAME_VERSION:
        remedy = "Install the same dpcape everywhere."
        raise InvalidMessage("A frame", f"be of version {FRAME_VERSION}", frame.version, remedy)
    return frame
