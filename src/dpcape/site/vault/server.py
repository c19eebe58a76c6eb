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
    """What the supervisor tells the vault, through a pipe; nothing of it comes from a kit.

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
        Descriptor of the line to the process that runs code of other packages in sandboxes; None refuses such code.
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
    line : socket.socket
        The line.
    """

    def __init__(self, line: socket.socket) -> None:
        self._line, self._held = line, b""

    def wait(self) -> bool:
        """Wait without a timeout for the next frame; return False if the peer closed the socket instead."""
        if not self._held:
            self._line.settimeout(None)
            self._held = self._line.recv(_READ_BYTES)
            self._line.settimeout(_SECONDS)
        return bool(self._held)

    def take(self, n_bytes: int) -> bytes:
        """Return the next ``n_bytes`` bytes; every read must succeed within the timeout."""
        held = self._held
        if n_bytes <= len(held):
            self._held = held[n_bytes:]
            return held[:n_bytes]
        # Do not read past the end, where the next frame begins. Memory pages are allocated when first written.
        whole = bytearray(n_bytes)
        view, done = memoryview(whole), len(held)
        view[:done], self._held = held, b""
        while done < n_bytes:
            received = self._line.recv_into(view[done:])
            if not received:
                raise ConnectionResetError("the line was closed")
            done += received
        return bytes(whole)


class VaultServer:
    """Answers frames that come in on lines of the engine.

    Parameters
    ----------
    control : socket.socket
        Brings new lines.
    jobs : OpenJobs
        Studies that run at this site.
    coordinator : bytes
        The pinned public key.
    """

    def __init__(self, control: socket.socket, jobs: OpenJobs, coordinator: bytes) -> None:
        self._control, self._jobs, self._coordinator = control, jobs, coordinator
        self._lines = threading.BoundedSemaphore(MAX_LINES)
        # One body in memory at a time, whatever the number of lines.
        self._body = threading.Lock()

    def serve(self) -> None:
        """Accept sockets until the engine closes its end; an empty packet, which reads the same, is ignored."""
        while True:
            size = socket.CMSG_SPACE(array.array("i", [0] * 4).itemsize * 4)
            data, ancillary, _, _ = self._control.recvmsg(64, size)
            if not data and not ancillary and _is_closed(self._control):
                return
            for line in _received(ancillary):
                if self._lines.acquire(blocking=False):
                    threading.Thread(target=self._serve_line, args=(line,), daemon=True).start()
                else:
                    _log.warning("a line was closed: %d are open already", MAX_LINES)
                    line.close()

    def _serve_line(self, line: socket.socket) -> None:
        try:
            with line:
                incoming = Incoming(line)
                while self._serve_one(line, incoming):
                    pass
        except OSError:
            # Closed by the engine, or too slow.
            return
        except Exception:
            _log.exception("a line was closed")
        finally:
            self._lines.release()

    def _serve_one(self, line: socket.socket, incoming: Incoming) -> bool:
        """Answer one frame; return whether the line can be used again."""
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
        _send(line, reply, is_last=not is_read)
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


def _is_closed(line: socket.socket) -> bool:
    """Return whether the other side of a line can send no more."""
    poll = select.poll()
    poll.register(line, select.POLLRDHUP)
    return bool(poll.poll(0))


def _received(ancillary: list[tuple[int, int, bytes]]) -> list[socket.socket]:
    """Return the sockets that a message brought; whatever else it brought is closed."""
    lines = []
    for level, kind, data in ancillary:
        if (level, kind) != (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            continue
        numbers = array.array("i")
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
        for number in numbers:
            try:
                line = socket.socket(fileno=number)
            except OSError:
                os.close(number)
                continue
            if (line.family, line.type) == (socket.AF_UNIX, socket.SOCK_STREAM):
                lines.append(line)
            else:
                _drop(line)
    return lines


def _drop(line: socket.socket) -> None:
    """Close a socket without lingering: close() could otherwise block on unsent data for as long as the sender set."""
    with contextlib.suppress(OSError):
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def _send(line: socket.socket, reply: bytes, *, is_last: bool) -> None:
    prefix = (len(reply) | (LAST_REPLY if is_last else 0)).to_bytes(REPLY_LENGTH_BYTES, "big")
    if len(reply) <= _PART_BYTES:
        # In one call, so that the engine wakes up only once.
        line.sendall(prefix + reply)
        return
    line.sendall(prefix)
    line.sendall(reply)


def study_opener(
    folder: SiteFolder, settings: VaultSettings, workers: Workers | None = None
) -> Callable[[str, str], Callable[[bytes], bytes]]:
    """Return what opens a study, by its digest, as the steward approved it; ``allowance`` names one that goes on.

    ``workers`` run code of other packages; without them it is refused.
    """

    def opened(digest: str, allowance: str = "") -> Callable[[bytes], bytes]:
        from dpcape.core.noise import Replay
        from dpcape.site.dealing import dealer_for
        from dpcape.site.folder import SiteFolder
        from dpcape.site.ledger import check_approved

        # A fresh view of the folder: ceilings, approvals and pins may have changed since the last study.
        place = SiteFolder(folder.path)
        # Refused here if no study of this digest is approved; what the steward approved is what is run.
        check_approved(place.state(), digest, settings.data, allowance=allowance)
        noise = None if settings.replay_for_tests is None else Replay(settings.replay_for_tests)
        # Code of other packages never runs here.
        study = place.served_study(digest, workers)
        if study.dealer == place.name:
            return dealer_for(place, study, noise=noise, allowance=allowance, separation=settings.mode).answer
        site = place.site_for(
            study,
            settings.data,
            noise=noise,
            allowance=allowance,
            separation=settings.mode,
            contributor=workers,
        )
        return site.answer

    return opened


def vault_sandbox(folder: Path, keys: Path) -> Sandbox:
    """Return the vault's own sandbox: reads files, writes its folders, has no network and starts nothing."""
    rules = Rules(read=(Path("/"),), write=(folder, keys, Path("/dev/null")))
    denied = ("execve", "connect", "bind")
    return Sandbox(rules, Filter(network=False, pairs=False, denied=denied), expendable=False)


def _keys_of(folder: Path) -> Path:
    """Return where the keys are; read before anything heavy is imported, since a sandbox binds one thread."""
    about = msgspec.json.decode((folder / "site.json").read_bytes())
    return folder / str(about["keys"])


def _keep_words_here() -> None:
    """Log warnings and fatal errors to the vault's own log, and nothing to standard error.

    Readers warn of how many records they could not use. Standard error is the supervisor's, whose lines the machine's
    log may send anywhere.
    """
    logging.captureWarnings(True)
    sys.excepthook = lambda kind, error, trace: _log.error("the vault failed", exc_info=(kind, error, trace))
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)


def run(settings: VaultSettings, ready: Callable[[Confinement], None]) -> None:
    """Confine this process, open the folder, tell that the vault is ready, and serve."""
    os.umask(0o077)
    hide_memory()
    folder = Path(settings.folder).resolve()
    temporary = folder / "tmp"
    temporary.mkdir(mode=0o700, exist_ok=True)
    os.environ["TMPDIR"] = str(temporary)
    log = logging.handlers.RotatingFileHandler(folder / LOG_FILE, maxBytes=2**20, backupCount=1, encoding="utf-8")
    log.setFormatter(VaultFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[log])
    _keep_words_here()
    confinement = confine(vault_sandbox(folder, _keys_of(folder).resolve()))

    from dpcape.site.folder import SiteFolder
    from dpcape.site.foreign.workers import Workers
    from dpcape.site.vault.jobs import OpenJobs

    place = SiteFolder(folder)
    # The self-test tries to change its mode.
    (place.keys / SELF_TEST_FILE).unlink(missing_ok=True)
    (place.keys / SELF_TEST_FILE).write_bytes(b"")
    coordinator = place.coordinator()
    workers = None if settings.workers is None else Workers(socket.socket(fileno=settings.workers))
    jobs = OpenJobs(place.name, coordinator, place.identity, study_opener(place, settings, workers))
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
