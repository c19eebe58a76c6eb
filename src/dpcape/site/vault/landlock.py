"""Landlock through libc's ``syscall``: rules on files, TCP ports, signals and abstract sockets. Needs no privilege.

Restrictions bind the calling thread and all it starts, for ever. Rules only add: a right on a folder holds for
everything below it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dpcape.site.vault.seccomp import no_new_privileges

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_VERSION_FLAG = 1
_BENEATH, _PORT = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_FIRST = (1 << 13) - 1
# Rights that make device files, sockets and pipes are never given.
_MAKE_SPECIAL = (1 << 6) | (1 << 9) | (1 << 10) | (1 << 11)
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_BIND, _CONNECT = 1, 2
_ABSTRACT, _SIGNAL = 1, 2


@dataclass(frozen=True)
class Rules:
    """What stays allowed. Paths that do not exist are left out.

    Attributes
    ----------
    read, execute, write : tuple of Path
        Files, or folders with everything below them. ``write`` includes reading, making and removing.
    connect : tuple of int
        TCP ports of any machine. None can be bound.
    """

    read: tuple[Path, ...] = ()
    execute: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    connect: tuple[int, ...] = ()


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def abi() -> int:
    """Return the version of Landlock that the kernel offers; 0 if there is none."""
    if platform.system() != "Linux" or platform.machine() not in ("x86_64", "aarch64"):
        return 0
    version = int(_libc().syscall(_CREATE, None, 0, _VERSION_FLAG))
    return max(version, 0)


def restrict(rules: Rules, *, at_most: int | None = None) -> int:
    """Restrict this thread and all it starts; return the version that was used (0: nothing was restricted).

    Parameters
    ----------
    rules : Rules
        Paths and ports that stay accessible.
    at_most : int or None
        Use no newer version than this: how tests see what an older kernel would do.
    """
    version = abi() if at_most is None else min(abi(), at_most)
    if version < 1:
        return 0
    newer = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEVICE}
    files = _FIRST | sum(right for since, right in newer.items() if version >= since)
    network = _BIND | _CONNECT if version >= 4 else 0
    scoped = _ABSTRACT | _SIGNAL if version >= 6 else 0
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _check(_libc().syscall(_CREATE, struct.pack("=QQQ", files, network, scoped)[:size], size, 0))
    try:
        for paths, rights in _rights(rules):
            for path in paths:
                _allow(ruleset, path, rights & files)
        for port in rules.connect if version >= 4 else ():
            _check(_libc().syscall(_ADD, ruleset, _PORT, struct.pack("=QQ", _CONNECT, port), 0))
        no_new_privileges()
        _check(_libc().syscall(_RESTRICT, ruleset, 0))
    finally:
        os.close(ruleset)
    return version


def _rights(rules: Rules) -> tuple[tuple[tuple[Path, ...], int], ...]:
    everything = _FIRST | _REFER | _TRUNCATE
    return (
        (rules.read, _READ_FILE | _READ_DIR),
        (rules.execute, _EXECUTE | _READ_FILE),
        (rules.write, everything & ~_MAKE_SPECIAL & ~_EXECUTE),
    )


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        _check(_libc().syscall(_ADD, ruleset, _BENEATH, struct.pack("=Qi", rights, descriptor), 0))
    finally:
        os.close(descriptor)


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
