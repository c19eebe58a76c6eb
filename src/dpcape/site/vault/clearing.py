"""Removes a folder that code which is not trusted has filled, however deep and however closed it made what is inside.

``shutil.rmtree`` calls itself for every level, so that a few thousand folders inside each other end its caller.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

_OPENED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LOOKED_AT = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_A_TIME = 1000
# A file system may leave out entries while others of the same folder are removed.
_PASSES = 3


def remove(place: Path) -> None:
    """Remove a folder and all that is in it; raise the first OSError, after the rest is removed, if something stays.

    Each folder inside is moved up to the top before it is emptied, so that no path is long and two descriptors do.
    Links are removed, never followed.
    """
    refused: list[OSError] = []
    top = os.open(place, _OPENED)
    try:
        waiting = _emptied(top, top, refused)
        while waiting:
            waiting += _removed(waiting.pop(), top, refused)
    finally:
        os.close(top)
    try:
        place.rmdir()
    except OSError as error:
        raise (refused or [error])[0] from None


def _removed(name: str, top: int, refused: list[OSError]) -> list[str]:
    """Remove a folder at the top; return the folders that were in it, which are at the top now."""
    found: list[str] = []
    try:
        for _ in range(_PASSES):
            folder = os.open(name, _OPENED, dir_fd=top)
            try:
                found += _emptied(folder, top, refused)
            finally:
                os.close(folder)
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=top)
                return found
        os.rmdir(name, dir_fd=top)
    except OSError as error:
        refused.append(error)
    return found


def _emptied(folder: int, top: int, refused: list[OSError]) -> list[str]:
    """Remove the files of a folder and move its folders to the top; return the names they have there."""
    found = []
    for entry in _entries(folder):
        try:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=folder)
                continue
            _open_up(entry.name, folder)
            name = entry.name
            if folder != top:
                name = secrets.token_hex(16)
                os.rename(entry.name, name, src_dir_fd=folder, dst_dir_fd=top)
            found.append(name)
        except OSError as error:
            refused.append(error)
    return found


def _entries(folder: int) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        while some := list(islice(found, _AT_A_TIME)):
            yield from some


def _open_up(name: str, folder: int) -> None:
    """Give the owner of a folder the right to list and change it."""
    looked_at = os.open(name, _LOOKED_AT, dir_fd=folder)
    try:
        if os.fstat(looked_at).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            # The descriptor cannot change a mode itself; its name in /proc leads to this folder and to no other.
            os.chmod(f"/proc/self/fd/{looked_at}", stat.S_IRWXU)
    finally:
        os.close(looked_at)
