"""The supervisor against an engine that ends as it likes: it is started again, and the steward alone ends the site."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from tests.engine.accounts import ENGINE_UID, engine_python

from dpcape.core.secure_sum.identity import Identity
from dpcape.site.folder import SiteFolder
from dpcape.site.vault.clearing import remove

# Seconds in which a stop takes effect; on an idle machine it takes .2.
PROMPT = 5

# Serves a folder with a real vault, sandbox and self-test; the engine is a line of Python, and another one says what
# happens when its work folder is filled for the n-th time.
SERVE = """
import itertools
import sys
from pathlib import Path
from dpcape.site.vault.accounts import Account, Accounts
from dpcape.site.vault.guarded import Guarded
from dpcape.site.vault.modes import MODES
from dpcape.site.vault.server import VaultSettings
from dpcape.site.vault.supervisor import Engine, Serving, Supervisor

folder, (code, filling, python, mode) = Path(sys.argv[1]), sys.argv[2:]
starts = itertools.count(1)


def prepare(work, port):
    n = next(starts)
    (work / "tmp").mkdir()
    exec(filling)


keys = folder / "keys"
here = Account.current()
settings = VaultSettings(folder=str(folder), mode=mode, control=-1)
guarded = Guarded(folder, keys, (keys / "identity.key", folder / "ledger.sqlite"))
unconfined = {"most_abi": 0, "with_seccomp": False} if mode == "none" else {}
serving = Serving(sys.executable, settings, MODES[mode], Accounts(here, here), guarded, **unconfined)
engine = Engine(python, lambda work: ["-c", code], prepare, (), {})
sys.exit(Supervisor(serving, engine, lambda line: print(line, flush=True)).run())
"""


class Site:
    """A site folder and the process that serves it."""

    def __init__(self, path: Path) -> None:
        np.savez(path / "lyon.npz", X=np.ones((5, 2)))
        self.folder = SiteFolder.create(path / "lyon", name="lyon")
        self.folder.add_data("main", path / "lyon.npz", epsilon=1.0, delta=1e-5)
        self.folder.pin("coordinator", Identity.generate().public.hex())
        self.process: subprocess.Popen[str] | None = None

    def serve(
        self, engine: str, filling: str = "", *, python: str = sys.executable, mode: str = "confined"
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SERVE, str(self.folder.path), engine, filling, python, mode]
        place = {**os.environ, "TMPDIR": str(self.folder.path.parent)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=place)
        return self.process

    def close(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            for process in [*psutil.Process(self.process.pid).children(recursive=True), self.process]:
                process.kill()
            self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()
    # What a failed test leaves may be too deep for the tests' own removal.
    for left in tmp_path.glob("dpcape-engine-*"):
        remove(left)


def said(process: subprocess.Popen[str], wanted: str) -> str:
    """Read lines up to one that holds some words, and return it."""
    lines = []
    while line := process.stdout.readline():
        lines.append(line)
        if wanted in line:
            return line
    raise AssertionError("the supervisor ended: " + "".join(lines))


def stop(process: subprocess.Popen[str]) -> float:
    """Stop a site as its steward does; return after how many seconds it had ended."""
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    return time.monotonic() - begun


DEEP = """
import os
os.symlink("/", "link")
os.mkdir("closed", 0)
for _ in range(1200):
    os.mkdir("inside")
    os.chdir("inside")
os._exit(0)
"""


def test_folders_of_any_depth_do_not_end_the_site_and_none_is_left(site: Site, tmp_path: Path) -> None:
    process = site.serve(DEEP)
    said(process, "start again in 1 s")
    assert stop(process) < PROMPT
    assert [path for path in tmp_path.iterdir() if path.name.startswith("dpcape-")] == []


# Forty processes that start another and end, without end (60 s here): none is still there when its number was read.
HOPPING = """
import os, time
end, beat = time.time() + 60, os.open("beat", os.O_WRONLY | os.O_CREAT, 0o600)
for _ in range(40):
    if os.fork() == 0:
        break
else:
    LAST
for n in range(10**9):
    if LEAVING:
        os.setsid()
    if time.time() > end or os.fork():
        os._exit(0)
    if n % 3 == 0:
        os.pwrite(beat, b"%f" % time.time(), 0)
"""


class Beat:
    """The engine's last sign of life, in a file that outlives its folder."""

    def __init__(self, path: Path) -> None:
        end = time.monotonic() + 30
        while not (found := [beat for beat in path.glob("dpcape-engine-*/beat") if beat.stat().st_size]):
            assert time.monotonic() < end
            time.sleep(0.1)
        self._file = found[0].open()

    def last(self) -> str:
        self._file.seek(0)
        return self._file.read()

    def goes_on(self) -> bool:
        before = self.last()
        time.sleep(1.0)
        return self.last() != before

    def close(self) -> None:
        self._file.close()


@pytest.mark.parametrize("leaving", [False, True])
def test_no_process_of_an_engine_outlives_the_stewards_stop(site: Site, tmp_path: Path, leaving: bool) -> None:
    process = site.serve(HOPPING.replace("LAST", "time.sleep(60)").replace("LEAVING", str(leaving)))
    with contextlib.closing(Beat(tmp_path)) as beat:
        assert beat.goes_on()
        took = stop(process)
        assert not beat.goes_on()
    assert took < 10
    assert "COULD NOT BE ENDED" not in process.stdout.read()


def test_no_process_of_an_engine_outlives_a_restart(site: Site, tmp_path: Path) -> None:
    """The first process ends, and is known to have ended while the rest go on."""
    process = site.serve(HOPPING.replace("LAST", "time.sleep(3); os._exit(0)").replace("LEAVING", "False"))
    with contextlib.closing(Beat(tmp_path)) as beat:
        assert beat.goes_on()
        said(process, "the engine ended with code 0; vault and engine start again in 1 s")
        assert not beat.goes_on()
    stop(process)


ENDS_A_JOB = """
import subprocess, sys
from pathlib import Path
from nvflare.app_common.job_launcher.process_launcher import ProcessHandle
from dpcape.engines.flare.job_launcher import SiteJobHandle
job = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
handle = SiteJobHandle(ProcessHandle(process=job), Path("no code"))
handle.terminate()
handle.wait()
handle.terminate()
print(job.returncode)
"""


def test_the_end_of_a_job_is_not_that_of_the_engine_whose_group_it_is_in() -> None:
    pytest.importorskip("nvflare")
    command = [sys.executable, "-c", ENDS_A_JOB]
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=False)
    assert (done.returncode, done.stdout) == (0, "-9\n"), done.stderr


def test_what_could_not_be_ended_is_said_loudly_and_in_bounded_time(site: Site, tmp_path: Path) -> None:
    """Without a sandbox a process leaves every group and may outrun the supervisor."""
    hopping = HOPPING.replace("LAST", "time.sleep(20)").replace("LEAVING", "True").replace("+ 60", "+ 20")
    process = site.serve(hopping, mode="none")
    with contextlib.closing(Beat(tmp_path)) as beat:
        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        told = process.communicate(timeout=60)[0]
        took, goes_on = time.monotonic() - begun, beat.goes_on()
        while beat.goes_on():
            # They end by themselves, and must not slow down what comes next.
            pass
    assert took < 25
    assert not goes_on or (process.returncode == 1 and "COULD NOT BE ENDED" in told)


def test_a_stop_while_a_launcher_says_nothing_takes_effect_at_once(site: Site, tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 60\n")
    silent.chmod(0o755)
    process = site.serve("pass", python=str(silent))
    end = time.monotonic() + 30
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < end, process.poll()
        time.sleep(0.1)
    assert stop(process) < PROMPT


# Shuts the socket down on which the engine's processes meet, leaves a connection in it, and ends.
SHUTTING = """
import os, socket
listener = socket.socket(fileno=int(os.environ["DPCAPE_ENGINE_LISTENER"]))
address = listener.getsockname()
with socket.create_connection(address) as line:
    line.sendall(b"for the next engine")
listener.setblocking(False)
lines = 0
try:
    while True:
        listener.accept()
        lines += 1
except BlockingIOError:
    pass
socket.create_connection(address)
listener.shutdown(socket.SHUT_RDWR)
import sys
print("port", address[1], "lines", lines, file=sys.stderr, flush=True)
"""


def test_an_engine_that_ends_itself_gets_the_same_port_again_and_nothing_is_left_in_it(site: Site) -> None:
    """Landlock lets the engine connect to this port of every machine: a new one each time would add up."""
    process = site.serve(SHUTTING)
    told = [re.search(r"port ([0-9]+) lines ([0-9]+)", said(process, "lines")) for _ in range(3)]
    assert [found[2] for found in told] == ["1", "1", "1"]
    assert len({found[1] for found in told}) == 1
    stop(process)


FAILING = """
from dpcape.core.errors import InvalidParameter
if n == 2:
    raise InvalidParameter("A kit must name its server; got nothing.")
if n == 3:
    raise RuntimeError("can't start new thread")
"""


def test_no_failure_of_a_later_start_ends_the_site(site: Site) -> None:
    process = site.serve("pass", FAILING)
    assert "the engine ended with code 0; " in said(process, "start again in 1 s")
    assert "A kit must name its server; got nothing; " in said(process, "start again in 2 s")
    assert "RuntimeError: can't start new thread; " in said(process, "start again in 4 s")
    stop(process)


def test_a_first_start_that_fails_ends_it_with_the_reason(site: Site) -> None:
    process = site.serve("pass", "raise RuntimeError('no folder')")
    assert "no folder" in said(process, "RuntimeError")
    assert process.wait(timeout=60) != 0


def test_a_folder_is_removed_by_an_ordinary_account_whatever_its_modes(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    code = """
import os, sys
from pathlib import Path
from dpcape.site.vault.clearing import remove
place = Path(sys.argv[1]) / "work"
(place / "a" / "b" / "c").mkdir(parents=True)
(place / "0" / "1").mkdir(parents=True)
(place / "1" / "0").mkdir(parents=True)
(place / "a" / "link").symlink_to(Path(sys.argv[1]) / "outside")
(place / "a" / "b" / "c" / "file").write_text("")
for path in (place / "a" / "b" / "c", place / "a" / "b", place / "a"):
    path.chmod(0)
remove(place)
print(place.exists())
"""
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    account = {"user": ENGINE_UID, "group": ENGINE_UID, "extra_groups": []} if os.geteuid() == 0 else {}
    command = [engine_python(), "-I", "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **account)
    assert done.stdout.strip() == "False", done.stderr
    assert (tmp_path / "outside" / "kept").read_text() == "kept"


@pytest.mark.parametrize("code", [0, 3])
def test_an_engine_that_ends_is_started_again_and_the_steward_stops_it_promptly(site: Site, code: int) -> None:
    process = site.serve(f"import sys; sys.exit({code})")
    pauses = []
    while len(pauses) < 2:
        line = process.stdout.readline()
        assert line, "the supervisor ended"
        found = re.fullmatch(rf"the engine ended with code {code}; vault and engine start again in ([0-9.]+) s\n", line)
        pauses += [] if found is None else [float(found[1])]
    assert pauses == [1.0, 2.0]
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert time.monotonic() - begun < PROMPT


def test_a_steward_stops_a_site_whose_engine_runs(site: Site) -> None:
    process = site.serve("import time; time.sleep(600)")
    assert "confined" in process.stdout.readline()
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    assert time.monotonic() - begun < PROMPT
    assert not [child for child in children if child.is_running()]
