"""The vault as a process of its own, against an engine that sends whatever it likes."""

from __future__ import annotations

import array
import contextlib
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest

from dpcape.core.messages import Describe, Described, decode_from_site, encode
from dpcape.core.secure_sum.identity import Identity
from dpcape.site.folder import SiteFolder
from dpcape.site.vault import server
from dpcape.site.vault.client import VaultClient, VaultGone
from dpcape.site.vault.server import MAX_LINES, VaultSettings
from dpcape.study.study import Study
from dpcape.transport.frames import Ask, Reply, decode_reply, signed, split

COORDINATOR, ROGUE = Identity.generate(), Identity.generate()
STUDY = """[study]
name = "first"
analysis = "mean"
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "independent"
[sites.lyon]
[data]
kind = "rows"
features = 2
array = "X"
bound = 1.0
"""


class Vault:
    """A vault process and an engine's end of its line."""

    def __init__(self, folder: SiteFolder) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        theirs, self.control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        settings = VaultSettings(folder=str(self.folder.path), mode="confined", control=theirs.fileno())
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "dpcape.site.vault.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
        )
        self.process.stdin.write(msgspec.json.encode(settings) + b"\n")
        self.process.stdin.close()
        told = msgspec.json.decode(self.process.stdout.readline())
        assert told["abi"] > 0, told
        assert told["seccomp"]
        theirs.close()
        self.client = VaultClient(self.control)
        self.lines: list[socket.socket] = []

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.client.close()
        for line in self.lines:
            line.close()

    def line(self) -> socket.socket:
        """A line of one's own."""
        ours, theirs = socket.socketpair()
        self.control.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))])
        theirs.close()
        ours.settimeout(10)
        self.lines.append(ours)
        return ours

    def memory(self) -> float:
        return psutil.Process(self.process.pid).memory_info().rss / 2**20

    def ask(self, ask: Ask, body: bytes = b"", identity: Identity = COORDINATOR) -> tuple[Reply, bytes]:
        return decode_reply(self.client.ask(signed(ask, identity, body)), self.folder.identity.public)

    def ready(self, job: str, study: str) -> Reply:
        end = time.monotonic() + 30
        while True:
            reply, _ = self.ask(Ask(kind="ready", job=job, study=study, site="lyon", number=0))
            if reply.state != "busy" or time.monotonic() > end:
                return reply
            time.sleep(0.05)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[SiteFolder, Study]:
    path = tmp_path_factory.mktemp("vault")
    np.savez(path / "lyon.npz", X=0.1 * np.ones((50, 2)))
    (path / "study.toml").write_text(STUDY)
    study = Study.load(path / "study.toml")
    folder = SiteFolder.create(path / "lyon", name="lyon")
    folder.add_data("main", path / "lyon.npz", epsilon=100.0, delta=1e-3)
    folder.pin("coordinator", COORDINATOR.public.hex())
    folder.approve(study, runs=50)
    return folder, study


@pytest.fixture
def vault(place: tuple[SiteFolder, Study]) -> Iterator[Vault]:
    made = Vault(place[0])
    yield made
    made.stop()


def round_of(job: str, study: Study, ready: Reply, number: int = 1) -> Ask:
    session = str(ready.about["session"])
    return Ask(kind="round", job=job, study=study.digest(), site="lyon", number=number, session=session)


def test_a_genuine_request_is_answered_with_the_mode(vault: Vault, place: tuple[SiteFolder, Study]) -> None:
    job, study = secrets.token_hex(8), place[1]
    ready = vault.ready(job, study.digest())
    assert ready.state == "ok", ready
    reply, body = vault.ask(round_of(job, study, ready), encode(Describe()))
    described = decode_from_site(body)[1]
    assert (reply.state, reply.job, reply.number) == ("ok", job, 1)
    assert isinstance(described, Described)
    assert described.separation == "confined"


def test_hostile_frames_are_refused_and_memory_stays_bounded(vault: Vault, place: tuple[SiteFolder, Study]) -> None:
    job, study = secrets.token_hex(8), place[1]
    ready = vault.ready(job, study.digest())
    rows = len(place[0].chain.entries())
    before = vault.memory()
    genuine = round_of(job, study, ready)
    forged = signed(genuine, ROGUE, bytes(2**20))
    large = signed(genuine, COORDINATOR, bytes(32 * 2**20))
    head = large[: len(large) - 32 * 2**20]
    other = signed(msgspec.structs.replace(genuine, site="oslo"), COORDINATOR, b"x")
    hostile = [
        os.urandom(2**16),
        b"\xff\xff\xff\xff" + bytes(2**20),
        bytes(4) + bytes(100),
        forged,
        head.replace(job.encode(), secrets.token_hex(8).encode()) + bytes(2**20),
        # A genuine header with a body that is not its own.
        head + b"\x01" * (32 * 2**20),
        other,
    ]
    for frame in hostile:
        reply = vault.client.ask(frame)
        assert msgspec.msgpack.decode(split(reply)[0][:-64], type=Reply).state == "refused"
        # Nobody believes it: a captured engine cannot make refusals that end a study.
        assert split(reply)[0][-64:] == bytes(64)
    floods = [vault.line() for _ in range(8)]
    for line in floods:
        line.settimeout(0.2)
        try:
            line.sendall(b"\x00\x00\xff\xff" + bytes(2**26))
        except OSError:
            continue
    assert vault.memory() - before < 100
    for line in floods:
        line.close()
    reply, _ = vault.ask(genuine, encode(Describe()))
    assert reply.state == "ok"
    assert len(place[0].chain.entries()) == rows


def test_slow_lines_cost_nobody_else_and_the_seventeenth_is_closed(
    vault: Vault, place: tuple[SiteFolder, Study]
) -> None:
    job, study = secrets.token_hex(8), place[1]
    ready = vault.ready(job, study.digest())
    slow = [vault.line() for _ in range(MAX_LINES - 1)]
    for line in slow:
        line.sendall(b"\x00")
    further = vault.line()
    assert further.recv(1) == b""
    assert vault.ask(round_of(job, study, ready), encode(Describe()))[0].state == "ok"
    for line in slow:
        line.close()
    time.sleep(0.2)
    again = vault.line()
    again.sendall(bytes(4))
    assert again.recv(1)


def test_recorded_requests_are_worthless_after_a_restart(vault: Vault, place: tuple[SiteFolder, Study]) -> None:
    folder, study = place
    job = secrets.token_hex(8)
    ready = vault.ready(job, study.digest())
    recorded = signed(round_of(job, study, ready), COORDINATOR, encode(Describe()))
    public = folder.identity.public
    assert decode_reply(vault.client.ask(recorded), public)[0].state == "ok"
    assert decode_reply(vault.client.ask(recorded), public)[0].state == "stale"
    rows = folder.chain.entries()
    vault.process.kill()
    vault.process.wait()
    with pytest.raises(VaultGone):
        vault.client.ask(recorded)
    vault.stop()
    vault.start()
    assert decode_reply(vault.client.ask(recorded), public)[0].state == "restarted"
    assert vault.ready(job, study.digest()).state == "ok"
    assert decode_reply(vault.client.ask(recorded), public)[0].state == "restarted"
    assert folder.chain.entries() == rows


def test_a_study_that_was_not_approved_is_refused_in_a_signed_reply(vault: Vault) -> None:
    reply = vault.ready(secrets.token_hex(8), "e" * 64)
    assert (reply.state, reply.error) == ("refused", "LedgerRefused")


def test_many_jobs_do_not_pile_up(vault: Vault, place: tuple[SiteFolder, Study]) -> None:
    for _ in range(8):
        assert vault.ready(secrets.token_hex(8), place[1].digest()).state == "ok"


def test_the_vault_has_no_network_no_engine_and_hides_its_memory(vault: Vault) -> None:
    process = psutil.Process(vault.process.pid)
    assert process.net_connections(kind="inet") == []
    assert not [entry.path for entry in process.memory_maps() if "nvflare" in entry.path or "grpc" in entry.path]
    status = Path(f"/proc/{vault.process.pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapPrm"], 16) == int(fields["CapBnd"], 16) == 0
    assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")
    # Belongs to root while it cannot be dumped, whoever runs it.
    assert Path(f"/proc/{vault.process.pid}/environ").stat().st_uid == 0
    vault.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    assert vault.process.poll() is None


def test_a_socket_that_lingers_does_not_hold_the_vault_up() -> None:
    """Of another kind than a line, with data that nobody takes: closing it would wait as long as its maker said."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        line = socket.create_connection(listening.getsockname())
        peer, _ = listening.accept()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 20))
        line.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                line.send(bytes(2**16))
        passed = array.array("i", [line.detach()]).tobytes()
        begun = time.monotonic()
        assert server._received([(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)]) == []
        assert time.monotonic() - begun < 5
        peer.close()
