"""Wheel and source distribution are complete: built from the tree, installed from a file, used without the tree."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
import tarfile
import time
import venv
from pathlib import Path

import pytest
from tests.docs.blocks import blocks_of

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.dist

STUDY = """
[study]
name = "first"
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


def run(*command: str | Path, cwd: Path, source: Path | None = None) -> str:
    """Run a command that knows nothing of this tree, except what ``source`` names; return what it printed."""
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "PYTEST"))
    }
    if source is not None:
        clean["PYTHONPATH"] = os.pathsep.join([str(source / "src"), str(source / "papers" / "src")])
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The source distribution, and the wheel that is made from it."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    return {"sdist": next(out.glob("dpcape-*.tar.gz")), "wheel": next(out.glob("dpcape-*.whl"))}


@pytest.fixture(scope="module")
def unpacked(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the source distribution."""
    place = tmp_path_factory.mktemp("source")
    with tarfile.open(built["sdist"]) as archive:
        archive.extractall(place, filter="data")
    return next(place.iterdir())


@pytest.fixture(scope="module")
def installed(built: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a fresh environment, with the wheel and the locked versions of what it needs."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home / "env", with_pip=True)
    # Without the hashes: the wheel has none before it is built.
    locked = re.findall(r"^([\w.-]+==[^\\\n]+)", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    (home / "locked.txt").write_text("\n".join(locked) + "\n")
    commands = home / "env" / "bin"
    run(commands / "pip", "install", "--quiet", "--constraint", home / "locked.txt", built["wheel"], cwd=home)
    return commands


def test_the_source_distribution_holds_all_that_is_tracked(unpacked: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this tree is no clone")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    expected = {name for name in listed if not name.startswith((".ci/", ".github/")) and (ROOT / name).exists()}
    assert {name for name in expected if not (unpacked / name).exists()} == set()
    assert {"tests", "docs", "deploy", "examples"} <= {path.name for path in unpacked.iterdir()}


def test_the_source_distribution_passes_tests_of_its_own(unpacked: Path) -> None:
    chosen = ["tests/vectors", "tests/privacy/test_units.py", "tests/secure_sum/test_fixed_point.py"]
    answer = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *chosen, cwd=unpacked, source=unpacked)
    assert "[100%]" in answer
    place = run(sys.executable, "-c", "import dpcape; print(dpcape.__file__)", cwd=unpacked, source=unpacked)
    assert Path(place.strip()).is_relative_to(unpacked)


def test_the_installed_wheel_shows_its_commands_and_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    place = run(installed / "python", "-c", "import dpcape; print(dpcape.__file__)", cwd=tmp_path)
    assert Path(place.strip()).is_relative_to(installed.parent)
    assert "Commands:" in run(installed / "dpcape", "--help", cwd=tmp_path)
    run(installed / "dpcape", "demo", "--out", tmp_path / "demo", cwd=tmp_path)
    assert "differentially private" in (tmp_path / "demo" / "report.html").read_text()


def test_the_walk_of_get_started_takes_less_than_ten_minutes(built: dict[str, Path], tmp_path: Path) -> None:
    """From pip to a table in original units, with what the page shows and nothing else."""
    heading, after = "## From three CSV files to a table", "## Run the demo"
    page = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    first, last = (page[: page.index(text)].count("\n") for text in (heading, after))
    walk = [block for block in blocks_of("docs/start.md") if first < block.line < last]
    assert [block.language for block in walk] == ["python", "python"]
    concepts = re.findall(r"^\d+\. \*\*", page[page.index(heading) : page.index(after)], re.MULTILINE)
    assert 1 <= len(concepts) <= 6
    begun = time.monotonic()
    venv.create(tmp_path / "env", with_pip=True)
    run(tmp_path / "env" / "bin" / "pip", "install", "--quiet", built["wheel"], cwd=tmp_path)
    (tmp_path / "walk.py").write_text("\n".join(block.text for block in walk), encoding="utf-8")
    told = run(tmp_path / "env" / "bin" / "python", "walk.py", cwd=tmp_path)
    seconds = time.monotonic() - begun
    print(f"{seconds:.0f} s from pip install to the table")
    table = list(csv.DictReader((tmp_path / "results.csv").read_text(encoding="utf-8").splitlines()))
    means = {row["name"]: row for row in table if row["quantity"] == "mean"}
    assert {name: row["unit"] for name, row in means.items()} == {"age": "years", "weight": "kg", "pressure": "mmHg"}
    for name, truth in {"age": 55, "weight": 75, "pressure": 130}.items():
        # Three times the half width: false alarm below 1e-8.
        half = (float(means[name]["high"]) - float(means[name]["low"])) / 2
        assert abs(float(means[name]["estimate"]) - truth) < 3 * half
    assert "differentially private per record" in told
    assert seconds < 600


def test_the_installed_wheel_runs_a_study_on_csv_files(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    for name in ("lyon", "oslo", "lima"):
        (tmp_path / f"{name}.csv").write_text("age\n" + "\n".join(str(30 + number) for number in range(50)) + "\n")
    run(installed / "dpcape", "run", "study.toml", "--out", "run", cwd=tmp_path)
    assert (tmp_path / "run" / "report.html").is_file()
    run(installed / "pip", "check", cwd=tmp_path)
