"""What the coordinator makes of FLARE's answers."""

from __future__ import annotations

import contextlib
import errno
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvflare")

from dpcape.core.errors import TransportError
from dpcape.engines.flare import submit as flare_run
from dpcape.engines.flare.admin_session import Coordination
from dpcape.runs.folder import RunFolder
from dpcape.study.study import Study

STUDY = """[study]
name = "first"
analysis = "mean"
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "cape"
n_colluding = 0
[sites.lima]
[sites.lyon]
[sites.oslo]
[data]
kind = "rows"
features = 2
bound = 1.0
[federation]
engine = "flare"
folder = "federation"
"""


class Session:
    """Answers as FLARE 2.9.0 does: copied from a running server, shortened."""

    def list_jobs(self, detailed: bool) -> list[dict[str, Any]]:
        entry = {"min_clients": 3, "submitter_name": "coordinator@dpcape.org", "job_folder_name": "job"}
        early = {"name": "dpcape-first", "job_id": "a6132839", "submit_time": 1794798615.7, "status": "RUNNING"}
        late = {
            "name": "dpcape-second",
            "job_id": "f0ca8480",
            "submit_time": 1794799242.6,
            "status": "FINISHED:COMPLETED",
        }
        return [{**entry, **early}, {**entry, **late}]


def test_jobs_are_listed_newest_first_by_name_and_id() -> None:
    assert Coordination(Session()).jobs() == [
        {"job": "f0ca8480", "name": "dpcape-second", "status": "FINISHED:COMPLETED"},
        {"job": "a6132839", "name": "dpcape-first", "status": "RUNNING"},
    ]


class KilledServer:
    """Killed in the middle of a job and started again: the job runs for ever and cannot be stopped."""

    n_submitted = 0

    def connected(self) -> list[str]:
        return ["lima", "lyon", "oslo"]

    def submit(self, folder: Path) -> str:
        self.n_submitted += 1
        return f"job-{self.n_submitted}"

    def is_over(self, job: str) -> bool:
        return False

    def snapshot(self, job: str, after: int) -> None:
        return None

    def cancel(self, job: str) -> None:
        raise TransportError("the job is not running")


def test_a_job_that_died_with_its_server_is_given_up_and_not_followed_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = KilledServer()

    @contextlib.contextmanager
    def opened(kit: Path) -> Iterator[KilledServer]:
        yield server

    monkeypatch.setattr(flare_run, "opened", opened)
    monkeypatch.setattr(flare_run, "_SILENCE_SECONDS", 0.0)
    study = Study.parse(STUDY, path=tmp_path / "study.toml")
    run = RunFolder.begin(tmp_path / "runs" / "one", study)
    with pytest.raises(TransportError, match="run with --again"):
        flare_run.compute(study, run)
    # It may have been charged, so that it is not repeated unasked; a new run submits a job of its own.
    assert run.is_charged
    again = RunFolder.begin(tmp_path / "runs" / "one", study, again=True)
    assert again.path != run.path
    with pytest.raises(TransportError, match="run with --again"):
        flare_run.compute(study, again)
    assert server.n_submitted == 2


class FinishedServer(KilledServer):
    """A server whose job is done; what it left can be fetched as often as one likes."""

    def __init__(self, store: Path) -> None:
        self.store = store
        (store / "dpcape").mkdir(parents=True)
        (store / "dpcape" / "outcome.json").write_text(json.dumps({"state": "computed", "may_be_charged": True}))
        for name in ("model.npz", "guarantee.json", "participants.json"):
            (store / "dpcape" / name).write_text(name)

    def is_over(self, job: str) -> bool:
        return True

    def status(self, job: str) -> str:
        return "FINISHED:COMPLETED"

    def fetch(self, job: str) -> Path:
        copy = self.store.parent / "fetched" / "workspace"
        shutil.copytree(self.store, copy)
        return copy


def test_a_result_that_did_not_fit_on_the_coordinators_disk_is_fetched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FinishedServer(tmp_path / "store")

    @contextlib.contextmanager
    def opened(kit: Path) -> Iterator[KilledServer]:
        yield server

    copyfile = shutil.copyfile

    def full(source: Path, target: Path, **options: bool) -> None:
        if run.path in Path(target).parents:
            raise OSError(errno.ENOSPC, "No space left on device")
        copyfile(source, target, **options)

    monkeypatch.setattr(flare_run, "opened", opened)
    study = Study.parse(STUDY, path=tmp_path / "study.toml")
    run = RunFolder.begin(tmp_path / "runs" / "one", study)
    with monkeypatch.context() as patched:
        patched.setattr("dpcape.engines.flare.submit.shutil.copyfile", full)
        with pytest.raises(OSError, match="No space"):
            flare_run.compute(study, run)
    assert not run.has_result
    # The same command again is let through, follows the same job and takes what it left.
    same = RunFolder.begin(tmp_path / "runs" / "one", study)
    same.require_unspent()
    flare_run.compute(study, same)
    assert same.has_result
    assert same.is_charged
    assert server.n_submitted == 1
