"""The supervisor against an engine that ends as it likes: it is started again, and the steward alone ends the site."""

from __future__ import annotations

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

from dpcape.core.secure_sum.identity import Identity
from dpcape.site.folder import SiteFolder

# Serves a folder with a real vault, sandbox and self-test; the engine is a line of Python.
SERVE = """
import sys
from pathlib import Path
from dpcape.site.vault.accounts import Account, Accounts
from dpcape.site.vault.guarded import Guarded
from dpcape.site.vault.modes import CONFINED
from dpcape.site.vault.server import VaultSettings
from dpcape.site.vault.supervisor import Engine, Serving, Supervisor

folder, code = Path(sys.argv[1]), sys.argv[2]
keys = folder / "keys"
here = Account.current()
settings = VaultSettings(folder=str(folder), mode="confined", control=-1)
guarded = Guarded(folder, keys, (keys / "identity.key", folder / "ledger.sqlite"))
serving = Serving(sys.executable, settings, CONFINED, Accounts(here, here), guarded)
engine = Engine(sys.executable, lambda work: ["-c", code], lambda work, port: (work / "tmp").mkdir(), (), {})
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

    def serve(self, engine: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SERVE, str(self.folder.path), engine]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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
    assert time.monotonic() - begun < 5


def test_a_steward_stops_a_site_whose_engine_runs(site: Site) -> None:
    process = site.serve("import time; time.sleep(600)")
    assert "confined" in process.stdout.readline()
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    assert time.monotonic() - begun < 5
    assert not [child for child in children if child.is_running()]
