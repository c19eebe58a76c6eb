"""Attempts to reach what a sandbox must keep out of reach; run outside first, to show that each attempt can succeed.

Nothing is changed by an attempt that succeeds, except the mode of a file made for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from dpcape.core.errors import TransportError

_IO_URING_SETUP = 425
_SECONDS = 2.0
_INOTIFY_ALL = 0xFFF
_FANOTIFY_BY_ID, _FANOTIFY_ADD, _FANOTIFY_CHANGES, _HERE = 0x200, 1, 0x2 | 0x8000000, -100
_QUEUES_IN_USE, _QUEUE_BYTES = 12, 256
# Machine code that ends a process with code 0, and the architecture's number in a program's header.
_END_AT_ONCE = {
    "x86_64": (62, bytes.fromhex("31ff b83c000000 0f05")),
    "aarch64": (183, bytes.fromhex("000080d2 a80b80d2 010000d4")),
}


class NotSeparated(TransportError):
    """The self-test reached something that must be out of reach, so nothing is served."""


class Probes(msgspec.Struct, frozen=True, kw_only=True):
    """What to try.

    Attributes
    ----------
    secret_files : list of str
        Files that must not be opened: keys, ledger, records.
    folder : str
        A folder that must not be listed or watched.
    decoy : str
        A file in the folder of the keys whose mode must not be changed.
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
    on_secrets: dict[str, Callable[[], object]] = {}
    for number, path in enumerate(probes.secret_files, start=1):
        on_secrets[f"read secret {number}"] = partial(_opened, path, os.O_RDONLY)
        on_secrets[f"write secret {number}"] = partial(_opened, path, os.O_WRONLY)
    return {
        **on_secrets,
        "list the folder": lambda: os.listdir(probes.folder),
        "watch the folder": lambda: _watched(probes.folder),
        "watch the folder through fanotify": lambda: _watched_by_fanotify(probes.folder),
        "change a file's mode": lambda: _changed_mode(probes.decoy),
        "signal the vault": lambda: os.kill(probes.vault, 0),
        "look at the vault's process": lambda: _opened(f"/proc/{probes.vault}/status", os.O_RDONLY),
        "use a Unix socket": lambda: _connected(socket.AF_UNIX, probes.unix),
        "connect elsewhere": lambda: _connected(socket.AF_INET, ("127.0.0.1", probes.port)),
        "reach the steward's page": lambda: _connected(socket.AF_INET, ("127.0.0.1", probes.page)),
        "use UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "listen on a port that the kernel chooses": _listening,
        "use io_uring": _io_uring,
        "write the Python environment": lambda: _opened(probes.package, os.O_WRONLY),
        "run a shell": lambda: subprocess.run(["/bin/sh", "-c", "exit 0"], check=True, timeout=10),
        "run a program from memory": _run_from_memory,
        "run a program by its descriptor": _run_by_descriptor,
        "leave its group of processes": _left_group,
        "look at queues of other processes": _looked_at_queues,
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
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(address)


def _io_uring() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = ctypes.create_string_buffer(120)
    descriptor = libc.syscall(_IO_URING_SETUP, 1, parameters)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "io_uring was refused")
    os.close(descriptor)


def _watched(folder: str) -> None:
    """Have the kernel report what happens in a folder, with the names of files: Landlock has no rule for it."""
    libc = ctypes.CDLL(None, use_errno=True)
    watcher = _checked(libc.inotify_init1(os.O_CLOEXEC))
    try:
        _checked(libc.inotify_add_watch(watcher, os.fsencode(folder), _INOTIFY_ALL))
    finally:
        os.close(watcher)


def _watched_by_fanotify(folder: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    watcher = _checked(libc.fanotify_init(_FANOTIFY_BY_ID, os.O_RDONLY))
    try:
        changes = ctypes.c_uint64(_FANOTIFY_CHANGES)
        _checked(libc.fanotify_mark(watcher, _FANOTIFY_ADD, changes, _HERE, os.fsencode(folder)))
    finally:
        os.close(watcher)


def _listening() -> None:
    """Listen without binding: the kernel then chooses a port on every address, and asks no rule about ports."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.listen()


def _run_from_memory() -> None:
    """Run a program that no folder holds, so that no rule about folders is about it."""
    program = os.memfd_create("self-test", 0)
    try:
        os.write(program, _smallest_program())
        subprocess.run([f"/proc/self/fd/{program}"], pass_fds=(program,), check=True, timeout=10)
    finally:
        os.close(program)


def _run_by_descriptor() -> None:
    """Run this Python, which may be run by its path, through a call that names none."""
    program = os.open(sys.executable, os.O_RDONLY | os.O_CLOEXEC)
    try:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(OSError):
                os.execve(program, [sys.executable, "-I", "-S", "-c", ""], {})
            os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise PermissionError("the program did not run")
    finally:
        os.close(program)


def _looked_at_queues() -> None:
    """Ask about System V queues by number, which takes no call that opens one."""
    libc = ctypes.CDLL(None, use_errno=True)
    _checked(libc.msgctl(0, _QUEUES_IN_USE, ctypes.create_string_buffer(_QUEUE_BYTES)))


def _left_group() -> None:
    """Leave the group of processes by which all of them are ended, and look at it: a filtered call answers 0."""
    child = os.fork()
    if child == 0:
        for leave in (partial(os.setpgid, 0, 0), os.setsid):
            with contextlib.suppress(OSError):
                leave()
        os._exit(os.getpgrp() != os.getpid())
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise PermissionError("the group is the same")


def _smallest_program() -> bytes:
    """Return an executable file that ends with code 0."""
    if platform.machine() not in _END_AT_ONCE:
        raise OSError("no program is known for this architecture")
    machine, code = _END_AT_ONCE[platform.machine()]
    start, size = 0x400000, 64 + 56 + len(code)
    kind = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, start + 120, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, start, start, size, size, 0x1000)
    return kind + head + segment + code


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
