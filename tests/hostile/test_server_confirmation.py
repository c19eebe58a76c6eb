"""The kit names the server, and its port is the engine's way out: the steward confirms it once, in words."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("nvflare")

from dpcape.cli.server_confirmation import is_named, service_at
from dpcape.core.errors import Failed, InvalidParameter
from dpcape.engines.flare.workspace import SiteKit
from dpcape.site.folder import SiteFolder

from .test_modes import Place

pytestmark = pytest.mark.hostile


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    made = Place(Path(tempfile.mkdtemp(prefix="dpcape-confirmed-")))
    yield made
    shutil.rmtree(made.path, ignore_errors=True)


def kit_for(place: Place, address: str) -> Path:
    """The site's own kit, with another server in it: the coordinator makes kits."""
    kit = place.path / f"kit-{address.rpartition(':')[2]}"
    if not kit.exists():
        shutil.copytree(place.kit, kit)
        file = kit / "startup" / "fed_client.json"
        content = json.loads(file.read_text())
        content["servers"][0]["service"]["target"] = address
        file.write_text(json.dumps(content))
    return kit


def refusal(place: Place, *options: str, kit: Path | None = None) -> str:
    """What a start without a terminal is refused with; nothing is noted of it."""
    before = len(SiteFolder(place.folder).chain.entries())
    process = place.serve(*options, kit=kit)
    try:
        told = process.communicate(timeout=60)[0]
    except subprocess.TimeoutExpired:
        process.terminate()
        told = process.communicate(timeout=60)[0]
        raise AssertionError(f"it was served: {told}") from None
    assert process.returncode == 2, told
    assert len(SiteFolder(place.folder).chain.entries()) == before
    return told


def served(process: subprocess.Popen[str]) -> list[str]:
    """The lines up to the one that says who serves; the process is then ended."""
    lines = []
    while not lines or "serves approved studies" not in lines[-1]:
        lines.append(process.stdout.readline())
        assert lines[-1], lines
    process.terminate()
    process.communicate(timeout=60)
    # A signal may come before there is anything to end.
    assert process.returncode in (0, -signal.SIGTERM)
    return lines


@pytest.mark.parametrize(
    ("port", "service"), [(5432, "PostgreSQL"), (445, "a service of the system"), (22, "a service of the system")]
)
def test_a_kit_cannot_choose_the_port_of_another_service(place: Place, port: int, service: str) -> None:
    kit = kit_for(place, f"server.example:{port}")
    told = refusal(place, kit=kit)
    assert f"got {port}, the port of {service}" in told
    assert f"--server server.example:{port}." in told
    # Another name than the kit's confirms nothing.
    told = refusal(place, "--server", "server.example:8002", kit=kit)
    assert f"must be the server that the kit names, server.example:{port}; got 'server.example:8002'" in told


def test_a_server_is_confirmed_once_and_a_kit_with_another_is_refused(place: Place) -> None:
    host, _, port = place.server.rpartition(":")
    told = refusal(place)
    assert f"got a kit that names {host}, port {port}. Compare" in told
    assert f"--server {place.server}." in told
    served(place.serve("--server", place.server))
    # Confirmed: it is a row of the ledger, and is not asked for again.
    last = SiteFolder(place.folder).last_served()
    assert (last["server"], last["confirmed"]) == (place.server, True)
    served(place.serve())
    told = refusal(place, kit=kit_for(place, "server.example:8003"))
    assert f"names server.example, port 8003. Until now it was {place.server}." in told


@pytest.mark.parametrize("answer", ["n", "y"])
def test_a_steward_at_a_terminal_is_asked_in_words(place: Place, answer: str) -> None:
    kit = kit_for(place, f"{answer}.server.example:8002")
    steward, terminal = pty.openpty()
    try:
        process = place.serve(kit=kit, stdin=terminal)
        os.write(steward, f"{answer}\n".encode())
        if answer == "y":
            told = "".join(served(process))
        else:
            told = process.communicate(timeout=60)[0]
            assert process.returncode == 2
            assert "was not confirmed" in told
    finally:
        os.close(steward)
        os.close(terminal)
    assert "connect to port 8002 of every machine that it can reach" in told
    assert "Is this the server that the coordinator told you? [y/N]" in told


def test_a_kit_that_is_replaced_after_the_question_changes_nothing(place: Place) -> None:
    """The steward reads the question, or has answered it long ago, while somebody puts another kit in its place."""
    kit, work = kit_for(place, "asked.server.example:18002"), place.path / "work"
    work.mkdir(mode=0o700)
    file = kit / "startup" / "fed_client.json"
    steward, terminal = pty.openpty()
    try:
        process = place.serve("--work", str(work), kit=kit, stdin=terminal)
        told = ""
        while "[y/N]" not in told:
            told += process.stdout.read(1)
        assert "asked.server.example, port 18002" in told
        file.write_text(file.read_text().replace("asked.server.example:18002", "other.server.example:5432"))
        (kit / "startup" / "rootCA.pem").write_text("another")
        os.write(steward, b"y\n")
        while "engine" not in (line := process.stdout.readline()):
            assert line
        folder = next(work.iterdir()) / "startup"
        client = json.loads((folder / "fed_client.json").read_text())
        assert client["servers"][0]["service"]["target"] == "asked.server.example:18002"
        assert (folder / "rootCA.pem").read_bytes() == (place.kit / "startup" / "rootCA.pem").read_bytes()
        process.terminate()
        process.communicate(timeout=60)
    finally:
        os.close(steward)
        os.close(terminal)


@pytest.mark.parametrize(
    "address",
    ["0:8002", "0.0.0.0:8002", "2130706433:8002", "0x7f.1:8002", "127.1:8002", "0x7f000001:8002", "010.0.0.1:8002",
     "server.0x:8002", "server.example:4_4_3", "server.example:+5432", "server.example:٥٤٣٢", "server.example:0"],
)  # fmt: skip
def test_an_address_that_hides_itself_is_refused(place: Place, tmp_path: Path, address: str) -> None:
    kit = tmp_path / "kit"
    shutil.copytree(place.kit, kit)
    file = kit / "startup" / "fed_client.json"
    for target in (address, "192.0.2.10:8002", "4server.example:8002", "server.example:8002"):
        content = json.loads(file.read_text())
        content["servers"][0]["service"]["target"] = target
        file.write_text(json.dumps(content))
        if target == address:
            with pytest.raises(Failed, match="HOST:PORT"):
                SiteKit.read(kit)
        else:
            assert SiteKit.read(kit).address == target


def test_the_steward_may_name_the_port_of_another_service() -> None:
    assert is_named("server.example:5432", "Server.example:5432")
    assert not is_named("server.example:5432", None)
    with pytest.raises(InvalidParameter, match="got 'server"):
        is_named("server.example:5432", "server.example")


def test_ports_of_https_and_of_federations_are_nobody_elses() -> None:
    assert [port for port in (443, 8002, 8003, 18002) if service_at(port)] == []
    assert all(service_at(port) for port in (22, 25, 53, 80, 104, 445, 1433, 3306, 3389, 5432, 6379, 11112))
