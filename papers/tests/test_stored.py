"""Stored results: what is kept of a run, and how a fresh one is compared with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcape_papers.experiments import registry
from dpcape_papers.experiments.replica import REPLICA
from dpcape_papers.experiments.results import VERIFIED, row
from dpcape_papers.experiments.stored import FOLDER, load, recheck, store


def rows(*values: float, kind: str = REPLICA, x: float = 0.1) -> list[dict]:
    return [
        row(panel="a", curve="CAPE", calibration=kind, x=x, measure="m", value=value, run=run)
        for run, value in enumerate(values)
    ]


def test_means_spreads_and_runs_are_kept(tmp_path: Path) -> None:
    store("f", [*rows(1.0, 2.0, 3.0), *rows(9.0, kind=VERIFIED)], tmp_path)
    (point,) = load("f", tmp_path)
    assert (point.mean, point.spread, point.n_runs, point.x) == (2.0, 1.0, 3, "0.1")
    assert load("g", tmp_path) == []


def test_verified_points_on_the_authors_data_are_kept_apart(tmp_path: Path) -> None:
    verified = [{**r, "original": "8.1"} for r in rows(5.0, 7.0, kind=VERIFIED)]
    store("f", [*rows(1.0, 2.0, 3.0), *verified], tmp_path)
    assert [(point.mean, point.calibration) for point in load("f", tmp_path)] == [(2.0, REPLICA), (6.0, VERIFIED)]
    found = recheck("f", [*rows(1.0, 2.0, 3.0), *verified], tmp_path)
    assert (found.n_points, found.n_agreeing) == (2, 2)


@pytest.mark.parametrize(("shift", "agree"), [(0.0, 1), (2.4, 1), (2.5, 0), (-2.5, 0)])
def test_a_fresh_run_agrees_within_three_standard_errors(tmp_path: Path, shift: float, agree: int) -> None:
    """Spread 1, three runs on both sides: three standard errors are 3 sqrt(2/3) = 2.449."""
    store("f", rows(1.0, 2.0, 3.0), tmp_path)
    fresh = [*rows(1.0 + shift, 2.0 + shift, 3.0 + shift), *rows(5.0, x=7.0)]
    found = recheck("f", fresh, tmp_path)
    assert (found.n_points, found.n_agreeing) == (1, agree)
    assert f"{agree} of 1 points" in str(found)


def test_computed_points_must_be_equal(tmp_path: Path) -> None:
    store("f", rows(2.0), tmp_path)
    assert recheck("f", rows(2.0 + 1e-6), tmp_path).n_agreeing == 1
    assert recheck("f", rows(2.001), tmp_path).n_agreeing == 0


def test_stored_files_belong_to_figures_that_are_run_as_their_authors_ran_them() -> None:
    names = {path.stem for path in FOLDER.glob("*.csv")}
    assert names
    assert names <= {name for name, one in registry.experiments().items() if one.replica is not None}
    for name in names:
        points = load(name)
        replica = registry.experiments()[name].replica
        assert replica is not None
        assert {point.panel for point in points} <= set(replica().panels)
