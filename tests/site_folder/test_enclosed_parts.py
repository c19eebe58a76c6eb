"""Losses and feature maps of other packages, named by parameters of dpcape's own analyses, are enclosed too."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dpcape import labelled
from dpcape.analyses.registry import ANY_PACKAGE, needed_code
from dpcape.core.errors import InvalidParameter, LedgerRefused
from dpcape.core.noise import Replay
from dpcape.planning.outline import outline
from dpcape.runs.in_process import run_in_process
from dpcape.site.folder import SiteFolder
from dpcape.site.in_process import in_process
from dpcape.site.vault.server import VaultSettings, study_opener
from dpcape.steward.review import review, review_text
from dpcape.study.study import Study

from .parts_package import PACKAGE, forget, install

LOSS_STUDY = """
[study]
name = "squares"
analysis = "polynomial_loss"
loss = "squares of mine"
epsilon = 1.0
delta = 1e-6
[protocol]
kind = "independent"
[sites.lyon]
data = "lyon.csv"
records = 40
[data]
kind = "labelled"
columns = ["a", "b"]
bound = 1.0
target = "y"
response = [-1.0, 1.0]
[package]
block = 4
seconds = 0.5
"""
MAP_STUDY = """
[study]
name = "shifted"
analysis = "network_classifier"
features = "shifted"
n_hidden = 0
n_iter = 2
epsilon = 1.0
delta = 1e-6
[protocol]
kind = "independent"
[sites.lyon]
data = "lyon.csv"
records = 40
[data]
kind = "labelled"
columns = ["a", "b"]
bound = 1.0
target = "c"
classes = ["no", "yes"]
[package]
way = "record_by_record"
block = 20
seconds = 0.5
"""
STUDIES = {"loss": LOSS_STUDY, "map": MAP_STUDY}
INNER = {"loss": "polynomial_coefficients", "map": "linear_gradient"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with records, and an installed package that is not dpcape's."""
    monkeypatch.syspath_prepend(str(install(tmp_path)))
    rng = np.random.default_rng(0)
    table = 0.5 * rng.uniform(-1, 1, size=(40, 3))
    rows = [f"{a},{b},{y},{'yes' if y > 0 else 'no'}" for a, b, y in table]
    (tmp_path / "lyon.csv").write_text("\n".join(["a,b,y,c", *rows]))
    for name, text in STUDIES.items():
        (tmp_path / f"{name}.toml").write_text(text)
    yield tmp_path
    forget()


def site_of(folder: Path, *, allowed: bool = True) -> SiteFolder:
    made = SiteFolder.create(folder / "site", name="lyon")
    made.add_data("cohort", folder / "lyon.csv", epsilon=5.0, delta=1e-5)
    if allowed:
        made.allow_package(PACKAGE, record_by_record=True)
    return made


def test_the_package_is_found_without_loading_it_and_cannot_replace_dpcapes_own(folder: Path) -> None:
    found = needed_code({"analysis": "polynomial_loss", "loss": "squares of mine"}, ANY_PACKAGE)
    assert found is not None
    assert (found.group, found.name) == ("dpcape.losses", "squares of mine")
    assert needed_code({"analysis": "polynomial_loss", "loss": "poisson"}, ANY_PACKAGE) is None
    assert needed_code({"analysis": "network_classifier", "features": "hog"}, ANY_PACKAGE) is None
    assert needed_code({"analysis": "network_classifier"}, ANY_PACKAGE) is None
    assert "parts_code" not in sys.modules


@pytest.mark.parametrize("part", ["loss", "map"])
def test_a_site_plans_what_the_coordinator_plans_without_loading_the_code(folder: Path, part: str) -> None:
    here = Study.load(folder / f"{part}.toml", packages=ANY_PACKAGE)
    plan = outline(here, {"lyon": 40})
    inner = here.inner_statistics()
    forget()
    place = site_of(folder)
    there = place.load_study(folder / f"{part}.toml")
    assert "parts_code" not in sys.modules
    assert there.digest() == here.digest()
    assert outline(there, {"lyon": 40}).plans == plan.plans
    assert there.inner_statistics() == inner == {INNER[part]}
    assert here.enclosure == there.enclosure
    names = {entry.statistic.name for entry in plan.releases}
    assert names == {"sampled" if part == "loss" else "record_by_record"}
    if part == "loss":
        # Twice the bound for each of four records; what the author states is not used.
        assert plan.releases[0].statistic.diameter == pytest.approx(2 * 4.0 * 4)
    seen = review(place, there, "cohort")
    assert seen.guarantee.status.startswith("conditional")
    text = " ".join(review_text(place, there).split())
    assert PACKAGE in text
    assert ("one block of 4 records" in text) == (part == "loss")
    # The analysis itself is dpcape's.
    assert "is what its author says" not in text


@pytest.mark.parametrize("part", ["loss", "map"])
def test_a_package_that_was_not_allowed_is_refused_and_not_loaded(folder: Path, part: str) -> None:
    place = site_of(folder, allowed=False)
    with pytest.raises(InvalidParameter, match="allow-analysis"):
        place.load_study(folder / f"{part}.toml")
    place.allow_package(PACKAGE, record_by_record=True)
    study = place.load_study(folder / f"{part}.toml")
    place.approve(study, "cohort")
    opened = study_opener(place, VaultSettings(folder=str(place.path), mode="confined", control=-1))
    with pytest.raises(LedgerRefused, match=f"package '{PACKAGE}'"):
        opened(study.digest())
    assert "parts_code" not in sys.modules


@pytest.mark.parametrize("part", ["loss", "map"])
def test_a_run_in_one_process_is_enclosed_too_and_can_be_rebuilt(folder: Path, part: str) -> None:
    study = Study.load(folder / f"{part}.toml", packages=ANY_PACKAGE)
    run = run_in_process(study, folder / "run", noise=Replay(3))
    model = run.model()
    assert {release.statistic for release in model.releases_} == {"sampled" if part == "loss" else "record_by_record"}
    assert model.guarantee_.status.startswith("conditional")
    assert any(PACKAGE in text for text in model.guarantee_.assumptions)
    again = type(study.estimator()).from_releases(run.releases.folder, **study.parameters)
    fitted = "coef_" if part == "loss" else "output_"
    assert np.array_equal(getattr(again, fitted), getattr(model, fitted))


def test_without_a_study_nothing_changes(folder: Path) -> None:
    """In a researcher's own process a loss that was imported runs as before: its assumptions are stated."""
    import parts_code  # noqa: F401

    from dpcape import Federation, Independent, PolynomialLoss

    rng = np.random.default_rng(1)
    records = labelled(rng.uniform(-0.5, 0.5, (30, 2)), rng.uniform(-1, 1, 30), bound=1.0, response=(-1, 1))
    federation = Federation(in_process({"lyon": records}), protocol=Independent())
    model = PolynomialLoss("squares of mine", epsilon=5.0, delta=1e-6).fit(federation)
    assert [release.statistic for release in model.releases_] == ["polynomial_coefficients"]
    assert model.guarantee_.status.startswith("conditional")
