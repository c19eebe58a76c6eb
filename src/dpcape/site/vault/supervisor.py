"""Starts vault and engine of a site as a pair, tests their separation, watches them, and restarts them as a pair.

The supervisor opens no network and reads no records. Before every start all descendants are ended: an engine's
left-over process could hold a port or a connection to the vault.
"""

from __future__ import annotations

import contextlib
import os
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

from dpcape.core.errors import DpcapeError, TransportError
from dpcape.core.plain_text import one_line
from dpcape.site.vault.accounts import Account, Accounts
from dpcape.site.vault.clearing import remove
from dpcape.site.vault.client import LINE_VARIABLE, LISTENER_VARIABLE
from dpcape.site.vault.guarded import MUST_SUCCEED_OUTSIDE, Elsewhere, Guarded
from dpcape.site.vault.launch import GO, Launch, Report
from dpcape.site.vault.log_lines import Say
from dpcape.site.vault.meeting_port import MeetingPort
from dpcape.site.vault.modes import NONE, Mode
from dpcape.site.vault.processes import (
    ToldToEnd,
    adopt_descendants,
    code_of,
    descendants,
    end_descendants,
    first_line,
    pass_on,
)
from dpcape.site.vault.sandbox import clean_environment
from dpcape.site.vault.self_test import NotSeparated
from dpcape.site.vault.server import VaultSettings
from dpcape.site.vault.start import start_vault

_FIRST_PAUSE, _LONGEST_PAUSE, _CALM_SECONDS = 1.0, 60.0, 300.0
_START_SECONDS = 120.0
_GRACE_SECONDS = 2.0
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
        Fills a new work folder, given the folder and the port on which its processes find each other.
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
    """Serves one site until it is stopped.

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
        # Not reaped until its process group is killed, so that its number stays reserved.
        self._leader: subprocess.Popen[bytes] | None = None
        self._meeting: MeetingPort | None = None

    def run(self) -> int:
        """Serve until a signal comes; return the exit code. However the engine ends, it is started again.

        An attacker who owns the engine can end it, with any code. The steward alone ends the site.
        """
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._end)
        adopt_descendants()
        try:
            self._serve_until_told_to_end()
        finally:
            is_clean = self._end_all()
            if self._meeting is not None:
                self._meeting.close()
        return 0 if is_clean else 1

    def _serve_until_told_to_end(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            begun = time.monotonic()
            what = self._outcome()
            if self._is_told_to_end():
                return
            if time.monotonic() - begun > _CALM_SECONDS:
                pause = _FIRST_PAUSE
            self._warn(f"{what}; vault and engine start again in {pause:g} s")
            end = time.monotonic() + pause
            while time.monotonic() < end and not self._is_told_to_end():
                time.sleep(_GLANCE)
            if self._is_told_to_end():
                return
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _end_all(self) -> bool:
        """End every process that was started here, directly or not; warn, and return False, if one is left."""
        is_clean = end_descendants(None if self._leader is None else self._leader.pid)
        if is_clean:
            self._leader = None
        else:
            pids = ", ".join(map(str, descendants()[:20])) or "not seen"
            self._warn(
                f"PROCESSES OF THE ENGINE COULD NOT BE ENDED (numbers: {pids}). They may hold this site's TLS key and "
                "a port. End them by hand, or restart the machine"
            )
        return is_clean

    def _outcome(self) -> str:
        """Serve once; return what ended it. A first start that fails, and a failed self-test, are not tried again."""
        was_tested = self._is_tested
        try:
            with self._work_folder() as work:
                return self._serve_once(work)
        except NotSeparated:
            raise
        except ToldToEnd:
            return "told to end"
        except Exception as error:
            # Any error may be caused by a hostile engine, which must not be able to stop the site.
            if not was_tested:
                raise
            return _in_words(error)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ending = True

    def _is_told_to_end(self) -> bool:
        return self._ending

    @contextlib.contextmanager
    def _work_folder(self) -> Any:
        """Make a folder for one start, unless processes of the last are left; what an engine left in it is removed."""
        if not self._end_all():
            raise TransportError("Nothing starts while processes of the last engine are left")
        folder = Path(tempfile.mkdtemp(prefix="dpcape-engine-", dir=self._serving.work))
        try:
            yield folder
        finally:
            self._end_all()
            try:
                remove(folder)
            except Exception as error:
                self._warn(f"the engine's work folder {str(folder)!r} was not removed wholly ({_in_words(error)})")

    def _serve_once(self, work: Path) -> str:
        """Start the pair and watch it; return what ended it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The engine's own processes meet here. It cannot listen by itself: the kernel would choose a port for a socket
        # without one, on every address, and Landlock is not asked.
        # The port is the same at every start.
        self._meeting = self._meeting or MeetingPort()
        with ours, theirs, self._meeting.listener() as listener:
            self._engine.prepare(work, int(listener.getsockname()[1]))
            account = self._serving.accounts.engine
            if account != Account.current():
                for path in (work, *work.rglob("*")):
                    os.chown(path, account.uid, account.gid, follow_symlinks=False)
            vault = self._start_vault(ours)
            engine = self._start_engine(work, listener, theirs, vault.pid)
        self._say(self._serving.mode.line)
        while not self._ending:
            code = code_of(engine)
            if code is not None:
                return f"the engine ended with code {code}"
            if vault.poll() is not None:
                return f"the vault ended with code {vault.returncode}"
            time.sleep(_GLANCE)
        with contextlib.suppress(ProcessLookupError):
            engine.terminate()
        end = time.monotonic() + _GRACE_SECONDS
        while code_of(engine) is None and time.monotonic() < end:
            time.sleep(_GLANCE)
        return "told to end"

    def _start_vault(self, control: socket.socket) -> subprocess.Popen[bytes]:
        serving = self._serving
        with Elsewhere(serving.guarded) as elsewhere:
            vault, self._zygote = start_vault(
                serving.settings,
                control,
                python=serving.vault_python,
                options=serving.accounts.vault.options(),
                packages=() if serving.mode is NONE else serving.packages,
                probes=elsewhere.probes,
                say=self._warn,
                first_line=self._first_line,
            )
        return vault

    def _start_engine(
        self, work: Path, listener: socket.socket, vault_socket: socket.socket, vault: int
    ) -> subprocess.Popen[bytes]:
        with Elsewhere(self._serving.guarded) as elsewhere:
            probes = elsewhere.probes(vault)
            launch = Launch(
                command=self._engine.command(work),
                work=str(work),
                connect=[*self._engine.connect, int(listener.getsockname()[1])],
                environment={
                    **self._engine.environment,
                    LINE_VARIABLE: str(vault_socket.fileno()),
                    LISTENER_VARIABLE: str(listener.fileno()),
                    "HOME": str(work),
                    "TMPDIR": str(work / "tmp"),
                },
                probes=probes,
                most_abi=self._serving.most_abi,
                with_seccomp=self._serving.with_seccomp,
            )
            if not self._is_tested:
                self._control(launch)
            engine, report = self._launched(launch, (vault_socket.fileno(), listener.fileno()))
        self._judge(report)
        assert engine.stdin is not None
        engine.stdin.write(GO)
        engine.stdin.close()
        return engine

    def _launched(self, launch: Launch, descriptors: tuple[int, ...]) -> tuple[subprocess.Popen[bytes], Report]:
        engine = subprocess.Popen(
            [self._engine.python, "-I", "-m", "dpcape.site.vault.launch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
            env=clean_environment(),
            cwd=launch.work,
            start_new_session=True,
            **self._serving.accounts.engine.options(),
        )
        self._leader = engine
        assert engine.stderr is not None
        pass_on(engine.stderr, self._say)
        return engine, self._report_of(engine, launch)

    def _control(self, launch: Launch) -> None:
        """Show that the self-test's attempts succeed outside, under the vault's own account."""
        outside = subprocess.Popen(
            [self._serving.vault_python, "-I", "-m", "dpcape.site.vault.launch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=clean_environment(),
            cwd="/",
            **self._serving.accounts.vault.options(),
        )
        report = self._report_of(outside, msgspec.structs.replace(launch, confined=False))
        outside.wait(_START_SECONDS)
        missing = sorted(set(MUST_SUCCEED_OUTSIDE) - set(report.succeeded))
        if missing:
            why = f"an attempt failed outside the sandbox too: {missing[0]}"
            remedy = "Check that the vault's account owns the site folder, its keys and its data sets."
            raise NotSeparated("The self-test is not valid", why, remedy)
        self._is_tested = True

    def _judge(self, report: Report) -> None:
        """Refuse to serve if the sandbox lets something through that the mode does not name."""
        mode = self._serving.mode
        if mode is NONE:
            return
        reached = sorted(set(report.succeeded) - mode.reached)
        if reached:
            what, why = "Nothing is served", f"the engine's sandbox failed its self-test: it could {reached[0]}"
            raise NotSeparated(what, why, "Look at 'dpcape doctor', or accept an unprotected site with --unseparated.")
        under = self._serving.guarded.under(report.readable)
        if under:
            remedy = "Move it elsewhere, outside the Python environment and the engine's work folder."
            raise NotSeparated("Nothing is served", f"{under[0]!r} lies in a folder that the engine reads", remedy)

    def _report_of(self, process: subprocess.Popen[bytes], launch: Launch) -> Report:
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(launch) + b"\n")
            process.stdin.flush()
        answer = self._first_line(process)
        if not answer.endswith(b"\n"):
            raise TransportError(
                "The engine's launcher ended before it reported",
                remedy="Check that the engine's account can run the Python that dpcape is installed in, or name "
                "another interpreter with --engine-python.",
            )
        return msgspec.json.decode(answer, type=Report)

    def _first_line(self, process: subprocess.Popen[bytes]) -> bytes:
        return first_line(process, _START_SECONDS, self._is_told_to_end)


def _in_words(error: Exception) -> str:
    """Return an error as part of a line of the log."""
    text = one_line(str(error)).rstrip(".")
    return text if isinstance(error, DpcapeError) else f"{type(error).__name__}: {text}"
