"""Starts the engine: confines itself, reports what it can still reach, waits for the verdict, becomes the engine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.sandbox import (
    Sandbox,
    clean_environment,
    confine,
    interpreter_paths,
    python_read_paths,
    system_read_paths,
)
from dpcape.site.vault.seccomp import Filter
from dpcape.site.vault.self_test import Probes, succeeded

GO = b"go\n"
# AS is per process, NPROC per account (threads count). A limit for all together is a matter of control groups, which
# the systemd unit sets.
LIMITS = {"NOFILE": 1024, "NPROC": 4096, "FSIZE": 2**28, "AS": 16 * 2**30}


class Launch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that the supervisor sends to the launcher.

    Attributes
    ----------
    command : list of str
        Arguments to this Python.
    work : str
        The only folder the engine may write.
    connect : list of int
        TCP ports.
    environment : dict
        Variables in addition to the allowed ones.
    probes : Probes
        What the self-test tries.
    confined : bool
        False runs only the self-test, outside the sandbox, as the positive control.
    most_abi : int or None
        Highest version of Landlock to use, for tests.
    with_seccomp : bool
        False for tests alone.
    """

    command: list[str]
    work: str
    connect: list[int]
    environment: dict[str, str]
    probes: Probes
    confined: bool = True
    most_abi: int | None = None
    with_seccomp: bool = True


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Restrictions in force, probes that succeeded, and readable paths."""

    abi: int = 0
    seccomp: bool = False
    succeeded: list[str] = []
    readable: list[str] = []


def engine_sandbox(launch: Launch) -> Sandbox:
    """Return the sandbox of an engine: its own Python, its work folder, its ports."""
    readable = (*python_read_paths(), *system_read_paths(), Path(f"/proc/{os.getpid()}/status"))
    rules = Rules(
        read=readable,
        execute=interpreter_paths(),
        write=(Path(launch.work), Path("/dev/null")),
        connect=tuple(launch.connect),
    )
    return Sandbox(rules, Filter(network=True), LIMITS, most_abi=launch.most_abi, with_seccomp=launch.with_seccomp)


def main() -> None:
    """Read what to start from standard input, report, and start it if the supervisor says so."""
    launch = msgspec.json.decode(sys.stdin.buffer.readline(), type=Launch)
    os.umask(0o077)
    if not launch.confined:
        _report(Report(succeeded=succeeded(launch.probes)))
        return
    os.chdir(launch.work)
    sandbox = engine_sandbox(launch)
    confinement = confine(sandbox)
    readable = [str(path) for path in (*python_read_paths(), *system_read_paths())]
    _report(
        Report(
            abi=confinement.abi,
            seccomp=confinement.seccomp,
            succeeded=succeeded(launch.probes),
            readable=[*readable, launch.work],
        )
    )
    if sys.stdin.buffer.readline() != GO:
        sys.exit(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.execve(sys.executable, [sys.executable, *launch.command], clean_environment(**launch.environment))


def _report(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
