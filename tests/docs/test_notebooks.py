"""The notebooks run from top to bottom, and what their cells end with can be shown."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .blocks import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


def test_there_is_one_for_each_reader() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["dp_scientist", "neuroimaging", "researcher", "steward"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_kept_without_outputs(path: Path) -> None:
    for cell in cells(path):
        assert cell["cell_type"] == "markdown" or (cell["outputs"] == [] and cell["execution_count"] is None)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells(path)):
        if cell["cell_type"] == "code":
            shown = run_cell("".join(cell["source"]), f"{path.name}[{number}]", names)
            html = getattr(shown, "_repr_html_", None)
            assert html is None or len(html()) > 100
    plt.close("all")


def run_cell(source: str, where: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last expression, as Jupyter does."""
    tree = ast.parse(source, where)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, where, "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), where, "exec"), names)
    return eval(compile(ast.Expression(last.value), where, "eval"), names)


def test_a_failing_cell_fails_the_test() -> None:
    with pytest.raises(ZeroDivisionError):
        run_cell("x = 1\nx / 0", "here", {})
    assert run_cell("x = 2\nx + 1", "here", {}) == 3


def test_the_site_lets_notebooks_show_pictures() -> None:
    # The Makefile names Agg for tests and demo; a notebook's process that inherits it draws and shows nothing.
    script = "import os, runpy; runpy.run_path('conf.py'); print(os.environ.get('MPLBACKEND'))"
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT / "docs", env=environment, capture_output=True, text=True, check=True
    )
    assert run.stdout == "None\n"
