"""What travels inside a FLARE message: signed requests of the coordinator, and a site's replies.

FLARE knows which participant connected, not which participant may ask: every cell can address every other. So each
request is signed with the coordinator's key, which sites pin, and is bound to its job, study, site and round.
"""

from __future__ import annotations

import hashlib
from typing import Literal, TypeVar

import msgspec

from dpcape.errors import ProtocolError
from dpcape.secure_sum import Identity
from dpcape.secure_sum.identity import verify

FRAME_VERSION = 1
# FLARE carries at most 2 GiB in one message; longer frames are refused before they are decoded.
MAX_FRAME_BYTES = 2**31 - 1
# Nothing but a round carries a body.
MAX_SMALL_BYTES = 2**16

Kind = Literal["ready", "round", "ping"]
State = Literal["ok", "busy", "stale", "refused", "failed"]


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request of the coordinator: ``number`` is its round, from 1; 0 for what is not a round."""

    version: int = FRAME_VERSION
    kind: Kind
    job: str
    study: str
    site: str
    number: int
    body: bytes = b""
    signature: bytes = b""


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site's reply. ``error`` and ``text`` say why it refuses; ``about`` is filled when it reports ready."""

    version: int = FRAME_VERSION
    state: State
    number: int
    body: bytes = b""
    error: str = ""
    text: str = ""
    about: dict[str, str | float] = {}


_asks = msgspec.msgpack.Decoder(Ask)
_replies = msgspec.msgpack.Decoder(Reply)


def signed(ask: Ask, identity: Identity) -> bytes:
    """Return the wire form of a request, signed by the coordinator."""
    return msgspec.msgpack.encode(msgspec.structs.replace(ask, signature=identity.sign(_statement(ask))))


def decode_ask(data: object, coordinator: bytes) -> Ask:
    """Return a request if the coordinator signed it; refuse anything else."""
    ask = _decode(data, _asks)
    if not verify(coordinator, ask.signature, _statement(ask)):
        raise ProtocolError("a request must be signed by the pinned coordinator; got another signature.")
    if ask.kind != "round" and len(ask.body) > MAX_SMALL_BYTES:
        raise ProtocolError(f"a {ask.kind} request must have at most {MAX_SMALL_BYTES} bytes; got {len(ask.body)}.")
    return ask


def encode_reply(reply: Reply) -> bytes:
    """Return the wire form of a reply."""
    return msgspec.msgpack.encode(reply)


def decode_reply(data: object) -> Reply:
    """Return a site's reply, refusing what is malformed."""
    return _decode(data, _replies)


_Frame = TypeVar("_Frame", Ask, Reply)


def _decode(data: object, decoder: msgspec.msgpack.Decoder[_Frame]) -> _Frame:
    if not isinstance(data, bytes | bytearray | memoryview) or len(data) > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame must be at most {MAX_FRAME_BYTES} bytes; got something else.")
    try:
        frame = decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise ProtocolError("a frame must be well formed; got one that is not.") from error
    if frame.version != FRAME_VERSION:
        raise ProtocolError(
            f"a frame must be of version {FRAME_VERSION}; got {frame.version}. Install the same dpcape everywhere."
        )
    return frame


def _statement(ask: Ask) -> bytes:
    """Return what is signed: MessagePack of a fixed list is injective, and the body enters by its digest."""
    parts = ("dpcape flare 1", ask.version, ask.kind, ask.job, ask.study, ask.site, ask.number)
    return msgspec.msgpack.encode((*parts, hashlib.sha256(ask.body).digest()))
