"""From three CSV files to a Table 1: what the command prints and what it leaves in the run's folder."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.cli import main

STUDY = """
[study]
name = "table-one"
analysis = "summary"
by = ["arm"]
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
age = { range = [0, 100] }
sex = { levels = ["F", "M"] }
arm = { levels = ["new", "old"] }
"""


def _write_site(path: Path, seed: int) -> list[float]:
    """Write a site's file and return the ages of those who have one."""
    random = np.random.default_rng(seed)
    ages = random.normal(50, 10, 800).round(1)
    lines = [
        f"{'' if row % 20 == 0 else age},{random.choice(['F', 'M'])},{random.choice(['new', 'old'])}"
        for row, age in enumerate(ages)
    ]
    path.write_text("\n".join(["age,sex,arm", *lines, ""]), encoding="utf-8")
    return [age for row, age in enumerate(ages) if row % 20]


def test_the_table_is_printed_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ages = [age for seed, name in enumerate(("lima", "lyon", "oslo")) for age in _write_site(Path(f"{name}.csv"), seed)]
    Path("study.toml").write_text(STUDY, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "study.toml", "--out", "run"])
    assert done.exit_code == 0, done.output
    printed = done.stdout.splitlines()
    assert printed[0].split() == ["all", "new", "old"]
    assert any(line.startswith("age, median [25%, 75%]") for line in printed)
    with Path("run/results.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    (median,) = [row for row in written if (row["name"], row["part"], row["group"]) == ("age", "0.5", "all")]
    # Noise of the median is about 0.1 years here, so that one year is off once in far more than a million runs.
    assert abs(float(median["estimate"]) - np.median(ages)) < 1.0
    assert float(median["low"]) < np.median(ages) < float(median["high"])
    assert "Table 1" in Path("run/report.html").read_text("utf-8")
