"""The filter of system calls, interpreted for both architectures: each call refused, ignored or allowed as tabled."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from dpcape.site.foreign.child import CHILD_FILTER
from dpcape.site.vault.seccomp import ALLOW, ARCHITECTURES, KILL, Filter, Instruction, program
from dpcape.site.vault.syscalls import ARITHMETIC, DENIED, IGNORED, NUMBERS, OWN_PROCESS

EPERM, NOTHING, ENOSYS = 0x00050000 | errno.EPERM, 0x00050000, 0x00050000 | errno.ENOSYS
ENGINE, CHILD = Filter(network=True), Filter(network=False, pairs=False, denied=("execve", "kill"))


def interpret(code: list[Instruction], arch: int, number: int, *arguments: int) -> int:
    """Run a classic BPF program as the kernel would."""
    words = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=iIQ6Q", number, arch, 0, *(word & 0xFFFFFFFFFFFFFFFF for word in words))
    accumulator, place = 0, 0
    while True:
        operation, jump_true, jump_false, value = code[place]
        place += 1
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif operation == 0x54:
            accumulator &= value
        elif operation == 0x15:
            place += jump_true if accumulator == value else jump_false
        elif operation == 0x45:
            place += jump_true if accumulator & value else jump_false
        else:
            assert operation == 0x06
            return value


@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
def test_every_call_is_treated_as_tabled(machine: str) -> None:
    arch, column = ARCHITECTURES[machine]
    code = program(ENGINE, machine)
    expected = {NUMBERS[name][column]: EPERM for name in DENIED}
    expected |= {NUMBERS[name][column]: NOTHING for name in IGNORED}
    expected[NUMBERS["clone3"][column]] = ENOSYS
    # Without arguments: a socket of family 0 is refused; ioprio_set names no process.
    expected |= {NUMBERS[name][column]: EPERM for name in ("socket", "socketpair", "ioprio_set")}
    for number in range(480):
        assert interpret(code, arch, number) == expected.get(number, ALLOW), number
    assert interpret(code, arch ^ 1, 0) == KILL


@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
@pytest.mark.parametrize(
    ("name", "arguments", "verdict"),
    [
        ("socket", (2, 1, 0), ALLOW),
        ("socket", (10, 1 | 0x80000, 6), ALLOW),
        ("socket", (16, 3, 0), ALLOW),
        ("socket", (16, 3, 9), EPERM),
        ("socket", (2, 2, 0), EPERM),
        ("socket", (2, 1, 262), EPERM),
        ("socket", (2, 1, 132), EPERM),
        ("socket", (1, 1, 0), EPERM),
        ("socket", (40, 1, 0), EPERM),
        ("socketpair", (1, 1, 0), ALLOW),
        ("socketpair", (1, 5 | 0x80000, 0), ALLOW),
        ("socketpair", (1, 2, 0), EPERM),
        ("clone", (0x00010F00,), ALLOW),
        ("clone", (0x10000000,), EPERM),
        ("ioctl", (0, 0x5412), EPERM),
        ("ioctl", (0, 0x5413), ALLOW),
        ("prctl", (36, 1), EPERM),
        ("prctl", (15, 1), ALLOW),
        ("sendto", (3, 0, 0, 0x20000000), EPERM),
        ("sendto", (3, 0, 0, 0x4000), ALLOW),
        ("sendmsg", (3, 0, 0x20000000), EPERM),
        ("sendmmsg", (3, 0, 1, 0x20000000), EPERM),
        ("setpriority", (0, 0, 5), ALLOW),
        ("setpriority", (2, 0, 5), EPERM),
        ("ioprio_set", (1, 0), ALLOW),
        *((name, (1,), EPERM) for name in OWN_PROCESS if name not in ("setpriority", "ioprio_set")),
        *((name, (0,), ALLOW) for name in OWN_PROCESS if name not in ("setpriority", "ioprio_set")),
    ],
)
def test_arguments_decide(machine: str, name: str, arguments: tuple[int, ...], verdict: int) -> None:
    arch, column = ARCHITECTURES[machine]
    assert interpret(program(ENGINE, machine), arch, NUMBERS[name][column], *arguments) == verdict


def test_a_child_without_network_makes_no_socket_and_starts_nothing() -> None:
    arch, column = ARCHITECTURES["x86_64"]
    code = program(CHILD, "x86_64")
    for name, arguments in (("socket", (2, 1, 0)), ("socketpair", (1, 1, 0)), ("execve", ()), ("kill", ())):
        assert interpret(code, arch, NUMBERS[name][column], *arguments) == EPERM


@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
def test_a_child_for_other_packages_has_the_calls_of_arithmetic_alone(machine: str) -> None:
    arch, column = ARCHITECTURES[machine]
    code = program(CHILD_FILTER, machine)
    allowed = {NUMBERS[name][column] for name in ARITHMETIC} - {None}
    for number in range(600):
        assert interpret(code, arch, number) == (ALLOW if number in allowed else EPERM), number
    assert not set(ARITHMETIC) & {*DENIED, *IGNORED, *OWN_PROCESS, "fcntl", "ioctl", "prctl", "open", "openat", "clone"}
    assert interpret(code, arch ^ 1, 0) == KILL


HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "aarch64": "/usr/include/asm-generic/unistd.h"}


@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
def test_numbers_are_those_of_the_kernels_headers(machine: str) -> None:
    """The header of every newer architecture is the generic one; calls that are newer than the header are not in it."""
    if not Path(HEADERS[machine]).is_file():
        pytest.skip("the kernel's headers are not installed")
    found = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", Path(HEADERS[machine]).read_text(), re.MULTILINE)
    # The generic header calls it by its number of bits.
    known = {{"fstatat": "newfstatat"}.get(name, name): int(number) for name, number in found}
    column = ARCHITECTURES[machine][1]
    assert {name: numbers[column] for name, numbers in NUMBERS.items() if numbers[column] and name in known} == {
        name: known[name] for name, numbers in NUMBERS.items() if numbers[column] and name in known
    }
    assert len(known.keys() & NUMBERS.keys()) > 100


@pytest.mark.parametrize("machine", sorted(ARCHITECTURES))
def test_what_landlock_has_no_rule_for_is_refused(machine: str) -> None:
    """Watching files (their names, and when they are read), listening without a port, and programs without a path."""
    arch, _ = ARCHITECTURES[machine]
    numbers = {
        "x86_64": (253, 294, 254, 255, 300, 301, 50, 319, 447, 322),
        "aarch64": (26, 27, 28, 262, 263, 201, 279, 447, 281),
    }
    code = program(ENGINE, machine)
    assert [number for number in numbers[machine] if interpret(code, arch, number) != EPERM] == []


def test_calls_of_the_32_bit_table_are_refused() -> None:
    arch, _ = ARCHITECTURES["x86_64"]
    assert interpret(program(ENGINE, "x86_64"), arch, 0x40000000 | 41, 2, 1, 0) == EPERM
