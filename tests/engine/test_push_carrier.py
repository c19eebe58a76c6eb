"""Messages between real cells of NVIDIA FLARE, in one process: short ones whole, long ones streamed, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("nvflare")

from tests.engine.consortium import free_port

from dpcape.engines.flare import push_carrier
from dpcape.engines.flare.push_carrier import PushCarrier, serve_push

LIMIT = 3 * 2**20
LENGTHS = {"short": 1000, "long": LIMIT}


@pytest.fixture(scope="module")
def cells() -> Iterator[tuple[Any, Any]]:
    from nvflare.fuel.f3.cellnet.cell import Cell

    url = f"tcp://localhost:{free_port()}"
    both = [Cell(fqcn=name, root_url=url, secure=False, credentials={}) for name in ("server", "site.job")]
    for cell in both:
        cell.start()
    yield both[0], both[1]
    for cell in both:
        cell.stop()


@pytest.mark.parametrize("up", LENGTHS)
@pytest.mark.parametrize("down", LENGTHS)
def test_long_messages_do_not_pass_the_core_whole(
    cells: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, down: str, up: str
) -> None:
    monkeypatch.setattr(push_carrier, "STREAMED_BYTES", LIMIT)
    server, site = cells
    request, reply = b"q" * LENGTHS[down], b"r" * LENGTHS[up]
    heard: list[bytes] = []

    def handle(data: bytes) -> bytes:
        heard.append(data)
        return reply

    serve_push(site, handle)
    through_core: list[int] = []
    send = server.core_cell.send_request

    def watched(**options: Any) -> Any:
        answer = send(**options)
        through_core.extend((len(options["request"].payload), len(answer.payload or b"")))
        return answer

    monkeypatch.setattr(server.core_cell, "send_request", watched)
    delivery = PushCarrier(server, "job").carry("site", "round", request, 30.0)
    assert (delivery.code, delivery.data) == ("ok", reply)
    assert heard == [request]
    assert bool(through_core) == (down == "short")
    assert all(length < LIMIT for length in through_core)


def test_a_vault_that_is_gone_is_told(cells: tuple[Any, Any]) -> None:
    server, site = cells

    def gone(data: bytes) -> bytes:
        raise BrokenPipeError

    serve_push(site, gone)
    assert PushCarrier(server, "job").carry("site", "round", b"q", 30.0).code == "no vault"
