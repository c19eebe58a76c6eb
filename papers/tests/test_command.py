"""``dpcape reproduce`` as a user types it."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from made_experiments import failing, made, squares

from dpcape.cli import main
from dpcape.core.errors import InvalidParameter
from dpcape_papers.experiments import registry
from dpcape_papers.experiments.cache import key_of
from dpcape_papers.experiments.comparison import load_method
from dpcape_papers.experiments.curves import true_epsilon_lines
from dpcape_papers.experiments.data import DataFolder, find_data
from dpcape_papers.experiments.experiment import RunSetting
from dpcape_papers.experiments.results import PUBLISHED, Results, row


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    every = [
        made("dissertation-0.1", squares, tmp_path / "log", extendable=True),
        made("dissertation-0.2", failing, tmp_path / "log"),
        made("capecca-0", squares, tmp_path / "log"),
    ]
    monkeypatch.setattr(registry, "experiments", lambda: {one.name: one for one in every})
    return tmp_path


def reproduce(*words: object) -> Result:
    return CliRunner().invoke(main, ["reproduce", *(str(word) for word in words)])


def test_the_list_names_everything_and_marks_what_takes_methods(known: Path) -> None:
    result = reproduce("--list")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "dissertation-0.1 + Figure 0: made for tests",
        "dissertation-0.2   Figure 0: made for tests",
        "capecca-0          Figure 0: made for tests",
    ]


def test_named_experiments_run_and_the_index_is_said(known: Path) -> None:
    out = known / "out"
    result = reproduce("dissertation-0.1", "--runs", 2, "--out", out, "--data", known, "--jobs", 1)
    assert result.exit_code == 0, result.output
    assert f"Index: {out / 'index.html'}" in result.stdout
    assert "dissertation-0.1: 0 hold, 0 hold under conditions, 0 fail, 1 not shown" in result.stderr
    assert (known / "log").read_text().count("\n") == 2
    assert list((out / ".cache").rglob("*.json"))
    again = reproduce("dissertation-0.1", "--runs", 3, "--out", out, "--data", known, "--jobs", 1)
    assert again.exit_code == 0
    assert "dissertation-0.1: 1 holds, 0 hold under conditions, 0 fail" in again.stderr
    assert (known / "log").read_text().count("\n") == 3


def test_a_failure_is_told_and_gives_another_exit_code(known: Path) -> None:
    result = reproduce("--all", "--out", known / "out", "--data", known, "--jobs", 1)
    assert result.exit_code == 1
    assert "seed one cannot be used" in result.stderr
    assert "1 of 3" in result.stderr
    assert (known / "out" / "capecca-0" / "data.csv").exists()


def test_unknown_names_are_answered_with_close_ones(known: Path) -> None:
    result = reproduce("dissertation0.1")
    assert result.exit_code == 2
    assert "Did you mean" in result.stderr
    assert "dissertation-0.1" in result.stderr
    assert "--list" in reproduce("zzz").stderr
    assert reproduce().exit_code == 2


@pytest.mark.parametrize("name", ["made_experiments", "made_experiments:NOTHING", "no_such_module:X", ":X"])
def test_methods_must_be_importable(name: str) -> None:
    with pytest.raises(InvalidParameter, match="module:NAME"):
        load_method(name)


def test_methods_must_be_methods(known: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"Method\("):
        load_method("made_experiments:NOT_A_METHOD")
    result = reproduce("dissertation-0.1", "--method", "made_experiments:NOT_A_METHOD")
    assert result.exit_code == 2
    assert not (known / "log").exists()


def test_methods_are_found_in_the_working_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine_for_tests.py").write_text("from made_experiments import TWICE as MINE\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    assert load_method("mine_for_tests:MINE").curve == "twice"


def test_real_names_are_distinct_and_ordered() -> None:
    names = list(registry.experiments())
    assert len(set(names)) == len(names)
    papers = [one.paper for one in registry.experiments().values()]
    assert papers == sorted(papers, key=list(dict.fromkeys(papers)).index)
    assert registry._numbers("dissertation-4.10") > registry._numbers("dissertation-4.9")
    assert registry._numbers("dissertation-table-3.1") < registry._numbers("dissertation-3.2")


def test_naming_every_experiment_imports_nothing_that_computes_or_draws() -> None:
    """The list is what people type first; libraries of several seconds would be loaded for two columns of text."""
    code = (
        "import sys; from dpcape_papers.experiments.registry import experiments; experiments(); "
        "heavy = ('matplotlib', 'scipy', 'sklearn', 'dpcape.estimators', 'dpcape.federation.federation'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_figure_and_table_of_the_papers_is_there() -> None:
    chapters = ("3.2", "3.3", "3.5", "4.1", "5.1", "5.2", "5.3", "6.1", "6.2", "6.3", "6.4", "6.5", "6.6", "7.1", "7.2")
    wanted = {f"dissertation-{label}" for label in (*chapters, "8.1", "8.2", "8.3", "table-3.1")}
    wanted |= {"capecca-2", "capecca-3", "poster-1", "poster-2", "poster-3", "djica-1", "djica-2"}
    wanted |= {"factor-2", "factor-3", "factor-4"}
    assert wanted <= set(registry.experiments())


@pytest.mark.parametrize("quick", [True, False])
def test_cells_of_every_experiment_can_be_told_apart(quick: bool) -> None:
    setting = RunSetting(quick=quick, data=DataFolder(None))
    for experiment in registry.experiments().values():
        cells = experiment.cells(setting)
        assert cells, experiment.name
        assert len({key_of(cell, setting.data) for cell in cells}) == len(cells), experiment.name
        if experiment.extendable:
            takes = [inspect.signature(cell.compute).parameters for cell in cells]
            assert all("methods" in parameters for parameters in takes), experiment.name


def test_every_seed_has_runs_of_its_own() -> None:
    settings = [RunSetting(quick=True, data=DataFolder(None), seed=seed) for seed in (0, 7)]
    for experiment in registry.experiments().values():
        first, other = ({key_of(cell, setting.data) for cell in experiment.cells(setting)} for setting in settings)
        computed = {"dissertation-3.2", "dissertation-3.3", "dissertation-6.1", "dissertation-table-3.1"}
        assert first == other if experiment.name in computed else not first & other, experiment.name


def test_runs_are_as_many_as_the_user_says() -> None:
    """Where results are averaged over runs, one run has fewer cells than two."""
    one, two = (RunSetting(quick=True, data=DataFolder(None), runs=n) for n in (1, 2))
    same = {
        name
        for name, experiment in registry.experiments().items()
        if len(experiment.cells(one)) == len(experiment.cells(two))
    }
    assert same <= {"dissertation-3.2", "dissertation-3.3", "dissertation-6.1", "dissertation-table-3.1"}


def test_claimed_and_real_epsilons_are_put_into_words() -> None:
    def one(curve: str, claim: float, real: float, panel: str = "a") -> dict:
        return row(panel=panel, curve=curve, calibration=PUBLISHED, x=claim, measure="m", value=0.0,
                   claimed_epsilon=claim, verified_epsilon=real, delta=0.1)  # fmt: skip

    both = [one("CAPE", 1, 2.34), one("CAPE", 1, 2.5, "b"), one("CAPE", 0.1, 0.2)]
    both += [one("other", claim, float("inf")) for claim in (0.1, 1)]
    lines = [line.replace("\u00a0", " ") for line in true_epsilon_lines(Results(both))]
    assert lines == ["CAPE: 0.1 → 0.2, 1 → 2.34 to 2.5", "other: every claim → ∞"]


def test_data_are_looked_for_only_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    beside = tmp_path / "shared" / "data"
    beside.mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("DPCAPE_DATA", raising=False)
    assert find_data(None).path is None
    monkeypatch.setenv("DPCAPE_DATA", str(beside))
    assert find_data(None).path == beside.resolve()
    assert find_data(str(tmp_path)).path == tmp_path.resolve()
    monkeypatch.setenv("DPCAPE_DATA", str(tmp_path / "absent"))
    with pytest.raises(InvalidParameter, match="DPCAPE_DATA must be an existing folder"):
        find_data(None)


def test_product_code_names_no_folder_outside_the_repository() -> None:
    root = Path(__file__).parents[2]
    code = [path for part in ("src", "papers/src", "experiments") for path in (root / part).rglob("*.py")]
    assert len(code) > 300
    assert [str(path) for path in code if "../shared" in path.read_text(encoding="utf-8")] == []
