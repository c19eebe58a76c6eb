"""Analyses in one process, plans and reports work where there is no POSIX; serving a site says what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .source import ROOT

STUDY = """
[study]
name = "elsewhere"
analysis = "mean"
epsilon = 5.0
delta = 1e-6

[protocol]
kind = "cape"
n_colluding = 1

[sites.lyon]
data = "lyon.csv"
[sites.oslo]
data = "oslo.csv"
[sites.lima]
data = "lima.csv"

[data]
kind = "rows"
bound = 1.0
[data.columns]
age = [20, 90]
"""

WHOLE_WAY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from elsewhere import leave_linux, load_other_libraries
load_other_libraries(Path(sys.argv[2]))
leave_linux()

import importlib, json, pkgutil
import numpy as np
import dpcape
from click.testing import CliRunner
from dpcape import PCA, Cape, Federation, in_process, rows
from dpcape.cli import main
from dpcape.site.folder import SiteFolder

for found in pkgutil.walk_packages(dpcape.__path__, "dpcape."):
    if "flare" not in found.name and found.name != "dpcape.__main__":
        importlib.import_module(found.name)

records = {name: rows(np.full((60, 2), 0.3), bound=1.0) for name in ("lyon", "oslo", "lima")}
federation = Federation(in_process(records), protocol=Cape(n_colluding=1))
estimator = PCA(n_components=1, epsilon=5.0, delta=1e-6)
federation.plan(estimator)
model = estimator.fit(federation)
model.save("pca.npz")
assert PCA.load("pca.npz").guarantee_ == model.guarantee_

def dpcape_command(*arguments):
    return CliRunner().invoke(main, list(arguments), catch_exceptions=True)

told = {}
for words in (
    "plan --analysis pca --features 3 --records 180 --sites 3 --protocol cape --colluding 1 --epsilon 1 --delta 1e-6",
    "run study.toml --rehearse --out rehearsal", "run study.toml --out run", "report run",
    "mechanisms", "site init lyon --name lyon", "site add --folder lyon cohort lyon.csv --epsilon 3 --delta 1e-5",
    "site review study.toml --folder lyon", "site log --verify --folder lyon", "site serve --folder lyon --kit run",
):
    done = dpcape_command(*words.split())
    told[words] = [done.exit_code, done.output + repr(done.exception or "")]
Path("told.json").write_text(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What each command ended with, in a process that has nothing of POSIX."""
    place = tmp_path_factory.mktemp("elsewhere")
    (place / "study.toml").write_text(STUDY)
    for name in ("lyon", "oslo", "lima"):
        (place / f"{name}.csv").write_text("age\n" + "\n".join(str(30 + number) for number in range(50)) + "\n")
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", WHOLE_WAY, here, str(ROOT / "src" / "dpcape")]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (place / "run" / "report.html").stat().st_size > 10_000
    found: dict[str, tuple[int, str]] = json.loads((place / "told.json").read_text())
    return found


def test_everything_but_serving_a_site_works(told: dict[str, tuple[int, str]]) -> None:
    failed = {words: text for words, (code, text) in told.items() if code != 0 and "serve" not in words}
    assert failed == {}


def test_serving_a_site_says_what_it_needs(told: dict[str, tuple[int, str]]) -> None:
    [(code, text)] = [answer for words, answer in told.items() if "serve" in words]
    assert code != 0
    assert "Linux machine or a container" in text
