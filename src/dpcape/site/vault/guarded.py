"""What must stay out of the engine's reach, and what the self-test tries to reach of it."""

from __future__ import annotations

import shutil
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dpcape.site.page_port import page_port
from dpcape.site.vault.self_test import Probes
from dpcape.site.vault.server import SELF_TEST_FILE

# A kernel may have io_uring, fanotify, programs in memory or queues of System V switched off.
MUST_SUCCEED_OUTSIDE = (
    "read secret 1",
    "write secret 1",
    "list the folder",
    "watch the folder",
    "change a file's mode",
    "signal the vault",
    "look at the vault's process",
    "use a Unix socket",
    "connect elsewhere",
    "reach the steward's page",
    "use UDP",
    "listen on a port that the kernel chooses",
    "run a shell",
    "run a program by its descriptor",
    "leave its group of processes",
)


@dataclass(frozen=True)
class Guarded:
    """What must stay out of the engine's reach: files, and the folders they are in."""

    folder: Path
    keys: Path
    secret_files: tuple[Path, ...]

    def under(self, readable: list[str]) -> list[str]:
        """Return guarded paths that lie below a path which the engine may read."""
        allowed = [Path(entry).resolve() for entry in readable]
        guarded = [self.folder, self.keys, *self.secret_files]
        return [str(path) for path in guarded if any(path.resolve().is_relative_to(folder) for folder in allowed)]


class Elsewhere:
    """Listening ports and a Unix socket that the self-test tries to reach, and what else it tries.

    Parameters
    ----------
    guarded : Guarded
        What must stay out of the engine's reach.
    """

    def __init__(self, guarded: Guarded) -> None:
        self._guarded = guarded
        self._folder = Path(tempfile.mkdtemp(prefix="dpcape-probe-"))

    def __enter__(self) -> Elsewhere:
        self._folder.chmod(0o711)
        self._tcp = socket.create_server(("127.0.0.1", 0))
        # Replaces the steward's page if it is not being served.
        self._page = socket.create_server(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._unix.bind(str(self._folder / "probe"))
        self._unix.listen()
        (self._folder / "probe").chmod(0o666)
        return self

    def __exit__(self, *args: object) -> None:
        self._tcp.close()
        self._page.close()
        self._unix.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def probes(self, vault: int) -> Probes:
        """Return what to try, given the vault's process."""
        return Probes(
            secret_files=[str(path) for path in self._guarded.secret_files],
            folder=str(self._guarded.folder),
            decoy=str(self._guarded.keys / SELF_TEST_FILE),
            vault=vault,
            unix=str(self._folder / "probe"),
            port=int(self._tcp.getsockname()[1]),
            page=page_port(self._guarded.folder) or int(self._page.getsockname()[1]),
            package=str(Path(__file__).resolve()),
        )
