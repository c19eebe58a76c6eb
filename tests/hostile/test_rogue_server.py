"""Whoever holds the coordinator's key signs what it likes; the vault does what the steward approved, and nothing else.

Also what a machine runs out of: a full disk at the vault, processes at the engine.
"""

from __future__ import annotations

import os
import resource
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dpcape import Federation, Independent, Mean
from dpcape.core.errors import DpcapeError
from dpcape.core.messages import (
    FromSite,
    Open,
    Request,
    Submit,
    ToSite,
    decode_from_site,
    encode,
    public_arrays,
)
from dpcape.core.privacy.calibration import plan_release
from dpcape.core.privacy.terms import Terms
from dpcape.site.folder import SiteFolder
from dpcape.site.vault.processes import adopt_descendants, descendants, end_descendants
from dpcape.statistics.moments import first_moments, second_moment
from dpcape.study.study import Study
from dpcape.transport.transport import Transport

from .test_vault import COORDINATOR, STUDY, Vault, round_of

pytestmark = pytest.mark.hostile


class Line(Transport):
    """A study carried to a vault without any engine: what a server process that knows the coordinator's key can do."""

    def __init__(self, vault: Vault, study: Study) -> None:
        self._vault, self._study, self._job = vault, study, secrets.token_hex(8)
        self._ready = vault.ready(self._job, study.digest())
        assert self._ready.state == "ok", self._ready
        self._number = 0

    @property
    def sites(self) -> tuple[str, ...]:
        return ("lyon",)

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        return {"lyon": self.carried(messages_by_site["lyon"])}, ()

    def carried(self, data: bytes) -> bytes:
        self._number += 1
        reply, body = self._vault.ask(round_of(self._job, self._study, self._ready, self._number), data)
        assert reply.state == "ok", reply
        return body

    def say(self, message: ToSite, allowance: str) -> FromSite:
        return decode_from_site(self.carried(encode(message, allowance=allowance)))[1]


@pytest.fixture
def place(tmp_path: Path) -> tuple[SiteFolder, Study]:
    np.savez(tmp_path / "lyon.npz", X=0.1 * np.ones((50, 2)))
    (tmp_path / "study.toml").write_text(STUDY)
    study = Study.load(tmp_path / "study.toml")
    folder = SiteFolder.create(tmp_path / "lyon", name="lyon")
    folder.add_data("main", tmp_path / "lyon.npz", epsilon=100.0, delta=1e-3)
    folder.pin("coordinator", COORDINATOR.public.hex())
    folder.approve(study, runs=1)
    return folder, study


@pytest.fixture
def vault(place: tuple[SiteFolder, Study]) -> Iterator[Vault]:
    made = Vault(place[0])
    yield made
    made.stop()


def request(federation: Federation, terms: Terms, **changes: object) -> Request:
    statistic = first_moments(federation.facts)
    plan = plan_release(terms, 0, statistic, Independent())
    asked = Request(release=0, statistic=statistic.name, public=public_arrays(statistic.public), plan=plan)
    return msgspec.structs.replace(asked, **changes)


def test_a_rogue_server_gets_the_approved_study_once_and_nothing_else(
    vault: Vault, place: tuple[SiteFolder, Study]
) -> None:
    folder, study = place
    line = Line(vault, study)
    federation = Federation(line, protocol=Independent())
    terms = federation.terms(1.0, 1e-5, (1.0,))
    replace = msgspec.structs.replace
    outcomes = {
        "a larger epsilon": line.say(Open(terms=replace(terms, epsilons={"lyon": 50.0})), terms.allowance),
        "a larger delta": line.say(Open(terms=replace(terms, delta=0.5)), terms.allowance),
        "more releases": line.say(Open(terms=replace(terms, shares=(0.5, 0.5))), terms.allowance),
        "no noise": line.say(Open(terms=replace(terms, epsilons={})), terms.allowance),
        "the approved study": line.say(Open(terms=terms), terms.allowance),
        "another statistic": line.say(
            Submit(request=request(federation, terms, statistic=second_moment(federation.facts).name)), terms.allowance
        ),
        "less noise": line.say(Submit(request=_quieter(request(federation, terms))), terms.allowance),
        "a second release": line.say(Submit(request=request(federation, terms, release=1)), terms.allowance),
    }
    assert {name: type(reply).__name__ for name, reply in outcomes.items()} == {
        "a larger epsilon": "Refused",
        "a larger delta": "Refused",
        "more releases": "Refused",
        "no noise": "Refused",
        "the approved study": "Agreed",
        "another statistic": "Refused",
        "less noise": "Refused",
        "a second release": "Refused",
    }
    assert folder.state().charges_of("main") == []
    Mean(epsilon=1.0, delta=1e-5).fit(federation)
    with pytest.raises(DpcapeError):
        Mean(epsilon=1.0, delta=1e-5).fit(federation)
    assert len(SiteFolder(folder.path).state().charges_of("main")) == 1


def _quieter(asked: Request) -> Request:
    plan = msgspec.structs.replace(
        asked.plan, own_scales={site: scale / 2 for site, scale in asked.plan.own_scales.items()}
    )
    return msgspec.structs.replace(asked, plan=plan)


def test_a_full_disk_is_refused_and_not_charged(place: tuple[SiteFolder, Study]) -> None:
    """Files of the vault can no longer grow: nothing is released, since nothing can be charged."""
    folder, study = place
    rows = len(folder.chain.entries())
    made = Vault(folder)
    try:
        line = Line(made, study)
        federation = Federation(line, protocol=Independent())
        resource.prlimit(made.process.pid, resource.RLIMIT_FSIZE, (1, 1))
        with pytest.raises(DpcapeError):
            Mean(epsilon=1.0, delta=1e-5).fit(federation)
        assert made.process.poll() is None
    finally:
        made.stop()
    assert len(SiteFolder(folder.path).chain.entries()) == rows
    again = Vault(folder)
    try:
        Mean(epsilon=1.0, delta=1e-5).fit(Federation(Line(again, study), protocol=Independent()))
    finally:
        again.stop()
    assert len(SiteFolder(folder.path).state().charges_of("main")) == 1


BOMB = """
import os, sys, time
from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.sandbox import Sandbox, confine
from dpcape.site.vault.seccomp import Filter
confine(Sandbox(Rules(), Filter(), limits={"NPROC": int(sys.argv[1])}))
made = 0
for _ in range(200):
    try:
        child = os.fork()
    except OSError:
        break
    if not child:
        os.setsid()
        os.close(1)
        time.sleep(600)
        os._exit(0)
    made += 1
print(made, flush=True)
os._exit(0)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs an account without other processes")
def test_a_fork_bomb_is_bounded_and_none_of_it_outlives_a_restart() -> None:
    """Children leave the session and lose their parent; the supervisor ends them all before it starts again."""
    from tests.engine.accounts import engine_python

    account = 54321
    adopt_descendants()
    done = subprocess.run(
        [engine_python(), "-c", BOMB, "40"],
        user=account,
        group=account,
        extra_groups=[],
        cwd="/",
        stdout=subprocess.PIPE,
        check=False,
        env={"PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
    )
    made = int(done.stdout)
    assert 10 <= made < 40
    assert len(descendants()) >= made
    end_descendants()
    assert descendants() == []
