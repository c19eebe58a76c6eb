"""Studies that name code of another package: how it is run is public, agreed on, and part of every claim."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from dpcape.analyses.registry import ANY_PACKAGE
from dpcape.cli import main
from dpcape.core.errors import InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.messages import Request
from dpcape.core.noise import Replay
from dpcape.planning.outline import outline
from dpcape.runs.in_process import run_in_process
from dpcape.site.approval import ApprovedStudy
from dpcape.site.folder import SiteFolder
from dpcape.steward.review import review, review_text
from dpcape.study.study import Study

SOURCE = """
import math
from typing import ClassVar
import numpy as np
from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import WHOLE, Parameter
from dpcape.analyses.release import Release
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.statistics import Extent, Statistic, first_moments, known
from dpcape.core.extent import rounding_in_blocks

@known
class Cubes(Statistic):
    name = "mean_cubes"
    kinds: ClassVar = frozenset({"rows"})
    units: ClassVar = frozenset({"record"})

    @staticmethod
    def extent(*, n_features):
        return Extent(n_features, 2.0, 1.0, rounding_in_blocks(n_features, 1.0))

    @property
    def numbers(self):
        return {"n_features": self.facts.n_features}

    def total(self, records):
        return sum(((block ** 3).sum(axis=0) for block in records.blocks()), np.zeros(self.size))

def _schedule(p):
    scale = yield Release("mean_cubes", {"n_features": p.n_features}, share=0.5, feeds=True)
    yield Release("first_moments", {"n_features": p.n_features, "bound": p.bound * (1 + 0 * scale)}, share=0.5)

ANALYSIS = Analysis("cubes", "cube_code:CubeMeans", "Others", frozenset({"rows"}), "rows",
                    (Parameter("power", WHOLE, default=3, least=3, most=3),), _schedule, law="says so itself")

class CubeMeans(FederatedEstimator):
    analysis = ANALYSIS
    _fitted: ClassVar = ("mean_", "plain_")

    def __init__(self, power=3, *, epsilon=1.0, delta=1e-6):
        self.power, self.epsilon, self.delta = power, epsilon, delta

    def _fit(self, federation, private):
        self.mean_ = private.mean(Cubes(federation.facts))
        self.plain_ = private.mean(first_moments(federation.facts))[0]
"""
STUDY = """
[study]
name = "cubes"
analysis = "cubes"
epsilon = 1.0
delta = 1e-6
[protocol]
kind = "independent"
[sites.lyon]
data = "lyon.csv"
records = 40
[data]
kind = "rows"
columns = ["a", "b"]
bound = 1.0
"""
PACKAGE = "cube-code"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study folder, and an installed package that is not dpcape's."""
    package = tmp_path / "installed"
    about = package / "cube_code-1.dist-info"
    about.mkdir(parents=True)
    (package / "cube_code.py").write_text(SOURCE)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[dpcape.analyses]\ncubes = cube_code:ANALYSIS\n")
    monkeypatch.syspath_prepend(str(package))
    table = 0.5 * np.random.default_rng(0).uniform(-1, 1, size=(40, 2))
    np.savetxt(tmp_path / "lyon.csv", table, delimiter=",", header="a,b", comments="")
    return tmp_path


def study_of(folder: Path, package: str = "") -> Study:
    (folder / "study.toml").write_text(STUDY + package)
    from dpcape.core.statistic import _KNOWN

    # Each test has a package of its own.
    _KNOWN.pop("mean_cubes", None)
    sys.modules.pop("cube_code", None)
    return Study.load(folder / "study.toml", packages=ANY_PACKAGE)


def site_of(folder: Path) -> SiteFolder:
    made = SiteFolder.create(folder / "site", name="lyon")
    made.add_data("cohort", folder / "lyon.csv", epsilon=5.0, delta=1e-5)
    return made


def test_the_way_is_read_checked_and_part_of_the_digest(folder: Path) -> None:
    plain = study_of(folder)
    assert plain.enclosure is not None
    assert (plain.enclosure.way, plain.enclosure.block, plain.enclosure.package) == ("sampled", 1, PACKAGE)
    other = study_of(folder, '[package]\nway = "record_by_record"\nblock = 20\nseconds = "2s"\n')
    assert other.enclosure is not None
    assert (other.enclosure.way, other.enclosure.block, other.enclosure.seconds) == ("record_by_record", 20, 2.0)
    assert plain.digest() != other.digest()
    for table, match in (
        ('[package]\nway = "other"\n', "way"),
        ("[package]\nblock = 0\n", "block"),
        ("[package]\nblock = 9999999\n", "block"),
        ("[package]\nseconds = 0.001\n", "seconds"),
        ("[package]\nradius = 1.0\n", "radius"),
        ('[package]\nway = "record_by_record"\n', "block"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            study_of(folder, table)
    own = STUDY.replace('analysis = "cubes"', 'analysis = "mean"')
    with pytest.raises(InvalidParameter, match="package"):
        Study.parse(own + "[package]\nblock = 2\n")
    assert Study.parse(own).enclosure is None


def test_the_plan_a_site_makes_without_the_code_is_the_coordinators(folder: Path) -> None:
    """Names, sizes and noise; the noise of the first release is needed to know the second."""
    here = study_of(folder, "[package]\nblock = 4\n")
    place = site_of(folder)
    place.allow_package(PACKAGE)
    sys.modules.pop("cube_code")
    there = place.load_study(folder / "study.toml")
    assert "cube_code" not in sys.modules
    plans = [outline(study, {"lyon": 40}) for study in (here, there)]
    assert plans[0].plans == plans[1].plans
    for one, other in zip(*(plan.releases for plan in plans), strict=True):
        assert (one.statistic.name, one.share) == (other.statistic.name, other.share)
        assert (one.statistic.size, one.statistic.diameter) == (other.statistic.size, other.statistic.diameter)
    assert [entry.statistic.name for entry in plans[0].releases] == ["sampled", "first_moments"]
    assert plans[0].releases[0].statistic.diameter == 8.0
    assert here.inner_statistics() == there.inner_statistics() == {"mean_cubes"}
    assert here.digest() == there.digest()


def test_review_card_and_guarantee_say_how_the_code_runs(folder: Path) -> None:
    study_of(folder, "[package]\nblock = 4\n")
    place = site_of(folder)
    place.allow_package(PACKAGE)
    study = place.load_study(folder / "study.toml")
    seen = review(place, study, "cohort")
    assert seen.guarantee.status.startswith("conditional")
    assumed = [text for text in seen.guarantee.assumptions if "mean_cubes" in text]
    assert len(assumed) == 1
    text = " ".join(review_text(place, study).split())
    assert "one block of 4 records" in text
    assert PACKAGE in text


def test_record_by_record_needs_the_stewards_acceptance(folder: Path) -> None:
    way = '[package]\nway = "record_by_record"\nblock = 20\n'
    study = study_of(folder, way)
    place = site_of(folder)
    place.allow_package(PACKAGE)
    with pytest.raises(LedgerRefused, match="--record-by-record"):
        place.approve(study, "cohort")
    words = ["site", "allow-analysis", PACKAGE, "--record-by-record", "--folder", str(place.path)]
    assert "record by record" in CliRunner().invoke(main, words, catch_exceptions=False).output
    place.approve(study, "cohort")
    # Taken back: by allowing the package without it, or not at all.
    place.allow_package(PACKAGE)
    with pytest.raises(LedgerRefused, match="--record-by-record"):
        place.site_for(study)
    place.allow_package(PACKAGE, record_by_record=True)
    place.site_for(study)
    place.allow_package(PACKAGE, allowed=False)
    assert place.state().record_by_record == set()


def test_a_site_without_sandboxes_refuses_before_anything_is_charged(folder: Path) -> None:
    from dpcape.core.protocols.noise_dealer import NoiseDealer
    from dpcape.core.secure_sum.identity import Identity
    from dpcape.federation.federation import Federation
    from dpcape.site.in_process import InProcess

    study = study_of(folder)
    place = site_of(folder)
    place.allow_package(PACKAGE)
    place.approve(study, "cohort")
    dealer = NoiseDealer(Identity.generate(), Replay(1))
    line = InProcess({"lyon": place.site_for(study, noise=Replay(1))}, dealer)
    federation = Federation(line, protocol=study.protocol(), enclosure=study.enclosure)
    with pytest.raises(ProtocolError, match="runs no code of other packages"):
        study.estimator().fit(federation)
    assert place.state().charges == []


def test_an_approval_is_for_the_stated_way_alone(folder: Path) -> None:
    study = study_of(folder, "[package]\nblock = 4\n")
    approved = ApprovedStudy(study)
    plan = outline(study, {"lyon": 40}).plans[0]
    public = {"inner": "mean_cubes", "package": PACKAGE, "size": 2, "radius": 1.0, "block": 4, "seconds": 0.25}
    approved.check_request(Request(release=0, statistic="sampled", public=public, plan=plan), {"lyon": 40})
    for changed in ({"block": 1}, {"seconds": 5.0}, {"package": "other"}, {"inner": "other"}):
        with pytest.raises(ProtocolError, match="approved study"):
            approved.check_request(
                Request(release=0, statistic="sampled", public={**public, **changed}, plan=plan), {"lyon": 40}
            )
    with pytest.raises(ProtocolError):
        approved.check_request(Request(release=0, statistic="record_by_record", public=public, plan=plan), {"lyon": 40})
    own = Study.parse(STUDY.replace('analysis = "cubes"', 'analysis = "mean"'))
    with pytest.raises(ProtocolError):
        ApprovedStudy(own).check_request(
            Request(release=0, statistic="sampled", public=public, plan=plan), {"lyon": 40}
        )


@pytest.mark.parametrize("way", ["sampled", "record_by_record"])
def test_a_run_in_process_computes_the_sums_and_is_rebuilt_from_its_releases(folder: Path, way: str) -> None:
    study = study_of(folder, f'[package]\nway = "{way}"\nblock = 4\n')
    run = run_in_process(study, folder / "run", noise=Replay(3))
    model = run.model()
    assert [release.statistic for release in model.releases_] == [way, "first_moments"]
    assert any("mean_cubes" in text for text in model.guarantee_.assumptions)
    again = type(study.estimator()).from_releases(run.releases.folder)
    assert np.array_equal(again.mean_, model.mean_)
    assert again.guarantee_.assumptions == model.guarantee_.assumptions


def test_exact_totals_are_those_of_the_records(folder: Path) -> None:
    text = STUDY.replace('kind = "independent"', 'kind = "exact"')
    study_of(folder)
    study = Study.parse(text + "[package]\nblock = 7\n", path=folder / "study.toml", packages=ANY_PACKAGE)
    model = run_in_process(study, folder / "run").model()
    table = np.loadtxt(folder / "lyon.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(model.mean_, (table**3).mean(axis=0), rtol=1e-9)
