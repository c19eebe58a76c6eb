"""From three CSV files to location and scale of sites, and random effects: what is printed and left in the folder."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.cli import main
from dpcape.guarantee.guarantee import BY_SITE

STUDY = """
[study]
name = "sites"
analysis = "{analysis}"
site = "scanner"
epsilon = 8.0
delta = 1e-6

[protocol]
kind = "secure-sum"
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
volume = {{ range = [0, 10] }}
scanner = {{ levels = ["lima", "lyon", "oslo"] }}
"""
SHIFTS = {"lima": 0.0, "lyon": 0.5, "oslo": -0.4}


@pytest.mark.parametrize("analysis", ["harmonise", "heterogeneity"])
def test_sites_are_printed_written_and_drawn(analysis: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for seed, (name, shift) in enumerate(SHIFTS.items()):
        values = np.random.default_rng(seed).normal(5 + shift, 1, 1500)
        lines = [f"{value:.4f},{name}" for value in values]
        Path(f"{name}.csv").write_text("\n".join(["volume,scanner", *lines, ""]), encoding="utf-8")
    Path("study.toml").write_text(STUDY.format(analysis=analysis), encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "study.toml", "--out", "run"])
    assert done.exit_code == 0, done.output
    assert "Noisy totals of each site are visible" in done.stdout
    report = Path("run/report.html").read_text("utf-8")
    assert BY_SITE[1:] in report
    with Path("run/results.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    if analysis == "harmonise":
        assert "Offsets of sites" in report
        found = {row["group"]: float(row["estimate"]) for row in written if row["quantity"] == "location"}
        assert found["lyon"] - found["oslo"] == pytest.approx(0.9, abs=0.25)
        return
    assert "Forest plot of volume" in report
    found = {row["group"]: float(row["estimate"]) for row in written if row["group"]}
    # Sampling and noise have a standard deviation of about 0.03: eight of them.
    assert found == pytest.approx({name: 5 + shift for name, shift in SHIFTS.items()}, abs=0.25)
