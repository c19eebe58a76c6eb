"""The page or decision for each address."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from dpcape.site.folder import SiteFolder
from dpcape.steward import decisions
from dpcape.steward.forms import Fields
from dpcape.steward.pages import Pages
from dpcape.steward.request_checks import RefusedRequest
from dpcape.steward.sign_in import SignIn

_DECISIONS = {"approve": decisions.approve, "deny": decisions.deny, "revoke": decisions.revoke}


@dataclass(frozen=True)
class Answer:
    """Answer to a request: a page, or the address of one."""

    body: str = ""
    status: HTTPStatus = HTTPStatus.OK
    location: str = ""


class Routes:
    """Shows pages and takes decisions for a steward who is signed in.

    Requests are handled one at a time: reviews change the global warning filters.
    """

    def __init__(self, folder: SiteFolder, door: SignIn, tell: Callable[[str], None]) -> None:
        self.lock = threading.Lock()
        self.pages = Pages(folder, prefix=door.prefix, stamp=door.stamp)
        self._folder, self._door, self._tell = folder, door, tell

    def show(self, path: str, query: Fields) -> Answer:
        """Return a page; nothing is changed."""
        match path.split("/"):
            case [""]:
                return Answer(self.pages.overview(self._notice()))
            case ["study", digest]:
                return Answer(self.pages.study(digest, query.text("data"), self._notice()))
            case ["study", digest, "check"]:
                return Answer(self.pages.check(digest, query.text("data")))
            case ["ceilings"]:
                return Answer(self.pages.ceilings(self._notice()))
            case ["ceilings", data]:
                return Answer(self.pages.ceiling_form(data))
            case ["ledger"]:
                before = query.count("before", "the row") if query.text("before") else 0
                return Answer(self.pages.ledger(query.text("data"), before, query.text("releases") == "shown"))
        raise no_such_page()

    def act(self, path: str, fields: Fields, files: Mapping[str, bytes]) -> Answer:
        """Take a decision, and redirect to the page that shows it."""
        match path.split("/"):
            case ["study", digest, verb] if verb in _DECISIONS:
                return self._done(_DECISIONS[verb](self._folder, digest, fields), f"study/{digest}")
            case ["ceilings", data, "look"]:
                return Answer(self.pages.ceiling_change(data, decisions.read_ceiling(fields)))
            case ["ceilings", data, "set"]:
                return self._done(decisions.set_ceiling(self._folder, data, fields), "ceilings")
            case ["add"]:
                return self._go(f"study/{decisions.add_study(self._folder, files)}")
            case ["leave"]:
                self._door.leave()
                self._tell(f"Signed out. Code to sign in again: {self._door.code}")
                return Answer(status=HTTPStatus.SEE_OTHER, location="/")
        raise no_such_page()

    def _done(self, what: str, next_path: str) -> Answer:
        self._tell(what)
        self._door.notice = what
        return self._go(next_path)

    def _go(self, path: str) -> Answer:
        return Answer(status=HTTPStatus.SEE_OTHER, location=f"/{self._door.prefix}/{path}")

    def _notice(self) -> str:
        """Return what was just done, once."""
        notice, self._door.notice = self._door.notice, ""
        return notice


def no_such_page() -> RefusedRequest:
    """Return the refusal of an unknown address."""
    return RefusedRequest(HTTPStatus.NOT_FOUND, "There is no page at this address. Sign in, or go back.")
