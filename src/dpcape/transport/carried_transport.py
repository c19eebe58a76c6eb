"""The coordinator's line to the sites of one FLARE job, as a Transport.

A push message per site and round, each in its own thread; while some are pending, they are pinged. A site whose
process is gone is known within seconds; a site that is only slow is awaited until the deadline.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpcape.errors import SiteLost, TransportError, error_named
from dpcape.secure_sum import Identity
from dpcape.transport.carrier import Carrier, Delivery
from dpcape.transport.delivery_status import DeliveryStatus
from dpcape.transport.frames import Ask, Kind, Reply, decode_reply, signed
from dpcape.transport.timing import Timing
from dpcape.transport.transport import Transport


@dataclass(frozen=True)
class Call:
    """What the frames of one job have in common."""

    job: str
    study: str
    identity: Identity


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
        Told about everything that happens.
    timing : Timing
        The tested preset.
    is_cancelled : callable
        Tells whether the run was cancelled; looked at several times a second.
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
    ) -> None:
        self._sites = tuple(sorted(sites))
        self._carrier, self._call, self._status, self._timing = carrier, call, status, timing
        self._is_cancelled = is_cancelled
        self._number = 0
        self._lost: set[str] = set()

    @property
    def sites(self) -> tuple[str, ...]:
        return self._sites

    def gather(self) -> dict[str, dict[str, str | float]]:
        """Wait until every site is ready; return what each says about itself.

        FLARE starts sites' processes in their own time, and a site reads its data first, so a site is asked again until
        it is ready. A site that refuses ends the wait at once, in its own words; sites that stay silent are named.
        """
        about: dict[str, dict[str, str | float]] = {}
        heard = dict.fromkeys(self._sites, time.monotonic())
        while True:
            waiting = tuple(site for site in self._sites if site not in about)
            for site, reply in self._call_on(waiting).items():
                heard[site] = time.monotonic()
                if reply.state == "ok":
                    about[site] = {**reply.about, "heard": time.time()}
                self._status.site(site, "ready" if reply.state == "ok" else "opening", event=reply.state == "ok")
            if len(about) == len(self._sites):
                return about
            self._check_cancelled()
            self._require_heard({site: heard[site] for site in waiting if site not in about})
            time.sleep(self._timing.retry)

    def _call_on(self, sites: tuple[str, ...]) -> dict[str, Reply]:
        """Ask sites once whether they are ready; return the replies of those that answered."""
        arrivals: queue.Queue[tuple[str, Delivery]] = queue.Queue()
        self._send(sites, "ready", dict.fromkeys(sites, b""), self._timing.ready, arrivals)
        answered = dict(arrivals.get() for _ in sites)
        return {
            site: self._accept(site, decode_reply(delivery.data))
            for site, delivery in sorted(answered.items())
            if delivery.code == "ok"
        }

    def _require_heard(self, heard: Mapping[str, float]) -> None:
        silent = sorted(site for site, since in heard.items() if time.monotonic() - since > self._timing.start)
        if silent:
            for site in silent:
                self._status.site(site, "lost", "was never ready")
            raise SiteLost(
                f"every site must be ready within {self._timing.start:g} s; got nothing from {', '.join(silent)}. "
                "Start them with 'dpcape site serve', or leave them out of the study. Nothing was charged."
            )

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        begun = time.monotonic()
        self._number += 1
        present = tuple(site for site in messages_by_site if site not in self._lost)
        self._status.begin_round(self._number, present)
        arrivals: queue.Queue[tuple[str, Delivery]] = queue.Queue()
        seconds = self._timing.round if deadline is None else deadline
        self._send(present, "round", messages_by_site, seconds, arrivals)
        replies = self._collect(set(present), arrivals, seconds)
        self._status.end_round(time.monotonic() - begun)
        return replies, tuple(site for site in messages_by_site if site not in replies)

    def _collect(
        self, pending: set[str], arrivals: queue.Queue[tuple[str, Delivery]], seconds: float
    ) -> dict[str, bytes]:
        """Take replies until nobody is pending; ping meanwhile; at the deadline do without the rest."""
        replies: dict[str, bytes] = {}
        watch = _Watch(self._timing, seconds)
        while pending:
            self._check_cancelled()
            try:
                site, delivery = arrivals.get(timeout=watch.patience())
            except queue.Empty:
                self._look_after(pending, watch)
                continue
            if site in pending:
                pending.discard(site)
                self._take(site, delivery, replies)
        return replies

    def _take(self, site: str, delivery: Delivery, replies: dict[str, bytes]) -> None:
        if delivery.code != "ok":
            self._lose(site, f"no answer: {delivery.code}", for_good=delivery.code == "unreachable")
            return
        reply = self._accept(site, decode_reply(delivery.data))
        if reply.state != "ok" or reply.number != self._number:
            self._lose(site, f"did not take the request: {reply.state}", for_good=False)
            return
        replies[site] = reply.body
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

    def _pings(self, pending: set[str], watch: _Watch) -> dict[str, Delivery]:
        """Ping pending sites once per interval; return the answers that have come in since."""
        if watch.is_ping_due():
            sites = tuple(sorted(pending))
            self._send(sites, "ping", dict.fromkeys(sites, b""), self._timing.ping_timeout, watch.pongs)
        answers: dict[str, Delivery] = {}
        while not watch.pongs.empty():
            site, delivery = watch.pongs.get()
            answers[site] = delivery
        return answers

    def _send(
        self,
        sites: tuple[str, ...],
        kind: Kind,
        bodies: Mapping[str, bytes],
        timeout: float,
        arrivals: queue.Queue[tuple[str, Delivery]],
    ) -> None:
        number = self._number if kind == "round" else 0

        def carry(site: str, data: bytes) -> None:
            arrivals.put((site, self._carrier.carry(site, kind, data, timeout)))

        for site in sites:
            ask = Ask(
                kind=kind, job=self._call.job, study=self._call.study, site=site, number=number, body=bodies[site]
            )
            # Daemon threads: one that waits for a dead site must not keep the finished job alive.
            threading.Thread(target=carry, args=(site, signed(ask, self._call.identity)), daemon=True).start()

    def _accept(self, site: str, reply: Reply) -> Reply:
        """Raise a site's refusal under its name."""
        if reply.state == "refused":
            self._status.site(site, "refused", reply.text)
            raise error_named(reply.error)(f"{site}: {reply.text}")
        return reply

    def _lose(self, site: str, why: str, *, for_good: bool) -> None:
        # A site restarted in mid-job does not rejoin the job (it takes part in the next one).
        if for_good:
            self._lost.add(site)
        self._status.site(site, "lost" if for_good else "late", why)

    def _check_cancelled(self) -> None:
        if self._is_cancelled():
            raise TransportError("a run must not be cancelled to give a result; got a cancellation.")


class _Watch:
    """Clocks of one round: its deadline, the next ping, and how long each site has been silent."""

    def __init__(self, timing: Timing, seconds: float) -> None:
        self._timing = timing
        now = time.monotonic()
        self._end, self._next_ping = now + seconds, now + timing.ping
        self._silent: dict[str, int] = {}
        self.pongs: queue.Queue[tuple[str, Delivery]] = queue.Queue()

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

    def gone(self, answers: Mapping[str, Delivery], pending: set[str]) -> list[str]:
        """Return pending sites that are unreachable, or were silent for too many pings in a row."""
        for site, delivery in answers.items():
            self._silent[site] = 0 if delivery.code == "ok" else self._silent.get(site, 0) + 1
        unreachable = {site for site, delivery in answers.items() if delivery.code == "unreachable"}
        silent = {site for site, count in self._silent.items() if count >= self._timing.silent_pings}
        return sorted((unreachable | silent) & pending)
