"""The server of the steward's page: on this computer only, until it is stopped or idle."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from dpcape.core.errors import Failed, InvalidParameter
from dpcape.site.folder import SiteFolder
from dpcape.site.page_port import forget_page, note_page
from dpcape.steward.request_handler import StewardRequest
from dpcape.steward.routes import Routes
from dpcape.steward.sign_in import SignIn

# Not a parameter: the page is served only on this computer.
LOOPBACK = "127.0.0.1"
MOST_CONNECTIONS = 64
LONGEST_ARRIVAL = 60.0


class StewardServer(ThreadingHTTPServer):
    """Serves the steward's page of one site folder on 127.0.0.1.

    Parameters
    ----------
    folder : SiteFolder
        The site's folder.
    port : int
        Port to listen on; 0 for any free one.
    idle_seconds : float
        Time without a request of the steward after which the server ends.
    tell : callable
        Function called with each line for the terminal, including sign-in codes.

    Edge cases
    ----------
    =========================================  ==================================================
    many or slow connections of other users    bounded in number and time; they see nothing
    Ctrl-C while a decision is being written   the decision is finished, then the server ends
    the ledger refuses                         every page says so, and nothing can be decided
    a port that the site's engine may use      refused: the engine could reach the page
    =========================================  ==================================================
    """

    daemon_threads = True
    allow_reuse_port = False
    request_queue_size = MOST_CONNECTIONS
    timeout = 0.5

    def __init__(
        self,
        folder: SiteFolder,
        *,
        port: int = 0,
        idle_seconds: float = 1800.0,
        tell: Callable[[str], None] = print,
    ) -> None:
        self.tell, self.door = tell, SignIn()
        self.desk = Routes(folder, self.door, tell)
        self._idle_seconds = idle_seconds
        self._stopped = threading.Event()
        self._arriving: dict[socket.socket, float] = {}
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        subject, remedy = "The page's port", "Leave out --port to use any."
        if port and port == folder.engine_port():
            must = "not be the federation's, which the site's engine may connect to"
            raise InvalidParameter(subject, must, port, remedy)
        self._folder = folder.path
        try:
            super().__init__((LOOPBACK, port), StewardRequest)
        except OSError as error:
            raise InvalidParameter(subject, "be free", f"{port} ({type(error).__name__})", remedy) from error
        if self.port == folder.engine_port():
            self.server_close()
            raise Failed("The system offered the federation's port for the page", remedy="Start it again.")
        note_page(self._folder, self.port)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """The address to type into the browser."""
        return f"http://{LOOPBACK}:{self.port}/"

    def server_bind(self) -> None:
        """Listen, without asking the network for this computer's name as the parent does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = LOOPBACK, self.port

    def run(self) -> bool:
        """Serve until stopped or idle; return whether it was idle."""
        try:
            while not self._stopped.is_set() and self.door.idle() < self._idle_seconds:
                self.handle_request()
                self._drop_late()
        finally:
            # Wait until a decision that is being written is complete.
            with self.desk.lock:
                forget_page(self._folder, self.port)
                self.server_close()
        return not self._stopped.is_set()

    def stop(self) -> None:
        """End :meth:`run` from another thread or a signal."""
        self._stopped.set()

    def arrived(self, connection: Any) -> None:
        """Note that a request has arrived completely; from now on its time is not limited."""
        self._arriving.pop(connection, None)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; if there are too many, drop connections whose request has not arrived."""
        if not self._room.acquire(blocking=False):
            self._drop_late(0.0)
            if not self._room.acquire(timeout=2.0):
                self.shutdown_request(request)
                return
        self._arriving[request] = time.monotonic()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.arrived(request)
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report failures, except broken connections, which browsers cause all the time."""
        error = sys.exception()
        if not isinstance(error, OSError):
            self.tell(f"The page failed: {type(error).__name__}.")

    def _drop_late(self, longest: float | None = None) -> None:
        """Give up connections whose request does not arrive; their threads wake and close them."""
        limit = time.monotonic() - (LONGEST_ARRIVAL if longest is None else longest)
        for connection, since in list(self._arriving.items()):
            if since <= limit:
                self._arriving.pop(connection, None)
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
