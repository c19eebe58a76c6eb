"""Analyses of other packages: loaded at a site only if its steward allowed the package, and never called verified."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpcape.analyses.registry import ANY_PACKAGE, points
from dpcape.cli import main
from dpcape.core.errors import InvalidParameter, LedgerRefused
from dpcape.site.folder import SiteFolder
from dpcape.site.foreign.sources import Sources
from dpcape.site.vault.server import VaultSettings, study_opener
from dpcape.steward.review import review
from dpcape.study.study import Study

SOURCE = """
import os
from typing import ClassVar
from dpcape.analyses.description import Analysis
from dpcape.analyses.release import Release
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.statistics import first_moments

os.environ["SOMEBODY_RAN"] = "yes"

def _schedule(p):
    yield Release("first_moments", {"n_features": p.n_features, "bound": p.bound})

ANALYSIS = Analysis("trimmed", "somebody_else:Trimmed", "Others", frozenset({"rows"}), "rows", (), _schedule,
                    law="tests/laws/test_statistics.py", reason="says so itself", reference="nowhere")

class Trimmed(FederatedEstimator):
    analysis = ANALYSIS
    _fitted: ClassVar = ("mean_",)

    def __init__(self, *, epsilon, delta):
        self.epsilon, self.delta = epsilon, delta

    def _fit(self, federation, private):
        self.mean_ = private.mean(first_moments(federation.facts))[0]
"""
STUDY = """
[study]
name = "foreign"
analysis = "trimmed"
epsilon = 1.0
delta = 1e-6
[protocol]
kind = "independent"
[sites.lyon]
data = "lyon.csv"
[data]
kind = "rows"
columns = ["a", "b"]
bound = 1.0
"""


@pytest.fixture
def study_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study that names an analysis of an installed package which is not dpcape."""
    package = tmp_path / "installed"
    package.mkdir()
    (package / "somebody_else.py").write_text(SOURCE)
    about = package / "somebody_else-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody-else\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[dpcape.analyses]\ntrimmed = somebody_else:ANALYSIS\n")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delenv("SOMEBODY_RAN", raising=False)
    monkeypatch.delitem(sys.modules, "somebody_else", raising=False)
    (tmp_path / "lyon.csv").write_text("a,b\n" + "0.1,0.2\n" * 50)
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path / "study.toml"


@pytest.fixture
def place(tmp_path: Path) -> SiteFolder:
    made = SiteFolder.create(tmp_path / "site", name="lyon")
    (tmp_path / "cohort.csv").write_text("a,b\n" + "0.1,0.2\n" * 40)
    made.add_data("cohort", tmp_path / "cohort.csv", epsilon=5.0, delta=1e-5)
    return made


def test_a_package_that_was_not_allowed_is_not_even_imported(study_file: Path, place: SiteFolder) -> None:
    with pytest.raises(InvalidParameter, match="trimmed"):
        place.load_study(study_file)
    place.allow_package("another")
    with pytest.raises(InvalidParameter, match="trimmed"):
        place.load_study(study_file)
    assert "SOMEBODY_RAN" not in os.environ


def test_an_allowed_package_can_be_reviewed_and_is_conditional(study_file: Path, place: SiteFolder) -> None:
    """Also then it is loaded in a sandboxed child alone: this process holds keys and ledger."""
    place.allow_package("somebody-else")
    seen = review(place, place.load_study(study_file), "cohort")
    assert "SOMEBODY_RAN" not in os.environ
    assert "somebody_else" not in sys.modules
    assert seen.guarantee.status.startswith("conditional")
    assert any("not part of dpcape" in text for text in seen.guarantee.assumptions)
    place.allow_package("somebody-else", allowed=False)
    with pytest.raises(InvalidParameter, match="trimmed"):
        place.load_study(study_file)
    assert place.state().packages == set()
    with pytest.raises(InvalidParameter, match="which is not"):
        place.allow_package("somebody-else", allowed=False)


@pytest.mark.parametrize("is_allowed", [False, True])
def test_the_doctor_of_a_site_loads_no_code_of_other_packages(
    study_file: Path, place: SiteFolder, is_allowed: bool
) -> None:
    if is_allowed:
        place.allow_package("somebody-else")
    words = ["doctor", "--study", str(study_file), "--folder", str(place.path), "--json"]
    found = json.loads(CliRunner().invoke(main, words).stdout)
    assert "SOMEBODY_RAN" not in os.environ
    assert "somebody_else" not in sys.modules
    refused = [entry["text"] for entry in found["findings"] if entry["subject"] == "study"]
    assert len(refused) == (not is_allowed)
    assert all("allow-analysis somebody-else" in text for text in refused)
    # The rest is looked at all the same.
    assert {"identity", "ledger"} <= {entry["subject"] for entry in found["findings"]}


@pytest.mark.parametrize(
    ("file", "content", "is_refused"),
    [
        ("run.pth", "import os; os.environ['SOMEBODY_RAN'] = 'yes'\n", True),
        ("paths.pth", "/somewhere\n# import this\n", False),
        ("sitecustomize.py", "", True),
        ("numpy/linalg/_umath.py", "", True),
        ("dpcape/site/extra.py", "", True),
        ("somebody_else_more/sitecustomize.py", "", False),
    ],
)
def test_a_package_that_python_runs_at_every_start_is_refused(
    study_file: Path, place: SiteFolder, file: str, content: str, is_refused: bool
) -> None:
    """Its code would run in the vault, whose Python it is installed in."""
    installed = study_file.parent / "installed"
    (installed / file).parent.mkdir(parents=True, exist_ok=True)
    (installed / file).write_text(content)
    (installed / "somebody_else-1.dist-info" / "RECORD").write_text(f"somebody_else.py,,\n{file},,\n")
    if is_refused:
        with pytest.raises(InvalidParameter, match="where the vault does"):
            place.allow_package("somebody-else")
        assert place.state().packages == set()
    else:
        place.allow_package("somebody-else")
    # What was allowed can always be taken back.
    place._append("allow", {"package": "somebody-else"})
    place.allow_package("somebody-else", allowed=False)


def test_the_steward_allows_it_by_command_and_the_log_says_so(place: SiteFolder) -> None:
    runner = CliRunner()
    words = ["site", "allow-analysis", "somebody-else", "--folder", str(place.path)]
    assert "somebody-else" in runner.invoke(main, words, catch_exceptions=False).output
    log = runner.invoke(main, ["site", "log", "--folder", str(place.path)], catch_exceptions=False).output
    assert "somebody-else" in log
    runner.invoke(main, [*words, "--remove"], catch_exceptions=False)
    assert place.state().packages == set()


def test_a_run_with_an_analysis_from_elsewhere_is_conditional(study_file: Path, tmp_path: Path) -> None:
    from dpcape.runs.in_process import run_in_process

    run = run_in_process(Study.load(study_file, packages=ANY_PACKAGE), tmp_path / "run")
    guarantee = run.model().guarantee_
    assert guarantee.status.startswith("conditional")
    assert any("Trimmed" in text for text in guarantee.assumptions)


def test_the_vault_refuses_code_of_other_packages_without_loading_it(study_file: Path, place: SiteFolder) -> None:
    """Approved or not, it never runs in the process that holds records; the refusal names the package."""
    place.allow_package("somebody-else")
    study = place.load_study(study_file)
    own = Study.parse(STUDY.replace('"trimmed"', '"mean"'), path=study_file.with_name("own.toml"))
    for approved in (study, own):
        place.approve(approved, "cohort")
    opened = study_opener(place, VaultSettings(folder=str(place.path), mode="confined", control=-1))
    with pytest.raises(LedgerRefused, match="package 'somebody-else'"):
        opened(study.digest())
    opened(own.digest())
    assert "SOMEBODY_RAN" not in os.environ
    assert "somebody_else" not in sys.modules


def test_a_package_installed_or_removed_meanwhile_is_noticed(study_file: Path) -> None:
    """What packages declare is read once, until a folder of the path changes."""
    about = study_file.parent / "installed" / "somebody_else-1.dist-info"
    away = study_file.parent / about.name
    for _ in range(2):
        assert "trimmed" in points(ANY_PACKAGE)
        about.rename(away)
        assert "trimmed" not in points(ANY_PACKAGE)
        away.rename(about)


def test_naming_a_module_that_runs_when_it_is_imported_ends_nothing() -> None:
    """Libraries that a text names are loaded before the sandbox closes: a package must not end a site by that."""
    sources = Sources(())
    sources.texts["hostile"] = (b"import unittest.__main__\nimport numpy.no_such_module\n", False)
    sources.load_libraries()
    assert "unittest.__main__" not in sys.modules
