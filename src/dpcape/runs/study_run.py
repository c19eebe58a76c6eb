"""One study over one transport: readiness, versions and clocks, the fit, and the files that hold the result."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpcape.core._version import __version__
from dpcape.core.errors import DpcapeError, InvalidMessage
from dpcape.core.messages import VERSION, Describe, Described, decode_from_site, encode
from dpcape.federation.federation import Federation
from dpcape.federation.kept_releases import KeptReleases
from dpcape.guarantee.release_record import ReleaseRecord
from dpcape.runs.charge_watch import ChargeWatch
from dpcape.runs.participants import participants
from dpcape.study.study import Study
from dpcape.transport.carried_transport import CarriedTransport
from dpcape.transport.delivery_status import DeliveryStatus
from dpcape.transport.request_handler import about_here

OUTCOME, HEADS, EVENTS, ENDS = "outcome.json", "heads.json", "events.jsonl", "ends.json"
# Files that a job writes for the run's folder.
RESULTS = ("model.npz", "guarantee.json", "participants.json")
# Certificates and approvals depend on clocks; a larger difference is reported.
MAX_CLOCK_SECONDS = 300.0
# Time-out in seconds of the final request, which nothing depends on.
_PARTING_SECONDS = 10.0


class StudyRun:
    """Run of one study over a transport.

    Parameters
    ----------
    study : Study
        The study to run.
    transport : CarriedTransport
        Transport to the sites.
    status : DeliveryStatus
        Receives every event.
    out : Path
        Folder for the results.
    seen_heads : mapping
        Ledger heads that sites showed before; a site that no longer knows its own is noticed.
    releases : KeptReleases
        Where releases are kept as they arrive; an allowance that is kept there is continued.
    """

    def __init__(
        self,
        study: Study,
        transport: CarriedTransport,
        *,
        status: DeliveryStatus,
        out: Path,
        seen_heads: Mapping[str, tuple[int, str]],
        releases: KeptReleases,
    ) -> None:
        self._study, self._transport, self._status, self._out = study, transport, status, out
        self._charges = ChargeWatch(transport)
        self._seen_heads, self._releases = seen_heads, releases

    def run(self, *, only_check: bool = False) -> str:
        """Run the study and write its results; return why it failed, or an empty text."""
        os.umask(0o077)
        try:
            self._carry_through(only_check)
        except DpcapeError as error:
            return self._fail(error, str(error))
        except Exception as error:
            (self._out / "traceback.txt").write_text(traceback.format_exc(), encoding="utf-8")
            return self._fail(error, f"the coordinator failed with {type(error).__name__}; see its traceback.txt.")
        self._conclude("computed")
        return ""

    def _carry_through(self, only_check: bool) -> None:
        study, status = self._study, self._status
        # Build the estimator while the sites get ready, because it imports large libraries.
        estimator = None if only_check else study.estimator()
        status.phase("gathering", sites=list(self._transport.sites))
        # Readiness checks wait for all sites; a resumed allowance needs its original sites; a new study needs the
        # minimum.
        needs_all = only_check or self._releases.allowance() is not None
        minimum = None if needs_all else study.minimum_sites()
        _write(self._out / ENDS, compared(self._transport.gather(minimum), status))
        federation = Federation(
            self._charges,
            protocol=study.protocol(),
            weights=study.weights or None,
            deadline=study.deadline,
            on_release=self._note,
            seen_heads=self._seen_heads,
            enclosure=study.enclosure,
            accept_large_delta=study.accept_large_delta,
            releases=self._releases,
        )
        status.phase("formed", sites=federation.sites, protocol=repr(study.protocol()))
        if estimator is None:
            return
        model = estimator.fit(federation)
        _write(self._out / "participants.json", participants(federation, model, self._last_heads()))
        (self._out / "guarantee.json").write_text(model.guarantee_.to_json() + "\n", encoding="utf-8")
        model.save(self._out / "model.npz")

    def _note(self, release: ReleaseRecord) -> None:
        self._status.release(
            release.number + 1,
            release.n_releases,
            statistic=release.statistic,
            scale=release.scale,
            survivors=list(release.survivors),
        )

    def _last_heads(self) -> dict[str, tuple[int, str]]:
        """Ask all sites for their descriptions once more, and record the ledger heads after the run."""
        answers, _ = self._transport.ask(dict.fromkeys(self._transport.sites, encode(Describe())), _PARTING_SECONDS)
        replies = {site: decode_from_site(answer)[1] for site, answer in answers.items()}
        described = {site: reply for site, reply in replies.items() if isinstance(reply, Described)}
        heads = {site: (reply.ledger_length, reply.ledger_head) for site, reply in described.items()}
        _write(self._out / HEADS, heads)
        return heads

    def _fail(self, error: Exception, text: str) -> str:
        try:
            if self._charges.may_be_charged:
                self._charges.settle(self._last_heads())
        except DpcapeError:
            # Report the original failure; the next run records the heads.
            pass
        self._conclude("failed", error=type(error).__name__, text=text)
        return text

    def _conclude(self, state: str, **details: Any) -> None:
        speed, sites = self._status.speed(), self._status.snapshot()["sites"]
        outcome = {"state": state, "may_be_charged": self._charges.may_be_charged, **details}
        _write(self._out / OUTCOME, {**outcome, "speed": speed, "sites": sites})
        self._status.phase(state, **details, **speed)


def compared(about: Mapping[str, Mapping[str, str | float]], status: DeliveryStatus) -> dict[str, Any]:
    """Compare versions on both ends and note clocks; other message versions are refused."""
    own = about_here()
    ends: dict[str, Any] = {"coordinator": {"dpcape": __version__, "messages": float(VERSION)}}
    for site, entry in sorted(about.items()):
        if entry.get("messages") != own["messages"]:
            must, remedy = f"speak message version {VERSION}", f"Install dpcape {__version__} there."
            raise InvalidMessage(site, must, str(entry.get("messages")).removesuffix(".0"), remedy)
        apart = abs(float(entry.get("clock", 0.0)) - float(entry["heard"]))
        ends[site] = {"dpcape": entry.get("dpcape"), "messages": entry["messages"], "clock_apart": round(apart, 3)}
        if apart > MAX_CLOCK_SECONDS:
            status.site(site, "ready", f"its clock is {apart:.0f} s away from the coordinator's")
    return ends


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
