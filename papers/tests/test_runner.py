"""Running cells: kept, resumed, side by side, and failing one by one."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from made_experiments import dying, failing, made, slow, squares

from dpcape.core.errors import InvalidParameter
from dpcape_papers.experiments.cache import Cache
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Experiment, RunSetting
from dpcape_papers.experiments.folder import read_folder
from dpcape_papers.experiments.index import write_index
from dpcape_papers.experiments.runner import Report, run


class Counted:
    """Progress that counts."""

    def __init__(self) -> None:
        self.begun: dict[str, tuple[int, int]] = {}
        self.advanced = 0
        self.ended: list[str] = []

    def begin(self, experiment: Experiment, n_cells: int, n_kept: int) -> None:
        self.begun[experiment.name] = (n_cells, n_kept)

    def advance(self, experiment: Experiment) -> None:
        self.advanced += 1

    def end(self, report: Report) -> None:
        self.ended.append(report.experiment.name)


def go(experiments: list[Experiment], folder: Path, *, jobs: int = 1, **setting) -> tuple[list[Report], Counted]:
    progress = Counted()
    chosen = RunSetting(**{"quick": False, "data": DataFolder(folder), **setting})
    reports = run(experiments, chosen, folder / "out", cache=folder / "cache", jobs=jobs, progress=progress)
    return reports, progress


def computed(folder: Path) -> list[str]:
    log = folder / "log"
    return sorted(line.split()[0] for line in log.read_text().splitlines()) if log.exists() else []


def test_a_folder_holds_rows_picture_verdicts_and_where_they_come_from(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("1,2\n")
    (report,), progress = go([made("dissertation-0.1", squares, tmp_path / "log", note="Made up.")], tmp_path)
    assert not report.failures
    assert progress.begun == {"dissertation-0.1": (3, 0)}
    assert (progress.advanced, progress.ended) == (3, ["dissertation-0.1"])
    folder = tmp_path / "out" / "dissertation-0.1"
    with (folder / "data.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows if row["curve"] == "non-private"] == ["0.0", "1.0", "4.0"]
    assert {row["verified_epsilon"] for row in rows if row["curve"] == "CAPE"} == {"inf"}
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "figure.svg").read_text()
    assert json.loads((folder / "verdicts.json").read_text())[0]["outcome"] == "holds"
    about = json.loads((folder / "about.json").read_text())
    assert [cell["options"]["seed"] for cell in about["cells"]] == [0, 1, 2]
    assert about["data"] == {"numbers.csv": DataFolder(tmp_path).digest("numbers.csv")}
    assert about["note"] == "Made up."
    assert {"dpcape", "numpy", "scipy", "scikit-learn", "python"} <= set(about["versions"])


def test_what_is_kept_is_not_computed_again_and_gives_the_same_files(tmp_path: Path) -> None:
    experiment = made("dissertation-0.1", squares, tmp_path / "log")
    go([experiment], tmp_path, runs=1)
    assert computed(tmp_path) == ["0"]
    go([experiment], tmp_path)
    assert computed(tmp_path) == ["0", "1", "2"]
    folder = tmp_path / "out" / "dissertation-0.1"
    before = {name: (folder / name).read_bytes() for name in ("data.csv", "figure.svg", "verdicts.json", "about.json")}
    (report,), progress = go([experiment], tmp_path)
    assert not report.failures
    assert progress.begun == {"dissertation-0.1": (3, 3)}
    assert computed(tmp_path) == ["0", "1", "2"]
    assert before == {name: (folder / name).read_bytes() for name in before}


def test_a_damaged_entry_is_computed_again(tmp_path: Path) -> None:
    experiment = made("dissertation-0.1", squares, tmp_path / "log")
    go([experiment], tmp_path)
    first, second, _ = sorted((tmp_path / "cache").rglob("*.json"))
    first.write_text(first.read_text()[:-20])
    second.write_text(second.read_text().replace('"value": ', '"value": 1'))
    (report,), progress = go([experiment], tmp_path)
    assert not report.failures
    assert progress.begun == {"dissertation-0.1": (3, 1)}
    assert len(computed(tmp_path)) == 5
    assert json.loads(second.read_text())


def test_cells_shared_by_two_experiments_are_computed_once(tmp_path: Path) -> None:
    both = [made("dissertation-0.1", squares, tmp_path / "log"), made("capecca-0", squares, tmp_path / "log")]
    reports, progress = go(both, tmp_path)
    assert not any(report.failures for report in reports)
    assert computed(tmp_path) == ["0", "1", "2"]
    assert progress.advanced == 6


def test_a_failing_cell_is_reported_and_stops_no_other(tmp_path: Path) -> None:
    bad, good = made("dissertation-0.1", failing, tmp_path / "log"), made("dissertation-0.2", squares, tmp_path / "log")
    (first, second), _ = go([bad, good], tmp_path)
    assert len(first.failures) == 1
    assert "'seed': 1" in first.failures[0]
    assert "seed one cannot be used" in first.failures[0]
    assert not second.failures
    assert read_folder(tmp_path / "out" / "dissertation-0.1") is None
    assert read_folder(tmp_path / "out" / "dissertation-0.2") is not None
    assert computed(tmp_path) == ["0", "0", "1", "2", "2"]


def test_a_process_that_dies_takes_only_its_own_cell_with_it(tmp_path: Path) -> None:
    experiment = made("dissertation-0.1", dying, tmp_path / "log", seeds=(1, 0, 2, 3))
    (report,), progress = go([experiment], tmp_path, jobs=2)
    assert len(report.failures) == 1
    assert "--jobs" in report.failures[0]
    assert set(computed(tmp_path)) == {"0", "2", "3"}
    assert progress.advanced == 4


def test_two_processes_work_at_the_same_time_with_one_thread_each(tmp_path: Path) -> None:
    experiment = made("dissertation-0.1", slow, tmp_path / "log", seeds=range(6))
    (report,), _ = go([experiment], tmp_path, jobs=2)
    assert not report.failures
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert len({process for _, process, _ in lines}) == 2
    assert {threads for _, _, threads in lines} == {"1"}


# Workers run this file's top level too, so that nothing is imported there: pytest and this module cost each of them
# most of its start.
INTERRUPTED = """
import sys
sys.path.append({here!r})
if __name__ == "__main__":
    from pathlib import Path
    from made_experiments import Silent, endless, made
    from dpcape_papers.experiments.data import DataFolder
    from dpcape_papers.experiments.experiment import RunSetting
    from dpcape_papers.experiments.runner import run
    folder = Path({folder!r})
    experiment = made("dissertation-0.1", endless, folder / "log")
    setting = RunSetting(quick=False, data=DataFolder(folder))
    run([experiment], setting, folder / "out", cache=folder / "cache", jobs=2, progress=Silent())
"""


def test_an_interrupt_loses_only_what_is_being_computed(tmp_path: Path) -> None:
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text(INTERRUPTED.format(here=str(Path(__file__).parent), folder=str(tmp_path)))
    process = subprocess.Popen([sys.executable, script], stderr=subprocess.PIPE, start_new_session=True)
    give_up = time.monotonic() + 90
    while not (log.exists() and len(log.read_text().splitlines()) == 3 and len(kept(tmp_path)) == 2):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < give_up
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=30)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in complaint
    assert ends(process.pid)
    store = Cache(tmp_path / "cache")
    values = [found.rows[0]["value"] for path in kept(tmp_path) if (found := store.load(path.stem)) is not None]
    assert sorted(values) == [0.0, 1.0]


def ends(group: int) -> bool:
    """Tell whether everybody in a group of processes ends soon."""
    try:
        for _ in range(200):
            os.killpg(group, 0)
            time.sleep(0.05)
    except ProcessLookupError:
        return True
    return False


def kept(folder: Path) -> list[Path]:
    return list((folder / "cache").rglob("*.json"))


def test_a_figure_that_cannot_be_drawn_is_reported(tmp_path: Path) -> None:
    def draw(results):
        raise KeyError("no such panel")

    good = made("dissertation-0.1", squares, tmp_path / "log")
    work = replace(good.work(), draw=draw)
    bad = replace(good, name="dissertation-0.2", work=lambda: work)
    (first, second), _ = go([bad, good], tmp_path)
    assert "no such panel" in first.failures[0]
    assert not second.failures


def test_a_method_of_the_users_own_joins_and_has_rows_of_its_own(tmp_path: Path) -> None:
    experiment = made("dissertation-0.1", squares, tmp_path / "log", extendable=True)
    name = "made_experiments:THRICE"
    go([experiment], tmp_path)
    (report,), progress = go([experiment], tmp_path, methods=[name])
    assert not report.failures
    assert progress.begun == {"dissertation-0.1": (3, 0)}
    text = (tmp_path / "out" / "dissertation-0.1" / "data.csv").read_text()
    assert "thrice" in text
    assert "twice" in text
    with pytest.raises(InvalidParameter, match=r"dissertation-0\.2.*--list"):
        go([made("dissertation-0.2", squares, tmp_path / "log")], tmp_path, methods=[name])


def test_the_index_shows_what_there_is_and_grows(tmp_path: Path) -> None:
    first = made("dissertation-0.1", squares, tmp_path / "log", substitutes="<Numbers> instead of data.")
    second = made("capecca-0", squares, tmp_path / "log", seeds=(0, 1, 2, 3))
    names = ["capecca-0", "dissertation-0.1", "dissertation-0.3"]
    go([first], tmp_path)
    page = write_index(tmp_path / "out", names).read_text()
    assert "1 of 3 figures and tables, 1 claim: 1 holds, 0 hold under conditions, 0 fail, 0 not shown." in page
    assert 'href="#dissertation-0.1"' in page
    assert 'id="dissertation-0.1"' in page
    assert "&lt;Numbers&gt; instead of data." in page
    # Once among the pictures, once with its verdicts.
    assert page.count("data:image/svg+xml;base64,") == 2
    go([second], tmp_path)
    page = write_index(tmp_path / "out", names).read_text()
    assert "2 of 3 figures and tables, 2 claims: 1 holds, 0 hold under conditions, 1 fails, 0 not shown." in page
    assert page.index("Decentralized differentially private") > page.index("(capeCCA)")
    for scheme in ("http://", "https://", "<script"):
        assert scheme not in page
