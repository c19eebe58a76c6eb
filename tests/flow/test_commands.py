"""The commands as a user types them, and the README's example."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpcape.cli import main

ROOT = Path(__file__).parents[2]
PLAN = "--features 100 --records 60000 --sites 10 --colluding 3 --epsilon 1 --delta 1e-5 --json"


def run(command: str):
    return CliRunner().invoke(main, command.split())


def plan(protocol: str, more: str = "") -> dict:
    result = run(f"plan --analysis uncentred-pca --protocol {protocol} {PLAN} {more}")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_cape_is_within_half_a_percent_of_the_limit():
    result = plan("cape")
    assert result["aggregate_scale"] / result["pooled_scale"] == pytest.approx(math.sqrt(10 / 7), rel=5e-3)
    assert result["aggregate_scale"] / result["pooled_scale"] > math.sqrt(10 / 7)


def test_secure_sum_reaches_the_limit_and_independent_noise_pays_root_n():
    assert plan("secure-sum")["noise_ratio"] == pytest.approx(math.sqrt(10 / 7), rel=1e-5)
    assert plan("independent")["noise_ratio"] == pytest.approx(math.sqrt(10), rel=1e-5)


def test_plan_prints_what_privacy_theory_says():
    result = plan("cape")
    # Rows on the grid are longer by (sqrt(100)/2 + 1) 2^-20 at most, and their squares by twice that.
    assert 1 <= result["sensitivity"] / (math.sqrt(2) / 6000) < 1 + 1.2e-5
    assert result["mu"] == pytest.approx(0.268051123, rel=1e-5)
    assert result["pooled_scale"] == pytest.approx(math.sqrt(2) / 60000 * 3.730632, rel=1.3e-5)


def test_dropouts_cost_noise_like_colluders():
    assert plan("cape", "--minimum-sites 8")["own_scale"] / plan("cape")["own_scale"] == pytest.approx(
        math.sqrt(7 / 5), rel=5e-3
    )


def test_account_recovers_the_planned_guarantee():
    planned = plan("cape")
    result = run(
        "account --protocol cape --sites 10 --colluding 3 --delta 1e-5 --json "
        f"--sensitivity {planned['sensitivity']!r} --own-scale {planned['own_scale']!r} "
        f"--shared-scale {planned['shared_scale']!r}"
    )
    assert json.loads(result.stdout)["epsilon"] == pytest.approx(1.0, rel=1e-4)


def test_account_of_the_published_split_is_worse_than_claimed():
    # The papers' scheme at S=10, S_C=3: kappa 2.2078, so tau calibrated for (1, 1e-5) gives more.
    tau = 3.730632
    result = run(
        "account --protocol cape --sites 10 --colluding 3 --sensitivity 1 --delta 1e-5 --json "
        f"--own-scale {tau / math.sqrt(10)!r} --shared-scale {tau!r}"
    )
    values = json.loads(result.stdout)
    assert (values["mu"] * tau) ** 2 == pytest.approx(2.207792, rel=1e-6)
    assert values["epsilon"] > 1.5


def test_unprotected_scales_are_null_in_json_and_words_on_the_terminal():
    command = "account --protocol secure-sum --sites 4 --colluding 1 --sensitivity 1 --delta 1e-5 --own-scale 0"
    assert json.loads(run(f"{command} --json").stdout)["epsilon"] is None
    assert "not protected" in run(command).output


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            f"plan --analysis uncentred-pca --protocol cape {PLAN} --minimum-sites 4",
            "minimum_sites must be between 7 and 10",
        ),
        (f"plan --analysis uncentred-pca --protocol dealer {PLAN} --minimum-sites 8", "minimum_sites must be left out"),
        (
            "account --protocol cape --sites 2 --colluding 0 --sensitivity 1 --own-scale 1 --delta 1e-5",
            "at least 3 sites",
        ),
        ("account --protocol cape --sites 4 --colluding 4 --sensitivity 1 --own-scale 1 --delta 1e-5", "at most"),
        (
            "account --protocol independent --sites 4 --colluding 0 --sensitivity 1 --own-scale 1 --delta 2",
            "delta must",
        ),
    ],
)
def test_bad_requests_end_in_one_sentence(command, words):
    result = run(command)
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1


class _Addresses(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for key, value in attrs if key in ("src", "href") and not value.startswith("#")]


def test_demo_ends_in_a_report_that_needs_no_network(tmp_path, monkeypatch):
    # Where the page on the first steps is tested, the demo runs whole.
    monkeypatch.setattr("dpcape.cli.demo_study.REPEATS", 1)
    result = run(f"demo --out {tmp_path} --replay 1")
    assert result.exit_code == 0, result.output
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    parser = _Addresses()
    parser.feed(page)
    assert parser.found == []
    assert "REPLAYABLE: NO PROTECTION" in page
    data = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.S).group(1))
    energy = data["captured_energy"]
    for private in ("pooled, private", "CAPE, 4 sites", "conventional, 4 sites", "one site alone"):
        assert all(0 < value <= 1 for value in energy[private])
    assert energy["CAPE, 4 sites"][1] > energy["conventional, 4 sites"][1] > energy["one site alone"][1]
    assert json.loads((tmp_path / "guarantee.json").read_text())["epsilon"] <= 1.0


def test_readme_example_runs_as_printed():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    assert blocks
    for code in blocks:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert "differentially private per record" in done.stdout


def test_readme_commands_run_as_printed():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if re.match(r"dpcape \w+ --", line)]
    assert len(commands) >= 2
    for line in commands:
        assert run(line.removeprefix("dpcape ")).exit_code == 0, line
