"""What is known of a running study: who is awaited, who failed and why, and a log of events for scripts."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

MAX_EVENTS = 10_000


class SiteState(msgspec.Struct):
    """One site as the coordinator sees it."""

    state: str = "awaited"
    since: float = 0.0
    note: str = ""


class Snapshot(msgspec.Struct):
    """State of the study at one time, as sent to the submitter of the run."""

    phase: str
    round: int
    release: int
    n_releases: int
    sites: dict[str, SiteState]
    events: list[dict[str, Any]]
    cursor: int


class DeliveryStatus:
    """Thread-safe record of a run; every change is also an event, one JSON object per line of the log.

    Parameters
    ----------
    sites : tuple of str
        Names of the sites.
    log : Path or None
        File that events are appended to, or None.
    """

    def __init__(self, sites: tuple[str, ...], log: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._phase, self._round, self._release, self._n_releases = "starting", 0, 0, 0
        self._sites = {site: SiteState(since=time.time()) for site in sites}
        self._events: list[dict[str, Any]] = []
        self._seconds: list[float] = []
        self._log = log

    def phase(self, phase: str, **details: Any) -> None:
        """Enter a phase: gathering, formed, computed or failed."""
        with self._lock:
            self._phase = phase
            self._event(phase, **details)

    def begin_round(self, number: int, sites: tuple[str, ...]) -> None:
        """Note that these sites are awaited. Rounds are frequent, so they are no events."""
        now = time.time()
        with self._lock:
            self._round = number
            for site in sites:
                self._sites[site] = SiteState("working", now)

    def end_round(self, seconds: float) -> None:
        """Note how long a round took."""
        with self._lock:
            self._seconds.append(seconds)

    def speed(self) -> dict[str, float]:
        """Return how many rounds there were, and the median and 95 % point of their milliseconds."""
        with self._lock:
            ordered = sorted(self._seconds)
        if not ordered:
            return {"rounds": 0}
        at = {"median_ms": 0.5, "p95_ms": 0.95}
        points = {name: round(1000 * ordered[int(share * (len(ordered) - 1))], 2) for name, share in at.items()}
        return {"rounds": len(ordered), **points}

    def site(self, name: str, state: str, note: str = "", *, event: bool = True) -> None:
        """Note a site's state."""
        with self._lock:
            self._sites[name] = SiteState(state, time.time(), note)
            if event:
                self._event(state, site=name, **({"note": note} if note else {}))

    def release(self, number: int, n_releases: int, **details: Any) -> None:
        """Note a finished release."""
        with self._lock:
            self._release, self._n_releases = number, n_releases
            self._event("release", number=number, of=n_releases, round=self._round, **details)

    def snapshot(self, after: int = 0) -> dict[str, Any]:
        """Return the state as plain values, with the events after number ``after``."""
        with self._lock:
            snapshot = Snapshot(
                phase=self._phase,
                round=self._round,
                release=self._release,
                n_releases=self._n_releases,
                sites=self._sites,
                events=self._events[max(0, after) :],
                cursor=len(self._events),
            )
            plain: dict[str, Any] = msgspec.to_builtins(snapshot)
            return plain

    def _event(self, name: str, **details: Any) -> None:
        entry = {"time": round(time.time(), 3), "event": name, **details}
        if len(self._events) < MAX_EVENTS:
            self._events.append(entry)
        if self._log is not None:
            with self._log.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(entry) + "\n")
