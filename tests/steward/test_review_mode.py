"""A review of a study on an engine says how well the engine is kept from the records here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpcape.guarantee.separation import LINES
from dpcape.site.folder import SiteFolder
from dpcape.site.vault import modes
from dpcape.steward import review as reviews
from dpcape.study.study import Study

TEXT = """[study]
name = "first"
analysis = "mean"
epsilon = 1.0
delta = 1e-5
[protocol]
kind = "cape"
n_colluding = 0
[sites.lima]
[sites.lyon]
[sites.oslo]
[data]
kind = "rows"
features = 2
bound = 1.0
"""
ENGINE = '[federation]\nengine = "flare"\nfolder = "federation"\n'


@pytest.fixture
def place(tmp_path: Path) -> SiteFolder:
    np.savez(tmp_path / "lyon.npz", X=np.ones((5, 2)))
    made = SiteFolder.create(tmp_path / "site", name="lyon")
    made.add_data("main", tmp_path / "lyon.npz", epsilon=2.0, delta=1e-4)
    return made


def reviewed(place: SiteFolder, text: str) -> str:
    shown = reviews.review_text(place, Study.parse(text, path=place.path.parent / "study.toml"))
    return " ".join(shown.split())


@pytest.mark.parametrize("name", sorted(modes.MODES))
def test_the_mode_of_this_machine_is_in_the_review(
    place: SiteFolder, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reviews, "mode_here", lambda folder: modes.MODES[name])
    shown = reviewed(place, TEXT + ENGINE)
    assert f"at lyon: {LINES[name]}" in shown
    assert ("Not separated: no protection from members" in shown) == (name == "none")


def test_a_study_in_process_has_no_mode(place: SiteFolder) -> None:
    shown = reviewed(place, TEXT)
    assert not any(line in shown for line in LINES.values())


def test_the_mode_here_is_one_that_can_be_served(place: SiteFolder) -> None:
    assert modes.mode_here(place.path).name in modes.MODES
