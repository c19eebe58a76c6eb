"""The trusted part stays readable: its list is complete, its size bounded, and a site loads little besides it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpcape import PCA, Cape, Cox, Federation
from dpcape.core.noise import OsNoise
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.secure_sum.identity import Identity
from dpcape.site.in_process import InProcess

from .reading_list import CORE, SECTIONS, code_lines, readme
from .site_process import read, write

TESTS = Path(__file__).parents[1]
NAMES = ("lima", "lyon", "oslo", "rome")
# Lines of code. A change that raises one says why in a sentence here.
# The kernel, 800 lines, is part of it: what every statistic added up by itself before.
MOST_OF_CORE = 6_500
# Modules: a site computes the memory of all releases of an approved study, by two small modules of formulas; the kernel
# has five, and views have a grid each.
MOST_LOADED, MOST_MODULES = 13_800, 152
OTHER_SIDE = ("estimators", "federation", "planning", "postprocessing", "report", "runs", "engines", "audit", "steward")

HEAD = """\
[study]
name = "reading"
{study}
epsilon = 2.0
delta = 1e-6

[protocol]
kind = "cape"
n_colluding = 1

[sites.lima]
[sites.lyon]
[sites.oslo]
[sites.rome]

[data]
{data}
"""
PCA_STUDY = HEAD.format(
    study='analysis = "pca"\nn_components = 2\ncenter = true',
    data='kind = "rows"\ncolumns = ["a", "b", "c"]\nbound = 1.0',
)
COX_STUDY = HEAD.format(
    study='analysis = "cox"\ncolumns = ["age", "arm"]',
    data='kind = "table"\n[data.columns]\nage = [20, 100]\narm = ["usual", "new"]\n'
    'survival = { time = "days", event = "died", range = [0, 1000] }',
)


def test_the_reading_list_names_every_file_and_real_tests() -> None:
    rows = [row for section in SECTIONS.values() for row in section]
    files = sorted(path.relative_to(CORE).as_posix() for path in CORE.rglob("*.py") if path.name != "__init__.py")
    assert sorted(name for name, *_ in rows) == files
    for _, claim, test in rows:
        assert claim.endswith(".")
        assert (TESTS / test).is_file(), test


def test_the_reading_list_is_as_generated() -> None:
    written = (CORE / "README.md").read_text(encoding="utf-8")
    assert written == readme(), "run: python tests/core/reading_list.py"


def test_the_trusted_part_is_small() -> None:
    assert sum(map(code_lines, CORE.rglob("*.py"))) <= MOST_OF_CORE


class Far:
    """A site in another process."""

    def __init__(self, name: str, process: subprocess.Popen[bytes]) -> None:
        self.name, self._process = name, process

    def answer(self, data: bytes) -> bytes:
        write(self._process.stdin, self.name.encode())
        write(self._process.stdin, data)
        return read(self._process.stdout)


def _write_data(here: Path, name: str) -> None:
    source = np.random.default_rng(0)
    for site in NAMES:
        if name == "pca":
            rows = source.normal(size=(400, 3)) * [0.5, 0.3, 0.1]
            lines = ["a,b,c", *(",".join(f"{value:.6f}" for value in row) for row in rows)]
        else:
            age, arm = source.normal(60, 10, 2000), source.integers(0, 2, 2000)
            days = source.exponential(900 * np.exp(-0.03 * (age - 60) + 0.7 * arm))
            columns = zip(age, arm, days, strict=True)
            lines = ["age,arm,days,died"]
            lines += [f"{a:.2f},{('usual', 'new')[g]},{min(d, 1000):.3f},{int(d < 1000)}" for a, g, d in columns]
        (here / f"{site}.csv").write_text("\n".join(lines) + "\n")
    (here / "study.toml").write_text(PCA_STUDY if name == "pca" else COX_STUDY)


@pytest.mark.parametrize("name", ["pca", "cox"])
@pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
def test_a_site_loads_what_the_list_says_and_little_more(name: str, tmp_path: Path) -> None:
    """Sites run in one process, the coordinator in another; only bytes pass between them."""
    _write_data(tmp_path, name)
    command = [sys.executable, str(Path(__file__).with_name("site_process.py")), str(tmp_path), *NAMES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert read(process.stdout) == b"ready"
        dealer = NoiseDealer(Identity.generate(), OsNoise())
        carrier = InProcess({site: Far(site, process) for site in NAMES}, dealer)  # type: ignore[arg-type]  # sites elsewhere
        federation = Federation(carrier, protocol=Cape(n_colluding=1))
        model = PCA(n_components=2, epsilon=2.0, delta=1e-6, center=True) if name == "pca" else None
        fitted = (model or Cox(["age", "arm"], epsilon=2.0, delta=1e-6)).fit(federation)
        write(process.stdin, b"")
        loaded, packages = json.loads(read(process.stdout)), json.loads(read(process.stdout))
    assert fitted.guarantee_.epsilon <= 2.0
    rooms = {module.split(".")[1] for module in loaded if "." in module}
    assert not rooms & set(OTHER_SIDE)
    assert not {"sklearn", "matplotlib", "nvflare"} & set(packages)
    n_lines = sum(code_lines(Path(file)) for file in loaded.values() if file)
    assert len(loaded) <= MOST_MODULES, len(loaded)
    assert n_lines <= MOST_LOADED, n_lines
