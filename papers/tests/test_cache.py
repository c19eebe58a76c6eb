"""What decides a result is in its key; what does not decide it is not."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from made_experiments import failing, squares

from dpcape_papers.experiments import cache
from dpcape_papers.experiments.cache import Cache, CachedRows, key_of
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell

NOWHERE = DataFolder(None)


def test_function_options_and_methods_are_in_the_key() -> None:
    cell = Cell(squares, {"seed": 1, "log": "a"})
    key = key_of(cell, NOWHERE)
    assert key == key_of(Cell(squares, {"log": "a", "seed": 1}), NOWHERE)
    others = [
        Cell(failing, cell.options),
        Cell(squares, {"seed": 2, "log": "a"}),
        Cell(squares, {"seed": 1, "log": "a", "methods": ["made_experiments:TWICE"]}),
    ]
    assert len({key, *(key_of(other, NOWHERE) for other in others)}) == 4


def test_the_content_of_data_files_is_in_the_key(tmp_path: Path) -> None:
    cell = Cell(squares, {"seed": 1}, files=["numbers.csv"])
    keys = {key_of(cell, NOWHERE)}
    for name, text in (("one", "1"), ("two", "2"), ("three", "1")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "numbers.csv").write_text(text)
        keys.add(key_of(cell, DataFolder(tmp_path / name)))
    assert len(keys) == 3


def test_computing_source_and_versions_are_in_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    core, papers = tmp_path / "dpcape", tmp_path / "dpcape_papers"
    figures = ("figures/one.py", "experiments/curves.py", "verdicts/trends.py")
    shown = ("dpcape/report/plots.py", *(f"dpcape_papers/{name}" for name in figures))
    computing = ("dpcape/estimators/pca.py", "dpcape_papers/published/pca.py")
    for name in (*computing, *shown):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr(cache, "PACKAGE", core)
    monkeypatch.setattr(cache, "PAPERS", papers)

    def digest() -> str:
        cache.source_digest.cache_clear()
        return cache.source_digest()

    before = digest()
    for name in shown:
        (tmp_path / name).write_text("x = 2\n")
        assert digest() == before
    for name in computing:
        (tmp_path / name).write_text("x = 2\n")
        assert digest() != before
        before = digest()
    cache.source_digest.cache_clear()
    monkeypatch.undo()
    cell = Cell(squares, {"seed": 1})
    key = key_of(cell, NOWHERE)
    monkeypatch.setattr(cache, "library_versions", lambda: {"numpy": "1"})
    assert key_of(cell, NOWHERE) != key


def test_a_figure_module_counts_together_with_the_figures_it_imports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, text in (
        ("figures_for_tests/__init__.py", ""),
        ("figures_for_tests/one.py", "from figures_for_tests.two import f\n"),
        ("figures_for_tests/two.py", "def f():\n    import figures_for_tests.three\n"),
        ("figures_for_tests/three.py", ""),
        ("figures_for_tests/four.py", ""),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(cache, "_FIGURES", "figures_for_tests")

    def digest() -> str:
        cache._figure_digest.cache_clear()
        return cache._figure_digest("figures_for_tests.one")

    seen = [digest()]
    for name, counts in (("four", False), ("three", True), ("two", True), ("one", True)):
        path = tmp_path / "figures_for_tests" / f"{name}.py"
        path.write_text(path.read_text() + "# changed\n")
        seen.append(digest())
        assert (seen[-1] != seen[-2]) is counts, name


def test_rows_read_back_as_they_were_with_infinities_and_numpy_numbers(tmp_path: Path) -> None:
    kept = CachedRows([{"value": np.float64(0.1), "run": np.int64(3), "epsilon": math.inf, "none": None}], 0.5, ["w"])
    store = Cache(tmp_path)
    written = store.store("abc", kept)
    assert written == store.load("abc") == kept
    assert type(written.rows[0]["run"]) is int
    assert store.load("abd") is None
    assert [path.suffix for path in tmp_path.rglob("*.*")] == [".json"]


def test_an_entry_under_a_wrong_name_is_not_believed(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    store.store("abc", CachedRows([], 0.5, []))
    (tmp_path / "ab" / "abc.json").rename(tmp_path / "ab" / "abd.json")
    assert store.load("abd") is None


def test_options_that_are_not_plain_values_are_refused() -> None:
    with pytest.raises(TypeError, match="JSON"):
        key_of(Cell(squares, {"seed": object()}), NOWHERE)
