"""An engine's connection to the vault: sends frames and returns replies without interpreting them.

The engine inherits one socket. For each line it makes a pair of stream sockets and passes one end through it; there
is no socket file that others could find.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
import threading

LINE_VARIABLE = "DPCAPE_VAULT_LINE"
# Descriptor of the listening socket through which the engine's own processes connect to each other.
LISTENER_VARIABLE = "DPCAPE_ENGINE_LISTENER"
# A reply is its length, with the highest bit set if the vault closes the line after it, and then the reply.
REPLY_LENGTH_BYTES = 8
LAST_REPLY = 1 << 63
_BUFFER_BYTES = 4 * 2**20
_READ_BYTES = 2**16
_MAX_IDLE = 4


class VaultGone(OSError):
    """The vault does not answer: it ended, or it closed the line."""


class VaultClient:
    """Lines to the vault; used by several threads.

    Parameters
    ----------
    control : socket.socket
        The inherited socket.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []

    @classmethod
    def inherited(cls) -> VaultClient:
        """Return the client of the socket that the supervisor passed on to this engine."""
        number = os.environ.get(LINE_VARIABLE, "")
        if not number.isdigit():
            raise VaultGone("The engine has no line to a vault. Start the site with 'dpcape site serve'.")
        return cls(socket.socket(fileno=os.dup(int(number))))

    def ask(self, frame: bytes) -> bytes:
        """Return the vault's reply to one frame, or raise VaultGone."""
        with self._lock:
            line = self._idle.pop() if self._idle else None
        line = self._opened() if line is None else line
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # A refused header is answered before the body is taken.
                line.sendall(frame)
            prefix, reply = _reply(line)
        except OSError as error:
            line.close()
            raise VaultGone("The vault does not answer.") from error
        self._put_back(line, is_open=not prefix & LAST_REPLY)
        return reply

    def close(self) -> None:
        """Close every line and the inherited socket."""
        with self._lock:
            for line in (*self._idle, self._control):
                line.close()
            self._idle.clear()

    def _opened(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        for side in (ours, theirs):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [theirs.fileno()]))]
        try:
            with self._lock:
                self._control.sendmsg([b"line"], rights)
        except OSError as error:
            ours.close()
            raise VaultGone("The vault does not answer.") from error
        finally:
            theirs.close()
        return ours

    def _put_back(self, line: socket.socket, *, is_open: bool) -> None:
        with self._lock:
            if is_open and len(self._idle) < _MAX_IDLE:
                self._idle.append(line)
                return
        line.close()


def _reply(line: socket.socket) -> tuple[int, bytes]:
    """Return a reply's prefix and the reply; a short one comes whole with the first call."""
    held = b""
    while len(held) < REPLY_LENGTH_BYTES:
        part = line.recv(_READ_BYTES)
        if not part:
            raise ConnectionResetError("the line was closed")
        held += part
    prefix = int.from_bytes(held[:REPLY_LENGTH_BYTES], "big")
    reply = bytearray(prefix & ~LAST_REPLY)
    view, done = memoryview(reply), len(held) - REPLY_LENGTH_BYTES
    if done > len(reply):
        raise ConnectionResetError("more came than the vault announced")
    view[:done] = held[REPLY_LENGTH_BYTES:]
    while done < len(reply):
        received = line.recv_into(view[done:])
        if not received:
            raise ConnectionResetError("the line was closed")
        done += received
    return prefix, bytes(reply)
