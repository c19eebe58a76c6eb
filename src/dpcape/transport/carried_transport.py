"""The coordinator's connection to the sites of one FLARE job, as a Transport.

A push message per site and round, each carried by a thread; while some are pending, they are pinged. A site whose
process is gone is known within seconds; a site that is only slow is awaited until the deadline.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from dpcape.core.errors import ProtocolError, SiteLost, TransportError, error_named
from dpcape.core.plain_text import one_line
from dpcape.core.secure_sum.identity import Identity
from dpcape.transport.carrier import Carrier, Delivery
from dpcape.transport.delivery_status import DeliveryStatus
from dpcape.transport.frames import Ask, Kind, Reply, decode_reply, request_digest, signed, split
from dpcape.transport.timing import Timing
from dpcape.transport.transport import Transport


@dataclass(frozen=True)
class Call:
    """What the frames of one job have in common: job, study, the coordinator's key, and the sites' public keys.

    ``allowance`` names one that an earlier job opened and that this job continues.
    """

    job: str
    study: str
    identity: Identity
    sites: Mapping[str, bytes]
    allowance: str = ""


@dataclass(frozen=True)
class Arrival:
    """What became of one request: the engine's code and, if the site signed a reply to it, the reply."""

    code: str
    reply: Reply | None = None
    body: bytes = b""


class CarriedTransport(Transport):
    """Sites of one FLARE job.

    Parameters
    ----------
    sites : tuple of str
        Names of the sites.
    carrier : Carrier
        Push messages, or tasks.
    call : Call
        Job, study digest and the coordinator's identity.
    status : DeliveryStatus
        Receives every change of a site's state.
    timing : Timing
        The tested preset.
    is_cancelled : callable
        Returns whether the run was cancelled; called several times a second.
    dealer : str or None
        Name of the noise dealer, a participant besides the sites.
    """

    def __init__(
        self,
        sites: tuple[str, ...],
        carrier: Carrier,
        *,
        call: Call,
        status: DeliveryStatus,
        timing: Timing,
        is_cancelled: Callable[[], bool] = lambda: False,
        dealer: str | None = None,
    ) -> None:
        self._sites = tuple(sorted(sites))
        self._dealer = dealer
        self._carrier, self._call, self._status, self._timing = carrier, call, status, timing
        self._is_cancelled = is_cancelled
        self._number = 0
        self._lost: set[str] = set()
        self._sessions: dict[str, str] = {}
        self._couriers = _Couriers()

    @property
    def sites(self) -> tuple[str, ...]:
        return self._sites

    @property
    def dealer(self) -> str | None:
        return self._dealer

    @property
    def _everybody(self) -> tuple[str, ...]:
        return self._sites if self._dealer is None else (*self._sites, self._dealer)

    def gather(self, minimum: int | None = None) -> dict[str, dict[str, str | float]]:
        """Wait until every site, and the noise dealer, is ready; return what each says about itself.

        FLARE starts sites' processes in their own time, and a site reads its data first, so a site is asked again until
        it is ready. A site that refuses ends the wait at once, in its own words. A site that stays silent is left out
        if at least ``minimum`` sites (all, if None) are ready without it; otherwise the silent ones are named.
        """
        about: dict[str, dict[str, str | float]] = {}
        heard = dict.fromkeys(self._everybody, time.monotonic())
        while True:
            waiting = tuple(site for site in self._everybody if site not in about)
            for site, reply in self._call_on(waiting).items():
                heard[site] = time.monotonic()
                if reply.state == "ok":
                    self._sessions[site] = str(reply.about.get("session", ""))
                    about[site] = {**reply.about, "heard": time.time()}
                self._status.site(site, "ready" if reply.state == "ok" else "opening", event=reply.state == "ok")
            if len(about) == len(self._everybody):
                return about
            self._check_cancelled()
            self._leave_out({site: heard[site] for site in waiting if site not in about}, minimum)
            time.sleep(self._timing.retry)

    def _call_on(self, sites: tuple[str, ...]) -> dict[str, Reply]:
        """Ask sites once whether they are ready; return the replies of those that answered."""
        arrivals: queue.Queue[tuple[str, Arrival]] = queue.Queue()
        self._send(sites, "ready", dict.fromkeys(sites, b""), self._timing.ready, arrivals)
        answered = dict(arrivals.get() for _ in sites)
        return {
            site: self._accept(site, arrival.reply)
            for site, arrival in sorted(answered.items())
            if arrival.reply is not None
        }

    def _leave_out(self, heard: Mapping[str, float], minimum: int | None) -> None:
        """Drop sites that were silent for too long; end the study if too few remain."""
        silent = sorted(site for site, since in heard.items() if time.monotonic() - since > self._timing.start)
        if not silent:
            return
        for site in silent:
            self._status.site(site, "lost", "was never ready")
        remaining = tuple(site for site in self._sites if site not in silent)
        needed = len(self._sites) if minimum is None else minimum
        if len(remaining) < needed or self._dealer in silent:
            others = " and the noise dealer" if self._dealer else ""
            raise SiteLost(
                "The study did not start",
                f"{', '.join(silent)} gave no answer within {self._timing.start:g} s and {needed} sites{others} must "
                "take part",
                "Start them with 'dpcape site serve', or leave them out of the study. Nothing was charged.",
            )
        self._sites = remaining

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        begun = time.monotonic()
        self._number += 1
        present = tuple(site for site in messages_by_site if site not in self._lost)
        self._status.begin_round(self._number, present)
        arrivals: queue.Queue[tuple[str, Arrival]] = queue.Queue()
        seconds = self._timing.round if deadline is None else deadline
        self._send(present, "round", messages_by_site, seconds, arrivals)
        replies = self._collect(set(present), arrivals, seconds)
        self._status.end_round(time.monotonic() - begun)
        return replies, tuple(site for site in messages_by_site if site not in replies)

    def _collect(
        self, pending: set[str], arrivals: queue.Queue[tuple[str, Arrival]], seconds: float
    ) -> dict[str, bytes]:
        """Take replies until nobody is pending; ping meanwhile; at the deadline do without the rest."""
        replies: dict[str, bytes] = {}
        watch = _Watch(self._timing, seconds)
        while pending:
            self._check_cancelled()
            try:
                site, arrival = arrivals.get(timeout=watch.patience())
            except queue.Empty:
                self._look_after(pending, watch)
                continue
            if site in pending:
                pending.discard(site)
                self._take(site, arrival, replies)
        return replies

    def _take(self, site: str, arrival: Arrival, replies: dict[str, bytes]) -> None:
        if arrival.reply is None:
            self._lose(site, _WHY.get(arrival.code, f"no answer: {arrival.code}"), for_good=arrival.code in _FOR_GOOD)
            return
        reply = self._accept(site, arrival.reply)
        if reply.state == "restarted":
            self._lose(site, "it was restarted during the study", for_good=True)
        elif reply.state != "ok" or reply.number != self._number:
            self._lose(site, f"did not take the request: {reply.state}", for_good=False)
        else:
            replies[site] = arrival.body
            self._status.site(site, "answered", event=False)

    def _look_after(self, pending: set[str], watch: _Watch) -> None:
        if watch.is_over():
            for site in sorted(pending):
                self._lose(site, "no answer before the deadline", for_good=False)
            pending.clear()
            return
        if not self._carrier.can_ping:
            return
        for site in watch.gone(self._pings(pending, watch), pending):
            pending.discard(site)
            self._lose(site, "its process or connection is gone", for_good=True)

    def _pings(self, pending: set[str], watch: _Watch) -> dict[str, Arrival]:
        """Ping pending sites once per interval; return the answers that have come in since."""
        if watch.is_ping_due():
            sites = tuple(sorted(pending))
            self._send(sites, "ping", dict.fromkeys(sites, b""), self._timing.ping_timeout, watch.pongs)
        answers = []
        while not watch.pongs.empty():
            answers.append(watch.pongs.get())
        return dict(answers)

    def _send(
        self,
        sites: tuple[str, ...],
        kind: Kind,
        bodies: Mapping[str, bytes],
        timeout: float,
        arrivals: queue.Queue[tuple[str, Arrival]],
    ) -> None:
        number = self._number if kind == "round" else 0

        def carry(site: str) -> None:
            call, session = self._call, self._sessions.get(site, "")
            job, study, allowance = call.job, call.study, call.allowance
            ask = Ask(kind=kind, job=job, study=study, site=site, number=number, session=session, allowance=allowance)
            data = signed(ask, call.identity, bodies[site])
            arrivals.put((site, self._checked(site, data, self._carrier.carry(site, kind, data, timeout))))

        for site in sites:
            self._couriers.send(partial(carry, site))

    def _checked(self, site: str, data: bytes, delivery: Delivery) -> Arrival:
        """Return a reply only if the site signed it, for this job and as the answer to this very request."""
        if delivery.code != "ok":
            return Arrival(delivery.code)
        try:
            reply, body = decode_reply(delivery.data, self._call.sites[site])
        except (ProtocolError, KeyError):
            return Arrival("unsigned")
        if reply.job != self._call.job or reply.request != request_digest(split(data)[0]):
            return Arrival("unsigned")
        return Arrival("ok", reply, body)

    def _accept(self, site: str, reply: Reply) -> Reply:
        """Raise a site's refusal under its name."""
        if reply.state == "refused":
            # The text comes from the site and may contain anything.
            text = one_line(reply.text)
            self._status.site(site, "refused", text)
            raise error_named(reply.error)(text).at(site)
        return reply

    def _lose(self, site: str, why: str, *, for_good: bool) -> None:
        # A site that restarts during a job does not rejoin it; it takes part in the next job.
        if for_good:
            self._lost.add(site)
        self._status.site(site, "lost" if for_good else "late", why)

    def _check_cancelled(self) -> None:
        if self._is_cancelled():
            raise TransportError("The run gave no result", "it was cancelled", "Releases made until then stay charged.")


class _Couriers:
    """Threads that carry requests and are used again: to start one for every request costs more than to wake one.

    One that has had nothing to do for a while ends. Daemon threads: one that waits for a dead site must not keep the
    finished job alive.
    """

    _PATIENCE = 2.0  # seconds

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[Callable[[], None]]] = []

    def send(self, errand: Callable[[], None]) -> None:
        """Have an idle courier, or a new one if all are away, run this errand."""
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), daemon=True).start()
        inbox.put(errand)

    def _serve(self, inbox: queue.SimpleQueue[Callable[[], None]]) -> None:
        while True:
            try:
                errand = inbox.get(timeout=self._PATIENCE)
            except queue.Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:  # An errand is on its way.
                    continue
                return
            errand()
            self._idle.append(inbox)


_FOR_GOOD = {"unreachable", "no vault", "unsigned"}
_WHY = {
    "unreachable": "its process or connection is gone",
    "no vault": "its vault is gone",
    "unsigned": "its reply is not signed with its identity",
}


class _Watch:
    """Clocks of one round: its deadline, the next ping, and how long each site has been silent."""

    def __init__(self, timing: Timing, seconds: float) -> None:
        self._timing = timing
        now = time.monotonic()
        self._end, self._next_ping = now + seconds, now + timing.ping
        self._silent: dict[str, int] = {}
        self.pongs: queue.Queue[tuple[str, Arrival]] = queue.Queue()

    def patience(self) -> float:
        """Seconds to wait for a reply before looking around: short enough to notice cancelling and pongs."""
        return max(0.001, min(self._timing.glance, self._end - time.monotonic()))

    def is_over(self) -> bool:
        return time.monotonic() >= self._end

    def is_ping_due(self) -> bool:
        now = time.monotonic()
        if now < self._next_ping:
            return False
        self._next_ping = now + self._timing.ping
        return True

    def gone(self, answers: Mapping[str, Arrival], pending: set[str]) -> list[str]:
        """Return pending sites that are unreachable, or were silent for too many pings in a row."""
        for site, arrival in answers.items():
            self._silent[site] = 0 if arrival.code == "ok" else self._silent.get(site, 0) + 1
        unreachable = {site for site, arrival in answers.items() if arrival.code in ("unreachable", "no vault")}
        silent = {site for site, count in self._silent.items() if count >= self._timing.silent_pings}
        return sorted((unreachable | silent) & pending)
