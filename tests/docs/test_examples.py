"""The scripts in examples run as they stand."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from .blocks import ROOT

# The gallery runs when the site is built (make docs); consortium.sh is played by tests/engine.
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
# Samples a factor model for minutes; docs/factor_release.md runs a small one by default.
SLOW = ("factor_release",)


def marked(path: Path) -> object:
    return pytest.param(path, marks=pytest.mark.slow if path.stem in SLOW else (), id=path.stem)


@pytest.mark.parametrize("path", [marked(path) for path in SCRIPTS])
def test_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [path.name])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out
