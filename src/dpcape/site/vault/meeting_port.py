"""The port of loopback on which an engine's own processes find each other: one for as long as a site is served.

Landlock knows ports, not hosts, so the engine may connect to this port of every machine. With a new one at each start,
an engine that ends itself again and again would come to reach every port there is.
"""

from __future__ import annotations

import socket

_LOOPBACK = "127.0.0.1"


class MeetingPort:
    """Keeps a port for itself, and opens a new listening socket on it for each engine.

    The socket itself is not kept: an engine could shut it down, or leave connections in it for the engine after it.
    """

    def __init__(self) -> None:
        self._reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        # Bound and never listening: with this option on both, another socket may listen on the port, and the kernel
        # gives it to no connection.
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((_LOOPBACK, 0))

    @property
    def number(self) -> int:
        """The port."""
        return int(self._reserved.getsockname()[1])

    def listener(self) -> socket.socket:
        """Return a new socket that listens on the port; none from before may be open any more."""
        return socket.create_server((_LOOPBACK, self.number))

    def close(self) -> None:
        """Give the port back."""
        self._reserved.close()
