"""An engine's connection to the vault: sends frames and returns replies without interpreting them.

The engine inherits one socket. For each connection it makes a pair of stream sockets and passes one end through it;
there is no socket file that others could find.
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
# A reply is its length, with the highest bit set if the vault closes the connection after it, and then the reply.
REPLY_LENGTH_BYTES = 8
LAST_REPLY = 1 << 63
_BUFFER_BYTES = 4 * 2**20
_READ_BYTES = 2**16
_MAX_IDLE = 4


class VaultGone(OSError):
    """The vault does not answer: it ended, or it closed the connection."""


class VaultClient:
    """Connections to the vault; used by several threads.

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
            connection = self._idle.pop() if self._idle else None
        connection = self._opened() if connection is None else connection
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                # The vault answers a refused header without reading the body.
                connection.sendall(frame)
            prefix, reply = _reply(connection)
        except OSError as error:
            connection.close()
            raise VaultGone("The vault does not answer.") from error
        with self._lock:
            is_kept = not prefix & LAST_REPLY and len(self._idle) < _MAX_IDLE
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()
        return reply

    def close(self) -> None:
        """Close every connection and the inherited socket."""
        with self._lock:
            for connection in (*self._idle, self._control):
                connection.close()
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


def _reply(connection: socket.socket) -> tuple[int, bytes]:
    """Return a reply's prefix and the reply; a short one comes whole with the first call."""
    received = b""
    while len(received) < REPLY_LENGTH_BYTES:
        chunk = connection.recv(_READ_BYTES)
        if not chunk:
            raise ConnectionResetError("the line was closed")
        received += chunk
    prefix = int.from_bytes(received[:REPLY_LENGTH_BYTES], "big")
    reply = bytearray(prefix & ~LAST_REPLY)
    view, done = memoryview(reply), len(received) - REPLY_LENGTH_BYTES
    if done > len(reply):
        raise ConnectionResetError("more came than the vault announced")
    view[:done] = received[REPLY_LENGTH_BYTES:]
    while done < len(reply):
        n_received = connection.recv_into(view[done:])
        if not n_received:
            raise ConnectionResetError("the line was closed")
        done += n_received
    return prefix, bytes(reply)
