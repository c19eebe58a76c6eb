"""The vault: a process that holds records, ledger and identity, and reads frames from one inherited socket.

It imports no engine and has no network. It believes what the coordinator signed and the steward approved: a header is
read first and must be genuine before one byte of its body is.
"""

from __future__ import annotations

import array
import contextlib
import logging
import logging.handlers
import os
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from dpcape.site.vault.client import LAST_REPLY, REPLY_LENGTH_BYTES
from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.log_lines import VaultFormatter
from dpcape.site.vault.sandbox import Confinement, Sandbox, confine, hide_memory
from dpcape.site.vault.seccomp import Filter

if TYPE_CHECKING:
    from dpcape.site.folder import SiteFolder
    from dpcape.site.foreign.workers import Workers
    from dpcape.site.vault.jobs import OpenJobs
    from dpcape.transport.frames import Ask

MAX_LINES = 16
LOG_FILE, SELF_TEST_FILE = "vault.log", "self-test"
# A header that was begun, and each part of a body, must come within this time.
_SECONDS = 60.0
_PART_BYTES = 2**20
# Most frames are shorter, so that one system call reads the whole frame.
_READ_BYTES = 2**16
_log = logging.getLogger(__name__)


class VaultSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings that the supervisor sends to the vault through a pipe; none of them comes from a kit.

    Attributes
    ----------
    folder : str
        The site folder.
    data : str or None
        Name of the data set to serve; None takes the one the approval names.
    replay_for_tests : int or None
        Seed of replayable noise. For tests alone: the guarantee then says "no protection".
    mode : str
        How well the engine is separated from the vault.
    control : int
        Descriptor of the inherited socket.
    workers : int or None
        Descriptor of the socket to the process that runs code of other packages in sandboxes; None refuses such code.
    """

    folder: str
    data: str | None = None
    replay_for_tests: int | None = None
    mode: str
    control: int
    workers: int | None = None


class Incoming:
    """Buffered reader of one socket; memory is used as bytes arrive, not as they are announced.

    Parameters
    ----------
    connection : socket.socket
        The socket.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._buffered = connection, b""

    def wait(self) -> bool:
        """Wait without a timeout for the next frame; return False if the peer closed the socket instead."""
        if not self._buffered:
            self._connection.settimeout(None)
            self._buffered = self._connection.recv(_READ_BYTES)
            self._connection.settimeout(_SECONDS)
        return bool(self._buffered)

    def take(self, n_bytes: int) -> bytes:
        """Return the next ``n_bytes`` bytes; every read must succeed within the timeout."""
        buffered = self._buffered
        if n_bytes <= len(buffered):
            self._buffered = buffered[n_bytes:]
            return buffered[:n_bytes]
        # Do not read past the end, where the next frame begins. Memory pages are allocated when first written.
        content = bytearray(n_bytes)
        view, done = memoryview(content), len(buffered)
        view[:done], self._buffered = buffered, b""
        while done < n_bytes:
            received = self._connection.recv_into(view[done:])
            if not received:
                raise ConnectionResetError("the line was closed")
            done += received
        return bytes(content)


class VaultServer:
    """Answers frames that come in on connections of the engine.

    Parameters
    ----------
    control : socket.socket
        Brings new connections.
    jobs : OpenJobs
        Studies that run at this site.
    coordinator : bytes
        The pinned public key.
    """

    def __init__(self, control: socket.socket, jobs: OpenJobs, coordinator: bytes) -> None:
        self._control, self._jobs, self._coordinator = control, jobs, coordinator
        self._connections = threading.BoundedSemaphore(MAX_LINES)
        # One body in memory at a time, whatever the number of connections.
        self._body = threading.Lock()

    def serve(self) -> None:
        """Accept sockets until the engine closes its end; an empty packet, which reads the same, is ignored."""
        while True:
            size = socket.CMSG_SPACE(array.array("i", [0] * 4).itemsize * 4)
            data, ancillary, _, _ = self._control.recvmsg(64, size)
            if not data and not ancillary:
                poll = select.poll()
                poll.register(self._control, select.POLLRDHUP)
                if poll.poll(0):
                    return
            for connection in _received(ancillary):
                if self._connections.acquire(blocking=False):
                    threading.Thread(target=self._serve_connection, args=(connection,), daemon=True).start()
                else:
                    _log.warning("a line was closed: %d are open already", MAX_LINES)
                    connection.close()

    def _serve_connection(self, connection: socket.socket) -> None:
        try:
            with connection:
                incoming = Incoming(connection)
                while self._serve_one(connection, incoming):
                    pass
        except OSError:
            # Closed by the engine, or too slow.
            return
        except Exception:
            _log.exception("a line was closed")
        finally:
            self._connections.release()

    def _serve_one(self, connection: socket.socket, incoming: Incoming) -> bool:
        """Answer one frame; return whether the connection can be used again."""
        from dpcape.core.errors import DpcapeError
        from dpcape.transport.frames import LENGTH_BYTES, genuine_ask, header_length, unsigned_reply
        from dpcape.transport.request_handler import refusal_of

        if not incoming.wait():
            return False
        try:
            head = incoming.take(header_length(incoming.take(LENGTH_BYTES)))
            ask = genuine_ask(head, self._coordinator)
            reply, is_read = self._answered(incoming, head, ask)
        except DpcapeError as error:
            # Unsigned: this request never proved that it came from the coordinator.
            reply, is_read = unsigned_reply(refusal_of(error)), False
        _send(connection, reply, is_last=not is_read)
        return is_read

    def _answered(self, incoming: Incoming, head: bytes, ask: Ask) -> tuple[bytes, bool]:
        """Return the reply to a genuine header, and whether its body was read."""
        from dpcape.site.vault.jobs import UNKNOWN_JOB
        from dpcape.transport.frames import require_body
        from dpcape.transport.request_handler import sealed

        handler = self._jobs.handler(ask)
        early = UNKNOWN_JOB if handler is None else handler.before_body(ask)
        if handler is None or early is not None:
            return sealed(self._jobs.identity, head, ask, early or UNKNOWN_JOB), not ask.length
        with self._body:
            body = incoming.take(ask.length)
            require_body(ask, body)
            reply, answer = handler.answer(ask, body)
            return handler.sealed(head, ask, reply, answer), True


def _received(ancillary: list[tuple[int, int, bytes]]) -> list[socket.socket]:
    """Return the sockets that a message brought; whatever else it brought is closed."""
    connections = []
    for level, kind, data in ancillary:
        if (level, kind) != (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            continue
        numbers = array.array("i")
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
        for number in numbers:
            try:
                connection = socket.socket(fileno=number)
            except OSError:
                os.close(number)
                continue
            if (connection.family, connection.type) == (socket.AF_UNIX, socket.SOCK_STREAM):
                connections.append(connection)
                continue
            # Without lingering: close() could otherwise block on unsent data for as long as the sender set.
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
    return connections


def _send(connection: socket.socket, reply: bytes, *, is_last: bool) -> None:
    prefix = (len(reply) | (LAST_REPLY if is_last else 0)).to_bytes(REPLY_LENGTH_BYTES, "big")
    if len(reply) <= _PART_BYTES:
        # In one call, so that the engine wakes up only once.
        connection.sendall(prefix + reply)
        return
    connection.sendall(prefix)
    connection.sendall(reply)


def study_opener(
    folder: SiteFolder, settings: VaultSettings, workers: Workers | None = None
) -> Callable[[str, str], Callable[[bytes], bytes]]:
    """Return a function that opens an approved study by its digest; ``allowance`` names one that is resumed.

    ``workers`` run code of other packages; without them it is refused.
    """

    def opened(digest: str, allowance: str = "") -> Callable[[bytes], bytes]:
        from dpcape.core.noise import Replay
        from dpcape.site.dealing import dealer_for
        from dpcape.site.folder import SiteFolder
        from dpcape.site.ledger import check_approved

        # A fresh view of the folder: ceilings, approvals and pins may have changed since the last study.
        site_folder = SiteFolder(folder.path)
        # Raises unless a study with this digest is approved, so that only approved studies run.
        check_approved(site_folder.state(), digest, settings.data, allowance=allowance)
        noise = None if settings.replay_for_tests is None else Replay(settings.replay_for_tests)
        # Code of other packages never runs here.
        study = site_folder.served_study(digest, workers)
        if study.dealer == site_folder.name:
            return dealer_for(site_folder, study, noise=noise, allowance=allowance, separation=settings.mode).answer
        data, mode = settings.data, settings.mode
        return site_folder.site_for(
            study, data, noise=noise, allowance=allowance, separation=mode, contributor=workers
        ).answer

    return opened


def vault_sandbox(folder: Path, keys: Path) -> Sandbox:
    """Return the vault's own sandbox: reads files, writes its folders, has no network and starts nothing."""
    rules = Rules(read=(Path("/"),), write=(folder, keys, Path("/dev/null")))
    denied = ("execve", "connect", "bind")
    return Sandbox(rules, Filter(network=False, pairs=False, denied=denied), expendable=False)


def run(settings: VaultSettings, ready: Callable[[Confinement], None]) -> None:
    """Confine this process, open the folder, report that the vault is ready, and serve."""
    os.umask(0o077)
    hide_memory()
    folder = Path(settings.folder).resolve()
    temporary = folder / "tmp"
    temporary.mkdir(mode=0o700, exist_ok=True)
    os.environ["TMPDIR"] = str(temporary)
    log = logging.handlers.RotatingFileHandler(folder / LOG_FILE, maxBytes=2**20, backupCount=1, encoding="utf-8")
    log.setFormatter(VaultFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[log])
    # Warnings and fatal errors go to the vault's own log, and nothing to standard error. Readers warn of how many
    # records they could not use; standard error is the supervisor's, whose lines the machine's log may send anywhere.
    logging.captureWarnings(True)
    sys.excepthook = lambda kind, error, trace: _log.error("the vault failed", exc_info=(kind, error, trace))
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    # Read before anything heavy is imported, since a sandbox binds one thread.
    keys = folder / str(msgspec.json.decode((folder / "site.json").read_bytes())["keys"])
    confinement = confine(vault_sandbox(folder, keys.resolve()))

    from dpcape.site.folder import SiteFolder
    from dpcape.site.foreign.workers import Workers
    from dpcape.site.vault.jobs import OpenJobs

    site_folder = SiteFolder(folder)
    # The self-test tries to change its mode.
    (site_folder.keys / SELF_TEST_FILE).unlink(missing_ok=True)
    (site_folder.keys / SELF_TEST_FILE).write_bytes(b"")
    coordinator = site_folder.coordinator()
    workers = None if settings.workers is None else Workers(socket.socket(fileno=settings.workers))
    jobs = OpenJobs(site_folder.name, coordinator, site_folder.identity, study_opener(site_folder, settings, workers))
    with socket.socket(fileno=settings.control) as control:
        ready(confinement)
        _log.info("serving; engine separated: %s", settings.mode)
        VaultServer(control, jobs, coordinator).serve()


def main() -> None:
    """Serve with the settings that come in on standard input."""
    # Ctrl-C reaches the whole terminal; the supervisor decides when the vault ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = msgspec.json.decode(sys.stdin.buffer.readline(), type=VaultSettings)

    def ready(confinement: Confinement) -> None:
        print(msgspec.json.encode({"abi": confinement.abi, "seccomp": confinement.seccomp}).decode(), flush=True)

    from dpcape.core.errors import DpcapeError

    try:
        run(settings, ready)
    except (DpcapeError, OSError) as error:
        print(msgspec.json.encode({"error": str(error)}).decode(), flush=True)
        sys.exit(2)
    with contextlib.suppress(OSError):
        sys.stdout.close()


if __name__ == "__main__":
    main()
