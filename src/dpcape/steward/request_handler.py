"""Handler of one request: checks it, then answers it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING

from dpcape.core.errors import DpcapeError, LedgerRefused
from dpcape.steward import pages
from dpcape.steward import request_checks as checks
from dpcape.steward.forms import read_fields, read_files
from dpcape.steward.request_checks import FILES, FORM, RefusedRequest
from dpcape.steward.routes import Answer, no_such_page

if TYPE_CHECKING:
    from dpcape.steward.server import StewardServer

HEADERS = {
    # No scripts; only the stylesheet and the icon are loaded; no page may frame this one.
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": under it browsers send forms with "Origin: null", and their origin could not be checked.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_STATIC = {"/style.css": (pages.style, "text/css"), "/icon.svg": (pages.icon, "image/svg+xml")}
_HTML = "text/html"
_MOST_DRAINED = 2**20


class StewardRequest(BaseHTTPRequestHandler):
    """Answers one request and closes the connection (HTTP/1.0), so that no request hides behind another."""

    server: StewardServer
    # Seconds for one read; the server limits the time of a whole request.
    timeout = 20
    _unread = False

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._unread = True
        self._answer(self._post)

    def _get(self) -> Answer | None:
        self.server.arrived(self.request)
        checks.check_host(self.headers, self.server.port)
        address, _, query = self.path.partition("?")
        if address in _STATIC:
            content, kind = _STATIC[address]
            self._send(HTTPStatus.OK, content(), kind)
            return None
        if address == "/":
            return Answer(pages.sign_in())
        path = self._inside(address)
        checks.check_navigation(self.headers)
        self._require_session()
        with self.server.desk.lock:
            return self.server.desk.show(path, read_fields(query.encode("utf-8", "surrogateescape")))

    def _post(self) -> Answer | None:
        host = checks.check_host(self.headers, self.server.port)
        checks.check_origin(self.headers, host)
        if self.path == "/":
            return self._enter(read_fields(self._body(FORM)).text("code"))
        path = self._inside(self.path)
        self._require_session()
        if path == "add":
            fields, files = read_files(self._body(FILES), self.headers["Content-Type"])
        else:
            fields, files = read_fields(self._body(FORM)), {}
        if not self.server.door.stamped(self.path, fields.text("stamp")):
            why = "The form was refused because it is not of this session. Nothing was done. Reload the page."
            raise RefusedRequest(HTTPStatus.FORBIDDEN, why)
        with self.server.desk.lock:
            return self.server.desk.act(path, fields, files)

    def _enter(self, code: str) -> Answer | None:
        session = self.server.door.enter(code)
        if session is None:
            self.server.tell("A wrong code was entered on the page.")
            why = "Sign-in failed because the code is wrong or already used. Copy the current code from the terminal."
            return Answer(pages.sign_in(why), HTTPStatus.FORBIDDEN)
        self.server.tell(f"Signed in. The code for the next sign-in is {self.server.door.code}")
        root = f"/{self.server.door.prefix}/"
        cookie = f"{checks.COOKIE}={session}; Path={root}; HttpOnly; SameSite=Strict"
        self._send(HTTPStatus.SEE_OTHER, b"", _HTML, {"Location": root, "Set-Cookie": cookie})
        return None

    def _inside(self, path: str) -> str:
        """Return the part of an address that needs a session."""
        root = f"/{self.server.door.prefix}/"
        if not path.startswith(root):
            raise no_such_page()
        return path.removeprefix(root)

    def _require_session(self) -> None:
        if not self.server.door.admits(checks.presented(self.headers)):
            raise RefusedRequest(HTTPStatus.UNAUTHORIZED, "There is no session, or it has ended. Sign in first.")

    def _body(self, kind: str) -> bytes:
        length = checks.body_length(self.headers, kind)
        body = self.rfile.read(length)
        self._unread = False
        self.server.arrived(self.request)
        if len(body) != length:
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, "The form was refused because part is missing. Send it again.")
        return body

    def _answer(self, answered: Callable[[], Answer | None]) -> None:
        try:
            answer = answered()
        except RefusedRequest as error:
            answer = Answer(pages.refused_outside(str(error)), error.status)
        except DpcapeError as error:
            page = self.server.desk.pages.refused(str(error), ledger_refuses=isinstance(error, LedgerRefused))
            answer = Answer(page, pages.status_of(error))
        except (ConnectionError, TimeoutError):
            # The browser closed the connection.
            raise
        except Exception as error:
            self.server.tell(f"The page failed at {self.command}: {type(error).__name__}: {error}")
            sentence = "The page failed; the terminal shows the error. Check the ledger before you continue."
            answer = Answer(pages.refused_outside(sentence), HTTPStatus.INTERNAL_SERVER_ERROR)
        if answer is not None:
            more = {"Location": answer.location} if answer.location else {}
            self._send(answer.status, answer.body.encode("utf-8"), _HTML, more)

    def _send(self, status: HTTPStatus, body: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        # A malformed request counts as HTTP/0.9, whose responses have no headers; always send headers.
        self.request_version = "HTTP/1.0"
        self.send_response(status)
        headers = {**HEADERS, "Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
        for name, value in {**headers, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        if self._unread:
            # Read part of the refused body; otherwise the client sees a reset connection instead of the response.
            self.connection.settimeout(0.2)
            n_left = _MOST_DRAINED
            with contextlib.suppress(OSError):
                while n_left > 0 and (chunk := self.rfile.read1(2**16)):
                    n_left -= len(chunk)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer what is not HTTP, or a method that is not used here."""
        self.close_connection = True
        sentence = "The request was refused because it neither shows a page nor sends a form. Use a browser."
        self._send(HTTPStatus(code), pages.refused_outside(sentence).encode("utf-8"), _HTML)

    def version_string(self) -> str:
        """Return the server's name without versions."""
        return "dpcape"

    def log_message(self, format: str, *args: object) -> None:
        """Keep no log of requests: their addresses hold a secret."""
