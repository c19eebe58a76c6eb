"""Starts vault and engine of a site as a pair, tests their separation, watches them, and restarts them as a pair.

The supervisor opens no network and reads no records. Before every start all descendants are ended: an engine's
left-over process could hold a port or a line.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from dpcape.core.errors import TransportError
from dpcape.site.page_port import page_port
from dpcape.site.vault.accounts import Account, Accounts
from dpcape.site.vault.client import LINE_VARIABLE
from dpcape.site.vault.launch import GO, Launch, Report
from dpcape.site.vault.log_lines import Say
from dpcape.site.vault.modes import NONE, Mode
from dpcape.site.vault.processes import adopt_descendants, end_descendants, pass_on, reap
from dpcape.site.vault.sandbox import clean_environment
from dpcape.site.vault.self_test import NotSeparated, Probes
from dpcape.site.vault.server import SELF_TEST_FILE, VaultSettings
from dpcape.site.vault.start import start_vault

_FIRST_PAUSE, _LONGEST_PAUSE, _CALM_SECONDS = 1.0, 60.0, 300.0
_START_SECONDS = 120.0
_GLANCE = 0.1


@dataclass(frozen=True)
class Engine:
    """An engine as the supervisor sees it.

    Attributes
    ----------
    python : str
        The interpreter; the engine's account must be able to run it.
    command : callable
        Returns the interpreter's arguments, given the work folder.
    prepare : callable
        Fills a new work folder, given the folder and a free port for the engine's own use.
    connect : tuple of int
        Ports of other machines that the engine needs.
    environment : mapping
        Variables that the engine needs.
    """

    python: str
    command: Callable[[Path], list[str]]
    prepare: Callable[[Path, int], None]
    connect: tuple[int, ...]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class Guarded:
    """What must stay out of the engine's reach: files, and the folders they are in."""

    folder: Path
    keys: Path
    secret_files: tuple[Path, ...]

    def under(self, readable: list[str]) -> list[str]:
        """Return guarded paths that lie below a path which the engine may read."""
        places = [Path(entry).resolve() for entry in readable]
        guarded = [self.folder, self.keys, *self.secret_files]
        return [str(path) for path in guarded if any(path.resolve().is_relative_to(place) for place in places)]


@dataclass(frozen=True)
class Serving:
    """How a site is served.

    Attributes
    ----------
    vault_python : str
        The vault's interpreter.
    settings : VaultSettings
        The vault's; the descriptor in it is filled in at each start.
    mode : Mode
        What the self-test must confirm.
    accounts : Accounts
    guarded : Guarded
    work : Path or None
        Where work folders are made; the system's temporary folder if None.
    packages : tuple of str
        Distributions whose code the steward allowed; it runs in sandboxed children of a process of its own.
    most_abi, with_seccomp
        For tests: what an older kernel would do.
    """

    vault_python: str
    settings: VaultSettings
    mode: Mode
    accounts: Accounts
    guarded: Guarded
    work: Path | None = None
    packages: tuple[str, ...] = ()
    most_abi: int | None = None
    with_seccomp: bool = True


class Supervisor:
    """Keeps one site served until it is told to end.

    Parameters
    ----------
    serving, engine : Serving, Engine
        What is served and how, and the engine to start in the sandbox.
    say, warn : callable
        Told what happens, lines of the engine included; and what went wrong (``say`` if there is no ``warn``).
    """

    def __init__(self, serving: Serving, engine: Engine, say: Say, warn: Say | None = None) -> None:
        self._serving, self._engine, self._say, self._warn = serving, engine, say, warn or say
        self._ending = False
        self._is_tested = False
        self._zygote: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Serve until a signal comes or the engine ends by itself; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end)
        adopt_descendants()
        pause = _FIRST_PAUSE
        try:
            while True:
                begun = time.monotonic()
                what = self._outcome()
                if self._is_over(what):
                    return 0
                if time.monotonic() - begun > _CALM_SECONDS:
                    pause = _FIRST_PAUSE
                self._warn(f"{what}; vault and engine start again in {pause:g} s")
                self._rest(pause)
                if self._is_over():
                    return 0
                pause = min(2 * pause, _LONGEST_PAUSE)
        finally:
            end_descendants()

    def _outcome(self) -> str:
        """Serve once; return what ended it. A first start that fails, and a failed self-test, are not tried again."""
        was_tested = self._is_tested
        with self._work_folder() as work:
            try:
                return self._serve_once(work)
            except NotSeparated:
                raise
            except (TransportError, OSError) as error:
                if not was_tested:
                    raise
                return f"{error}".rstrip(".")

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ending = True

    def _is_over(self, what: str = "") -> bool:
        return self._ending or what == "engine ended"

    def _rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._ending:
            time.sleep(_GLANCE)

    @contextlib.contextmanager
    def _work_folder(self) -> Any:
        """Make a folder for one start; what an engine left in it never survives."""
        end_descendants()
        place = Path(tempfile.mkdtemp(prefix="dpcape-engine-", dir=self._serving.work))
        try:
            yield place
        finally:
            end_descendants()
            shutil.rmtree(place, ignore_errors=True)

    def _serve_once(self, work: Path) -> str:
        """Start the pair and watch it; return what ended it."""
        port = _free_port()
        self._engine.prepare(work, port)
        _hand_over(work, self._serving.accounts.engine)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            vault = self._start_vault(ours)
            engine = self._start_engine(work, port, theirs, vault.pid)
        self._say(self._serving.mode.line)
        while not self._ending:
            code = engine.poll()
            if code is not None:
                return "engine ended" if code == 0 else f"the engine ended with code {code}"
            if vault.poll() is not None:
                return f"the vault ended with code {vault.returncode}"
            time.sleep(_GLANCE)
        _stop(engine)
        return "told to end"

    def _start_vault(self, control: socket.socket) -> subprocess.Popen[bytes]:
        serving = self._serving
        with _Elsewhere(serving) as elsewhere:
            vault, self._zygote = start_vault(
                serving.settings,
                control,
                python=serving.vault_python,
                options=_options(serving.accounts.vault),
                packages=() if serving.mode is NONE else serving.packages,
                probes=elsewhere.probes,
                say=self._warn,
            )
        return vault

    def _start_engine(self, work: Path, port: int, line: socket.socket, vault: int) -> subprocess.Popen[bytes]:
        with _Elsewhere(self._serving) as elsewhere:
            probes = elsewhere.probes(vault)
            launch = Launch(
                command=self._engine.command(work),
                work=str(work),
                connect=[*self._engine.connect, port],
                bind=[port],
                environment={
                    **self._engine.environment,
                    LINE_VARIABLE: str(line.fileno()),
                    "HOME": str(work),
                    "TMPDIR": str(work / "tmp"),
                },
                probes=probes,
                most_abi=self._serving.most_abi,
                with_seccomp=self._serving.with_seccomp,
            )
            if not self._is_tested:
                self._control(launch)
            engine, report = self._launched(launch, line)
        try:
            self._judge(report)
        except NotSeparated:
            end_descendants()
            raise
        assert engine.stdin is not None
        engine.stdin.write(GO)
        engine.stdin.close()
        return engine

    def _launched(self, launch: Launch, line: socket.socket) -> tuple[subprocess.Popen[bytes], Report]:
        engine = subprocess.Popen(
            [self._engine.python, "-I", "-m", "dpcape.site.vault.launch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(line.fileno(),),
            env=clean_environment(),
            cwd=launch.work,
            start_new_session=True,
            **_options(self._serving.accounts.engine),
        )
        assert engine.stderr is not None
        pass_on(engine.stderr, self._say)
        return engine, _report_of(engine, launch)

    def _control(self, launch: Launch) -> None:
        """Show that the self-test's attempts succeed outside, under the vault's own account."""
        outside = subprocess.Popen(
            [self._serving.vault_python, "-I", "-m", "dpcape.site.vault.launch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environment(),
            cwd="/",
            **_options(self._serving.accounts.vault),
        )
        report = _report_of(outside, msgspec.structs.replace(launch, confined=False))
        outside.wait(_START_SECONDS)
        missing = sorted(set(_MUST_SUCCEED_OUTSIDE) - set(report.succeeded))
        if missing:
            raise NotSeparated(
                f"The self-test is not valid because an attempt failed outside the sandbox too: {missing[0]}. "
                "Check that the vault's account owns the site folder, its keys and its data sets."
            )
        self._is_tested = True

    def _judge(self, report: Report) -> None:
        """Refuse to serve if the sandbox lets something through that the mode does not name."""
        mode = self._serving.mode
        if mode is NONE:
            return
        reached = sorted(set(report.succeeded) - mode.reached)
        if reached:
            raise NotSeparated(
                f"Nothing is served because the engine's sandbox failed its self-test: it could {reached[0]}. "
                "Look at 'dpcape doctor', or accept an unprotected site with --unseparated."
            )
        under = self._serving.guarded.under(report.readable)
        if under:
            raise NotSeparated(
                f"Nothing is served because {under[0]!r} lies in a folder that the engine reads. Move it elsewhere, "
                "outside the Python environment and the engine's work folder."
            )


_MUST_SUCCEED_OUTSIDE = (
    "read secret 1",
    "write secret 1",
    "list the folder",
    "change a file's mode",
    "signal the vault",
    "look at the vault's process",
    "use a Unix socket",
    "connect elsewhere",
    "reach the steward's page",
    "use UDP",
    "run a shell",
)


class _Elsewhere:
    """What the self-test tries to reach: listening ports and a Unix socket."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._place = Path(tempfile.mkdtemp(prefix="dpcape-probe-"))

    def __enter__(self) -> _Elsewhere:
        self._place.chmod(0o711)
        self._tcp = socket.create_server(("127.0.0.1", 0))
        # Stands in for the steward's page where that is not served now.
        self._page = socket.create_server(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._unix.bind(str(self._place / "probe"))
        self._unix.listen()
        (self._place / "probe").chmod(0o666)
        return self

    def __exit__(self, *args: object) -> None:
        self._tcp.close()
        self._page.close()
        self._unix.close()
        shutil.rmtree(self._place, ignore_errors=True)

    def probes(self, vault: int) -> Probes:
        return Probes(
            secret_files=[str(path) for path in self._serving.guarded.secret_files],
            folder=str(self._serving.guarded.folder),
            decoy=str(self._serving.guarded.keys / SELF_TEST_FILE),
            vault=vault,
            unix=str(self._place / "probe"),
            port=int(self._tcp.getsockname()[1]),
            page=page_port(self._serving.guarded.folder) or int(self._page.getsockname()[1]),
            package=str(Path(__file__).resolve()),
        )


def _report_of(process: subprocess.Popen[bytes], launch: Launch) -> Report:
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(msgspec.json.encode(launch) + b"\n")
        process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise TransportError(
            "The engine's launcher ended before it reported. Check that the engine's account can run the Python that "
            "dpcape is installed in, or name another interpreter with --engine-python."
        )
    return msgspec.json.decode(answer, type=Report)


def _options(account: Account) -> dict[str, Any]:
    return dict(account.options())


def _hand_over(work: Path, account: Account) -> None:
    """Give a work folder to the engine's account."""
    if account == Account.current():
        return
    for path in (work, *work.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _stop(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2.0)
    reap()
