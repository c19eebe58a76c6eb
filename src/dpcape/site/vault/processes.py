"""Descendants of a supervisor: listing them, killing them, and reading their output."""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dpcape.core.plain_text import one_line
from dpcape.site.vault.log_lines import ENGINE_MARK, Say

_PR_SET_CHILD_SUBREAPER = 36
_LINE_BYTES = 2000
_LINES_PER_MINUTE = 2000
_LINE_PART = 2**16
_GLANCE = 0.05
_END_SECONDS = 5.0


def adopt_descendants() -> None:
    """Become the subreaper, the parent of every orphaned descendant, so that none escapes."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(of: int | None = None) -> list[int]:
    """Return all processes that a process (this one if None) started, directly or not, and that have not ended."""
    root = os.getpid() if of is None else of
    children: dict[int, list[_Process]] = {}
    for process in _processes():
        if not process.has_ended:
            children.setdefault(process.parent, []).append(process)
    pids, waiting = [], [root]
    while waiting:
        born = [process.pid for process in children.get(waiting.pop(), [])]
        pids += born
        waiting += born
    return pids


def end_descendants(leader: int | None = None) -> bool:
    """Kill every descendant, those included that were started meanwhile; return whether none is left.

    A process that starts another and ends has ended before its number is read. So groups are killed: the kernel signals
    all members at once, and refuses a new one to a member that is signalled. A process in the engine's sandbox cannot
    leave the group of its first one. Without a filter of system calls it can, and may outrun this for as long as it
    lasts, which is bounded.

    Parameters
    ----------
    leader : int or None
        A child that leads a group of its own and was not waited for, so that no other group can have its number.
    """
    end = time.monotonic() + _END_SECONDS
    _kill_group(leader)
    while True:
        # Including ended children: their group's number stays reserved until they are reaped.
        for group in {process.group for process in _processes() if process.parent == os.getpid()} - {os.getpgrp()}:
            _kill_group(group)
        for pid in descendants():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if _none_is_left():
            return True
        if time.monotonic() > end:
            return False
        time.sleep(_GLANCE)


@dataclass(frozen=True)
class _Process:
    pid: int
    parent: int
    group: int
    has_ended: bool


def _processes() -> Iterator[_Process]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in brackets may hold spaces; after it come state, parent and group.
            words = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            yield _Process(int(entry.name), int(words[1]), int(words[2]), words[0] == "Z")


def _kill_group(group: int | None) -> None:
    # 0 means this process's own group, 1 every process of the machine.
    if group is not None and group > 1:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


def _none_is_left() -> bool:
    """Return whether there is no child, after collecting those that have ended.

    The kernel answers for all at once. A descendant whose parent ended is a child (``adopt_descendants``), so without
    children there is no descendant.
    """
    reap()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def code_of(process: subprocess.Popen[bytes]) -> int | None:
    """Return the code with which a child ended, None if it has not; it is not collected, and keeps its number."""
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return process.poll()
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


class ToldToEnd(Exception):
    """Raised when the site is stopped while it waits for a process."""


def first_line(process: subprocess.Popen[bytes], seconds: float, is_told_to_end: Callable[[], bool]) -> bytes:
    """Return the first line of a child, or less if it ended or took too long; raise ToldToEnd as soon as that is so."""
    assert process.stdout is not None
    line, end = b"", time.monotonic() + seconds
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n") and time.monotonic() < end:
            if is_told_to_end():
                raise ToldToEnd
            if ready.select(_GLANCE):
                chunk = os.read(process.stdout.fileno(), _LINE_PART)
                if not chunk:
                    break
                line += chunk
    return line


def reap() -> list[int]:
    """Collect children that have ended; return their numbers."""
    ended: list[int] = []
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        ended.append(pid)


def pass_on(stream: IO[bytes], write: Say) -> threading.Thread:
    """Pass lines of an engine on as plain text, marked as its own, and not too many.

    Its logs are written by others. They may hold anything, for instance what looks like a line of the supervisor.
    """

    def read() -> None:
        begun, n_lines = time.monotonic(), 0
        while line := stream.readline(_LINE_BYTES):
            if time.monotonic() - begun > 60:
                if n_lines > _LINES_PER_MINUTE:
                    write(f"{ENGINE_MARK}({n_lines - _LINES_PER_MINUTE} lines were left out)")
                begun, n_lines = time.monotonic(), 0
            n_lines += 1
            if n_lines <= _LINES_PER_MINUTE:
                write(ENGINE_MARK + one_line(line.decode("utf-8", "replace").rstrip("\r\n")))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread
