"""Push messages on FLARE's cells: a round takes milliseconds, not the polling interval of tasks.

Cells are not a documented interface of FLARE. They are used only here, with nvflare pinned; ``task_carrier.py`` does
the same work through documented calls. A cell sends a message whole, through its core, or in pieces, as a stream: a
stream is faster from about 16 MB on (docs/scale.md). A request goes the way that suits its own length. A site that has
a long reply to a short request keeps it, answers with its number, and the server fetches it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, ClassVar

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.message import Message

from dpcape.engines.flare.config import CHANNEL
from dpcape.transport.carrier import Carrier, Code, Delivery
from dpcape.transport.frames import Kind

STREAMED_BYTES = 16 * 2**20
"""From this length on, a message is streamed."""

# Status codes that FLARE itself does not use.
_NO_VAULT, _KEPT, _GONE = "dpcape_no_vault", "dpcape_kept", "dpcape_gone"
_FETCH = "fetch"
_CODES: dict[str, Code] = {
    ReturnCode.OK: "ok",
    _NO_VAULT: "no vault",
    ReturnCode.TIMEOUT: "timeout",
    ReturnCode.COMM_ERROR: "unreachable",
    ReturnCode.TARGET_UNREACHABLE: "unreachable",
}


class PushCarrier(Carrier):
    """Sends requests from the server's job cell to the sites' job cells."""

    can_ping: ClassVar[bool] = True

    def __init__(self, cell: Any, job: str) -> None:
        self._cell, self._job = cell, job

    def carry(self, site: str, kind: Kind, data: bytes, timeout: float) -> Delivery:
        try:
            cell = self._cell if len(data) >= STREAMED_BYTES else self._cell.core_cell
            reply = self._request(cell, site, kind, data, timeout)
            if reply.get_header(MessageHeaderKey.RETURN_CODE) == _KEPT:
                reply = self._request(self._cell, site, _FETCH, bytes(reply.payload), timeout)
            code = _CODES.get(reply.get_header(MessageHeaderKey.RETURN_CODE), "error")
            return Delivery(code, bytes(reply.payload) if code == "ok" else b"")
        except Exception:  # whatever the engine raises, the transport needs an answer
            return Delivery("error")

    def _request(self, cell: Any, site: str, topic: str, data: bytes, timeout: float) -> Any:
        return cell.send_request(
            channel=CHANNEL,
            topic=topic,
            target=f"{site}.{self._job}",
            request=Message(payload=data),
            timeout=timeout,
            optional=True,
        )


def serve_push(cell: Any, handle: Callable[[bytes], bytes]) -> None:
    """Have a site's job cell answer dpcape's requests with ``handle``; OSError means that the vault is gone."""
    long_replies: dict[bytes, bytes] = {}

    def reply_to(message: Message) -> tuple[str, bytes]:
        try:
            return ReturnCode.OK, handle(bytes(message.payload))
        except OSError:
            return _NO_VAULT, b""

    def streamed(message: Message) -> Message:
        code, data = reply_to(message)
        return make_reply(code, "", data)

    def unstreamed(message: Message) -> Message:
        code, data = reply_to(message)
        if len(data) < STREAMED_BYTES:
            return make_reply(code, "", data)
        number = secrets.token_bytes(16)
        long_replies.clear()  # a site answers one round at a time; a reply that was not fetched is asked for again
        long_replies[number] = data
        return make_reply(_KEPT, "", number)

    def fetched(message: Message) -> Message:
        data = long_replies.pop(bytes(message.payload), None)
        return make_reply(_GONE if data is None else ReturnCode.OK, "", data or b"")

    for topic in ("ready", "round", "ping"):
        # A cell registers its own answer with its core too; the core's answer must come after it.
        cell.register_request_cb(channel=CHANNEL, topic=topic, cb=streamed)
        cell.core_cell.register_request_cb(channel=CHANNEL, topic=topic, cb=unstreamed)
    cell.register_request_cb(channel=CHANNEL, topic=_FETCH, cb=fetched)


def cell_of(engine: Any) -> Any:
    """Return the engine's cell, or None where this FLARE has none of the kind."""
    cell = getattr(engine, "get_cell", lambda: None)()
    return cell if getattr(cell, "core_cell", None) is not None else None
