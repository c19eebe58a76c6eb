"""Logs are JSON with levels where asked for, and nothing that is not marked depends on records."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape import Replay
from dpcape.cli import main
from dpcape.errors import DpcapeError
from dpcape.runs.in_process import run_in_process
from dpcape.site.folder import SiteFolder
from dpcape.site.vault.log_lines import ENGINE_MARK, ServiceLog, VaultFormatter
from dpcape.study import Study

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


@pytest.mark.filterwarnings("ignore::dpcape.errors.DpcapeWarning")
def test_entries_are_the_same_whatever_the_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    draw = np.random.default_rng(3)
    first = logged(tmp_path / "young", draw.uniform(20, 30, 60), caplog)
    second = logged(tmp_path / "old", draw.uniform(70, 95, 60), caplog)
    assert first == second
    assert any("refused" in str(entry["message"]) for entry in first)
