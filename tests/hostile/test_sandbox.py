"""The sandbox on this kernel: what an engine reaches at each version of Landlock, with and without the filter.

Without Landlock these tests fail; they are never skipped.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec
import pytest
from tests.engine.accounts import ENGINE_UID, engine_python

from dpcape.site.vault.accounts import Account, Accounts
from dpcape.site.vault.guarded import Guarded
from dpcape.site.vault.landlock import abi
from dpcape.site.vault.launch import Launch, Report
from dpcape.site.vault.modes import CONFINED, NONE, PORTS, SIGNALS, mode_of
from dpcape.site.vault.self_test import NotSeparated, Probes, attempts
from dpcape.site.vault.server import VaultSettings
from dpcape.site.vault.supervisor import Engine, Serving, Supervisor

# Landlock has no rule for these: the filter of system calls keeps them out. A kernel may have the rest switched off.
FILTERED = {
    "change a file's mode",
    "use a Unix socket",
    "use UDP",
    "watch the folder",
    "listen on a port that the kernel chooses",
    "run a program by its descriptor",
    "leave its group of processes",
}
SWITCHED_OFF = {
    "use io_uring",
    "watch the folder through fanotify",
    "run a program from memory",
    "look at queues of other processes",
}
# What an engine of the same account reaches although it is confined, by version of Landlock.
REACHED = {
    7: set(),
    6: set(),
    5: {"signal the vault"},
    4: {"signal the vault"},
    3: {"signal the vault", "connect elsewhere", "reach the steward's page"},
    2: {"signal the vault", "connect elsewhere", "reach the steward's page"},
    1: {"signal the vault", "connect elsewhere", "reach the steward's page"},
}


class Surroundings:
    """What the self-test tries to reach, made for it."""

    def __init__(self, path: Path) -> None:
        self.work = path / "work"
        self.folder = path / "folder"
        for place in (self.work, self.folder):
            place.mkdir()
        self.secret, self.decoy = self.folder / "identity.key", self.folder / "self-test"
        for file in (self.secret, self.decoy):
            file.write_text("secret")
            file.chmod(0o600)
        self.vault = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.tcp, self.page = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        self.unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.unix.bind(str(path / "listening"))
        self.unix.listen()
        self.package = path / "package.py"
        self.package.write_text("")
        self.probes = Probes(
            secret_files=[str(self.secret)],
            folder=str(self.folder),
            decoy=str(self.decoy),
            vault=self.vault.pid,
            unix=str(path / "listening"),
            port=int(self.tcp.getsockname()[1]),
            page=int(self.page.getsockname()[1]),
            package=str(self.package),
        )

    def report(self, **options: object) -> Report:
        """Launch an engine that only reports, and is then told to end."""
        launch = Launch(
            command=[],
            work=str(self.work),
            connect=[],
            environment={},
            probes=self.probes,
            **options,
        )
        done = subprocess.run(
            [sys.executable, "-I", "-m", "dpcape.site.vault.launch"],
            input=msgspec.json.encode(launch) + b"\n",
            capture_output=True,
            cwd=self.work,
            check=False,
        )
        assert done.stdout, done.stderr[-2000:]
        return msgspec.json.decode(done.stdout.splitlines()[0], type=Report)

    def close(self) -> None:
        self.vault.kill()
        self.vault.wait()
        self.tcp.close()
        self.page.close()
        self.unix.close()


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    assert abi() >= 6, "these tests need a kernel with Landlock 6 or newer (Linux 6.12)"
    made = Surroundings(tmp_path)
    yield made
    made.close()


def test_every_attempt_succeeds_outside(around: Surroundings) -> None:
    report = around.report(confined=False)
    assert set(attempts(around.probes)) - set(report.succeeded) <= SWITCHED_OFF


@pytest.mark.parametrize("version", [version for version in sorted(REACHED) if version <= abi()])
def test_what_is_reached_is_the_fixed_list_of_each_version(around: Surroundings, version: int) -> None:
    report = around.report(most_abi=version)
    assert (report.abi, report.seccomp) == (version, True)
    assert set(report.succeeded) == REACHED[version]
    mode = mode_of(abi=version, seccomp=True, separate_account=False)
    assert mode.reached == REACHED[version]


def test_without_the_filter_the_self_test_notices(around: Surroundings) -> None:
    reached = set(around.report(with_seccomp=False).succeeded)
    assert reached >= FILTERED
    assert reached <= FILTERED | SWITCHED_OFF


def test_a_loosened_rule_is_noticed(around: Surroundings) -> None:
    around.work = around.folder.parent
    reached = set(around.report().succeeded)
    assert {"read secret 1", "write secret 1", "list the folder"} <= reached
    assert not reached <= CONFINED.reached


def test_modes_by_kernel() -> None:
    by_version = [mode_of(abi=version, seccomp=True, separate_account=False) for version in range(8)]
    assert by_version == [NONE, PORTS, PORTS, PORTS, SIGNALS, SIGNALS, CONFINED, CONFINED]
    assert mode_of(abi=7, seccomp=False, separate_account=True) is NONE
    assert mode_of(abi=7, seccomp=True, separate_account=True).name == "account"


def test_an_engine_reaches_its_own_ports_alone(around: Surroundings) -> None:
    port = around.probes.port
    reached = around.report(most_abi=7)
    assert "connect elsewhere" not in reached.succeeded
    launch = Launch(command=[], work=str(around.work), connect=[port], environment={}, probes=around.probes)
    done = subprocess.run(
        [sys.executable, "-I", "-m", "dpcape.site.vault.launch"],
        input=msgspec.json.encode(launch) + b"\n",
        capture_output=True,
        check=False,
    )
    assert "connect elsewhere" in msgspec.json.decode(done.stdout.splitlines()[0], type=Report).succeeded


def test_a_page_on_a_port_of_the_engine_is_noticed_and_nothing_is_served(around: Surroundings) -> None:
    launch = Launch(
        command=[], work=str(around.work), connect=[around.probes.page], environment={}, probes=around.probes
    )
    done = subprocess.run(
        [sys.executable, "-I", "-m", "dpcape.site.vault.launch"],
        input=msgspec.json.encode(launch) + b"\n",
        capture_output=True,
        check=False,
    )
    report = msgspec.json.decode(done.stdout.splitlines()[0], type=Report)
    assert report.succeeded == ["reach the steward's page"]
    here = Account.current()
    settings = VaultSettings(folder=str(around.folder), mode="confined", control=-1)
    guarded = Guarded(around.folder, around.folder, ())
    engine = Engine("", lambda work: [], lambda work, port: None, (), {})
    supervisor = Supervisor(Serving("", settings, CONFINED, Accounts(here, here), guarded), engine, print)
    with pytest.raises(NotSeparated, match="could reach the steward's page"):
        supervisor._judge(report)


PAST_LANDLOCK = """
import os, socket, sys
from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.sandbox import Sandbox, confine
from dpcape.site.vault.seccomp import Filter
port = int(sys.argv[1])
confine(Sandbox(Rules(), Filter(network=True), with_seccomp=sys.argv[2] == "with"))
line = socket.socket()
try:
    line.sendto(b"x", socket.MSG_FASTOPEN, ("127.0.0.1", port))
    print("sent")
except OSError as error:
    print("refused" if error.errno == 1 else error)
"""


BY_DESCRIPTOR = """
import fcntl, os, socket, struct, sys, time
from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.sandbox import Sandbox, confine
from dpcape.site.vault.seccomp import Filter
victim = int(sys.argv[1])
confine(Sandbox(Rules(), Filter(network=True), most_abi=int(sys.argv[2])))
line, other = socket.socketpair()
if sys.argv[3] == "fcntl":
    fcntl.fcntl(line, fcntl.F_SETOWN, victim)
else:
    fcntl.ioctl(line, 0x8901, struct.pack("i", victim))
fcntl.fcntl(line, 10, 9)
fcntl.fcntl(line, fcntl.F_SETFL, fcntl.fcntl(line, fcntl.F_GETFL) | os.O_ASYNC)
other.send(b"x")
time.sleep(0.2)
"""


@pytest.mark.parametrize("way", ["fcntl", "ioctl"])
@pytest.mark.parametrize(("version", "is_killed"), [(7, False), (6, False), (5, True)])
def test_a_descriptor_whose_owner_is_the_vault_brings_it_no_signal(
    around: Surroundings, version: int, is_killed: bool, way: str
) -> None:
    """The kernel sends SIGKILL when data arrive; without scopes (version 5) it does: the positive control."""
    arguments = [str(around.vault.pid), str(version), way]
    subprocess.run([sys.executable, "-c", BY_DESCRIPTOR, *arguments], check=True)
    assert (around.vault.poll() is not None) == is_killed


def test_opening_a_connection_while_sending_is_refused(around: Surroundings) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PAST_LANDLOCK, str(around.probes.port), "with"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.stdout.strip() == "refused", done.stderr


BY_NUMBER = """
import ctypes, sys
from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.sandbox import Sandbox, confine
from dpcape.site.vault.seccomp import Filter
queue, semaphore, memory = map(int, sys.argv[1:4])
libc = ctypes.CDLL(None, use_errno=True)
confine(Sandbox(Rules(), Filter(network=True), with_seccomp=sys.argv[4] == "with"))
message = ctypes.create_string_buffer((1).to_bytes(8, sys.byteorder) + b"message", 32)
NO_WAIT, SET_VALUE, REMOVE = 0o4000, 16, 0
answers = {
    "send": libc.msgsnd(queue, message, 8, NO_WAIT),
    "receive": libc.msgrcv(queue, message, 8, 0, NO_WAIT),
    "set": libc.semctl(semaphore, 0, SET_VALUE, 5),
    "remove memory": libc.shmctl(memory, REMOVE, None),
    "remove semaphore": libc.semctl(semaphore, 0, REMOVE),
    "remove queue": libc.msgctl(queue, REMOVE, None),
}
print(sorted(name for name, answer in answers.items() if answer >= 0))
"""


@pytest.mark.parametrize("has_filter", [True, False])
def test_objects_of_system_v_are_out_of_reach_by_their_numbers(has_filter: bool) -> None:
    """Without the filter all of it succeeds: the positive control."""
    libc = ctypes.CDLL(None)
    private, make = 0, 0o600 | 0o1000
    made = [libc.msgget(private, make), libc.semget(private, 1, make), libc.shmget(private, 4096, make)]
    assert min(made) >= 0
    try:
        done = subprocess.run(
            [sys.executable, "-c", BY_NUMBER, *map(str, made), "with" if has_filter else "without"],
            capture_output=True,
            text=True,
            check=True,
        )
    finally:
        libc.msgctl(made[0], 0, None)
        libc.semctl(made[1], 0, 0)
        libc.shmctl(made[2], 0, None)
    reached = ["receive", "remove memory", "remove queue", "remove semaphore", "send", "set"]
    assert done.stdout.strip() == str([] if has_filter else reached)


CHILD = """
import os, socket, sys
from dpcape.site.vault.sandbox import Sandbox, confine
from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.seccomp import Filter
made = confine(Sandbox(Rules(), Filter(network=False, pairs=False, denied=("execve", "execveat", "kill"))))
reached = []
def attempt(name, do):
    try:
        do()
        reached.append(name)
    except OSError:
        pass
attempt("file", lambda: open("/etc/hostname"))
attempt("folder", lambda: os.listdir("/"))
attempt("socket", socket.socket)
attempt("pair", socket.socketpair)
attempt("signal", lambda: os.kill(os.getppid(), 0))
attempt("program", lambda: os.execv("/bin/true", ["true"]))
print(made.abi > 0, made.seccomp, reached)
"""


def test_a_child_can_be_left_without_network_and_files() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True True []", done.stderr


LOOKING = """
import json, os, sys
from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.sandbox import Sandbox, confine, python_read_paths, system_read_paths
from dpcape.site.vault.seccomp import Filter
confine(Sandbox(Rules(read=(*python_read_paths(), *system_read_paths())), Filter(network=True)))
shown = []
for path in sys.argv[1:]:
    try:
        shown.append(os.stat(path).st_size)
    except OSError:
        shown.append(None)
    try:
        os.close(os.open(path, os.O_RDONLY))
        shown.append("opened")
    except OSError:
        pass
print(json.dumps(shown))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="changes accounts")
def test_stat_shows_what_the_threat_model_says() -> None:
    """One account: sizes of all files whose path is known. Two: of files outside closed folders alone."""
    with tempfile.TemporaryDirectory(prefix="dpcape-stat-") as name:
        place = Path(name)
        place.chmod(0o711)
        for folder in ("site", "closed"):
            (place / folder).mkdir(mode=0o700)
        files = [place / "site" / "ledger.sqlite", place / "closed" / "records.csv", place / "records.csv"]
        for size, file in enumerate(files, start=1):
            file.write_bytes(bytes(size))
            file.chmod(0o600)
        for uid, shown in ((0, [1, 2, 3]), (ENGINE_UID, [None, None, 3])):
            done = subprocess.run(
                [engine_python(), "-I", "-c", LOOKING, *map(str, files)],
                capture_output=True,
                user=uid,
                group=uid,
                extra_groups=[],
                cwd="/",
                check=True,
            )
            assert json.loads(done.stdout) == shown
