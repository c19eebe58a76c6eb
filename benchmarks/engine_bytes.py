"""Time of the bytes of one wide release through NVIDIA FLARE alone: no statistic, noise, masks, signatures or vaults.

Site processes connect to a server process with mutual TLS, as in a federation. The messages are those of one release
under CAPE: draws up, their sum down and releases up, two small rounds; under the secure sum vectors go up once. Vectors
are streamed, which is FLARE's fastest way for them. ``benchmarks/engine.py`` measures the release in the same run, and
runs this in a process of its own, since FLARE has one server per process.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from pathlib import Path

N_ENTRIES = 998_991
WORD_BYTES = 6
CHANNEL = "bytes"
SMALL = bytes(100)


def seconds_of_bytes(kits: Path, names: list[str], port: int, n_times: int = 3) -> dict[str, float]:
    """Return the median seconds that the messages of a release take, by protocol."""
    over = multiprocessing.get_context("spawn").Event()
    sites = [
        multiprocessing.get_context("spawn").Process(target=_serve, args=(name, kits, port, over), daemon=True)
        for name in names
    ]
    cell = _cell("server", kits / "server" / "startup", "server", port)
    for site in sites:
        site.start()
    try:
        _wait_for(cell, names)
        releases = {"secure-sum": _secure_sum, "cape": _cape}
        times: dict[str, list[float]] = {kind: [] for kind in releases}
        for _ in range(n_times):
            for kind, release in releases.items():
                begun = time.perf_counter()
                release(cell, names)
                times[kind].append(time.perf_counter() - begun)
        return {kind: statistics.median(found) for kind, found in times.items()}
    finally:
        over.set()
        for site in sites:
            site.join(10.0)
        cell.stop()


def _secure_sum(cell: object, names: list[str]) -> None:
    _ask(cell, names, "vector", SMALL)
    _ask(cell, names, "small", SMALL)
    _ask(cell, names, "small", SMALL)


def _cape(cell: object, names: list[str]) -> None:
    _ask(cell, names, "vector", SMALL)
    _ask(cell, names, "vector", bytes(WORD_BYTES * N_ENTRIES))
    _ask(cell, names, "small", SMALL)
    _ask(cell, names, "small", SMALL)


def _ask(cell, names: list[str], topic: str, payload: bytes, timeout: float = 60.0) -> bool:  # type: ignore[no-untyped-def]
    """Send to all sites at once, as dpcape does, and return whether all answered."""
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, ReturnCode
    from nvflare.fuel.f3.message import Message

    line = cell.core_cell if topic == "small" else cell

    def one(name: str) -> bool:
        reply = line.send_request(
            channel=CHANNEL, topic=topic, target=name, request=Message(payload=payload), timeout=timeout, optional=True
        )
        return reply.get_header(MessageHeaderKey.RETURN_CODE) == ReturnCode.OK

    with ThreadPoolExecutor(len(names)) as pool:
        return all(pool.map(one, names))


def _wait_for(cell: object, names: list[str]) -> None:
    end = time.monotonic() + 60.0
    while not _ask(cell, names, "small", SMALL, timeout=1.0):
        if time.monotonic() > end:
            raise TimeoutError("The sites did not connect within 60 s.")
        time.sleep(0.1)


def _serve(name: str, kits: Path, port: int, over: Event) -> None:
    """Be a site until `over` is set: answer every request with a vector, or with a few bytes."""
    from nvflare.fuel.f3.cellnet.defs import ReturnCode
    from nvflare.fuel.f3.cellnet.utils import make_reply

    cell = _cell(name, kits / name / "startup", "client", port)
    sizes = {"vector": WORD_BYTES * N_ENTRIES, "small": 100}
    for topic, size in sizes.items():
        (cell.core_cell if topic == "small" else cell).register_request_cb(
            channel=CHANNEL, topic=topic, cb=lambda message, size=size: make_reply(ReturnCode.OK, "", bytes(size))
        )
    over.wait()
    cell.stop()


def _cell(name: str, kit: Path, role: str, port: int):  # type: ignore[no-untyped-def]
    """Return a started cell that uses the certificates of a kit."""
    from nvflare.fuel.f3.cellnet.cell import Cell

    credentials = {
        "ca_cert": str(kit / "rootCA.pem"),
        f"{role}_cert": str(kit / f"{role}.crt"),
        f"{role}_key": str(kit / f"{role}.key"),
    }
    cell = Cell(fqcn=name, root_url=f"grpc://localhost:{port}", secure=True, credentials=credentials)
    cell.start()
    return cell


if __name__ == "__main__":
    _, folder, on, *sites = sys.argv
    print(json.dumps(seconds_of_bytes(Path(folder), sites, int(on))))
