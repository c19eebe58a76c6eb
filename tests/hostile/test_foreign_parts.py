"""Losses and feature maps of other packages in sandboxed children, and through a real vault."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.site_folder.parts_package import PACKAGE, forget, install

from dpcape import Federation, in_process, labelled
from dpcape.core.enclosed import IN_THIS_PROCESS, Enclosed, RecordByRecord, Sampled
from dpcape.core.noise import Replay
from dpcape.core.totals import released_total
from dpcape.records.kinds import Records
from dpcape.site.foreign.workers import Workers, start_zygote

from .test_foreign_code import DATA, Served, Site

LABELS = np.random.default_rng(6).uniform(-1, 1, size=len(DATA))
WEIGHTS = {"output": np.ones((1, 5)), "clip": 1.0, "input_scale": 1.0, "features": "shifted"}
STUDY = """
[study]
name = "parts"
{analysis}
epsilon = 2.0
delta = 1e-6
[protocol]
kind = "independent"
[sites.lyon]
data = "lyon.npz"
[data]
kind = "labelled"
features = 3
array = "X"
target = "y"
bound = 1.0
{target}
[package]
way = "{way}"
block = 6
seconds = 0.6
"""
LOSS = {
    "analysis": 'analysis = "polynomial_loss"\nloss = "squares of mine"',
    "target": "response = [-1.0, 1.0]",
    "way": "sampled",
}
MAP = {
    "analysis": 'analysis = "network_classifier"\nfeatures = "shifted"\nn_hidden = 0\nn_iter = 2\nrandom_state = 1',
    "target": "classes = [0, 1]",
    "way": "record_by_record",
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    place = install(tmp_path_factory.mktemp("parts"))
    sys.path.insert(0, str(place))
    import parts_code  # noqa: F401  (registers its parts here)

    yield place
    sys.path.remove(str(place))
    forget()


@pytest.fixture(scope="module")
def workers(installed: Path) -> Iterator[Workers]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        zygote = start_zygote(theirs, [PACKAGE])
    made = Workers(ours)
    yield made
    made.close()
    assert zygote.wait(10) == 0


def responses(table: np.ndarray = DATA) -> Records:
    return labelled(table, LABELS, bound=1.0, response=(-1, 1))


def enclosed(
    kind: type[Enclosed], records: Records, inner: str, size: int, *, radius: float = 4.0, **public: object
) -> Enclosed:
    its = {f"its_{name}": value for name, value in public.items()}
    facts = records.facts()
    return kind(facts, inner=inner, package=PACKAGE, size=size, radius=radius, block=6, seconds=0.6, **its)


def test_children_add_up_coefficients_as_this_process_does(workers: Workers) -> None:
    for kind in (Sampled, RecordByRecord):
        statistic = enclosed(kind, responses(), "polynomial_coefficients", 10, loss="squares of mine")
        found = released_total(statistic, responses(), workers)
        assert np.array_equal(found, released_total(statistic, responses(), IN_THIS_PROCESS))
        assert found[-1] == statistic.count_weight * len(DATA)


def test_children_add_up_gradients_of_mapped_records_as_this_process_does(workers: Workers) -> None:
    records = labelled(DATA, (LABELS > 0).astype(int), bound=1.0, classes=[0, 1])
    statistic = enclosed(RecordByRecord, records, "linear_gradient", 5, radius=1.0, **WEIGHTS)
    found = released_total(statistic, records, workers)
    assert np.array_equal(found, released_total(statistic, records, IN_THIS_PROCESS))
    assert found[-1] == statistic.count_weight * len(DATA)


def test_a_loss_that_makes_one_record_everybodys_moves_a_total_by_at_most_the_diameter(workers: Workers) -> None:
    """It hides from the search, and says that it is vectorised."""
    statistic = enclosed(Sampled, responses(), "polynomial_coefficients", 4, loss="grabber", radius=1.0)
    totals = []
    for first in (np.array([0.6, 0.0, 0.0]), np.array([-0.6, 0.0, 0.0])):
        table = DATA.copy()
        table[6] = first
        totals.append(released_total(statistic, responses(table), workers))
    apart = np.linalg.norm(totals[0] - totals[1])
    assert statistic.diameter == pytest.approx(12.0)
    # The attack works: counted as one record's contribution it would be six times too much.
    assert 0.99 * statistic.diameter <= apart <= statistic.sensitivity(len(DATA))


@pytest.mark.parametrize("part", [LOSS, MAP], ids=["loss", "map"])
def test_a_study_runs_through_the_vault_and_equals_the_run_in_process(
    tmp_path: Path, installed: Path, part: dict[str, str]
) -> None:
    targets = LABELS if part is LOSS else (LABELS > 0).astype(int)
    site = Site(tmp_path, installed, STUDY.format(**part), y=targets)
    site.folder.allow_package(PACKAGE, record_by_record=True)
    site.folder.approve(site.folder.load_study(tmp_path / "study.toml"))
    with site.served((PACKAGE,)) as client:
        line = Served(client, site.folder.identity.public, site.study)
        assert line.ready().state == "ok"
        model = site.study.estimator().fit(
            Federation(line, protocol=site.study.protocol(), enclosure=site.study.enclosure)
        )
    there = in_process({"lyon": site.study.records_for("lyon", tmp_path / "lyon.npz")}, noise=Replay(7))
    again = site.study.estimator().fit(
        Federation(there, protocol=site.study.protocol(), enclosure=site.study.enclosure)
    )
    fitted = "coef_" if part is LOSS else "output_"
    assert np.array_equal(getattr(model, fitted), getattr(again, fitted))
    assert {release.statistic for release in model.releases_} == {part["way"]}
    assert model.guarantee_.status.startswith("conditional")
    assert any(PACKAGE in text for text in model.guarantee_.assumptions)
