"""Starts a vault and, where the steward allowed code of other packages, the process that runs it in sandboxes."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dpcape.core.errors import TransportError
from dpcape.site.vault.sandbox import clean_environment
from dpcape.site.vault.self_test import NotSeparated, Probes
from dpcape.site.vault.server import VaultSettings

if TYPE_CHECKING:
    from dpcape.site.foreign.workers import Workers

Process = subprocess.Popen[bytes]


def start_vault(
    settings: VaultSettings,
    control: socket.socket,
    *,
    python: str,
    options: Mapping[str, Any],
    packages: Sequence[str],
    probes: Callable[[int], Probes],
    say: Callable[[str], None],
    first_line: Callable[[Process], bytes],
) -> tuple[Process, Process | None]:
    """Start a vault, and a zygote if ``packages`` are allowed; where that cannot be confined, the vault refuses them.

    Parameters
    ----------
    settings : VaultSettings
        The vault's; descriptors are filled in here.
    control : socket.socket
        The vault's end of its socket to the engine.
    python : str
        Interpreter of both.
    options : mapping
        What starts a process under the vault's account.
    packages : sequence of str
        Distributions whose code may run in sandboxes.
    probes : callable
        Returns what such code must not reach, given the vault's process.
    say : callable
        Called with the reason if there is no zygote.
    first_line : callable
        Returns a process's first line, without waiting for ever.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        zygote = _zygote(theirs, packages, python, options, say, first_line) if packages else None
        descriptors = [control.fileno(), *([] if zygote is None else [ours.fileno()])]
        full_settings = msgspec.structs.replace(
            settings, control=descriptors[0], workers=None if zygote is None else descriptors[1]
        )
        vault = _launched(full_settings, descriptors, python, options, first_line)
        if zygote is not None:
            from dpcape.site.foreign.workers import Workers

            # The vault shares this socket, and does not use it before there is an engine.
            _test_child(Workers(ours), probes(vault.pid))
        return vault, zygote


def _zygote(
    control: socket.socket,
    packages: Sequence[str],
    python: str,
    options: Mapping[str, Any],
    say: Callable[[str], None],
    first_line: Callable[[Process], bytes],
) -> Process | None:
    # Imported here, so that statistics and their libraries are loaded only at sites that allow packages.
    from dpcape.site.foreign.workers import start_zygote

    try:
        return start_zygote(control, packages, python=python, options=options, first_line=first_line)
    except TransportError as error:
        say(str(error))
        return None


def _test_child(workers: Workers, probes: Probes) -> None:
    """Refuse to serve if a child for code of other packages reaches anything."""
    reached = workers.reached(probes)
    if reached:
        why = f"the sandbox for code of other packages failed its self-test: it could {reached[0]}"
        raise NotSeparated("Nothing is served", why, "Look at 'dpcape doctor', or disallow the packages.")


def _launched(
    settings: VaultSettings,
    descriptors: Sequence[int],
    python: str,
    options: Mapping[str, Any],
    first_line: Callable[[Process], bytes],
) -> Process:
    vault = subprocess.Popen(
        [python, "-I", "-m", "dpcape.site.vault.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=tuple(descriptors),
        env=clean_environment(),
        cwd="/",
        start_new_session=True,
        **options,
    )
    assert vault.stdin is not None
    vault.stdin.write(msgspec.json.encode(settings) + b"\n")
    vault.stdin.close()
    answer = first_line(vault)
    report: dict[str, Any] = msgspec.json.decode(answer) if answer.endswith(b"\n") else {"error": "it gave no answer"}
    if "error" in report:
        raise TransportError("The vault did not start", f"of this: {report['error']}")
    return vault
