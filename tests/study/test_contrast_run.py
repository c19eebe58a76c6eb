"""From three CSV files to adjusted differences: what the command prints and what it leaves in the run's folder."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.cli import main

STUDY = """
[study]
name = "regions"
analysis = "mass_univariate"
contrast = "dx"
covariates = ["age"]
site = "scanner"
epsilon = 8.0
delta = 1e-6

[protocol]
kind = "cape"
n_colluding = 1

[sites.lima]
data = "lima.csv"
[sites.lyon]
data = "lyon.csv"
[sites.oslo]
data = "oslo.csv"

[data]
kind = "table"
[data.columns]
left = { range = [-5, 5] }
right = { range = [-5, 5] }
age = { range = [0, 100] }
dx = { levels = ["control", "case"] }
scanner = { levels = ["a", "b", "c"] }
"""


def _write_site(path: Path, seed: int) -> None:
    """Write a site's file: cases are one unit lower on the left; scanners differ by as much."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(800):
        is_case, age = random.random() < 0.3 + 0.1 * seed, random.normal(50, 10)
        left, right = random.normal(size=2) + seed + 0.02 * (age - 50)
        word = "case" if is_case else "control"
        lines.append(f"{left - is_case:.4f},{right:.4f},{age:.1f},{word},{'abc'[seed]}")
    path.write_text("\n".join(["left,right,age,dx,scanner", *lines, ""]), encoding="utf-8")


def test_differences_are_printed_drawn_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("lima", "lyon", "oslo")):
        _write_site(Path(f"{name}.csv"), seed)
    Path("study.toml").write_text(STUDY, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "study.toml", "--out", "run"])
    assert done.exit_code == 0, done.output
    printed = done.stdout.splitlines()
    assert printed[0].split()[:3] == ["outcome", "difference", "d"]
    assert "dx: case minus control" in done.stdout
    with Path("run/results.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["name"]: row for row in csv.DictReader(file) if row["quantity"] == "difference"}
    # The standard error is about 0.1: both statements fail once in more than a million runs.
    assert abs(float(rows["left"]["estimate"]) + 1) < 0.5
    assert abs(float(rows["right"]["estimate"])) < 0.5
    assert float(rows["left"]["adjusted_p_value"]) < 0.05
    page = Path("run/report.html").read_text("utf-8")
    assert "Adjusted differences" in page
    assert "Forest plot of 2 differences" in page
