"""Push messages on FLARE's core cell: a round takes milliseconds, not the polling interval of tasks.

The core cell is not a documented interface of FLARE. It is used here alone, with nvflare pinned; ``tasks.py`` does the
same work through documented calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.utils import make_reply
from nvflare.fuel.f3.message import Message

from dpcape.engines.flare.config import CHANNEL
from dpcape.transport.carrier import Carrier, Code, Delivery
from dpcape.transport.frames import Kind

# FLARE's own codes say nothing of the kind.
_NO_VAULT = "dpcape_no_vault"
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

    def __init__(self, core_cell: Any, job: str) -> None:
        self._cell, self._job = core_cell, job

    def carry(self, site: str, kind: Kind, data: bytes, timeout: float) -> Delivery:
        try:
            reply = self._cell.send_request(
                channel=CHANNEL,
                topic=kind,
                target=f"{site}.{self._job}",
                request=Message(payload=data),
                timeout=timeout,
                optional=True,
            )
            code = _CODES.get(reply.get_header(MessageHeaderKey.RETURN_CODE), "error")
            return Delivery(code, bytes(reply.payload) if code == "ok" else b"")
        except Exception:  # whatever the engine raises, the line needs an answer
            return Delivery("error")


def serve_push(core_cell: Any, handle: Callable[[bytes], bytes]) -> None:
    """Have a site's job cell answer dpcape's requests with ``handle``; OSError means that the vault is gone."""

    def answer(message: Message) -> Message:
        try:
            return make_reply(ReturnCode.OK, "", handle(message.payload))
        except OSError:
            return make_reply(_NO_VAULT, "", b"")

    for topic in ("ready", "round", "ping"):
        core_cell.register_request_cb(channel=CHANNEL, topic=topic, cb=answer)


def core_cell_of(engine: Any) -> Any:
    """Return the engine's core cell, or None where this FLARE has none."""
    cell = getattr(engine, "get_cell", lambda: None)()
    return getattr(cell, "core_cell", None)
