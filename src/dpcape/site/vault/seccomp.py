"""A seccomp filter as a classic BPF program: built from the table of system calls, installed through libc.

``program`` only computes, so that tests can interpret the result for both architectures on any machine.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Iterable
from dataclasses import dataclass

from dpcape.site.vault.syscalls import DENIED, IGNORED, NUMBERS, OWN_PROCESS

ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
ALLOW, KILL = 0x7FFF0000, 0x80000000
_ERRNO = 0x00050000
_LOAD, _JUMP_EQUAL, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x45, 0x54, 0x06
_NUMBER, _ARCH = 0, 4
_X32 = 0x40000000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2

# Flags of clone that make namespaces.
_NAMESPACES = 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000 | 0x00020000
_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _TYPE = 1, 5, 0xF
# Opens a TCP connection while sending, which Landlock does not see.
_MSG_FASTOPEN = 0x20000000
_TERMINAL_IOCTLS = (0x5412, 0x541C)
_PRCTL_DENIED = (35, 36, 0x59616D61)

Instruction = tuple[int, int, int, int]


@dataclass(frozen=True)
class Filter:
    """What a filter lets through besides the table.

    Attributes
    ----------
    network : bool
        TCP sockets and the netlink socket that name look-ups use; otherwise no socket can be made at all.
    pairs : bool
        Pairs of connected Unix sockets.
    denied : tuple of str
        Further system calls to refuse, by name.
    allowed : tuple of str or None
        The only system calls to let through, by name, whatever else is said here; None lets through all that are not
        refused.
    """

    network: bool = False
    pairs: bool = True
    denied: tuple[str, ...] = ()
    allowed: tuple[str, ...] | None = None


class _Program:
    """Instructions, with tests on one system call each."""

    def __init__(self, column: int) -> None:
        self._column = column
        self.code: list[Instruction] = []

    def on(self, name: str, body: Iterable[Instruction]) -> None:
        """Run ``body`` for one call; it ends with a return, and the accumulator holds the number again after it."""
        number = NUMBERS[name][self._column]
        if number is None:
            return
        block = list(body)
        self.code += [(_JUMP_EQUAL, 0, len(block), number), *block]


def _argument(index: int) -> Instruction:
    """Load the low word of an argument; every argument tested here is an int in the kernel."""
    return (_LOAD, 0, 0, 16 + 8 * index)


def _fail(code: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | code)


_PERMIT: Instruction = (_RETURN, 0, 0, ALLOW)
_REFUSE = _fail(errno.EPERM)


def _only(index: int, value: int) -> list[Instruction]:
    """Continue if an argument has a value, refuse otherwise."""
    return [_argument(index), (_JUMP_EQUAL, 1, 0, value), _REFUSE]


def _without(index: int, flags: int) -> list[Instruction]:
    return [_argument(index), (_JUMP_SET, 0, 1, flags), _REFUSE, _PERMIT]


def _none_of(index: int, values: Iterable[int]) -> list[Instruction]:
    tests = [step for value in values for step in ((_JUMP_EQUAL, 0, 1, value), _REFUSE)]
    return [_argument(index), *tests, _PERMIT]


def _socket(network: bool) -> list[Instruction]:
    if not network:
        return [_REFUSE]
    stream = [
        _argument(1),
        (_AND, 0, 0, _TYPE),
        (_JUMP_EQUAL, 1, 0, _STREAM),
        _REFUSE,
        # No SCTP and no MPTCP: Landlock's rules are about TCP.
        _argument(2),
        (_JUMP_EQUAL, 2, 0, 0),
        (_JUMP_EQUAL, 1, 0, 6),
        _REFUSE,
        _PERMIT,
    ]
    route = [*_only(2, 0), _PERMIT]
    return [
        _argument(0),
        (_JUMP_EQUAL, 0, len(route), _AF_NETLINK),
        *route,
        (_JUMP_EQUAL, 2, 0, _AF_INET),
        (_JUMP_EQUAL, 1, 0, _AF_INET6),
        _REFUSE,
        *stream,
    ]


def program(rules: Filter, machine: str) -> list[Instruction]:
    """Return the filter's instructions for an architecture: "x86_64" or "aarch64"."""
    audit, column = ARCHITECTURES[machine]
    built = _Program(column)
    built.code += [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        built.code += [(_JUMP_SET, 0, 1, _X32), _REFUSE]
    if rules.allowed is not None:
        for name in rules.allowed:
            built.on(name, [_PERMIT])
        return [*built.code, _REFUSE]
    for name in (*DENIED, *rules.denied):
        built.on(name, [_REFUSE])
    for name in IGNORED:
        built.on(name, [_fail(0)])
    for name in OWN_PROCESS:
        if name not in ("setpriority", "ioprio_set"):
            built.on(name, [*_only(0, 0), _PERMIT])
    built.on("setpriority", [*_only(0, 0), *_only(1, 0), _PERMIT])
    built.on("ioprio_set", [*_only(0, 1), *_only(1, 0), _PERMIT])
    built.on("clone3", [_fail(errno.ENOSYS)])
    built.on("clone", _without(0, _NAMESPACES))
    built.on("socket", _socket(rules.network))
    # A datagram pair could still send to any named socket.
    kinds = [(_JUMP_EQUAL, 2, 0, _STREAM), (_JUMP_EQUAL, 1, 0, _SEQPACKET), _REFUSE, _PERMIT]
    pair = [*_only(0, _AF_UNIX), _argument(1), (_AND, 0, 0, _TYPE), *kinds]
    built.on("socketpair", pair if rules.pairs else [_REFUSE])
    built.on("ioctl", _none_of(1, _TERMINAL_IOCTLS))
    built.on("prctl", _none_of(0, _PRCTL_DENIED))
    for name, index in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        built.on(name, _without(index, _MSG_FASTOPEN))
    return [*built.code, _PERMIT]


def install(rules: Filter) -> bool:
    """Install the filter for this process and all it starts; return False where the kernel has none.

    Call it while the process has one thread.
    """
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        return False
    code = program(rules, machine)
    packed = b"".join(struct.pack("HBBI", *step) for step in code)
    buffer = ctypes.create_string_buffer(packed, len(packed))

    class _Fprog(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges()
    filter_program = _Fprog(len(code), ctypes.addressof(buffer))
    if libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_program), 0, 0) != 0:
        if ctypes.get_errno() in (errno.EINVAL, errno.ENOSYS, errno.EPERM):
            return False
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return True


def no_new_privileges() -> None:
    """Make set-user-id programs harmless for this process and all it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")
