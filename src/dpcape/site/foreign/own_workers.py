"""Workers for processes other than the vault, started when a study needs code of another package."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

from dpcape.analyses.description import Analysis

if TYPE_CHECKING:
    from dpcape.site.foreign.workers import Workers


class OwnWorkers:
    """Workers for a process other than the vault: a steward's command or page. The zygote is started on first use.

    Parameters
    ----------
    packages : callable
        Returns the packages that are allowed now.
    """

    def __init__(self, packages: Callable[[], Iterable[str]]) -> None:
        self._packages = packages
        self._running: tuple[list[str], Workers, subprocess.Popen[bytes]] | None = None

    def described(self, point: EntryPoint, name: str) -> Analysis:
        """Return the description of an analysis that needs code of another package, without loading it here."""
        return self._workers().described(point, name)

    def close(self) -> None:
        """End the zygote, if there is one."""
        if self._running is not None:
            self._running[1].close()
            self._running[2].wait()
            self._running = None

    def _workers(self) -> Workers:
        from dpcape.site.foreign.workers import Workers, start_zygote

        packages = sorted(self._packages())
        if self._running is None or self._running[0] != packages:
            self.close()
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._running = (packages, Workers(ours), start_zygote(theirs, packages))
        return self._running[1]

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()
