"""The built wheel installs into a fresh environment, imports from there, and runs."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from .source import ROOT

TINY_RUN = """
import numpy as np, pathlib, sys
import dpcape
assert pathlib.Path(dpcape.__file__).is_relative_to(sys.prefix), dpcape.__file__
from dpcape import Cape, Federation, Mean, in_process, rows
held = {name: rows(np.full((50, 2), 0.3), bound=1.0) for name in "abc"}
model = Mean(epsilon=5.0, delta=1e-6).fit(Federation(in_process(held), protocol=Cape(n_colluding=0)))
assert abs(model.mean_ - 0.3).max() < 0.5
assert model.guarantee_.epsilon <= 5.0
print(model.guarantee_)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return next(out.glob("dpcape-*.whl"))


def test_the_wheel_holds_the_package_and_its_files(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "dpcape/py.typed" in names
    assert "dpcape/core/site.py" in names
    packaged = {
        f"dpcape/{path.relative_to(ROOT / 'src' / 'dpcape').as_posix()}" for path in (ROOT / "src").rglob("*.html")
    }
    assert packaged <= set(names)
    assert not any(name.startswith(("tests/", "experiments/")) for name in names)
    entry_points = next(name for name in names if name.endswith("entry_points.txt"))
    assert "dpcape" in zipfile.ZipFile(wheel).read(entry_points).decode()


def test_the_wheel_installs_and_runs(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "fresh"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    # Dependencies are those of the running environment: what is tested is the wheel, not the index.
    run = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--quiet", str(wheel)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    packages = next(home.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run = subprocess.run([str(python), "-c", TINY_RUN], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "differentially private per record" in run.stdout
    assert (home / "bin" / "dpcape").exists()
