"""The site's desk: takes frames one at a time, in order, from the coordinator alone, and hands them to the Site.

FLARE calls handlers concurrently. One lock and a rising round number make sure that a site works on one request, that
an old request is never served after a newer one, and that a repeated one is not served twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from dpcape._version import __version__
from dpcape.errors import DpcapeError, LedgerRefused, ProtocolError
from dpcape.transport.frames import Ask, Reply, decode_ask, encode_reply
from dpcape.transport.messages import VERSION

_log = logging.getLogger(__name__)

# Errors whose text is made to leave a site. Others may speak of a file at the site: they are reported by kind alone.
_SPEAKABLE = (LedgerRefused, ProtocolError)


@dataclass(frozen=True)
class JobBinding:
    """What a desk serves: one job, one study, one site, one coordinator."""

    job: str
    study: str
    site: str
    coordinator: bytes


class RequestHandler:
    """Answers the frames of one job at one site.

    Parameters
    ----------
    post : JobBinding
        What frames must be addressed to.
    open_site : callable
        Called once, in a thread of its own since reading data takes time: returns ``Site.answer``, or raises because
        the study is not approved here, the ledger is exhausted, or data cannot be read. The coordinator hears "busy"
        meanwhile, and then "ok" or the refusal.
    """

    def __init__(self, post: JobBinding, open_site: Callable[[], Callable[[bytes], bytes]]) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._last = 0
        self._refusal: Reply | None = None
        self._answer: Callable[[bytes], bytes] | None = None
        self._opening = threading.Thread(target=self._open, args=(open_site,), daemon=True)
        self._opening.start()

    def _open(self, open_site: Callable[[], Callable[[bytes], bytes]]) -> None:
        try:
            self._answer = open_site()
        except Exception as error:  # fail closed: the coordinator must hear why, and nothing else
            self._refusal = _refusal(error)

    def wait_until_open(self, seconds: float) -> None:
        """Wait until the study is open or refused."""
        self._opening.join(seconds)

    def handle(self, data: object) -> bytes:
        """Answer one frame; never raises."""
        try:
            ask = decode_ask(data, self._post.coordinator)
            self._check_address(ask)
            reply = self._reply(ask)
        except Exception as error:
            reply = _refusal(error)
        return encode_reply(reply)

    def _check_address(self, ask: Ask) -> None:
        if (ask.job, ask.site) != (self._post.job, self._post.site):
            raise ProtocolError("a request must be addressed to this job and site; got another address.")
        if ask.study != self._post.study:
            raise ProtocolError("a request must be of the study this job was opened for; got another digest.")

    def _reply(self, ask: Ask) -> Reply:
        if self._refusal is not None:
            return self._refusal
        if ask.kind == "ping":
            return Reply(state="ok", number=self._last)
        if self._answer is None:
            return Reply(state="busy", number=ask.number, text="opening the study")
        if ask.kind == "ready":
            return Reply(state="ok", number=0, about=about_here())
        return self._round(ask, self._answer)

    def _round(self, ask: Ask, answer: Callable[[bytes], bytes]) -> Reply:
        if not self._lock.acquire(blocking=False):
            return Reply(state="busy", number=ask.number)
        try:
            if ask.number <= self._last:
                return Reply(state="stale", number=ask.number)
            self._last = ask.number
            return Reply(state="ok", number=ask.number, body=answer(ask.body))
        finally:
            self._lock.release()


def about_here() -> dict[str, str | float]:
    """Tell what both ends compare before a study begins: versions and the clock."""
    return {"dpcape": __version__, "messages": float(VERSION), "clock": time.time()}


def _refusal(error: Exception) -> Reply:
    # The reason stays in the site's own log, which is not streamed.
    _log.error("refused: %s: %s", type(error).__name__, error)
    if isinstance(error, _SPEAKABLE):
        return Reply(state="refused", number=0, error=type(error).__name__, text=str(error))
    kind = type(error).__name__ if isinstance(error, DpcapeError) else "ProtocolError"
    return Reply(state="refused", number=0, error=kind, text=f"the site stopped at {kind}; its own log says why.")
