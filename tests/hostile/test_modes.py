"""``dpcape site serve`` as an ordinary user and as root: the line each mode prints, and what is refused."""

from __future__ import annotations

import gc
import html
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

pytest.importorskip("nvflare")

from tests.engine.accounts import ENGINE_UID, engine_environment, engine_python
from tests.engine.consortium import Consortium, free_port, registration

from dpcape.engines.flare.kits import FederationFolder
from dpcape.engines.flare.workspace import SiteKit
from dpcape.guarantee.separation import LINES
from dpcape.runs.in_process import finish
from dpcape.site.folder import SiteFolder
from dpcape.site.vault.landlock import abi

pytestmark = [pytest.mark.hostile, pytest.mark.filterwarnings("default")]


class Place:
    """A site folder and its kit, for an account."""

    def __init__(self, path: Path) -> None:
        self.path, self.folder = path, path / "lyon"
        np.savez(path / "lyon.npz", X=np.ones((5, 2)))
        folder = SiteFolder.create(self.folder, name="lyon")
        folder.add_data("main", path / "lyon.npz", epsilon=1.0, delta=1e-5)
        federation = FederationFolder(path / "federation")
        federation.create([registration(folder)], host="localhost", port=free_port())
        folder.pin("coordinator", federation.coordinator().public.hex())
        self.kit = path / "kit"
        self.server = SiteKit.read(federation.kits / "lyon").address
        shutil.copytree(federation.kits / "lyon", self.kit)

    def give_to(self, uid: int) -> None:
        # A ledger that nobody uses any more loses two of its files when its connection is collected.
        gc.collect()
        for path in (self.path, *self.path.rglob("*")):
            os.chown(path, uid, uid)

    def serve(
        self,
        *options: str,
        ordinary: bool = False,
        kit: Path | None = None,
        stdin: int = subprocess.DEVNULL,
        **environment: str,
    ) -> subprocess.Popen[str]:
        account = {"user": ENGINE_UID, "group": ENGINE_UID, "extra_groups": []} if ordinary else {}
        python = engine_python() if ordinary else sys.executable
        command = [python, "-m", "dpcape", "site", "serve", "--folder", str(self.folder), "--kit", str(kit or self.kit)]
        return subprocess.Popen(
            [*command, *options],
            env={**engine_environment(), "HOME": str(self.path), **environment},
            cwd="/",
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **account,
        )


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    made = Place(Path(tempfile.mkdtemp(prefix="dpcape-modes-")))
    # Confirmed before, by the steward.
    SiteFolder(made.folder).note_serving({"server": made.server, "confirmed": True})
    yield made
    shutil.rmtree(made.path, ignore_errors=True)


def line_of(process: subprocess.Popen[str]) -> str:
    """The second line: how well the engine is separated. The process is ended, and leaves none behind."""
    try:
        process.stdout.readline()
        line = process.stdout.readline().strip()
        children = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(timeout=30)
    finally:
        process.stdout.close()
    end = time.monotonic() + 10
    while any(child.is_running() and child.status() != "zombie" for child in children) and time.monotonic() < end:
        time.sleep(0.1)
    assert not [child for child in children if child.is_running() and child.status() != "zombie"]
    return line


@pytest.mark.skipif(os.geteuid() != 0, reason="changes accounts")
def test_root_runs_the_engine_under_another_account(place: Place) -> None:
    place.give_to(0)
    assert line_of(place.serve()) == LINES["account"]
    refused = place.serve("--engine-user", "root")
    assert "must not be root" in refused.communicate(timeout=60)[0]


@pytest.mark.parametrize(("version", "mode"), [("7", "confined"), ("5", "signals"), ("3", "ports"), ("0", "none")])
def test_an_ordinary_user_is_told_what_its_kernel_allows(place: Place, version: str, mode: str) -> None:
    assert abi() >= 6
    ordinary = os.geteuid() == 0
    if ordinary:
        place.give_to(ENGINE_UID)
    options = ["--unseparated"] if mode == "none" else []
    process = place.serve(*options, ordinary=ordinary, DPCAPE_LANDLOCK_AT_MOST=version)
    assert line_of(process) == LINES[mode]


def test_nothing_is_served_unseparated_unless_asked_for(place: Place) -> None:
    ordinary = os.geteuid() == 0
    refused = place.serve(ordinary=ordinary, DPCAPE_LANDLOCK_AT_MOST="0")
    assert "--unseparated" in refused.communicate(timeout=60)[0]
    assert refused.returncode == 2


def test_data_in_the_engines_reach_are_not_served(place: Place) -> None:
    """A data set below a folder that Python imports from lies in the engine's reach."""
    from dpcape.site.vault.guarded import Guarded

    prefix = Path(sys.prefix)
    guarded = Guarded(place.folder, place.folder / "keys", (prefix / "data" / "records.npz",))
    assert guarded.under([str(prefix)]) == [str(prefix / "data" / "records.npz")]
    assert guarded.under(["/usr/lib"]) == []


# Version of Landlock that each site of one federation uses, and whether an ordinary user serves it.
SERVED = {
    "account": (7, False),
    "confined": (7, True),
    "signals": (5, True),
    "ports": (3, True),
    "none": (0, True),
}


@pytest.fixture
def mixed() -> Iterator[Consortium]:
    """A federation with one site in each mode; sites are called by their modes."""
    made = Consortium(Path(tempfile.mkdtemp(prefix="dpcape-mixed-")), list(SERVED))
    # Folders of other accounts are below it.
    made.path.chmod(0o711)
    made.create()
    for name in ("folders", "data", "federation", "federation/kits"):
        (made.path / name).chmod(0o711)
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.path, ignore_errors=True)


def serve_as_ordinary_user(consortium: Consortium, site: str, version: int) -> None:
    # A ledger that nobody uses any more loses two of its files when its connection is collected.
    gc.collect()
    owned = [consortium.folder(site), consortium.kit(site)]
    for path in (consortium.path / "data" / f"{site}.npz", *owned, *(file for top in owned for file in top.rglob("*"))):
        os.chown(path, ENGINE_UID, ENGINE_UID)
    consortium.started[site] = time.time()
    options = ["--unseparated"] if version == 0 else []
    with (consortium.path / f"{site}.out").open("wb") as out:
        consortium.running[site] = subprocess.Popen(
            [engine_python(), *consortium.serve_command(site, consortium.kit(site))[1:], *options],
            env={**engine_environment(), "HOME": "/", "DPCAPE_LANDLOCK_AT_MOST": str(version)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            user=ENGINE_UID,
            group=ENGINE_UID,
            extra_groups=[],
            start_new_session=True,
        )


@pytest.mark.skipif(os.geteuid() != 0, reason="changes accounts")
def test_the_line_of_each_mode_is_in_the_report_of_a_study_on_the_engine(mixed: Consortium) -> None:
    study = mixed.study("mixed", "mean", minimum=len(SERVED), sites=list(SERVED))
    mixed.approve(study)
    mixed.start_one("server")
    for site, (version, is_ordinary) in SERVED.items():
        if is_ordinary:
            serve_as_ordinary_user(mixed, site, version)
        else:
            mixed.start_one(site)
    mixed.await_connected(list(SERVED), seconds=120)
    run = mixed.run(study)
    finish(run)
    shown = " ".join(html.unescape((run.path / "report.html").read_text()).split())
    for mode in SERVED:
        assert f"at {mode}: {LINES[mode]}" in shown, (mixed.path / f"{mode}.out").read_text()[-2000:]
