"""``dpcape run`` on a federation: submit a study as one job, watch it, end with a decision, fetch the result."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpcape.core.errors import DpcapeError, Failed, InvalidParameter, SiteLost, TransportError, error_named
from dpcape.engines.flare.admin_session import Coordination, opened
from dpcape.engines.flare.job import RELEASES, RESULT_FOLDER, JobSettings, write_job
from dpcape.engines.flare.kits import FederationFolder
from dpcape.runs.folder import RunFolder
from dpcape.runs.study_run import EVENTS, HEADS, OUTCOME, RESULTS
from dpcape.study.study import Study
from dpcape.transport.timing import PRESET

FOLDER_VARIABLE = "DPCAPE_FEDERATION"
_POLL_SECONDS = 0.5
# FLARE takes seconds to start a job's processes and to notice that they ended; longer than this, something is wrong.
_SILENCE_SECONDS = 120.0
_CANCEL_SECONDS = 20.0
_FIELDS = {"engine", "folder", "carrier", "start"}

Listener = Callable[[dict[str, Any]], None]


class _Silent(TransportError):
    """Raised when a job does not respond: its server was killed, or its controller hangs."""


def compute(study: Study, run: RunFolder, *, listen: Listener | None = None) -> None:
    """Run a study on the federation it names and leave the result in the run's folder, which the caller has locked.

    A run whose job was submitted is never submitted twice: after a crash of this process the same job is followed.

    Parameters
    ----------
    study : Study
        With a [federation] table.
    run : RunFolder
        Nothing was charged in it yet, or it is resumed with the releases it has kept.
    listen : Listener or None
        Called several times a second with the state of the run: phase, sites, events.

    Raises
    ------
    DpcapeError
        The error that stopped the study, as the site or the coordinator raised it; the run's log says more.
    """
    settings = job_settings(study, only_check=False)
    with opened(federation_folder(study).admin_kit) as coordination:
        last = [event for event in run.events() if event["event"] in ("submitted", "ended")][-1:]
        if last and last[0]["event"] == "submitted":
            # The job that this run submitted and did not see the end of.
            job = str(last[0]["job"])
        else:
            releases = run.releases.folder if run.is_charged and run.releases.allowance() is not None else None
            job = _submit(coordination, study, settings, run.seen_heads(), listen or _ignore, releases)
            run.log("submitted", job=job)
        try:
            after = _watch(coordination, job, run.log, listen or _ignore)
        except KeyboardInterrupt:
            coordination.cancel(job)
            # The job counts as open until its end is logged, so a crash here does not submit it again.
            if _take_cancelled(coordination, job, run).get("may_be_charged", True):
                run.log("charging", site="any", note="cancelled while it ran")
            run.log("ended", job=job)
            remedy = "The job was stopped; sites already charged stay charged."
            raise TransportError("The run gave no result", "it was cancelled", remedy) from None
        except _Silent:
            # Its progress is unknown. Record this, so that the dead job is not followed again.
            run.log("charging", site="any", note="the job was not heard from any more")
            run.log("ended", job=job)
            raise
        with tempfile.TemporaryDirectory() as folder:
            status, outcome = _conclude(coordination, job, Path(folder))
            path = Path(folder) / EVENTS
            # What happened between the last question and the end of the job.
            lines = path.read_text(encoding="utf-8").splitlines()[after:] if path.is_file() else []
            _keep_events([json.loads(line) for line in lines], run.log)
            _take_over(Path(folder), run, job, status, outcome)


def check_sites(study: Study, out: Path, *, listen: Listener | None = None) -> None:
    """Check that every site of a study is ready; no allowance is opened and nothing is charged."""
    with opened(federation_folder(study).admin_kit) as coordination:
        job = _submit(coordination, study, job_settings(study, only_check=True), {}, listen or _ignore)
        _watch(coordination, job, lambda event, **fields: None, listen or _ignore)
        _require_computed(*_conclude(coordination, job, out))


def _submit(
    coordination: Coordination,
    study: Study,
    settings: JobSettings,
    heads: Mapping[str, tuple[int, str]],
    listen: Listener,
    releases: Path | None = None,
) -> str:
    _await_sites(coordination, study, settings.start, listen)
    with tempfile.TemporaryDirectory() as folder:
        write_job(study, Path(folder) / "job", settings, heads, releases)
        return coordination.submit(Path(folder) / "job")


def _take_over(fetched: Path, run: RunFolder, job: str, status: str, outcome: dict[str, Any]) -> None:
    """Move what a job left into the run's folder, and note its charge and its end.

    A full disk shows before anything is noted: the result is still at the server, and the next run fetches it again.
    """
    _keep_releases(fetched, run)
    results = RESULTS if outcome.get("state") == "computed" else ()
    for name in results:
        shutil.copyfile(fetched / name, run.path / f"{name}.new")
    if outcome.get("may_be_charged", True):
        run.log("charging", site="any")
    for name in reversed(results):
        # The model is moved last: a run with model.npz has all files of its result.
        (run.path / f"{name}.new").replace(run.path / name)
    run.log("ended", job=job, status=status)
    if (fetched / HEADS).is_file():
        run.keep_heads(json.loads((fetched / HEADS).read_text(encoding="utf-8")))
    _require_computed(status, outcome)
    run.log("saved")


def _keep_releases(fetched: Path, run: RunFolder) -> None:
    """Take over the releases that a job left; what the run had before is part of them."""
    fetched_releases, folder = fetched / RELEASES, run.releases.folder
    if not fetched_releases.is_dir():
        return
    draft = folder.with_name(f"{RELEASES}.new")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(fetched_releases, draft)
    shutil.rmtree(folder, ignore_errors=True)
    draft.replace(folder)


def _take_cancelled(coordination: Coordination, job: str, run: RunFolder) -> dict[str, Any]:
    """Fetch the releases of a job that was cancelled, if FLARE gives them within seconds; return its own record."""
    end = time.monotonic() + _CANCEL_SECONDS
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(TransportError, OSError):
        while not coordination.is_over(job) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        _, outcome = _conclude(coordination, job, Path(folder))
        _keep_releases(Path(folder), run)
        return outcome
    return {}


def _require_computed(status: str, outcome: dict[str, Any]) -> None:
    if outcome.get("state") != "computed":
        raise _failure(outcome, status)


def federation_folder(study: Study) -> FederationFolder:
    """Return the coordinator's folder: from the environment, or from the study's [federation] table."""
    stated = (study.federation or {}).get("folder")
    chosen = os.environ.get(FOLDER_VARIABLE) or (None if stated is None else study.folder / str(stated))
    if chosen is None:
        raise Failed(
            "The coordinator's folder is named neither by folder in [federation] nor by the variable "
            f"{FOLDER_VARIABLE}",
            remedy="Make one with 'dpcape federation init'.",
        )
    return FederationFolder(Path(chosen))


def job_settings(study: Study, *, only_check: bool) -> JobSettings:
    """Return how the study's job runs, from its [federation] table."""
    table = dict(study.federation or {})
    unknown = sorted(set(table) - _FIELDS)
    if unknown:
        raise InvalidParameter("fields of [federation]", f"be {', '.join(sorted(_FIELDS))}", repr(unknown[0]))
    carrier, start = table.get("carrier", "push"), table.get("start", PRESET.start)
    if carrier not in ("push", "tasks"):
        raise InvalidParameter("carrier of [federation]", "be 'push' or 'tasks'", repr(carrier))
    if isinstance(start, bool) or not isinstance(start, int | float) or not 1 <= start <= 86400:
        raise InvalidParameter("start of [federation]", "be seconds between 1 and 86400", repr(start))
    return JobSettings(carrier=carrier, only_check=only_check, start=float(start))


def _await_sites(coordination: Coordination, study: Study, seconds: float, listen: Listener) -> None:
    """Wait until every site of the study is connected, or enough of them when the time is over; else name the rest."""
    end = time.monotonic() + seconds
    while True:
        connected = coordination.connected()
        absent = [name for name in study.participants if name not in connected]
        sites = {
            name: {"state": "awaited" if name in absent else "connected", "note": ""} for name in study.participants
        }
        listen({"phase": "connecting", "sites": sites, "round": 0, "release": 0, "n_releases": 0, "events": []})
        if not absent:
            return
        if time.monotonic() > end:
            if len(study.sites) - len(absent) >= study.minimum_sites() and study.dealer not in absent:
                return
            others = f" and {study.dealer}, the noise dealer," if study.dealer else ""
            raise SiteLost(
                "The study was not submitted",
                f"{', '.join(absent)} did not connect within {seconds:g} s and {study.minimum_sites()} sites{others} "
                "must take part",
                "Start them with 'dpcape site serve'. Nothing was charged.",
            )
        time.sleep(_POLL_SECONDS)


def _watch(coordination: Coordination, job: str, keep: Callable[..., None], listen: Listener) -> int:
    """Follow a job until it is over; pass on what its controller says, keep the events and return how many."""
    after, heard, is_done = 0, time.monotonic(), False
    while not coordination.is_over(job):
        # After its final status the controller is gone; FLARE then only waits for the sites' processes to end.
        snapshot = None if is_done else coordination.snapshot(job, after)
        if snapshot is not None:
            after, heard = int(snapshot["cursor"]), time.monotonic()
            is_done = snapshot["phase"] in ("computed", "failed")
            _keep_events(snapshot["events"], keep)
            listen(snapshot)
        if time.monotonic() - heard > _SILENCE_SECONDS:
            # After its server was killed, FLARE reports a job as running for ever and refuses to stop it.
            with contextlib.suppress(TransportError):
                coordination.cancel(job)
            raise _Silent(
                f"a job must be heard from every {_SILENCE_SECONDS:g} s; it was not. It was given up; what sites have "
                "charged stays charged. See the server's log; run with --again for a new run."
            )
        time.sleep(_POLL_SECONDS)
    return after


def _keep_events(events: list[dict[str, Any]], keep: Callable[..., None]) -> None:
    """Keep what happened at the server, with the server's own time: it is heard of up to one poll later."""
    for event in events:
        happened = datetime.fromtimestamp(event["time"], UTC).isoformat(timespec="milliseconds")
        details = {key: value for key, value in event.items() if key not in ("event", "time")}
        keep(event["event"], happened=happened, **details)


def _conclude(coordination: Coordination, job: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """Fetch what a job left; return FLARE's word for its end, and dpcape's own record of it."""
    status, fetched = coordination.status(job), coordination.fetch(job)
    if (fetched / RESULT_FOLDER).is_dir():
        shutil.copytree(fetched / RESULT_FOLDER, folder, dirs_exist_ok=True)
    shutil.rmtree(fetched.parent, ignore_errors=True)
    try:
        outcome: dict[str, Any] = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        outcome = {}
    return status, outcome


def _failure(outcome: dict[str, Any], status: str) -> DpcapeError:
    kind = error_named(str(outcome.get("error")), TransportError)
    text = outcome.get("text") or (
        f"FLARE must complete a job; got {status}. A site's job process may have ended; see the sites' logs. "
        "What sites have charged stays charged."
    )
    return kind(text)


def _ignore(state: dict[str, Any]) -> None:
    """Do nothing with the state of a run."""
