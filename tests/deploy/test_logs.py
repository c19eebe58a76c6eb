"""Logs are JSON with levels where asked for, and nothing that is not marked depends on records."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from dpcape import Replay
from dpcape.cli import main
from dpcape.core.errors import DpcapeError
from dpcape.core.secure_sum.identity import Identity
from dpcape.runs.in_process import run_in_process
from dpcape.site.folder import SiteFolder
from dpcape.site.vault.client import VaultClient
from dpcape.site.vault.log_lines import ENGINE_MARK, ServiceLog, VaultFormatter
from dpcape.site.vault.server import VaultSettings
from dpcape.study.study import Study
from dpcape.transport.frames import Ask, decode_reply, signed

SITES = ("lima", "lyon", "oslo")
STUDY = """
[study]
name = "logged"
analysis = "mean"
epsilon = 2.0
delta = 1e-6
[protocol]
kind = "cape"
n_colluding = 1
[data]
kind = "rows"
bound = 1.0
columns = { age = [0, 100] }
""" + "".join(f'[sites.{name}]\nfolder = "{name}"\n' for name in SITES)


def test_lines_are_objects_with_time_level_source_and_message() -> None:
    told: list[str] = []
    log = ServiceLog("json", told.append)
    log.say("lyon serves")
    log.warn("the engine ended with code 1")
    log.fail("nothing is served")
    log.say(f'{ENGINE_MARK}x\n{{"level": "error"}}')
    found = [json.loads(line) for line in told]
    assert [(entry["level"], entry["source"]) for entry in found] == [
        ("info", "supervisor"),
        ("warning", "supervisor"),
        ("error", "supervisor"),
        ("info", "engine"),
    ]
    assert all(set(entry) == {"time", "level", "source", "message"} for entry in found)
    assert all("\n" not in line for line in told)


def test_text_stays_as_it_was_said() -> None:
    told: list[str] = []
    ServiceLog("text", told.append).say("lyon serves")
    assert told == ["lyon serves"]


def test_what_ends_serving_is_an_entry_too(tmp_path: Path) -> None:
    options = ["site", "serve", "--folder", str(tmp_path), "--kit", str(tmp_path), "--log", "json"]
    done = CliRunner().invoke(main, options)
    entry = json.loads(done.stderr)
    assert (done.exit_code, entry["level"]) == (2, "error")
    assert "site folder" in entry["message"]


class Kept(logging.Handler):
    """Entries as the vault's log would hold them, without their times."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[dict[str, object]] = []
        self.setFormatter(VaultFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        entry = json.loads(self.format(record))
        entry.pop("time")
        self.entries.append(entry)


def logged(place: Path, ages: np.ndarray, caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    """Run a study twice with site folders, the second time over its ceiling; return what was logged and not marked."""
    place.mkdir()
    study = Study.parse(STUDY, path=place / "study.toml")
    (place / "study.toml").write_text(STUDY)
    for name in SITES:
        (place / f"{name}.csv").write_text("age\n" + "\n".join(f"{age:.3f}" for age in ages) + "\n")
        folder = SiteFolder.create(place / name, name=name)
        folder.add_data("main", place / f"{name}.csv", epsilon=2.5, delta=1e-5)
    for folder in map(SiteFolder, (place / name for name in SITES)):
        for name in SITES:
            folder.pin(name, SiteFolder(place / name).identity.public.hex())
        folder.approve(study, data="main", runs=2)
    kept = Kept()
    logging.getLogger("dpcape").addHandler(kept)
    try:
        with caplog.at_level(logging.DEBUG, logger="dpcape"):
            run_in_process(study, place / "run", noise=Replay(1))
            with pytest.raises(DpcapeError):
                run_in_process(study, place / "run", noise=Replay(2), again=True)
    finally:
        logging.getLogger("dpcape").removeHandler(kept)
    return [entry for entry in kept.entries if "may_speak_of_data" not in entry]


@pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
def test_entries_are_the_same_whatever_the_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    draw = np.random.default_rng(3)
    first = logged(tmp_path / "young", draw.uniform(20, 30, 60), caplog)
    second = logged(tmp_path / "old", draw.uniform(70, 95, 60), caplog)
    assert first == second
    assert any("refused" in str(entry["message"]) for entry in first)


ALONE = """[study]
name = "alone"
analysis = "mean"
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "independent"
[sites.lyon]
[data]
kind = "rows"
features = 2
array = "X"
bound = 1.0
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a vault needs Linux")
@pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
def test_what_a_vault_says_of_records_is_in_its_own_log_alone(tmp_path: Path) -> None:
    """Standard error is the supervisor's, whose lines the machine's log may send anywhere."""
    data, coordinator = 0.1 * np.ones((50, 2)), Identity.generate()
    data[[3, 17, 31]] = np.nan
    np.savez(tmp_path / "lyon.npz", X=data)
    (tmp_path / "study.toml").write_text(ALONE)
    study, folder = Study.load(tmp_path / "study.toml"), SiteFolder.create(tmp_path / "lyon", name="lyon")
    folder.add_data("main", tmp_path / "lyon.npz", epsilon=2.0, delta=1e-5)
    folder.pin("coordinator", coordinator.public.hex())
    folder.approve(study)
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    settings = VaultSettings(folder=str(folder.path), mode="confined", control=theirs.fileno())
    command = [sys.executable, "-I", "-m", "dpcape.site.vault.server"]
    pipe = subprocess.PIPE
    with control, subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, pass_fds=(theirs.fileno(),)) as vault:
        theirs.close()
        assert vault.stdin is not None
        assert vault.stdout is not None
        vault.stdin.write(msgspec.json.encode(settings) + b"\n")
        vault.stdin.close()
        vault.stdout.readline()
        client, end = VaultClient(control), time.monotonic() + 30
        ask = Ask(kind="ready", job="first", study=study.digest(), site="lyon", number=0)
        state = "busy"
        while state == "busy" and time.monotonic() < end:
            state = decode_reply(client.ask(signed(ask, coordinator, b"")), folder.identity.public)[0].state
            time.sleep(0.02)
        client.close()
        vault.kill()
        assert vault.stderr is not None
        assert (state, vault.stderr.read()) == ("ok", b"")
    entries = [json.loads(line) for line in (folder.path / "vault.log").read_text().splitlines()]
    said = [entry for entry in entries if "3 of 50 records" in entry["message"]]
    assert [entry.get("may_speak_of_data") for entry in said] == [True]
