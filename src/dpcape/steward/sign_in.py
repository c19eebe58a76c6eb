"""Sign-in of the steward: a one-time code from the terminal, exchanged for a session cookie."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Iterable

# Letters and digits that are not easily confused.
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_GROUPS, _GROUP = 6, 4
LONGEST_SESSION = 8 * 3600.0


class SignIn:
    """Sign-in with one-time codes, one session at a time, and stamps that only the session's forms carry.

    Parameters
    ----------
    clock : callable
        Monotonic clock, in seconds.

    Attributes
    ----------
    prefix : str
        First part of every address that needs a session. The cookie is sent only below it: cookies do not distinguish
        ports, so otherwise another server on this computer could receive the cookie.

    Edge cases
    ----------
    ==================================  ===========================================
    a code is used                      it is void; :attr:`code` is a new one
    a second sign-in                    ends the first session
    eight hours after the sign-in       the session ends
    ==================================  ===========================================
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.prefix = secrets.token_urlsafe(18)
        self._clock = clock
        self._lock = threading.Lock()
        self._code = _new_code()
        self._session = ""
        self._key = b""
        self._entered = self._active = clock()
        self.notice = ""

    @property
    def code(self) -> str:
        """The code to sign in with, in groups."""
        return "-".join(self._code[start : start + _GROUP] for start in range(0, len(self._code), _GROUP))

    def enter(self, typed: str) -> str | None:
        """Exchange the code for a session; return the session's secret, or None if the code is wrong."""
        letters = "".join(letter for letter in typed.lower() if letter.isalnum())
        with self._lock:
            if not _same(letters, self._code):
                return None
            self._code = _new_code()
            self._session, self._key = secrets.token_urlsafe(32), secrets.token_bytes(32)
            self._entered = self._active = self._clock()
            self.notice = ""
            return self._session

    def admits(self, presented: Iterable[str]) -> bool:
        """Return whether one of the presented secrets is the session's; if so, record activity."""
        with self._lock:
            now = self._clock()
            if now - self._entered > LONGEST_SESSION:
                self._session = ""
            if not self._session or not any([_same(secret, self._session) for secret in presented]):
                return False
            self._active = now
            return True

    def leave(self) -> None:
        """End the session."""
        with self._lock:
            self._session, self._key = "", secrets.token_bytes(32)

    def stamp(self, action: str) -> str:
        """Return what a form of this session must carry to be sent to ``action``, and to nothing else."""
        return hmac.new(self._key, action.encode("utf-8"), hashlib.sha256).hexdigest()

    def stamped(self, action: str, carried: str) -> bool:
        """Return whether a form was created in this session for this action."""
        return bool(self._key) and _same(carried, self.stamp(action))

    def idle(self) -> float:
        """Return the seconds since the steward's last request; requests of others do not count."""
        with self._lock:
            return self._clock() - self._active


def _new_code() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(_GROUPS * _GROUP))


def _same(presented: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(presented.encode("utf-8", "surrogateescape"), expected.encode("utf-8"))
