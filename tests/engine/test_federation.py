"""End to end on NVIDIA FLARE: provisioned server and four site processes on loopback, mutual TLS (make test-engine)."""

from __future__ import annotations

import gc
import json
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nvflare")

import psutil

from dpcape.cli.diagnosis import examine
from dpcape.core.errors import DpcapeError, LedgerRefused, SiteLost, TransportError, UtilityWarning
from dpcape.core.secure_sum.fixed_point import SHORT_BYTES
from dpcape.engines.flare.admin_session import Coordination, opened
from dpcape.engines.flare.job import JobSettings, write_job
from dpcape.engines.flare.kits import FederationFolder
from dpcape.engines.flare.push_carrier import STREAMED_BYTES
from dpcape.runs.folder import RunFolder
from dpcape.runs.in_process import run_on_federation
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling
from dpcape.study.study import Study

from .consortium import N_WIDE, SITES, SUBJECTS, VIEWS, WIDE, Consortium, registration

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]

INFOMAX = 'solver = "infomax"\nn_components = 2\nn_iter = {}\ntol = 1e-12'


def assert_same_model(run: RunFolder, expected: Any) -> None:
    found = run.model()
    for name in expected._fitted:
        assert hasattr(found, name) == hasattr(expected, name), name
        if not hasattr(expected, name):
            continue  # such as what only some settings have
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), name)
    assert found.guarantee_.replayable
    assert "NO PROTECTION" in str(found.guarantee_)


@pytest.mark.parametrize(
    ("analysis", "options"),
    [
        ("pca", {"parameters": "n_components = 2"}),
        ("kmeans", {"parameters": "n_clusters = 2"}),
        ("cca", {"parameters": "n_components = 1", "data": VIEWS, "kind": "secure-sum"}),
        ("joint_ica", {"parameters": INFOMAX.format(50), "data": SUBJECTS, "epsilon": 50.0}),
    ],
)
def test_result_equals_the_run_in_process_bit_for_bit(
    consortium: Consortium, analysis: str, options: dict[str, Any]
) -> None:
    study = consortium.study(f"equal-{analysis}", analysis, **options)
    consortium.approve(study)
    run = consortium.run(study)
    assert_same_model(run, consortium.model_in_process(study))
    assert all(entry["took_part"] for entry in run.participants().values())
    happened = [event["event"] for event in run.events()]
    assert happened.count("computed") == 1
    assert happened.count("release") == len(run.model().releases_)


def test_a_release_that_is_sent_in_pieces_equals_the_run_in_process(consortium: Consortium) -> None:
    assert SHORT_BYTES * N_WIDE * (N_WIDE + 1) // 2 >= STREAMED_BYTES
    study = consortium.study("equal-wide", "pca", parameters="n_components = 2", data=WIDE)
    consortium.approve(study)
    assert_same_model(consortium.run(study), consortium.model_in_process(study))


def test_nothing_listens_beyond_loopback(consortium: Consortium) -> None:
    listening = [
        connection.laddr.ip
        for name in consortium.running
        for process in consortium.processes(name)
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening
    assert set(listening) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}


def run_and_kill(consortium: Consortium, study: Study, site: str) -> tuple[RunFolder, float]:
    """Run a study, kill a site after the third release, bring it back; return the run and the time of the kill."""
    killed: list[float] = []

    def listen(state: dict[str, Any]) -> None:
        if state["release"] >= 3 and not killed:
            killed.append(time.time())
            consortium.kill(site)

    try:
        consortium.run(study, listen)
    finally:
        assert killed, "the study ended before a site could be killed"
        consortium.start_one(site)
        consortium.await_connected(SITES)
    return RunFolder(consortium.path / "runs" / study.name), killed[0]


def lost_after(run: RunFolder, site: str, killed: float) -> float:
    from datetime import datetime

    lost = next(event for event in run.events() if event["event"] == "lost")
    assert lost["site"] == site
    return datetime.fromisoformat(lost["time"]).timestamp() - killed


def test_a_killed_site_is_noticed_and_the_study_finishes_without_it(consortium: Consortium) -> None:
    study = consortium.study("one-killed", "joint_ica", parameters=INFOMAX.format(250), data=SUBJECTS, epsilon=50.0)
    consortium.approve(study)
    run, killed = run_and_kill(consortium, study, "oslo")
    assert lost_after(run, "oslo", killed) < 5.0
    assert run.model().guarantee_.took_part == ("lima", "lyon", "pune")
    assert not run.participants()["oslo"]["took_part"]


def test_below_the_minimum_the_study_ends_and_the_charge_stands(consortium: Consortium) -> None:
    study = consortium.study(
        "too-few", "joint_ica", parameters=INFOMAX.format(120), data=SUBJECTS, epsilon=50.0, minimum=4
    )
    consortium.approve(study, runs=2)
    with pytest.raises(SiteLost, match=r"of 4 required sites.*lyon"):
        run_and_kill(consortium, study, "lyon")
    with pytest.raises(LedgerRefused, match="--again"):
        RunFolder.begin(consortium.path / "runs" / study.name, study)
    spent = SiteFolder(consortium.folder("lima")).state().charges_of("main", study.digest())
    assert len(spent) == 1
    # Its releases are kept: it goes on in a new job, under the same charge.
    kept = RunFolder(consortium.path / "runs" / study.name).releases.releases()
    assert len(kept) >= 3
    with warnings.catch_warnings():
        # The release that was begun when the site died may be lost.
        warnings.simplefilter("ignore", UtilityWarning)
        run = run_on_federation(study, consortium.path / "runs" / study.name, resume=True)
    assert run.is_finished
    assert len(run.releases.releases()) >= 119
    assert run.releases.releases()[0] == kept[0]
    for site in SITES:
        assert SiteFolder(consortium.folder(site)).state().charges_of("main", study.digest()) != []
    assert SiteFolder(consortium.folder("lima")).state().charges_of("main", study.digest()) == spent


def test_an_exhausted_ledger_refuses_before_anything_is_charged(consortium: Consortium) -> None:
    study = consortium.study("exhausted", "mean")
    consortium.approve(study)
    folder = SiteFolder(consortium.folder("pune"))
    folder.set_ceiling("main", Ceiling(0.01, 1e-3))
    try:
        with pytest.raises(LedgerRefused, match=r"^pune: "):
            consortium.run(study)
    finally:
        folder.set_ceiling("main", Ceiling(1000.0, 1e-3))
    assert not RunFolder(consortium.path / "runs" / study.name).is_charged
    assert SiteFolder(consortium.folder("lima")).state().charges_of("main", study.digest()) == []


def test_a_study_that_differs_from_the_approved_one_is_refused(consortium: Consortium) -> None:
    approved = consortium.study("changed", "mean", epsilon=1.0)
    consortium.approve(approved)
    changed = consortium.study("changed", "mean", epsilon=1.5)
    consortium.approve(changed, ["lima", "lyon", "oslo"])
    with pytest.raises(LedgerRefused, match=r"^pune: .*has not approved"):
        consortium.run(changed)


def test_a_restored_ledger_is_noticed_by_the_coordinator(consortium: Consortium) -> None:
    """Ledger and head copy are both put back: the site cannot know, but the coordinator saw a later head."""
    study = consortium.study("restored", "mean", minimum=4)
    consortium.approve(study, ["lima", "oslo", "pune"])
    run = RunFolder.begin(consortium.path / "runs" / study.name, study)
    folder = consortium.folder("lyon")
    backup = consortium.path / "backup"
    shutil.copytree(folder, backup)
    # The coordinator saw a row that the restored ledger lacks; another row stands in its place.
    SiteFolder(folder).approve(study)
    run.keep_heads({"lyon": tuple(SiteFolder(folder).chain.head())})
    gc.collect()
    # A backup is restored while the site is stopped: a running vault may write only the folder it was started with.
    consortium.kill("lyon")
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    SiteFolder(folder).set_ceiling("main", Ceiling(999.0, 1e-3))
    SiteFolder(folder).approve(study)
    consortium.start_one("lyon")
    consortium.await_connected(SITES)
    with pytest.raises(LedgerRefused, match=r"^lyon: .*head it showed before"):
        consortium.run(study)
    run.keep_heads({"lyon": tuple(SiteFolder(folder).chain.head())})


def port_of(kit: Path) -> int:
    servers = json.loads((kit / "startup" / "fed_client.json").read_text())["servers"]
    return int(servers[0]["service"]["target"].rpartition(":")[2])


def test_a_foreign_certificate_is_not_let_in(consortium: Consortium, tmp_path: Path) -> None:
    port = port_of(consortium.kit("lima"))
    other = FederationFolder(tmp_path / "other")
    folders = [SiteFolder.create(consortium.folder(name), name=name) for name in ("kobe", "quito")]
    other.create([registration(folder) for folder in folders], host="localhost", port=port)
    folders[0].pin("coordinator", other.coordinator().public.hex())
    findings = {finding.subject: finding for finding in examine(folder=folders[0].path, kit=other.kits / "kobe")}
    assert findings["clock"].good
    assert not findings["TLS"].good
    consortium.start_one("kobe", other.kits / "kobe")
    try:
        end = time.monotonic() + 60
        while "CERTIFICATE_VERIFY_FAILED" not in (consortium.path / "kobe.out").read_text():
            assert time.monotonic() < end
            time.sleep(0.5)
        with opened(consortium.federation.admin_kit) as coordination:
            assert set(coordination.connected()) == set(SITES)
    finally:
        consortium.kill("kobe")


def await_end(coordination: Coordination, job: str, seconds: float = 60.0) -> str:
    end = time.monotonic() + seconds
    while not coordination.is_over(job) and time.monotonic() < end:
        time.sleep(0.3)
    return coordination.status(job)


def test_a_site_is_shut_out_and_let_in_again(consortium: Consortium) -> None:
    with opened(consortium.federation.admin_kit) as coordination:
        coordination.shut_out("oslo")
        try:
            assert await_connected(coordination, ["lima", "lyon", "pune"])
            time.sleep(2.0)
            assert "oslo" not in coordination.connected()
        finally:
            coordination.let_in("oslo")
        assert await_connected(coordination, SITES)


def await_connected(coordination: Coordination, sites: list[str], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while coordination.connected() != sites and time.monotonic() < end:
        time.sleep(0.3)
    return coordination.connected() == sites


def test_a_job_that_brings_code_is_refused(consortium: Consortium, tmp_path: Path) -> None:
    study = consortium.study("code", "mean")
    write_job(study, tmp_path / "job", JobSettings())
    custom = tmp_path / "job" / "site" / "custom"
    custom.mkdir()
    (custom / "extra.py").write_text("raise SystemExit\n")
    with opened(consortium.federation.admin_kit) as coordination:
        job = coordination.submit(tmp_path / "job")
        assert await_end(coordination, job) == "FINISHED:FAILED_TO_RUN"


def job_of(consortium: Consortium, study: Study) -> str:
    events = RunFolder(consortium.path / "runs" / study.name).events()
    return str(next(event["job"] for event in events if event["event"] == "submitted"))


def test_a_cancelled_run_ends(consortium: Consortium) -> None:
    study = consortium.study("cancelled", "joint_ica", parameters=INFOMAX.format(400), data=SUBJECTS, epsilon=50.0)
    consortium.approve(study)

    def listen(state: dict[str, Any]) -> None:
        if state["release"] >= 1:
            raise KeyboardInterrupt

    with pytest.raises(TransportError, match="cancelled"):
        consortium.run(study, listen)
    with opened(consortium.federation.admin_kit) as coordination:
        assert await_end(coordination, job_of(consortium, study)) == "FINISHED:ABORTED"


def test_a_run_follows_its_job_after_the_coordinators_process_died(consortium: Consortium) -> None:
    """Here over tasks, the fallback, which gives the same result."""
    study = consortium.study("resumed", "mean", extra='carrier = "tasks"\n')
    consortium.approve(study)

    class Died(Exception):
        pass

    def listen(state: dict[str, Any]) -> None:
        if state["phase"] != "connecting":
            raise Died

    with pytest.raises(Died):
        consortium.run(study, listen)
    run = consortium.run(study)
    assert [event["event"] for event in run.events()].count("submitted") == 1
    assert_same_model(run, consortium.model_in_process(study))


def test_replaced_site_with_new_kit_and_new_identity(consortium: Consortium) -> None:
    """A site that lost its machine: new kit, and a new folder whose identity the others must pin first."""
    consortium.kill("pune")
    consortium.folder("pune").rename(consortium.path / "lost-pune")
    folder = SiteFolder.create(consortium.folder("pune"), name="pune")
    consortium.federation.replace(registration(folder))
    folder.pin("coordinator", consortium.federation.coordinator().public.hex())
    folder.add_data("main", consortium.path / "data" / "pune.npz", epsilon=100.0, delta=1e-3)
    for site in SITES:
        folder.pin(site, SiteFolder(consortium.folder(site)).identity.public.hex())
    consortium.start_one("pune")
    consortium.await_connected(SITES)
    study = consortium.study("replaced", "mean", extra="start = 60\n")
    consortium.approve(study, runs=3)
    # The coordinator remembers the old ledger's head: the new ledger is accepted under a new place for runs.
    run = RunFolder.begin(consortium.path / "after" / study.name, study)
    from dpcape.engines.flare.submit import compute

    with pytest.raises(DpcapeError):
        compute(study, run)
    for site in ("lima", "lyon", "oslo"):
        SiteFolder(consortium.folder(site)).pin("pune", folder.identity.public.hex())
    run = RunFolder.begin(consortium.path / "after" / "pinned", study)
    compute(study, run)
    assert_same_model(run, consortium.model_in_process(study))


def test_doctor_finds_everything_in_order(consortium: Consortium) -> None:
    study = consortium.study("doctor", "mean")
    consortium.approve(study)
    findings = examine(
        study=study,
        folder=consortium.folder("lima"),
        kit=consortium.kit("lima"),
        federation=consortium.federation.path,
    )
    assert [finding for finding in findings if not finding.good] == []
    subjects = {finding.subject for finding in findings}
    assert {"clock", "TLS", "ledger", "data and bounds", "versions", "site lima", "site pune"} <= subjects
    assert SiteFolder(consortium.folder("lima")).state().charges_of("main", study.digest()) == []


def test_a_site_that_is_not_there_ends_the_wait(consortium: Consortium) -> None:
    consortium.kill("lima")
    study = consortium.study("absent", "mean", extra="start = 15\n", minimum=4)
    consortium.approve(study)
    begun = time.monotonic()
    try:
        with pytest.raises(SiteLost, match="lima"):
            consortium.run(study)
        assert time.monotonic() - begun < 60
    finally:
        consortium.start_one("lima")
        consortium.await_connected(SITES)


def test_files_are_private_and_logs_hold_no_secret(consortium: Consortium) -> None:
    secrets = [consortium.federation.coordinator().private_bytes()]
    secrets += [SiteFolder(consortium.folder(site)).identity.private_bytes() for site in SITES]
    for path in [*consortium.federation.path.rglob("*"), *(consortium.path / "folders").rglob("*")]:
        if path.is_symlink() or not path.exists():
            continue
        assert path.stat().st_mode & 0o077 == 0, path
        if path.is_file() and path.name not in ("coordinator.key", "identity.key"):
            content = path.read_bytes()
            assert not any(secret in content or secret.hex().encode() in content for secret in secrets), path
    for path in consortium.path.glob("*.out"):
        content = path.read_bytes()
        assert not any(secret in content or secret.hex().encode() in content for secret in secrets), path
