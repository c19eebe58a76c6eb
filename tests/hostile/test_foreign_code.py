"""Code of other packages in its children: whatever it does, one block moves a total by the diameter, and no more.

Without Landlock these tests fail; they are never skipped.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest

from dpcape import Federation, in_process, rows
from dpcape.analyses.registry import ANY_PACKAGE
from dpcape.core.enclosed import IN_THIS_PROCESS, Enclosed, RecordByRecord, Sampled
from dpcape.core.errors import Failed
from dpcape.core.noise import Replay
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.totals import released_total
from dpcape.site.folder import SiteFolder
from dpcape.site.foreign.workers import Workers, start_zygote
from dpcape.site.foreign.zygote import ZygoteSettings
from dpcape.site.vault import start
from dpcape.site.vault.accounts import Account, Accounts
from dpcape.site.vault.client import VaultClient
from dpcape.site.vault.guarded import Guarded
from dpcape.site.vault.modes import CONFINED, NONE
from dpcape.site.vault.processes import descendants
from dpcape.site.vault.self_test import NotSeparated, attempts, succeeded
from dpcape.site.vault.server import LOG_FILE, VaultSettings
from dpcape.site.vault.supervisor import Engine, Serving, Supervisor
from dpcape.study.study import Study
from dpcape.transport.frames import Ask, Reply, decode_reply, signed
from dpcape.transport.transport import Transport

from .foreign_code import PACKAGE, install
from .test_sandbox import Surroundings

# Enough on a busy machine: a late answer counts as zeros.
SECONDS = 0.5
COORDINATOR = Identity.generate()
DATA = np.random.default_rng(5).normal(size=(23, 3)) / 3
RADIUS = 3**0.5


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = install(tmp_path_factory.mktemp("foreign"))
    sys.path.insert(0, str(place))
    yield place
    sys.path.remove(str(place))


@pytest.fixture(scope="module")
def workers(installed: Path) -> Iterator[Workers]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        zygote = start_zygote(theirs, [PACKAGE])
    made = Workers(ours)
    made.zygote = zygote.pid
    yield made
    made.close()
    assert zygote.wait(10) == 0


def enclosed(inner: str, kind: type[Enclosed] = Sampled, *, block: int = 6, **public: object) -> Enclosed:
    facts = rows(DATA, bound=1.0).facts()
    public = {f"its_{name}": value for name, value in public.items()}
    return kind(facts, inner=inner, package=PACKAGE, size=3, radius=RADIUS, block=block, seconds=SECONDS, **public)


@pytest.mark.parametrize("kind", [Sampled, RecordByRecord])
def test_children_compute_the_same_sums_as_this_process(workers: Workers, kind: type[Enclosed]) -> None:
    import foreign_code  # noqa: F401  (registers its statistics here)

    statistic = enclosed("f_tanh", kind, shift=0.5, offsets=np.array([0.1, 0.2, 0.3]))
    records = rows(DATA, bound=1.0)
    found = released_total(statistic, records, workers)
    assert np.array_equal(found, released_total(statistic, records, IN_THIS_PROCESS))
    clipped = next(records.blocks())
    expected = np.tanh(2 * clipped + 0.5 + np.array([0.1, 0.2, 0.3])).sum(axis=0)
    np.testing.assert_allclose(found[:-1], expected, rtol=1e-12)
    assert found[-1] == statistic.count_weight * 23


@pytest.mark.parametrize("inner", ["f_record_zero", "f_hoarder", "f_forger", "f_looper", "f_talker"])
@pytest.mark.filterwarnings("ignore:.*cannot be read")
def test_whatever_code_does_a_record_moves_a_total_by_at_most_the_sensitivity(workers: Workers, inner: str) -> None:
    """Record 0 of a block is replaced, so that as much as possible depends on it; also by an invalid record."""
    statistic = enclosed(inner)
    totals = []
    for first in (np.ones(3), -np.ones(3), np.full(3, np.nan)):
        data = DATA.copy()
        data[6] = first
        totals.append(released_total(statistic, rows(data, bound=1.0), workers))
    for other in totals[1:]:
        assert np.linalg.norm(totals[0] - other) <= statistic.sensitivity(23)
    if inner == "f_record_zero":
        # The search has teeth: the diameter is attained.
        assert np.linalg.norm(totals[0] - totals[1]) >= 0.999 * statistic.diameter


def test_a_hoarder_sees_one_block_and_an_escaper_reaches_nothing(workers: Workers) -> None:
    raw = [workers.contributions(enclosed("f_hoarder"), rows(DATA, bound=1.0).facts(), (DATA[:6],)) for _ in range(3)]
    assert [answer.tolist() for answer in raw] == [[[1.0, 1.0, 1.0]]] * 3
    answer = workers.contributions(enclosed("f_escaper"), rows(DATA, bound=1.0).facts(), (DATA[:6],))
    assert answer is not None
    import foreign_code

    reached = round(answer[0, 0] * 2**20)
    assert [name for bit, name in enumerate(foreign_code.attempts()) if reached >> bit & 1] == []


PROBES = """
import sys
from dpcape.site.foreign import child, zygote
from dpcape.site.vault.seccomp import Filter
# A filter that forgets files, and a sandbox that forgets them too.
child.CHILD_FILTER = Filter(network=False, pairs=False, denied=("execve", "execveat", "clone", "fork", "vfork"))
zygote.confine = lambda sandbox: zygote_confine(Rules(read=(Path("/"),)), sandbox)
from pathlib import Path
from dpcape.site.vault.landlock import Rules
from dpcape.site.vault.sandbox import Sandbox, confine
def zygote_confine(rules, sandbox):
    return confine(Sandbox(rules, sandbox.filter))
zygote.main()
"""


@pytest.fixture
def around(tmp_path: Path) -> Iterator[Surroundings]:
    made = Surroundings(tmp_path)
    yield made
    made.close()


def test_the_self_test_of_a_child_reaches_nothing_and_a_loosened_one_is_noticed(
    workers: Workers, around: Surroundings
) -> None:
    """Outside, every attempt succeeds (tests of the engine's sandbox); a kernel may have io_uring switched off."""
    assert set(attempts(around.probes)) - set(succeeded(around.probes)) <= {"use io_uring"}
    assert workers.reached(around.probes) == []
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    zygote = subprocess.Popen(
        [sys.executable, "-c", PROBES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(theirs.fileno(),),
    )
    settings = ZygoteSettings(control=theirs.fileno(), packages=[], paths=[])
    with ours, theirs, zygote:
        zygote.stdin.write(msgspec.json.encode(settings) + b"\n")
        zygote.stdin.close()
        assert zygote.stdout.readline()
        loosened = Workers(ours)
        reached = set(loosened.reached(around.probes))
        with pytest.raises(NotSeparated, match="could read secret 1"):
            start._test_child(loosened, around.probes)
        zygote.kill()
    assert {"read secret 1", "list the folder", "look at the vault's process"} <= reached
    assert not {"connect elsewhere", "reach the steward's page", "use a Unix socket", "run a shell"} & reached


def test_no_mark_of_one_child_is_found_by_the_next(workers: Workers) -> None:
    facts = rows(DATA, bound=1.0).facts()
    found = [workers.contributions(enclosed("f_marker"), facts, (DATA[:6],)) for _ in range(3)]
    assert [answer.tolist() for answer in found] == [[[0.0, 0.0, 0.0]]] * 3


def test_marks_are_found_by_processes_that_share_descriptors(installed: Path) -> None:
    """The positive control: in ordinary processes the second finds what the first left."""
    code = (
        "import os, sys, foreign_code\n"
        "def look():\n"
        "    found = 0\n"
        "    for attempt, number in foreign_code.marks():\n"
        "        try: found += attempt(number)\n"
        "        except Exception: pass\n"
        "    return found\n"
        "child = os.fork()\n"
        "if not child: look(); os._exit(0)\n"
        "os.waitpid(child, 0)\n"
        "sys.exit(look())\n"
    )
    environment = {"PYTHONPATH": str(installed), "OPENBLAS_NUM_THREADS": "1"}
    nothing = subprocess.DEVNULL
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, stdin=nothing, stdout=nothing, stderr=nothing, check=False
    )
    assert done.returncode >= 5


def test_every_attempt_of_the_escaper_succeeds_outside(installed: Path) -> None:
    """The positive control: in an ordinary process each attempt does what it says."""
    code = (
        "import socket, foreign_code\n"
        "pair = socket.socketpair()\n"
        "for name, attempt in foreign_code.attempts().items():\n"
        "    try: attempt()\n"
        "    except BaseException as error: print(name, repr(error))\n"
    )
    environment = {"PYTHONPATH": str(installed), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    (Path("/tmp") / "foreign-code").unlink(missing_ok=True)
    assert done.stdout == ""


@pytest.mark.parametrize(
    "inner", ["f_talker", "f_looper", "f_glutton", "f_crasher", "f_leaver", "f_shapeless", "f_not_finite", "no_such"]
)
def test_a_failure_is_zeros_after_the_same_time(workers: Workers, capfd: pytest.CaptureFixture, inner: str) -> None:
    data = np.abs(DATA[:12])
    begun = time.monotonic()
    found = released_total(enclosed(inner), rows(data, bound=1.0), workers)
    elapsed = time.monotonic() - begun
    assert np.array_equal(found, np.zeros(4))
    assert 2 * SECONDS <= elapsed < 2 * SECONDS + 0.4
    assert capfd.readouterr() == ("", "")
    assert descendants(workers.zygote) == []


def test_one_bad_record_costs_itself_alone_record_by_record(workers: Workers) -> None:
    """The looper loops for records with a positive first entry; the talker raises for all."""
    records = rows(DATA, bound=1.0)
    assert np.array_equal(released_total(enclosed("f_talker", RecordByRecord), records, workers), np.zeros(4))
    statistic = enclosed("f_record_zero", RecordByRecord)
    total = released_total(statistic, records, workers)
    directions = DATA / np.linalg.norm(DATA, axis=1, keepdims=True)
    np.testing.assert_allclose(total[:-1], RADIUS * directions.sum(axis=0), rtol=1e-9)


def test_what_an_analysis_says_of_itself_is_data(workers: Workers, installed: Path) -> None:
    with pytest.raises(Failed, match="no_such"):
        workers.analysis("no_such", PACKAGE)
    about = workers.analysis("tanh_means", PACKAGE)
    assert (about.optional, about.required, about.kinds) == (["shift"], [], ["rows"])


STUDY = """
[study]
name = "foreign"
analysis = "tanh_means"
shift = 1
epsilon = 2.0
delta = 1e-6
[protocol]
kind = "independent"
[sites.lyon]
data = "lyon.npz"
[data]
kind = "rows"
features = 3
array = "X"
bound = 1.0
[package]
block = 3
seconds = 0.5
"""


class Served(Transport):
    """One site behind a real vault; frames are the coordinator's."""

    def __init__(self, client: VaultClient, public: bytes, study: Study) -> None:
        self._client, self._public, self._study = client, public, study
        self._job, self._number, self._session = secrets.token_hex(8), 0, ""

    @property
    def sites(self) -> tuple[str, ...]:
        return ("lyon",)

    def ready(self) -> Reply:
        while True:
            reply, _ = self._asked(Ask(kind="ready", job=self._job, study=self._study.digest(), site="lyon", number=0))
            if reply.state != "busy":
                self._session = str(reply.about.get("session", ""))
                return reply
            time.sleep(0.05)

    def ask(self, messages_by_site: Mapping[str, bytes], deadline: float | None) -> tuple[dict[str, bytes], tuple]:
        self._number += 1
        asked = Ask(
            kind="round",
            job=self._job,
            study=self._study.digest(),
            site="lyon",
            number=self._number,
            session=self._session,
        )
        while True:
            reply, body = self._asked(asked, messages_by_site["lyon"])
            if reply.state != "busy":
                return {"lyon": body}, ()
            time.sleep(0.02)

    def _asked(self, ask: Ask, body: bytes = b"") -> tuple[Reply, bytes]:
        return decode_reply(self._client.ask(signed(ask, COORDINATOR, body)), self._public)


class Site:
    """A site folder, and vaults started for it as the supervisor does."""

    def __init__(self, path: Path, installed: Path, study: str = STUDY, **arrays: np.ndarray) -> None:
        np.savez(path / "lyon.npz", X=DATA, **arrays)
        (path / "study.toml").write_text(study)
        self.study = Study.load(path / "study.toml", packages=ANY_PACKAGE)
        self.folder = SiteFolder.create(path / "site", name="lyon")
        self.folder.add_data("main", path / "lyon.npz", epsilon=100.0, delta=1e-3)
        self.folder.pin("coordinator", COORDINATOR.public.hex())
        self.python = _environment(path / "environment", installed)

    @contextlib.contextmanager
    def served(self, packages: tuple[str, ...], mode: object = CONFINED) -> Iterator[VaultClient]:
        settings = VaultSettings(folder=str(self.folder.path), mode="confined", control=-1, replay_for_tests=7)
        here = Account.current()
        guarded = Guarded(self.folder.path, self.folder.keys, ())
        serving = Serving(str(self.python), settings, mode, Accounts(here, here), guarded, packages=packages)
        engine = Engine("", lambda work: [], lambda work, port: None, (), {})
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            supervisor = Supervisor(serving, engine, print)
            vault = supervisor._start_vault(theirs)
        client = VaultClient(ours)
        try:
            yield client
        finally:
            vault.kill()
            vault.wait()
            vault.stdout.close()
            client.close()
            if supervisor._zygote is not None:
                # Nobody told it: it ends because its vault is gone.
                assert supervisor._zygote.wait(10) == 0


def _environment(path: Path, installed: Path) -> Path:
    """Make an environment that finds dpcape where it is, and the package in its own folder."""
    venv.create(path, symlinks=True)
    folder = next(path.glob("lib/python*/site-packages"))
    import dpcape

    own = [
        str(installed),
        str(Path(dpcape.__file__).resolve().parents[1]),
        *(p for p in sys.path if "site-packages" in p),
    ]
    (folder / "found.pth").write_text("\n".join(own))
    return path / "bin" / "python"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, installed: Path) -> Site:
    return Site(tmp_path_factory.mktemp("site"), installed)


def test_a_study_with_foreign_code_runs_through_the_vault_and_equals_the_run_in_process(site: Site) -> None:
    site.folder.allow_package(PACKAGE)
    site.folder.approve(site.folder.load_study(site.folder.path.parent / "study.toml"), runs=5)
    with site.served((PACKAGE,)) as client:
        line = Served(client, site.folder.identity.public, site.study)
        assert line.ready().state == "ok"
        federation = Federation(line, protocol=site.study.protocol(), enclosure=site.study.enclosure)
        model = site.study.estimator().fit(federation)
    # A site draws its noise under names of its own, so a run in process has the same noise.
    there = in_process({"lyon": rows(DATA, bound=1.0)}, noise=Replay(7))
    again = site.study.estimator().fit(
        Federation(there, protocol=site.study.protocol(), enclosure=site.study.enclosure)
    )
    assert np.array_equal(model.mean_, again.mean_)
    assert np.array_equal(model.plain_, again.plain_)
    assert model.guarantee_.status.startswith("conditional")
    assert any("one block of 3 records" in text for text in model.guarantee_.assumptions)
    assert "RECORDS" not in (site.folder.path / LOG_FILE).read_text()


@pytest.mark.parametrize(("packages", "mode"), [((), CONFINED), ((PACKAGE,), NONE)])
def test_a_vault_without_sandboxes_for_it_refuses_foreign_code(site: Site, packages: tuple, mode: object) -> None:
    site.folder.allow_package(PACKAGE)
    site.folder.approve(site.folder.load_study(site.folder.path.parent / "study.toml"), runs=5)
    with site.served(packages, mode) as client:
        reply = Served(client, site.folder.identity.public, site.study).ready()
    assert (reply.state, reply.error) == ("refused", "LedgerRefused")
    assert PACKAGE in reply.text
