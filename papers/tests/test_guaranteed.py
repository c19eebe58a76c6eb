"""No curve is called verified without a guarantee of status verified at its epsilon."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_experiments import guarantee, made, squares

from dpcape.core.errors import InvalidParameter
from dpcape_papers.experiments.cache import CachedRows
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RunSetting
from dpcape_papers.experiments.folder import write_folder
from dpcape_papers.experiments.replica_picture import draw_replica
from dpcape_papers.experiments.results import UNCOVERED, VERIFIED, Results, Row, require_guarantees, row
from dpcape_papers.figures.analytic import network
from dpcape_papers.figures.cca import panels as cca
from dpcape_papers.figures.ica import djica, maps
from dpcape_papers.figures.pca import panels as pca
from dpcape_papers.figures.replicas import cca as replica_cca
from dpcape_papers.figures.replicas import pca as replica_pca
from dpcape_papers.figures.replicas import regression as replica_regression
from dpcape_papers.figures.replicas import tensor as replica_tensor

NOWHERE = DataFolder(None)


def one(**changed: object) -> Row:
    kept = {"claimed_epsilon": 1.0, "verified_epsilon": 1.0, "guarantee": guarantee(), **changed}
    return row(panel="p", curve="CAPE", calibration=VERIFIED, x=1.0, measure="m", value=1.0, **kept)  # type: ignore[arg-type]


def test_a_guarantee_at_the_epsilon_is_enough() -> None:
    require_guarantees([one(), {**one(guarantee=None), "calibration": UNCOVERED}])


@pytest.mark.parametrize(
    "bad", [{"guarantee": None}, {"verified_epsilon": 1.001}, {"verified_epsilon": None}, {"claimed_epsilon": None}]
)
def test_without_it_a_curve_is_not_called_verified(bad: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match="called verified"):
        require_guarantees([one(**bad)])
    experiment = made("dissertation-0.1", squares, tmp_path / "log")
    setting = RunSetting(quick=True, data=NOWHERE, runs=3)
    done = [(experiment.cells(setting)[0], CachedRows([one(**bad)], 0.0, []))]
    with pytest.raises(InvalidParameter, match="called verified"):
        write_folder(tmp_path / "out", experiment, setting, done)


def test_another_status_is_not_verified() -> None:
    with pytest.raises(InvalidParameter, match="no guarantee"):
        require_guarantees([{**one(), "guarantee": "no guarantee"}])


def test_pictures_of_replicas_refuse_it_too() -> None:
    drawn = replica_tensor.compute(NOWHERE, figure="5.1", panel="top-1", points=[1.0], runs=[0])
    bare = [{**r, "calibration": VERIFIED} for r in drawn]
    with pytest.raises(InvalidParameter, match="called verified"):
        draw_replica(replica_tensor.REPLICA_5_1, Results([*drawn, *bare]), Results([]))


CELLS = {
    "3.5": lambda: network.by_epsilon(NOWHERE, epsilons=[0.1], n_records=400, run=0),
    "4.1": lambda: pca.compute(NOWHERE, letter="a", run=0, points=[1.0], n_components=5, side=28),
    "4.1 replica": lambda: replica_pca.compute(NOWHERE, letter="a", run=0, points=[1.0]),
    "5.1 replica": lambda: replica_tensor.compute(
        NOWHERE, figure="5.1", panel="top-1", points=[1.0], runs=[0], verified=1
    ),
    "5.3 replica": lambda: replica_tensor.compute(
        NOWHERE, figure="5.3", panel="top-1", points=[0.01], runs=[0], verified=1
    ),
    "7.1": lambda: cca.compute(
        NOWHERE, letter="e", dataset=cca.FUSION, by=cca.BY_EPSILON, points=[1.0], n_records=500, epsilon=0.0, copies=1,
        delta=0.01, scheme="chapter", run=0, n_judged=100,
    ),
    "8.1 replica": lambda: replica_regression.compute(
        NOWHERE, figure="8.1", panel="a", points=[1.0], run=0, verified=True
    ),
    "djica": lambda: djica.compute(
        NOWHERE, n_subjects=8, n_components=2, side=4, n_timepoints=40, n_iter=5, epsilons=[1.0], run=0, pooled=False,
        matrices=False,
    ),
    "6.6": lambda: maps.compute(
        NOWHERE, n_subjects=8, n_components=2, side=4, n_timepoints=40, n_iter=5, epsilon=1.0, run=0
    ),
}  # fmt: skip


@pytest.mark.parametrize("figure", CELLS)
@pytest.mark.filterwarnings("ignore::dpcape.core.errors.DpcapeWarning")
def test_verified_rows_of_every_chapter_have_their_guarantee(figure: str) -> None:
    rows = CELLS[figure]()
    require_guarantees(rows)
    assert (figure == "4.1 replica") != any(r["calibration"] == VERIFIED for r in rows)


def test_verified_curves_of_images_and_people_come_from_public_bounds() -> None:
    def own(panel: str, measure: str) -> Row:
        return {**one(), "panel": panel, "measure": measure}

    rows = Results([own("(a) MNIST, by epsilon", "CH"), own("(c) MOCHA-TIMIT for XRMB, by epsilon", "CH"),
                    own("(e) simulated fMRI+EEG, by epsilon", "err_corr")])  # fmt: skip
    found = {panel: len(replica_cca.REPLICA_7_1.verified(rows, panel)) for panel in "ace"}
    assert found == {"a": 1, "c": 0, "e": 1}
    images = Results([own("(b) MNIST, by epsilon", "captured energy"),
                      own("(e) MNIST, 14 x 14 pixels, by records per site", "captured energy")])  # fmt: skip
    assert [len(replica_pca.REPLICA_4_1.verified(images, panel)) for panel in "be"] == [1, 0]
