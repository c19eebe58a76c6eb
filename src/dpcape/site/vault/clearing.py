"""Removes a folder that code which is not trusted has filled, however deep and however closed it made what is inside.

``shutil.rmtree`` calls itself for every level, so that a few thousand folders inside each other end its caller.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

_AT_A_TIME = 1000
# A file system may leave out entries while others of the same folder are removed.
_PASSES = 3


def remove(folder: Path) -> None:
    """Remove a folder and all that is in it; raise the first OSError, after the rest is removed, if something stays.

    Each folder inside is moved up to the top before it is emptied, so that no path is long and two descriptors do.
    Links are removed, never followed.
    """
    top = _Top(_opened(folder))
    try:
        waiting = top.emptied(top.descriptor)
        while waiting:
            waiting += top.removed(waiting.pop())
    finally:
        os.close(top.descriptor)
    try:
        folder.rmdir()
    except OSError as error:
        raise (top.refused or [error])[0] from None


class _Top:
    """The folder that is removed, to which those inside of it are moved, and what was refused."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.refused: list[OSError] = []
        self._numbers = count()

    def removed(self, name: str) -> list[str]:
        """Remove a folder that is here; return the folders that were in it, which are here now."""
        names: list[str] = []
        try:
            for _ in range(_PASSES):
                folder = _opened(name, self.descriptor)
                try:
                    names += self.emptied(folder)
                finally:
                    os.close(folder)
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=self.descriptor)
                    return names
            os.rmdir(name, dir_fd=self.descriptor)
        except OSError as error:
            self.refused.append(error)
        return names

    def emptied(self, folder: int) -> list[str]:
        """Remove the files of a folder and move its folders here; return the names they have here."""
        names = []
        # Listed a part at a time: a folder may hold more entries than fit in memory.
        for entry in _entries(folder):
            try:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=folder)
                    continue
                _open_up(entry.name, folder)
                name = entry.name
                if folder != self.descriptor:
                    name = self._free_name()
                    os.rename(entry.name, name, src_dir_fd=folder, dst_dir_fd=self.descriptor)
                names.append(name)
            except OSError as error:
                self.refused.append(error)
        return names

    def _free_name(self) -> str:
        for number in self._numbers:
            try:
                os.stat(str(number), dir_fd=self.descriptor, follow_symlinks=False)
            except FileNotFoundError:
                break
        return str(number)


def _opened(path: Path | str, folder: int | None = None) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def _entries(folder: int) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        while some := list(islice(entries, _AT_A_TIME)):
            yield from some


def _open_up(name: str, folder: int) -> None:
    """Give the owner of a folder the right to list and change it."""
    looked_at = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if os.fstat(looked_at).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            # The descriptor cannot change a mode itself; its name in /proc leads to this folder and to no other.
            os.chmod(f"/proc/self/fd/{looked_at}", stat.S_IRWXU)
    finally:
        os.close(looked_at)
