"""The zygote: a trusted process that starts one child per task. It has no network, key, ledger, record or file.

It reads the text of the packages without running it, and loads the libraries they use, so that a child is ready within
milliseconds. Then it gives up all files. It never sees a task or a record: it passes the vault one end
of a pair of sockets and leaves the other to the child.
"""

from __future__ import annotations

import array
import contextlib
import gc
import mmap
import os
import signal
import socket
import sys

import msgspec

import dpcape.statistics
from dpcape.analyses.polynomial_loss import POLYNOMIAL_LOSSES
from dpcape.analyses.registry import own_analyses
from dpcape.analyses.torch_classifier import NETWORK_MODULES
from dpcape.core.statistic import load_all
from dpcape.records import labelled
from dpcape.site.foreign import child
from dpcape.site.foreign.sources import Sources
from dpcape.site.foreign.torch_rehearsal import rehearse_gradients
from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.sandbox import Sandbox, confine
from dpcape.site.vault.seccomp import Filter, install
from dpcape.statistics.block_search import require_separate_records
from dpcape.statistics.losses import loss_of
from dpcape.statistics.polynomials import checked_diameter

START, END, LINE, ENDED = b"start", b"end", b"line", b"ended"
_BUFFER_BYTES = 4 * 2**20


class ZygoteSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the zygote: the descriptor of its socket to the vault, the allowed packages and where they are."""

    control: int
    packages: list[str]
    paths: list[str]


class ZygoteReport(msgspec.Struct, frozen=True, kw_only=True):
    """Whether Landlock and the filter of system calls are in force."""

    is_confined: bool


ZYGOTE_FILTER = Filter(network=False, pairs=True, denied=("execve", "connect", "bind", "accept", "accept4"))


class Zygote:
    """Starts and ends children, one at a time, as the vault asks for it.

    Parameters
    ----------
    control : socket.socket
        Socket to the vault.
    sources : Sources
        The packages.
    held_bytes : int
        Address space that the libraries take, which a child inherits.
    """

    def __init__(self, control: socket.socket, sources: Sources, held_bytes: int) -> None:
        self._control, self._sources, self._held_bytes = control, sources, held_bytes
        self._child = 0

    def serve(self) -> None:
        """Serve until the vault is gone."""
        try:
            while word := self._control.recv(16):
                self._end()
                if word == START:
                    self._start()
                else:
                    self._control.send(ENDED)
        finally:
            self._end()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for side in (ours, theirs):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        self._child = os.fork()
        if not self._child:
            self._control.close()
            theirs.close()
            child.run(ours.detach(), self._sources, self._held_bytes)
        with ours, theirs:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
            self._control.sendmsg([LINE], rights)

    def _end(self) -> None:
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
            os.waitpid(self._child, 0)
            self._child = 0


def prepare(settings: ZygoteSettings) -> Sources:
    """Load everything that children need; files are out of reach afterwards."""
    # Every module of dpcape that a child, or the code in it, may ask for.
    tuple(own_analyses().values())
    load_all()
    for name in dpcape.statistics.__all__:
        getattr(dpcape.statistics, name)
    sys.path += [path for path in settings.paths if path not in sys.path]
    sources = Sources(settings.packages)
    sources.load_libraries()
    if any(entry.group == POLYNOMIAL_LOSSES for entry in sources.declared):
        # Search a loss of dpcape for violations, so that all that such a search loads is in memory.
        facts = labelled([[0.0]], [0.0], bound=1.0, response=(0.0, 1.0)).facts()
        checked_diameter("poisson", facts.shape_facts())
        require_separate_records(loss_of("poisson"), facts.shape_facts())
    if any(entry.group == NETWORK_MODULES for entry in sources.declared):
        rehearse_gradients()
    return sources


def main() -> None:
    """Load libraries, read the packages, give up everything, report, and serve."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=ZygoteSettings)
    os.umask(0o077)
    # Before the libraries that a package names are loaded; children inherit it.
    is_filtered = install(ZYGOTE_FILTER)
    sources = prepare(settings)
    with open("/proc/self/statm", "rb") as stream:
        # The address space that this process has.
        held_bytes = int(stream.read().split()[0]) * mmap.PAGESIZE
    nothing = os.open(os.devnull, os.O_RDWR)
    # Applies to this thread and the children it starts; threads of libraries are not confined.
    confinement = confine(Sandbox(Rules(), ZYGOTE_FILTER))
    gc.collect()
    gc.freeze()
    is_confined = is_filtered and confinement.seccomp and confinement.abi >= 1
    sys.stdout.buffer.write(msgspec.json.encode(ZygoteReport(is_confined=is_confined)) + b"\n")
    sys.stdout.buffer.flush()
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    os.close(nothing)
    if is_confined:
        with socket.socket(fileno=settings.control) as control:
            Zygote(control, sources, held_bytes).serve()


if __name__ == "__main__":
    main()
