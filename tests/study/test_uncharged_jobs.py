"""A job on an engine is recorded as charged from what the sites signed, and one that was not is simply run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.identity import Identity
from dpcape.federation.kept_releases import KeptReleases
from dpcape.runs.study_run import OUTCOME, StudyRun
from dpcape.site.folder import SiteFolder
from dpcape.site.ledger import Ceiling
from dpcape.transport.carried_transport import Call, CarriedTransport
from dpcape.transport.carrier import Carrier, Delivery
from dpcape.transport.delivery_status import DeliveryStatus
from dpcape.transport.frames import Kind
from dpcape.transport.request_handler import JobBinding, RequestHandler
from dpcape.transport.timing import Timing

from .test_resume import SITES, charges, study_in

COORDINATOR = Identity.from_private_bytes(bytes(range(32)))
QUICK = Timing(start=5.0, ready=2.0, retry=0.02, round=5.0, glance=0.05, ping=0.5, ping_timeout=0.5, silent_pings=3)
pytestmark = pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")

Fault = Callable[[bytes, Callable[[], bytes]], Delivery]


class Wire(Carrier):
    """Carries frames to the sites' desks in this process, or does with a round what a test says."""

    can_ping: ClassVar[bool] = True

    def __init__(self, desks: dict[str, RequestHandler]) -> None:
        self._desks = desks
        self.fault: Fault | None = None

    def carry(self, site: str, kind: Kind, data: bytes, timeout: float) -> Delivery:
        deliver = partial(self._desks[site].handle, data)
        if self.fault is None or kind != "round":
            return Delivery("ok", deliver())
        return self.fault(data, deliver)


class Job:
    """A study on three site folders over signed frames, as the controller of an engine conducts it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.study = study_in(path, guarded=True)
        (path / "out").mkdir()

    def run(self, fault: Fault | None = None) -> str:
        folders = {name: SiteFolder(self.path / f"{name}-site") for name in SITES}
        public = {name: folder.identity.public for name, folder in folders.items()}
        digest = self.study.digest()
        desks = {}
        for name, folder in folders.items():
            post = JobBinding("job", digest, name, COORDINATOR.public, folder.identity)
            answer = folder.site_for(self.study).answer
            desks[name] = RequestHandler(post, lambda answer=answer: answer)
        wire, status = Wire(desks), DeliveryStatus(SITES)
        wire.fault = fault
        call = Call(job="job", study=digest, identity=COORDINATOR, sites=public)
        line = CarriedTransport(SITES, wire, call=call, status=status, timing=QUICK)
        kept = KeptReleases(self.path / "out" / "releases")
        conduct = StudyRun(self.study, line, status=status, out=self.path / "out", seen_heads={}, releases=kept)
        return conduct.run()

    @property
    def may_be_charged(self) -> bool:
        found = json.loads((self.path / "out" / OUTCOME).read_text(encoding="utf-8"))["may_be_charged"]
        assert isinstance(found, bool)
        return found


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "job")


def ceilings(job: Job, epsilon: float) -> None:
    for name in SITES:
        SiteFolder(job.path / f"{name}-site").set_ceiling("cohort", Ceiling(epsilon, 1e-5))


def test_a_computed_study_is_charged(job: Job) -> None:
    assert job.run() == ""
    assert job.may_be_charged
    assert charges(job.path) == [1, 1, 1]


def test_a_study_that_no_site_agrees_to_is_not_charged(job: Job) -> None:
    """The stewards lower the ceilings between the sites' readiness and the allowance."""

    def lowered(data: bytes, deliver: Callable[[], bytes]) -> Delivery:
        if b"Open" in data:
            ceilings(job, 0.01)
        return Delivery("ok", deliver())

    assert "would exceed the ceiling" in job.run(lowered)
    assert not job.may_be_charged
    assert charges(job.path) == [0, 0, 0]
    ceilings(job, 2.5)
    assert job.run() == ""


def test_a_study_that_fails_before_any_site_is_asked_is_not_charged(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise ProtocolError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(KeptReleases, "require_space", fails)
        assert job.run() == "no space."
    assert not job.may_be_charged
    assert charges(job.path) == [0, 0, 0]


def test_refusals_before_the_charge_leave_no_charge(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every site was asked to submit, signed a refusal, and shows a ledger without a new row."""

    def refuse(*_: object, **__: object) -> None:
        raise ProtocolError("too large for this site")

    with monkeypatch.context() as patched:
        patched.setattr("dpcape.core.site.check_site", refuse)
        assert "too large for this site" in job.run()
    assert not job.may_be_charged
    assert charges(job.path) == [0, 0, 0]
    assert job.run() == ""


def test_a_refusal_after_the_charge_is_charged(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ProtocolError("the total failed")

    monkeypatch.setattr("dpcape.core.site._Guarded._computed", refuse)
    assert "the total failed" in job.run()
    assert job.may_be_charged
    assert charges(job.path) == [1, 1, 1]


@pytest.mark.parametrize("arrives", [True, False], ids=["after the charge", "before it"])
def test_a_question_without_an_answer_may_be_charged(job: Job, arrives: bool) -> None:
    """Nobody outside knows whether the sites charged: the first releases, or the questions for them, were lost."""

    def lost(data: bytes, deliver: Callable[[], bytes]) -> Delivery:
        if b"Submit" not in data:
            return Delivery("ok", deliver())
        if arrives:
            deliver()
        return Delivery("unreachable")

    assert job.run(lost) != ""
    assert job.may_be_charged
    assert charges(job.path) == [int(arrives)] * 3


def test_a_command_that_was_refused_is_given_again(tmp_path: Path) -> None:
    """As a user: the ceiling is too low, the steward raises it, and the same command gives the result."""
    job = Job(tmp_path / "job")
    ceilings(job, 0.01)
    command = ["run", str(job.path / "study.toml"), "--out", str(tmp_path / "runs" / "one")]
    first = CliRunner().invoke(main, command)
    assert first.exit_code != 0
    assert charges(job.path) == [0, 0, 0]
    ceilings(job, 2.5)
    again = CliRunner().invoke(main, command, catch_exceptions=False)
    assert again.exit_code == 0, again.output
    assert "--resume" not in again.output
    assert charges(job.path) == [1, 1, 1]
