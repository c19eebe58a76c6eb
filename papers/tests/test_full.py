"""The full run: one file per cell, resumed where it stopped, compared with the papers."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpcape_papers.commands import reproduce
from dpcape_papers.experiments import full, registry, stored_page
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RunSetting
from dpcape_papers.experiments.replica import paper_points
from dpcape_papers.experiments.results import number
from dpcape_papers.experiments.stored import load

SHARED = DataFolder(Path(os.environ["DPCAPE_DATA"]) if os.environ.get("DPCAPE_DATA") else None)
GIVEN = pytest.mark.skipif(not SHARED.has("authors/figures/fig8.3.csv"), reason="the authors' numbers are not given")


def cells(folder: Path, *names: str, runs: int = 2) -> list[full.FullCell]:
    chosen = [registry.experiments()[name] for name in names]
    return full.full_cells(chosen, RunSetting(quick=False, data=SHARED, runs=runs), folder)


@GIVEN
def test_every_plotted_point_of_known_curves_has_a_cell(tmp_path: Path) -> None:
    found = cells(tmp_path, *registry.experiments(), runs=1)
    assert len({one.path for one in found}) == len(found)
    figures = {one.figure for one in found}
    assert figures == {"3.5", "4.1", "5.1", "5.2", "5.3", "7.1", "7.2", "8.1", "8.2", "8.3"}
    many = cells(tmp_path, *registry.experiments(), runs=10)
    assert len(many) == 10 * len(found)
    assert [full._run(one.cell) for one in many[: len(found)]] == [0] * len(found)


@GIVEN
def test_a_cell_is_stored_once_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first, second) = (
        one for one in cells(tmp_path / "cells", "dissertation-8.3") if one.cell.options["panel"] == "top-1"
    )
    assert [one.path.name for one in full.run_full([first], SHARED, 1)] == ["top-1-run0.json"]
    kept = json.loads(first.path.read_text())
    assert kept["commit"]
    assert set(kept["data"]) == {"authors/data/fm_synth20.npz"}
    assert list(full.run_full([first], SHARED, 1)) == []
    # Other options, or another file of data, are another cell.
    assert not full.is_stored(second, SHARED)
    monkeypatch.setattr(DataFolder, "digest", lambda self, name: "another digest")
    assert not full.is_stored(first, SHARED)
    rows, commits = full.stored_rows("8.3", tmp_path / "cells")
    assert commits == {kept["commit"]}
    (path,) = full.summarise([registry.experiments()["dissertation-8.3"]], tmp_path / "cells")
    assert path == tmp_path / "dissertation-8.3.csv"
    assert {point.n_runs for point in load("dissertation-8.3", tmp_path)} == {1}
    replica = registry.experiments()["dissertation-8.3"].replica
    assert replica is not None
    shown = [one for one in paper_points(SHARED, replica()) if one.panel == "top-1"]
    stored = {(r["curve"], number(r, "x")) for r in rows}
    assert {(one.curve, one.x) for one in shown} <= stored


@GIVEN
def test_the_command_says_what_is_stored(tmp_path: Path) -> None:
    words = ["dissertation-8.3", "--stored", "--store", str(tmp_path), "--data", str(SHARED.path)]
    shown = CliRunner().invoke(reproduce, words, catch_exceptions=False)
    assert shown.exit_code == 0
    assert "0 of 120 cells are stored" in shown.stdout
    assert "not compared" in shown.stdout


@GIVEN
def test_the_documentation_has_the_rates_of_what_is_stored() -> None:
    text = (Path(__file__).parents[2] / "docs" / "papers" / "figures.md").read_text(encoding="utf-8")
    assert text == stored_page.page(text, SHARED), (
        "run: python -m dpcape_papers.experiments.stored_page docs/papers/figures.md FOLDER"
    )
    assert "| All | " in text


def test_the_commit_of_a_cell_is_marked_where_code_changed_and_not_where_cells_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    place = tmp_path / "package" / "experiments" / "full.py"
    place.parent.mkdir(parents=True)
    place.write_text("1\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    monkeypatch.setattr(full, "__file__", str(place))
    head = git("rev-parse", "--short=12", "HEAD").strip()
    cell = tmp_path / "package" / "stored" / "cells" / "a.json"
    cell.parent.mkdir(parents=True)
    cell.write_text("{}")
    assert full.commit.__wrapped__() == head
    place.write_text("2\n")
    assert full.commit.__wrapped__() == f"{head}+"
