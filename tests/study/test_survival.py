"""From three CSV files to survival curves: what the command prints and what it leaves in the run's folder."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.cli import main

STUDY = """
[study]
name = "curves"
analysis = "{analysis}"
{parameters}
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
survival = {{ time = "days", event = "died", range = [0, 1000] }}
arm = {{ levels = ["new", "old"] }}
"""


def _write_site(path: Path, seed: int) -> None:
    """Write a site's file: old patients die twice as fast."""
    random = np.random.default_rng(seed)
    lines = []
    for _ in range(800):
        arm = random.choice(["new", "old"])
        time, end = random.exponential(400 if arm == "old" else 800), random.uniform(500, 1500)
        lines.append(f"{min(time, end):.1f},{int(time <= end)},{arm}")
    path.write_text("\n".join(["days,died,arm", *lines, ""]), encoding="utf-8")


@pytest.mark.parametrize("analysis", ["kaplan_meier", "log_rank"])
def test_curves_and_tests_are_printed_and_written(
    analysis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("lima", "lyon", "oslo")):
        _write_site(Path(f"{name}.csv"), seed)
    Path("study.toml").write_text(STUDY.format(analysis=analysis, parameters='by = ["arm"]'), encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "study.toml", "--out", "run"])
    assert done.exit_code == 0, done.output
    assert "log-rank test: chi2 =" in done.stdout
    report = Path("run/report.html").read_text("utf-8")
    assert "Log-rank test" in report
    with Path("run/results.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    if analysis == "log_rank":
        assert float(next(row for row in written if row["quantity"] == "log-rank chi2")["p_value"]) < 1e-6
        return
    assert "Survival curves with bands" in report
    row = next(row for row in written if (row["group"], row["part"], row["quantity"]) == ("old", "500", "survival"))
    # Sampling and noise together have a standard deviation of about 0.015: eight of them.
    assert abs(float(row["estimate"]) - np.exp(-500 / 400)) < 0.12


def test_hazard_ratios_are_printed_written_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("lima", "lyon", "oslo")):
        _write_site(Path(f"{name}.csv"), seed)
    Path("study.toml").write_text(STUDY.format(analysis="cox", parameters='columns = ["arm"]'), encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "study.toml", "--out", "run"])
    assert done.exit_code == 0, done.output
    assert "arm: old against new" in done.stdout
    assert "Forest plot of hazard ratios" in Path("run/report.html").read_text("utf-8")
    with Path("run/results.csv").open(encoding="utf-8", newline="") as file:
        row = next(row for row in csv.DictReader(file) if row["quantity"] == "hazard ratio")
    # The true ratio is 2, with a standard error of about 0.06 on the logarithmic scale: six of them.
    assert abs(np.log(float(row["estimate"])) - np.log(2)) < 0.36
    assert float(row["p_value"]) < 1e-4
