"""The studies a vault has open: opened by a signed request, at most a few at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dpcape.core.errors import InvalidMessage, ProtocolError
from dpcape.core.secure_sum.identity import Identity
from dpcape.transport.frames import Ask, Reply
from dpcape.transport.request_handler import JobBinding, RequestHandler

MAX_JOBS = 4

OpenStudy = Callable[[str, str], Callable[[bytes], bytes]]


class OpenJobs:
    """Request handlers by job. Job, study and site are taken only from what the coordinator signed.

    Parameters
    ----------
    site : str
        Name of this site.
    coordinator : bytes
        The pinned public key.
    identity : Identity
        Signs replies.
    open_study : callable
        Takes a study's digest and the name of an allowance that goes on (or an empty text); returns ``Site.answer``,
        or raises.
    """

    def __init__(self, site: str, coordinator: bytes, identity: Identity, open_study: OpenStudy) -> None:
        self._site, self._coordinator, self.identity = site, coordinator, identity
        self._open_study = open_study
        self._lock = threading.Lock()
        self._handlers: dict[str, RequestHandler] = {}

    def handler(self, ask: Ask) -> RequestHandler | None:
        """Return what answers a genuine request; None for a job that is not open here."""
        if ask.site != self._site:
            raise ProtocolError("The request was refused", "it is addressed to another site")
        with self._lock:
            known = self._handlers.get(ask.job)
            if known is not None:
                # Most recently used last.
                self._handlers[ask.job] = self._handlers.pop(ask.job)
                return known
            if ask.kind != "ready":
                return None
            self._make_room()
            post = JobBinding(ask.job, ask.study, self._site, self._coordinator, self.identity)
            opened = RequestHandler(post, lambda: self._open_study(ask.study, ask.allowance))
            self._handlers[ask.job] = opened
            return opened

    def _make_room(self) -> None:
        """Drop refused studies first, then the one that was idle longest; refuse if all are busy."""
        while len(self._handlers) >= MAX_JOBS:
            refused = [job for job, handler in self._handlers.items() if handler.is_refused]
            idle = [job for job, handler in self._handlers.items() if not handler.is_busy]
            if not idle:
                raise InvalidMessage("Studies at a site", f"be at most {MAX_JOBS} at once", "one more")
            del self._handlers[(refused or idle)[0]]


UNKNOWN_JOB = Reply(state="restarted", number=0)
