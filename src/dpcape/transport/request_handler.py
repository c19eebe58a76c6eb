"""Handler of the requests of one job at a site: one at a time, in order, only from the coordinator.

Engines call handlers concurrently. One lock and a rising round number make sure that a site works on one request, that
an old request is never served after a newer one, and that a repeated one is not served twice.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from dpcape.core._version import __version__
from dpcape.core.errors import LedgerRefused, ProtocolError
from dpcape.core.messages import VERSION
from dpcape.core.plain_text import one_line
from dpcape.core.secure_sum.identity import Identity
from dpcape.transport.frames import Ask, Reply, decode_ask, request_digest, signed_reply, split, unsigned_reply

_log = logging.getLogger(__name__)

# Errors whose text may leave a site. Others may name a file at the site, so only their class is reported.
_SPEAKABLE = (LedgerRefused, ProtocolError)


@dataclass(frozen=True)
class JobBinding:
    """What a request must be addressed to: job, study, site and coordinator; and the identity that signs replies."""

    job: str
    study: str
    site: str
    coordinator: bytes
    identity: Identity


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
        self._session = secrets.token_hex(16)
        self._opening = threading.Thread(target=self._open, args=(open_site,), daemon=True)
        self._opening.start()

    def _open(self, open_site: Callable[[], Callable[[bytes], bytes]]) -> None:
        try:
            self._answer = open_site()
        except Exception as error:  # fail closed: the coordinator must hear why, and nothing else
            self._refusal = refusal_of(error)

    @property
    def is_refused(self) -> bool:
        """Whether the study was not opened here."""
        return self._refusal is not None

    @property
    def is_busy(self) -> bool:
        """Whether the study is being opened or a round computed."""
        return self._opening.is_alive() or self._lock.locked()

    def wait_until_open(self, seconds: float) -> None:
        """Wait until the study is open or refused."""
        self._opening.join(seconds)

    def handle(self, data: object) -> bytes:
        """Answer one frame that is in memory; never raises."""
        try:
            head, _ = split(data)
            ask, body = decode_ask(data, self._post.coordinator)
        except Exception as error:
            # Unsigned: otherwise a compromised engine could obtain signed refusals that end the study for everyone.
            return unsigned_reply(refusal_of(error))
        early = self.before_body(ask)
        return self.sealed(head, ask, *(self.answer(ask, body) if early is None else (early, b"")))

    def before_body(self, ask: Ask) -> Reply | None:
        """Return the reply to a genuine header whose body need not be read, else None."""
        try:
            self._check_address(ask)
        except ProtocolError as error:
            return refusal_of(error)
        if self._refusal is not None:
            return self._refusal
        if ask.kind == "ping":
            return Reply(state="ok", number=self._last)
        if self._answer is None:
            return Reply(state="busy", number=ask.number, text="opening the study")
        if ask.kind == "ready":
            return Reply(state="ok", number=0, about={**about_here(), "session": self._session})
        if ask.session != self._session:
            return Reply(state="restarted", number=ask.number)
        if ask.number <= self._last:
            return Reply(state="stale", number=ask.number)
        return Reply(state="busy", number=ask.number) if self._lock.locked() else None

    def answer(self, ask: Ask, body: bytes) -> tuple[Reply, bytes]:
        """Return (header, body) of the reply to a round; ``before_body`` has let the request through."""
        if self._answer is None or not self._lock.acquire(blocking=False):
            return Reply(state="busy", number=ask.number), b""
        try:
            if ask.number <= self._last:
                return Reply(state="stale", number=ask.number), b""
            self._last = ask.number
            return Reply(state="ok", number=ask.number), self._answer(body)
        except Exception as error:
            return refusal_of(error), b""
        finally:
            self._lock.release()

    def sealed(self, head: bytes, ask: Ask, reply: Reply, body: bytes = b"") -> bytes:
        """Return a reply's frame: signed by the site, bound to the job and to the request it answers."""
        return sealed(self._post.identity, head, ask, reply, body)

    def _check_address(self, ask: Ask) -> None:
        why = ""
        if (ask.job, ask.site) != (self._post.job, self._post.site):
            why = "it is addressed to a different job or site"
        elif ask.study != self._post.study:
            why = "its study is not the one this job was opened for"
        if why:
            raise ProtocolError("The request was refused", why, "Start a new run.")


def sealed(identity: Identity, head: bytes, ask: Ask, reply: Reply, body: bytes = b"") -> bytes:
    """Return the frame of a reply to the request with this header, signed with a site's identity."""
    bound: Reply = msgspec.structs.replace(reply, job=ask.job, request=request_digest(head))
    return signed_reply(bound, identity, body)


def about_here() -> dict[str, str | float]:
    """Return what both ends compare before a study begins: versions and the clock."""
    return {"dpcape": __version__, "messages": float(VERSION), "clock": time.time()}


def refusal_of(error: Exception) -> Reply:
    """Return the reply that reports an error, in words that hold nothing about records."""
    # The reason stays in the site's own log, which is not streamed.
    _log.error("refused: %s: %s", type(error).__name__, one_line(str(error)))
    if isinstance(error, _SPEAKABLE):
        return Reply(state="refused", number=0, error=type(error).__name__, text=one_line(str(error)))
    # Not even its class: which error a file raises may depend on a record.
    return Reply(state="refused", number=0, error="ProtocolError", text="the site stopped; its own log says why.")
