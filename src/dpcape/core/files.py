"""Atomic, durable file writes, locks between processes, and the rule for names that are safe in paths."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock

_POLL_SECONDS = 0.005


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file that only its owner can read, atomically and durably."""
    _write(path, content, mode=0o600)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically and durably."""
    _write(path, text, mode=0o666)  # the umask applies


def _write(path: Path, content: str | bytes, *, mode: int) -> None:
    data = content.encode("utf-8") if isinstance(content, str) else content
    # Named after the process: two runs may write the same file (the heads of ledgers) at the same time.
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make new and renamed files in a folder durable; Windows cannot open folders, and needs no such step."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on ``path``; the operating system releases it when the process ends, even by a crash.

    Parameters
    ----------
    path : Path
        The lock file; created if absent, never deleted.
    wait : bool
        Whether to wait for another process; if not, ``TimeoutError`` is raised at once.
    """
    lock: BaseFileLock = FileLock(path, mode=0o600)
    with lock.acquire(timeout=-1 if wait else 0, poll_interval=_POLL_SECONDS):
        # Without file locks, filelock falls back to the file's existence: a killed process would never release it.
        if isinstance(lock, SoftFileLock):
            raise OSError(f"The file system of {path.parent} has no locks.")
        yield


NAME_RULE = "1 to 64 of a-z, A-Z, 0-9, '.', '_' and '-', starting with a letter or digit"


def is_name(value: object) -> bool:
    """Return whether ``value`` is a name that is safe in paths and messages."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
