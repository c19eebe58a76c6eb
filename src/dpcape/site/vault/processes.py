"""Descendants of a supervisor: listing them, killing them, and reading their output."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
import time
from pathlib import Path
from typing import IO

from dpcape.core.plain_text import one_line
from dpcape.site.vault.log_lines import ENGINE_MARK, Say

_PR_SET_CHILD_SUBREAPER = 36
_LINE_BYTES = 2000
_LINES_PER_MINUTE = 2000
_PASSES = 50


def adopt_descendants() -> None:
    """Become the subreaper, the parent of every orphaned descendant, so that none escapes."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(of: int | None = None) -> list[int]:
    """Return all processes that a process (this one if None) started, directly or not."""
    root = os.getpid() if of is None else of
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in brackets may hold spaces; the parent is the second word after it.
            words = (entry / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            if words[0] != "Z":
                children.setdefault(int(words[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        born = children.get(waiting.pop(), [])
        found += born
        waiting += born
    return found


def end_descendants() -> None:
    """Kill every descendant, those included that were started meanwhile, and wait until none is left."""
    for _ in range(_PASSES):
        left = descendants()
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        reap()
        if not left:
            return
        time.sleep(0.05)


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
