"""The scripts in examples run as they stand."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from .blocks import ROOT

# The gallery runs when the site is built (make docs); consortium.sh is played by tests/engine.
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [path.name])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
