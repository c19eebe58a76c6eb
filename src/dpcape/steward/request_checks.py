"""Checks of a request before it is answered.

A web page can make the steward's browser send requests to this computer, and can point its own name at 127.0.0.1
(DNS rebinding). Both are recognised by headers that the browser sets and a page cannot change.
"""

from __future__ import annotations

from email.message import Message
from http import HTTPStatus

from dpcape.core.errors import DpcapeError

COOKIE = "dpcape-steward"
FORM = "application/x-www-form-urlencoded"
FILES = "multipart/form-data"
# A form is a few short fields; a study and the files it names are a few pages of text, perhaps a mask.
LARGEST_FORM = 2**14
LARGEST_FILES = 2**24


class RefusedRequest(DpcapeError):
    """Raised when a request is not answered with a page; ``status`` is its HTTP status."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


def check_host(headers: Message, port: int) -> str:
    """Return the host a request names; refuse one that is not this server's own name.

    After DNS rebinding this header still holds the foreign name.
    """
    host = _only(headers, "Host")
    if host not in (f"127.0.0.1:{port}", f"localhost:{port}"):
        why = f"The address must be http://127.0.0.1:{port}/; got a different name. Open that address."
        raise RefusedRequest(HTTPStatus.MISDIRECTED_REQUEST, why)
    return host


def check_origin(headers: Message, host: str) -> None:
    """Refuse a form that does not come from a page of this server."""
    if _only(headers, "Origin") != f"http://{host}" or not _fetched_from(headers, ("same-origin", "")):
        why = "The form was refused because it was not sent from this page. Nothing was done. Use the page's own form."
        raise RefusedRequest(HTTPStatus.FORBIDDEN, why)


def check_navigation(headers: Message) -> None:
    """Refuse to show a page that another page asked for: from elsewhere, or from another port of this computer."""
    if not _fetched_from(headers, ("same-origin", "none", "")):
        why = "The page was not shown because another page asked for it. Type the address instead."
        raise RefusedRequest(HTTPStatus.FORBIDDEN, why)


def body_length(headers: Message, kind: str) -> int:
    """Return the length of a form's body; refuse what is not a form of this kind, or too long."""
    if headers.get_all("Transfer-Encoding"):
        raise RefusedRequest(HTTPStatus.NOT_IMPLEMENTED, "A form must not be sent in chunks. Use the page's own form.")
    if headers.get_content_type() != kind or len(headers.get_all("Content-Type", [])) != 1:
        why = f"A form must be sent as {kind}. Use the page's own form."
        raise RefusedRequest(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, why)
    length = _only(headers, "Content-Length")
    if not (length.isascii() and length.isdigit()) or len(length) > 12:
        raise RefusedRequest(HTTPStatus.LENGTH_REQUIRED, "A form must state its length. Use the page's own form.")
    limit = LARGEST_FILES if kind == FILES else LARGEST_FORM
    if int(length) > limit:
        why = f"A form must have at most {limit} bytes; got {length}. Add larger files with: dpcape site review."
        raise RefusedRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
    return int(length)


def presented(headers: Message) -> list[str]:
    """Return the secrets a request presents; another server may have set cookies of the same name."""
    pairs = (pair.strip().partition("=") for line in headers.get_all("Cookie", []) for pair in line.split(";"))
    return [value for name, _, value in pairs if name == COOKIE]


def _fetched_from(headers: Message, allowed: tuple[str, ...]) -> bool:
    """Return whether Sec-Fetch-Site names an allowed origin; older browsers do not send it."""
    return all(value in allowed for value in headers.get_all("Sec-Fetch-Site", [""]))


def _only(headers: Message, name: str) -> str:
    """Return the header's value if there is exactly one, else nothing."""
    values = headers.get_all(name, [])
    return values[0].strip() if len(values) == 1 else ""
