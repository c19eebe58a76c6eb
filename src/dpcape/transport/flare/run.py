"""``dpcape run`` on a federation: submit a study as one job, watch it, end with a decision, fetch the result."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpcape import errors
from dpcape.errors import DpcapeError, InvalidParameter, SiteLost, TransportError
from dpcape.study import Study
from dpcape.transport.flare.conduct import OUTCOME
from dpcape.transport.flare.job import RESULT_FOLDER, JobSettings, write_job
from dpcape.transport.flare.kits import FederationFolder
from dpcape.transport.flare.preset import PRESET
from dpcape.transport.flare.session import COMPLETED, Coordination, opened

FOLDER_VARIABLE = "DPCAPE_FEDERATION"
_POLL_SECONDS = 0.25
# FLARE starts a job's processes after it was submitted; longer than this, it will not.
_SCHEDULE_SECONDS = 60.0
_FIELDS = {"engine", "folder", "carrier", "start"}

Listener = Callable[[dict[str, Any]], None]


def run_study(study: Study, out: str | Path, *, listen: Listener | None = None, only_check: bool = False) -> None:
    """Run a study on the federation it names and leave its files in ``out``.

    Parameters
    ----------
    study : Study — with a [federation] table.
    out : folder that receives model.npz, guarantee.json, log.jsonl, outcome.json.
    listen : called several times a second with the state of the run: phase, sites, events.
    only_check : stop when all sites are ready and described; nothing is opened, nothing charged.

    Raises
    ------
    DpcapeError — of the kind, and in the words, of whoever stopped the study; the files in ``out`` say more.
    """
    settings = job_settings(study, only_check=only_check)
    folder = Path(out)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with opened(federation_folder(study).admin_kit) as coordination:
        _await_sites(coordination, study, settings.start, listen or _ignore)
        with tempfile.TemporaryDirectory() as place:
            write_job(study, Path(place) / "job", settings)
            job = coordination.submit(Path(place) / "job")
        (folder / "job.txt").write_text(job + "\n", encoding="utf-8")
        try:
            _watch(coordination, job, folder, listen or _ignore)
        except KeyboardInterrupt:
            coordination.cancel(job)
            raise TransportError(
                "a run must not be cancelled to give a result; got a cancellation. The job was stopped; what sites "
                "have charged stays charged."
            ) from None
        _conclude(coordination, job, folder)


def federation_folder(study: Study) -> FederationFolder:
    """Return the coordinator's folder: from the environment, or from the study's [federation] table."""
    given = (study.federation or {}).get("folder")
    chosen = os.environ.get(FOLDER_VARIABLE) or (None if given is None else study.folder / str(given))
    if chosen is None:
        raise InvalidParameter(
            f"folder of [federation] must name the coordinator's folder, or the variable {FOLDER_VARIABLE} must; got "
            "neither. Make one with 'dpcape federation init'."
        )
    return FederationFolder(Path(chosen))


def job_settings(study: Study, *, only_check: bool) -> JobSettings:
    """Return how the study's job runs, from its [federation] table."""
    table = dict(study.federation or {})
    unknown = sorted(set(table) - _FIELDS)
    if unknown:
        raise InvalidParameter(f"fields of [federation] must be {', '.join(sorted(_FIELDS))}; got {unknown[0]!r}.")
    carrier, start = table.get("carrier", "push"), table.get("start", PRESET.start)
    if carrier not in ("push", "tasks"):
        raise InvalidParameter(f"carrier of [federation] must be 'push' or 'tasks'; got {carrier!r}.")
    if isinstance(start, bool) or not isinstance(start, int | float) or not 1 <= start <= 86400:
        raise InvalidParameter(f"start of [federation] must be seconds between 1 and 86400; got {start!r}.")
    if study.protocol().name == "dealer":
        raise InvalidParameter(
            "protocol must be one without a noise dealer on a FLARE federation; got 'dealer'. Use cape or secure-sum."
        )
    return JobSettings(carrier=carrier, only_check=only_check, start=float(start))


def _await_sites(coordination: Coordination, study: Study, seconds: float, listen: Listener) -> None:
    """Wait until every site of the study is connected; name those that are not when the time is over."""
    end = time.monotonic() + seconds
    while True:
        connected = coordination.connected()
        absent = [site for site in study.sites if site not in connected]
        sites = {site: {"state": "awaited" if site in absent else "connected", "note": ""} for site in study.sites}
        listen({"phase": "connecting", "sites": sites, "round": 0, "release": 0, "n_releases": 0, "events": []})
        if not absent:
            return
        if time.monotonic() > end:
            raise SiteLost(
                f"every site of a study must be connected within {seconds:g} s; got nothing from {', '.join(absent)}. "
                "Start them with 'dpcape site serve'. Nothing was submitted, nothing charged."
            )
        time.sleep(_POLL_SECONDS)


def _watch(coordination: Coordination, job: str, out: Path, listen: Listener) -> None:
    """Follow a job until it is over; pass on what its controller says, and keep the events as they come."""
    after, started, end = 0, False, time.monotonic() + _SCHEDULE_SECONDS
    while not coordination.is_over(job):
        snapshot = coordination.snapshot(job, after)
        if snapshot is not None:
            started, after = True, int(snapshot["cursor"])
            _keep_events(snapshot["events"], out)
            listen(snapshot)
            if snapshot["phase"] in ("finished", "failed"):
                end = min(end, time.monotonic()) + _SCHEDULE_SECONDS
        if not started and time.monotonic() > end:
            coordination.cancel(job)
            raise TransportError(
                f"FLARE must start a job within {_SCHEDULE_SECONDS:g} s; it did not. The job was cancelled, nothing "
                "was charged."
            )
        time.sleep(_POLL_SECONDS)


def _conclude(coordination: Coordination, job: str, out: Path) -> None:
    """Fetch what the job left; raise what stopped it."""
    status = coordination.status(job)
    fetched = coordination.fetch(job)
    for path in sorted((fetched / RESULT_FOLDER).glob("*")):
        shutil.copyfile(path, out / path.name)
    shutil.rmtree(fetched.parent, ignore_errors=True)
    try:
        outcome = json.loads((out / OUTCOME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        outcome = {}
    if outcome.get("state") == "finished" and status == COMPLETED:
        return
    raise _failure(outcome, status)


def _failure(outcome: dict[str, Any], status: str) -> DpcapeError:
    kind = getattr(errors, str(outcome.get("error")), TransportError)
    if not (isinstance(kind, type) and issubclass(kind, DpcapeError)):
        kind = TransportError
    text = outcome.get("text") or (
        f"FLARE must complete a job; got {status}. A site's job process may have ended; see the sites' logs. "
        "What sites have charged stays charged."
    )
    return kind(text)


def _keep_events(events: list[dict[str, Any]], out: Path) -> None:
    with (out / "log.jsonl").open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(event) + "\n" for event in events)


def _ignore(state: dict[str, Any]) -> None:
    """Do nothing with the state of a run."""
