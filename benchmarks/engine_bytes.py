"""Time of the bytes of one wide release through NVIDIA FLARE alone: no statistic, noise, masks, signatures or vaults.

Cells are where FLARE has them while a job runs: sites' job processes connect to the server's process with mutual TLS,
and it passes messages on to the server's job process, which asks. The messages are those of one release under CAPE:
draws up, their sum down and releases up, two small rounds; under the secure sum vectors go up once. Vectors of 6 MB go
whole, which is FLARE's fastest way for them; ``--stream`` has them streamed, ``--entries N`` changes their length.
``benchmarks/engine.py`` measures the release in the same run, and runs this in a process of its own, since FLARE has
one server per process.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

WORD_BYTES = 6
CHANNEL = "bytes"
SMALL = bytes(100)


class Vectors(NamedTuple):
    """How long the vectors of a release are, and how they travel."""

    n_bytes: int
    is_streamed: bool


def seconds_of_bytes(kits: Path, names: list[str], port: int, vectors: Vectors, n_times: int = 3) -> dict[str, float]:
    """Return the median seconds that the messages of a release take, by protocol."""
    context = multiprocessing.get_context("spawn")
    over, url = context.Event(), context.Queue()
    server = context.Process(target=_pass_on, args=(kits, port, over, url), daemon=True)
    sites = [context.Process(target=_serve, args=(name, kits, port, vectors, over), daemon=True) for name in names]
    for process in (server, *sites):
        process.start()
    cell = _cell("server.job", kits / "server" / "startup", "server", port, parent_url=url.get(timeout=60.0))
    try:
        _wait_for(cell, names)
        releases = {"secure-sum": _secure_sum, "cape": _cape}
        times: dict[str, list[float]] = {kind: [] for kind in releases}
        for _ in range(n_times):
            for kind, release in releases.items():
                begun = time.perf_counter()
                release(cell, names, vectors)
                times[kind].append(time.perf_counter() - begun)
        return {kind: statistics.median(found) for kind, found in times.items()}
    finally:
        over.set()
        cell.stop()
        for process in (*sites, server):
            process.join(10.0)


def _secure_sum(cell: Any, names: list[str], vectors: Vectors) -> None:
    _ask(cell if vectors.is_streamed else cell.core_cell, names, "vector", SMALL)
    _ask(cell.core_cell, names, "small", SMALL)
    _ask(cell.core_cell, names, "small", SMALL)


def _cape(cell: Any, names: list[str], vectors: Vectors) -> None:
    line = cell if vectors.is_streamed else cell.core_cell
    _ask(line, names, "vector", SMALL)
    _ask(line, names, "vector", bytes(vectors.n_bytes))
    _ask(cell.core_cell, names, "small", SMALL)
    _ask(cell.core_cell, names, "small", SMALL)


def _ask(line: Any, names: list[str], topic: str, payload: bytes, timeout: float = 60.0) -> bool:
    """Send to all sites at once, as dpcape does, and return whether all answered."""
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
    from nvflare.fuel.f3.message import Message

    def one(name: str) -> bool:
        reply = line.send_request(
            channel=CHANNEL,
            topic=topic,
            target=f"{name}.job",
            request=Message(payload=payload),
            timeout=timeout,
            optional=True,
        )
        return reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK

    with ThreadPoolExecutor(len(names)) as pool:
        return all(pool.map(one, names))


def _wait_for(cell: Any, names: list[str]) -> None:
    end = time.monotonic() + 60.0
    while not _ask(cell.core_cell, names, "small", SMALL, timeout=1.0):
        if time.monotonic() > end:
            raise TimeoutError("The sites did not connect within 60 s.")
        time.sleep(0.1)


def _pass_on(kits: Path, port: int, over: Event, url: Any) -> None:
    """Be the server's own process until `over` is set: sites connect to it, and the job's process does."""
    cell = _cell("server", kits / "server" / "startup", "server", port, create_internal_listener=True)
    url.put(cell.core_cell.get_internal_listener_url())
    over.wait()
    cell.stop()


def _serve(name: str, kits: Path, port: int, vectors: Vectors, over: Event) -> None:
    """Be a site until `over` is set: answer every request with a vector, or with a few bytes."""
    from nvflare.fuel.f3.cellnet.defs import ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    cell = _cell(f"{name}.job", kits / name / "startup", "client", port)
    for topic, size in {"vector": vectors.n_bytes, "small": 100}.items():
        cell.register_request_cb(
            channel=CHANNEL, topic=topic, cb=lambda message, size=size: make_reply(ReturnCode.OK, "", bytes(size))
        )
    over.wait()
    cell.stop()


def _cell(name: str, kit: Path, role: str, port: int, **options: Any) -> Any:
    """Return a started cell that uses the certificates of a kit."""
    from nvflare.fuel.f3.cellnet.cell import Cell

    credentials = {
        "ca_cert": str(kit / "rootCA.pem"),
        f"{role}_cert": str(kit / f"{role}.crt"),
        f"{role}_key": str(kit / f"{role}.key"),
    }
    cell = Cell(fqcn=name, root_url=f"grpc://localhost:{port}", secure=True, credentials=credentials, **options)
    cell.start()
    return cell


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("kits", type=Path)
    asked.add_argument("port", type=int)
    asked.add_argument("names", nargs="+")
    asked.add_argument("--entries", type=int, default=998_991)
    asked.add_argument("--stream", action="store_true")
    options = asked.parse_args()
    sent = Vectors(WORD_BYTES * options.entries, options.stream)
    print(json.dumps(seconds_of_bytes(options.kits, options.names, options.port, sent)))
