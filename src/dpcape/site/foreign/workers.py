"""The vault's side: one block per child, a fixed time, and no answer trusted."""

from __future__ import annotations

import array
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from dpcape.analyses.description import Analysis
from dpcape.analyses.enclosed import PlainAnalysis, PlainOutline, PublicNumbers, plain_analysis
from dpcape.analyses.registry import package_of, part_of
from dpcape.core.arrays import FloatArray
from dpcape.core.enclosed import Block, Enclosed
from dpcape.core.errors import Failed, TransportError
from dpcape.core.facts import PublicFacts
from dpcape.core.messages import Array, public_arrays
from dpcape.site.foreign.tasks import (
    MAX_PLAIN_BYTES,
    ContributeTask,
    DescribeTask,
    OutlineTask,
    ProbeTask,
    Task,
    read_exactly,
    read_written,
    sleep_until,
    written,
)
from dpcape.site.foreign.zygote import END, START, ZygoteReport, ZygoteSettings
from dpcape.site.vault.landlock import abi
from dpcape.site.vault.sandbox import clean_environment
from dpcape.site.vault.self_test import NotSeparated, Probes

_T = TypeVar("_T")
# Share of a block's time reserved for ending its child.
_ENDING = 0.25
_PLAIN_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
# Descriptions to cache, each at most MAX_PLAIN_BYTES long and nearly always about a page.
_MOST_DESCRIPTIONS = 32


class Workers:
    """Children of a zygote, one at a time.

    Parameters
    ----------
    control : socket.socket
        Socket to the zygote.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._control.settimeout(_ANSWER_SECONDS)
        # One child at a time over all studies, so that no two children can communicate.
        self._lock = threading.Lock()
        self._descriptions: dict[bytes, bytes] = {}

    def close(self) -> None:
        """End the zygote and its child."""
        self._control.close()

    def contributions(self, statistic: Enclosed, facts: PublicFacts, block: Block) -> FloatArray | None:
        """Return what a fresh child answers for one block, after the block's fixed time; None without an answer."""
        seconds = statistic.enclosure.seconds
        n_answers = statistic.n_answers(len(block[0]))
        package, public = statistic.enclosure.package, public_arrays(statistic.public)
        task = ContributeTask(package=package, way=statistic.name, facts=facts, public=public)
        records = msgspec.msgpack.encode([Array.of(entry) for entry in block])
        n_bytes = 8 * n_answers * statistic.size
        with self._lock:
            begun = time.monotonic()
            until = begun + (1 - _ENDING) * seconds
            answer = self._answer(task, written(records), until, lambda read: read_exactly(read, n_bytes))
            sleep_until(begun + seconds)
        if answer is None or not n_bytes:
            return None
        # Copied, so that the child cannot change it afterwards.
        return np.frombuffer(answer, dtype="<f8").reshape(n_answers, statistic.size).copy()

    def reached(self, probes: Probes) -> list[str]:
        """Return which protected resources a child can reach."""
        with self._lock:
            answer = self._answer(ProbeTask(probes=probes), b"", time.monotonic() + _PLAIN_SECONDS, _plain)
        if answer is None:
            why = "the self-test of the sandbox for other packages had no answer"
            raise NotSeparated("Nothing is served", why, "Look at 'dpcape doctor', or disallow the packages.")
        return msgspec.msgpack.decode(answer, type=list[str])

    def analysis(self, name: str, package: str) -> PlainAnalysis:
        """Return what must be known of an analysis, from a child."""
        return self._description(DescribeTask(package=package, analysis=name), PlainAnalysis)

    def outline(self, name: str, package: str, numbers: PublicNumbers) -> PlainOutline:
        """Return the releases of an analysis, from a child."""
        return self._description(OutlineTask(package=package, analysis=name, numbers=numbers), PlainOutline)

    def described(self, point: EntryPoint, name: str) -> Analysis:
        """Return the description of an analysis that needs code of another package, without loading it here."""
        return plain_analysis(name, package_of(point), self, part_of(point))

    def _description(self, task: DescribeTask | OutlineTask, kind: type[_T]) -> _T:
        encoded = msgspec.msgpack.encode(task)
        with self._lock:
            answer = self._descriptions.get(encoded)
            if answer is None:
                answer = self._answer(task, b"", time.monotonic() + _PLAIN_SECONDS, _plain) or b""
                # A study asks for a package's description many times, and must always get the same answer.
                while len(self._descriptions) >= _MOST_DESCRIPTIONS:
                    self._descriptions.pop(next(iter(self._descriptions)))
                self._descriptions[encoded] = answer
        try:
            return msgspec.msgpack.decode(answer, type=kind)
        except msgspec.MsgspecError:
            raise Failed(
                f"The analysis {task.analysis!r} of the package {task.package!r} has no releases for these parameters "
                "and records",
                remedy="Its own words are not shown: run the study on synthetic records (dpcape run --rehearse) to "
                "see them.",
            ) from None

    def _answer(
        self, task: Task, body: bytes, until: float, receive: Callable[[Callable[[int], bytes]], bytes]
    ) -> bytes | None:
        """Return what a fresh child answers before a moment; the child is gone afterwards."""
        connection = self._started()
        try:
            with connection, contextlib.suppress(OSError, EOFError):
                connection.settimeout(max(until - time.monotonic(), 1e-3))
                connection.sendall(written(msgspec.msgpack.encode(task)) + body)

                def read(n_bytes: int) -> bytes:
                    connection.settimeout(max(until - time.monotonic(), 1e-3))
                    return connection.recv(n_bytes)

                return receive(read)
            return None
        finally:
            self._ended()

    def _started(self) -> socket.socket:
        try:
            self._control.send(START)
            _, ancillary, _, _ = self._control.recvmsg(16, socket.CMSG_SPACE(array.array("i", [0]).itemsize))
        except OSError as error:
            raise _gone() from error
        for level, kind, data in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                return socket.socket(fileno=array.array("i", data)[0])
        raise _gone()

    def _ended(self) -> None:
        try:
            self._control.send(END)
            if not self._control.recv(16):
                raise _gone()
        except OSError as error:
            raise _gone() from error


def _gone() -> TransportError:
    return TransportError(
        "Code of other packages cannot be run", "the process that starts its sandboxes ended", "Start again."
    )


def _plain(read: Callable[[int], bytes]) -> bytes:
    return read_written(read, MAX_PLAIN_BYTES)


def places_of(packages: Iterable[str]) -> list[str]:
    """Return the folders in which distributions are installed; those that are not installed are left out."""
    folders = []
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            folders.append(str(Path(str(distribution(package).locate_file(""))).resolve()))
    return sorted(set(folders))


def start_zygote(
    control: socket.socket,
    packages: Iterable[str],
    *,
    python: str = sys.executable,
    options: Mapping[str, Any] | None = None,
    first_line: Callable[[subprocess.Popen[bytes]], bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a zygote that serves one end of a socket pair; refuse a machine that cannot confine it.

    ``first_line`` reads what it reports; it is waited for without a limit if absent.
    """
    if abi() < 1:
        raise _unconfined()
    zygote = subprocess.Popen(
        [python, "-I", "-m", "dpcape.site.foreign.zygote"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=(control.fileno(),),
        env=clean_environment(),
        cwd="/",
        start_new_session=True,
        **(options or {}),
    )
    assert zygote.stdin is not None
    assert zygote.stdout is not None
    named = sorted(packages)
    settings = ZygoteSettings(control=control.fileno(), packages=named, paths=places_of(named))
    with contextlib.suppress(BrokenPipeError):
        zygote.stdin.write(msgspec.json.encode(settings) + b"\n")
        zygote.stdin.close()
    answer = zygote.stdout.readline() if first_line is None else first_line(zygote)
    zygote.stdout.close()
    if not answer.endswith(b"\n") or not msgspec.json.decode(answer, type=ZygoteReport).is_confined:
        zygote.kill()
        zygote.wait()
        raise _unconfined()
    return zygote


def _unconfined() -> TransportError:
    return TransportError(
        "Code of other packages cannot be run",
        "this machine cannot confine it: it needs Linux with Landlock and seccomp",
        "Use an analysis of dpcape, or another machine.",
    )
