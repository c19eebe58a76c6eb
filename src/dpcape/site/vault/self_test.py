"""Attempts to reach what a sandbox must keep out of reach; run outside first, to show that each attempt can succeed.

Nothing is changed by an attempt that succeeds, except the mode of a file made for it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from dpcape.core.errors import TransportError

_IO_URING_SETUP = 425
_SECONDS = 2.0


class NotSeparated(TransportError):
    """The self-test reached something that must be out of reach, so nothing is served."""


class Probes(msgspec.Struct, frozen=True, kw_only=True):
    """What to try.

    Attributes
    ----------
    secret_files : list of str
        Files that must not be opened: keys, ledger, records.
    folder : str
        A folder that must not be listed.
    decoy : str
        A file beside the keys whose mode must not be changed.
    vault : int
        Process that must not be signalled or looked at.
    unix : str
        Path of a listening Unix socket.
    port : int
        A listening TCP port of this machine that the engine has no business with.
    page : int
        Port of the steward's page, or of a stand-in where none is served.
    package : str
        A file of the Python environment that must not be written.
    """

    secret_files: list[str]
    folder: str
    decoy: str
    vault: int
    unix: str
    port: int
    page: int
    package: str


def attempts(probes: Probes) -> dict[str, Callable[[], object]]:
    """Return every attempt by its name; an attempt raises OSError if it fails."""
    made: dict[str, Callable[[], object]] = {}
    for number, path in enumerate(probes.secret_files, start=1):
        made[f"read secret {number}"] = partial(_opened, path, os.O_RDONLY)
        made[f"write secret {number}"] = partial(_opened, path, os.O_WRONLY)
    return {
        **made,
        "list the folder": lambda: os.listdir(probes.folder),
        "change a file's mode": lambda: _changed_mode(probes.decoy),
        "signal the vault": lambda: os.kill(probes.vault, 0),
        "look at the vault's process": lambda: _opened(f"/proc/{probes.vault}/status", os.O_RDONLY),
        "use a Unix socket": lambda: _connected(socket.AF_UNIX, probes.unix),
        "connect elsewhere": lambda: _connected(socket.AF_INET, ("127.0.0.1", probes.port)),
        "reach the steward's page": lambda: _connected(socket.AF_INET, ("127.0.0.1", probes.page)),
        "use UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "use io_uring": _io_uring,
        "write the Python environment": lambda: _opened(probes.package, os.O_WRONLY),
        "run a shell": _shell,
    }


def succeeded(probes: Probes) -> list[str]:
    """Try everything; return the names of the attempts that succeeded."""
    done = []
    for name, attempt in attempts(probes).items():
        try:
            attempt()
        except (OSError, subprocess.SubprocessError):
            continue
        done.append(name)
    return done


def _opened(path: str, flags: int) -> None:
    os.close(os.open(path, flags | os.O_CLOEXEC))


def _changed_mode(path: str) -> None:
    """Change a file's mode and look at it again: a filtered call answers 0 without doing anything."""
    wanted = stat.S_IMODE(Path(path).stat().st_mode) ^ 0o200
    Path(path).chmod(wanted)
    if stat.S_IMODE(Path(path).stat().st_mode) != wanted:
        raise PermissionError("the mode is unchanged")


def _connected(family: int, address: str | tuple[str, int]) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as line:
        line.settimeout(_SECONDS)
        line.connect(address)


def _io_uring() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = ctypes.create_string_buffer(120)
    descriptor = libc.syscall(_IO_URING_SETUP, 1, parameters)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "io_uring was refused")
    os.close(descriptor)


def _shell() -> None:
    subprocess.run(["/bin/sh", "-c", "exit 0"], check=True, timeout=10)
