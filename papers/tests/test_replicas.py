"""The figures as their authors ran them: formulas against vectors, and our numbers against the authors' where given."""

from __future__ import annotations

import csv
import inspect
import json
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcape_papers.experiments import registry
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting
from dpcape_papers.experiments.folder import COMPARED, REPLICA_DRAWING, read_folder, write_folder
from dpcape_papers.experiments.index import NOT_COMPARED, comparison_table, write_index
from dpcape_papers.experiments.replica import (
    PAPER,
    REPLICA,
    ComparedPoint,
    PaperPoint,
    PointSetting,
    Replica,
    compared_points,
    margin_of,
    paper_points,
    rate,
    summary,
)
from dpcape_papers.experiments.replica_picture import draw_replica
from dpcape_papers.experiments.results import VERIFIED, Results, require_guarantees, row
from dpcape_papers.figures.replicas import cca, network, pca, regression, tensor, theorem
from dpcape_papers.figures.replicas.verified import SCHEMES

NOWHERE = DataFolder(None)
SHARED = DataFolder(Path(os.environ["DPCAPE_DATA"]) if os.environ.get("DPCAPE_DATA") else None)
GIVEN = pytest.mark.skipif(not SHARED.has("authors/figures/fig8.3.csv"), reason="the authors' numbers are not given")
REPLICAS = (
    theorem.BY_SCALE, theorem.BY_COLLUSION, network.REPLICA_3_5, pca.REPLICA_4_1, tensor.REPLICA_5_1,
    tensor.REPLICA_5_2, tensor.REPLICA_5_3, cca.REPLICA_7_1, cca.REPLICA_7_2, regression.REPLICA_8_1,
    regression.REPLICA_8_2, regression.REPLICA_8_3,
)  # fmt: skip


# The comparison.

HEADER = "figure,panel,dataset,method,x_name,x,y_name,y,y_std,n_runs,plotted,source_repo,source_path,note\n"


def folder(tmp_path: Path, lines: list[str]) -> DataFolder:
    place = tmp_path / "authors" / "figures"
    place.mkdir(parents=True)
    (place / "fig8.3.csv").write_text(HEADER + "".join(f"{line}\n" for line in lines))
    return DataFolder(tmp_path)


def point(method: str, x: float, y: float, spread: float, n: int, note: str = "") -> str:
    return f"8.3,top-1,d,{method},epsilon,{x},err,{y},{spread},{n},1,r,p,{note}"


def ours(curve: str, x: float, values: list[float]) -> list[dict]:
    return [
        row(panel="top-1", curve=curve, calibration=REPLICA, x=x, measure=regression.ERROR, value=value, run=run,
            original="8.3")
        for run, value in enumerate(values)
    ]  # fmt: skip


CAPE_METHOD = "capeFM (simulated as pooled)"


def only(data: DataFolder, rows: list[dict]) -> ComparedPoint:
    points = paper_points(data, regression.REPLICA_8_3)
    (found,) = compared_points(Results(rows), points, regression.REPLICA_8_3)
    return found


@pytest.mark.parametrize(("theirs", "within"), [(1.0 + 1.9 * math.sqrt(0.01 / 4 + 0.04 / 10), True),
                                                (1.0 + 2.1 * math.sqrt(0.01 / 4 + 0.04 / 10), False)])  # fmt: skip
def test_points_agree_within_twice_the_standard_error_of_both_means(
    tmp_path: Path, theirs: float, within: bool
) -> None:
    values = [1 + sign * 0.1 * math.sqrt(3) / 2 for sign in (1, 1, -1, -1)]  # mean 1, sample deviation 0.1
    assert np.std(values, ddof=1) == pytest.approx(0.1)
    found = only(folder(tmp_path, [point(CAPE_METHOD, 0.1, theirs, 0.2, 10)]), ours("CAPE", 0.1, values))
    assert found["within"] is within
    assert found["ratio"] == pytest.approx(1 / theirs)
    assert (found["n_runs"], found["paper_runs"]) == (4, 10)


def test_a_spread_that_is_not_stored_is_taken_from_our_runs(tmp_path: Path) -> None:
    values = [0.9, 1.0, 1.1]
    margin = 2 * math.sqrt(0.01 / 3 + 0.01)
    data = folder(tmp_path, [point(CAPE_METHOD, 0.1, 1 + 0.99 * margin, 0.0, 10)])
    assert only(data, ours("CAPE", 0.1, values))["within"]
    assert not only(data, ours("CAPE", 0.1, [value - 0.01 * margin - 0.01 for value in values]))["within"]


def test_the_margin_cannot_read_what_the_paper_found(tmp_path: Path) -> None:
    """The paper's mean moves through nine orders of magnitude: margin and reason stay the same to the last bit."""
    values = [1.0, 1.3, 0.8, 1.2]
    found = [
        only(folder(tmp_path / str(place), [point(CAPE_METHOD, 0.1, theirs, 0.2, 10)]), ours("CAPE", 0.1, values))
        for place, theirs in enumerate((-1e3, 1e-6, 0.0, 0.7, 1.075, 1.3, 1e3))
    ]
    assert len({(one["margin"], one["reason"]) for one in found}) == 1
    assert [one["within"] for one in found] == [False, False, False, False, True, True, False]
    assert found[0]["margin"] == pytest.approx(2 * math.sqrt(np.var(values, ddof=1) / 4 + 0.04 / 10))
    assert "value" not in inspect.signature(margin_of).parameters


def test_rounding_is_no_spread() -> None:
    """Ten equal numbers have a deviation of 7e-15: they agree with a number that differs in the seventh digit."""
    assert margin_of(43.48, 7e-15, 10, 0.0, 10) == pytest.approx(1e-3 * 43.48)
    assert margin_of(43.48, 7e-5, 10, 0.0, 10) == pytest.approx(2 * math.sqrt(1.1) * 7e-5)


def test_new_draws_of_the_data_widen_no_margin(tmp_path: Path) -> None:
    """Our runs vary five times as much as theirs, as they do with the draw: only our own standard error grows."""
    values = [1 + sign * 0.5 * math.sqrt(3) / 2 for sign in (1, 1, -1, -1)]
    error = math.sqrt(0.25 / 4 + 0.01 / 10)
    data = folder(tmp_path, [point(CAPE_METHOD, 0.1, 1 + 2.01 * error, 0.1, 10)])
    assert not only(data, ours("CAPE", 0.1, values))["within"]


def test_identical_runs_are_one_run_and_unknown_methods_are_left_out(tmp_path: Path) -> None:
    lines = [point(CAPE_METHOD, 0.1, 1.0, 0.1, 10, "all 10 stored runs are identical"), point("other", 0.1, 1, 0, 1)]
    (found,) = paper_points(folder(tmp_path, lines), regression.REPLICA_8_3)
    assert found.n_runs == 1


def test_figures_8_1_and_8_2_compare_the_magnitude_of_the_mean(tmp_path: Path) -> None:
    place = tmp_path / "authors" / "figures"
    place.mkdir(parents=True)
    (place / "fig8.1.csv").write_text(HEADER + f"8.1,a,d,{CAPE_METHOD},epsilon,0.1,min,3.0,0.1,10,1,r,p,\n")
    rows = [{**r, "panel": "a"} for r in ours("CAPE", 0.1, [-3.0, -3.1, -2.9])]
    points = paper_points(DataFolder(tmp_path), regression.REPLICA_8_1)
    (found,) = compared_points(Results(rows), points, regression.REPLICA_8_1)
    assert (found["ours"], found["within"]) == (pytest.approx(3.0), True)


def test_the_summary_counts_points_whose_settings_agree_apart() -> None:
    def one(ratio: float, within: bool, reason: str) -> ComparedPoint:
        return {
            "panel": "a", "curve": "c", "x": 1.0, "ours": ratio, "spread": 0.1, "n_runs": 3, "paper": 1.0,
            "paper_spread": 0.1, "paper_runs": 10, "ratio": ratio, "margin": 0.1, "within": within, "reason": reason,
        }  # fmt: skip

    found = summary([one(1.0, True, ""), one(2.0, False, ""), one(4.0, False, "other data")])
    assert found == {
        "points": 3, "points_within": 1, "agreeing": 2, "agreeing_within": 1, "excused": 1, "excused_within": 0,
        "median_ratio": 2.0,
    }  # fmt: skip
    assert rate(found["agreeing_within"], found["agreeing"]) == "50% of 2"
    assert rate(0, 0) == "-"
    assert math.isnan(summary([])["median_ratio"])


def test_the_comparison_is_written_drawn_and_shown(tmp_path: Path) -> None:
    data = folder(tmp_path / "data", [point(CAPE_METHOD, x, 1.0, 0.1, 10) for x in (0.1, 1.0)])
    experiment = registry.experiments()["dissertation-8.3"]
    setting = RunSetting(quick=True, data=data, runs=1)
    cells = [cell for cell in experiment.cells(setting) if cell.extendable]
    # Every panel has its curves; what is compared is added below.
    values = {"N": [500, 600], "epsilon": [0.3, 3.0], "delta": [1e-5, 1e-2]}
    small = [{**cell.options, "n_records": 300, "values": values[cell.options["vary"]]} for cell in cells]
    rows = [r for cell, options in zip(cells, small, strict=True) for r in cell.compute(data, **options)]
    from dpcape_papers.experiments.cache import CachedRows

    more = [*ours("CAPE", 0.1, [1.0, 1.1, 0.9]), *ours("CAPE", 1.0, [2.0, 2.1, 1.9])]
    done = [(cells[0], CachedRows([*rows, *more], 0.0, []))]
    write_folder(tmp_path / "out", experiment, setting, done)
    place = tmp_path / "out" / experiment.name
    compared = json.loads((place / COMPARED).read_text())
    assert [entry["within"] for entry in compared] == [True, False]
    assert (place / REPLICA_DRAWING).is_file()
    text = (place / "data.csv").read_text()
    assert "ratio_to_paper" in text
    assert f",{PAPER}," in text
    page = write_index(tmp_path / "out", [experiment.name]).read_text()
    assert "2 points compared" in page
    assert NOT_COMPARED.capitalize() not in page
    table = comparison_table(tmp_path / "out", [experiment.name]).splitlines()
    assert table[1].startswith("dissertation, Figure 8.3")
    # Without the authors' numbers the folder says so, whatever was there before.
    write_folder(tmp_path / "out", experiment, RunSetting(quick=True, data=NOWHERE), done)
    found = read_folder(place)
    assert found is not None
    assert found.compared is None
    assert NOT_COMPARED in comparison_table(tmp_path / "out", [experiment.name])
    assert NOT_COMPARED.capitalize() in write_index(tmp_path / "out", [experiment.name]).read_text()


def test_nothing_of_the_authors_is_run_without_their_numbers() -> None:
    setting = RunSetting(quick=True, data=NOWHERE)
    for experiment in registry.experiments().values():
        assert all(cell.extendable for cell in experiment.cells(setting)), experiment.name


@pytest.mark.parametrize("replica", REPLICAS, ids=lambda one: one.figure)
def test_every_replica_belongs_to_an_experiment_and_knows_its_panels(replica: Replica) -> None:
    loaded = [one.replica() for one in registry.experiments().values() if one.replica is not None]
    assert sum(one is replica for one in loaded) == (2 if replica.figure in ("7.1", "7.2") else 1)
    if SHARED.has(replica.file) and replica.compared:
        points = paper_points(SHARED, replica)
        assert {one.panel for one in points} == set(replica.panels)
        assert {one.curve for one in points} == set(replica.curves.values())
        assert all(isinstance(replica.reason(one.setting), str) for one in points)


# Formulas.


@pytest.mark.parametrize(
    ("n_sites", "n_colluding", "kappa"),
    [(10, 0, 1.8182), (10, 1, 1.3929), (10, 2, 1.2762), (10, 3, 1.2401), (30, 9, 1.1174), (5, 1, 1.3194)],
)
def test_the_covariance_of_the_script(n_sites: int, n_colluding: int, kappa: float) -> None:
    assert theorem.script_kappa(n_sites, n_colluding) == pytest.approx(kappa, abs=5e-5)


def test_the_delta_of_the_script() -> None:
    lone = 10 / 1000 / 50
    found = 10 ** theorem.log_two_sided(1e-3, theorem.script_kappa(10, 3) * lone**2)
    assert found == pytest.approx(7.12e-6, rel=2e-3)


@pytest.mark.parametrize(
    ("epsilon", "nominal", "effective"),
    [(0.5, 1e-6, 5.14487832e-06), (0.5, 1e-5, 3.20377791e-05), (2.0, 5e-2, 0.07906136572)],
)
def test_the_axis_of_figure_8(epsilon: float, nominal: float, effective: float) -> None:
    assert regression.effective_delta(epsilon, nominal) == pytest.approx(effective, rel=1e-6)


def test_regression_without_noise_finds_the_coefficients() -> None:
    held = regression.synthetic(5, 400, np.random.default_rng(0))
    assert held.truth is not None
    found = dict((curve, w) for curve, w, _ in regression.fits(held, 1.0, 1e-5, np.random.default_rng(1)))
    assert found["non-private"] == pytest.approx(held.truth, abs=1e-4)
    assert all(np.abs(w).max() <= 1 + 1e-9 for curve, w in found.items() if curve != regression.OUTPUT)


def test_the_plotted_quantity_is_the_minimum_of_the_noisy_objective() -> None:
    held = regression.synthetic(5, 400, np.random.default_rng(0))
    target = regression.objective(held).noisy((0.1, 0.1, 0.1), np.random.default_rng(2))
    w = regression.box_minimum(target)
    assert regression.objective(held).value(w) == pytest.approx(np.mean((held.rows @ w - held.response) ** 2))
    corners = np.random.default_rng(3).uniform(-1, 1, (2000, 5))
    assert min(target.value(corner) for corner in corners) > target.value(w) - 1e-3


def test_moments_of_a_mixture_are_those_of_the_definition() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3)) + np.array([1.0, 0.0, 0.0])
    second, third, variance = tensor.mixture_moments(rows)
    x = rows / np.linalg.norm(rows, axis=1).max()
    assert variance == pytest.approx(np.linalg.eigvalsh(np.cov(x.T)).min())
    assert second == pytest.approx(x.T @ x / 200 - variance * np.eye(3))
    cube = np.einsum("ni,nj,nk->ijk", x, x, x) / 200
    m, eye = x.mean(axis=0), np.eye(3)
    parts = np.einsum("i,jk->ijk", m, eye) + np.einsum("j,ik->ijk", m, eye) + np.einsum("k,ij->ijk", m, eye)
    assert third == pytest.approx(cube - variance * parts)


def test_exact_moments_give_their_components_back() -> None:
    truth = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 6)))[0][:, :3]
    weights = np.array([0.2, 0.3, 0.5])
    second = (truth * weights) @ truth.T
    third = np.einsum("r,ir,jr,kr->ijk", weights, truth, truth, truth)
    found = tensor.components(second, third, 3, np.random.default_rng(1))
    assert tensor.nearest_error(found, truth, "MOG") < 1e-6


def test_an_estimate_may_use_a_component_twice() -> None:
    truth = np.eye(2)
    assert tensor.nearest_error(np.array([[1.0, 0.0], [2.0, 0.0]]), truth, "MOG") == 0.0


def test_the_network_steps_along_its_gradient() -> None:
    rng = np.random.default_rng(0)
    X, y = network.two_classes(40, rng)
    layers = [rng.normal(size=shape) for shape in ((5, 50), (5,), (1, 5), (1,))]
    assert np.linalg.norm(X, axis=1).max() == pytest.approx(1.0)

    def loss(layers: list[np.ndarray]) -> float:
        hidden = np.maximum(X @ layers[0].T + layers[1], 0)
        score = hidden @ layers[2][0] + layers[3][0]
        return float(np.mean(np.logaddexp(0, score) - y * score)) / len(X)  # divided once more, as in the script

    for index, slope in enumerate(network._gradient(layers, X, y)):
        move = rng.normal(size=slope.shape)
        up, down = ([layer + (sign * 1e-6 * move if i == index else 0) for i, layer in enumerate(layers)]
                    for sign in (1, -1))  # fmt: skip
        assert np.sum(slope * move) == pytest.approx((loss(up) - loss(down)) / 2e-6, rel=1e-4, abs=1e-9)


def test_the_network_learns_without_noise_and_not_with_much() -> None:
    rng = np.random.default_rng(0)
    X, y = network.two_classes(600, rng)
    good, bad = (network.train(X, y, noise, 20, np.random.default_rng(1)) for noise in (0.0, 1e4))
    assert network.accuracy(good, X, y) > 97
    assert network.accuracy(bad, X, y) < 80


# The authors' numbers. Standard errors are estimated from ten runs, so that a point of equal means lies within twice
# the standard error with probability about 0.94; of 45 points, 34 or fewer are within with probability 1e-5.


def agreement(cells: list[Cell], replica: Replica) -> Mapping[str, float]:
    rows = [r for cell in cells for r in cell.compute(SHARED, **cell.options)]
    found = summary(compared_points(Results(rows), paper_points(SHARED, replica), replica))
    assert found["agreeing"] >= 25
    assert found["agreeing_within"] >= 0.76 * found["agreeing"], found
    return {key: float(value) for key, value in found.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize("replica", [theorem.BY_SCALE, theorem.BY_COLLUSION], ids=lambda one: one.figure)
def test_numbers_evaluated_from_the_formula_are_not_compared(replica: Replica) -> None:
    assert not replica.compared
    assert paper_points(SHARED, replica) == []


def test_whether_settings_agree_cannot_read_the_papers_value() -> None:
    """The flag is given the panel, the curve and x, and nothing else."""
    assert PointSetting._fields == ("panel", "curve", "x")
    asked: list[object] = []

    def reason(setting: PointSetting) -> str:
        asked.append(setting)
        return ""

    replica = replace(regression.REPLICA_8_3, reason=reason)
    compared_points(Results(ours("CAPE", 0.1, [1.0])), [PaperPoint("top-1", "CAPE", 0.1, 7.0, 0.1, 10)], replica)
    assert asked == [PointSetting("top-1", "CAPE", 0.1)]
    assert type(asked[0]) is PointSetting


@GIVEN
@pytest.mark.parametrize("replica", REPLICAS, ids=lambda one: one.figure)
def test_flags_stay_the_same_whatever_the_paper_found(replica: Replica, tmp_path: Path) -> None:
    """Multiply every number of the authors' file: the reasons do not move."""
    place = tmp_path / replica.file
    place.parent.mkdir(parents=True)
    with SHARED.file(replica.file).open(newline="", encoding="utf-8") as file:
        entries = list(csv.DictReader(file))
    with place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, entries[0])
        writer.writeheader()
        writer.writerows({**entry, "y": 1e3 * float(entry["y"]) + 1, "y_std": 0} for entry in entries)
    before, after = (paper_points(folder, replica) for folder in (SHARED, DataFolder(tmp_path)))
    assert [replica.reason(one.setting) for one in before] == [replica.reason(one.setting) for one in after]


@GIVEN
def test_new_draws_of_random_data_excuse_all_points_of_a_figure_or_none() -> None:
    for replica in REPLICAS:
        reasons = [replica.reason(one.setting) for one in paper_points(SHARED, replica)]
        drawn = [reason for reason in reasons if "draw" in reason or "sample" in reason]
        assert len(drawn) in (0, len(reasons)), replica.figure
        assert not reasons or replica.explained, replica.figure


@GIVEN
def test_all_plotted_points_of_known_curves_are_compared() -> None:
    points = {replica.figure: paper_points(SHARED, replica) for replica in REPLICAS}
    assert sum(map(len, points.values())) == 2890
    assert sum(one.curve == tensor.RANDOM for found in points.values() for one in found) == 160


@GIVEN
def test_coefficients_of_figure_8_3_are_reproduced() -> None:
    setting = RunSetting(quick=True, data=SHARED)
    cells = [cell for cell in regression.REPLICA_8_3.cells(setting) if cell.options["panel"] == "top-1"]
    assert agreement(cells, regression.REPLICA_8_3)["median_ratio"] == pytest.approx(1.0, abs=0.05)


@GIVEN
def test_topics_of_figure_5_2_are_reproduced() -> None:
    setting = RunSetting(quick=True, data=SHARED)
    cells = [cell for cell in tensor.REPLICA_5_2.cells(setting) if cell.options["panel"] == "top-1"]
    assert agreement(cells, tensor.REPLICA_5_2)["median_ratio"] == pytest.approx(1.0, abs=0.05)


# Verified curves on the same data.


def verified_cells() -> list[tuple[Replica, list[dict]]]:
    return [
        (
            tensor.REPLICA_5_1,
            tensor.compute(NOWHERE, figure="5.1", panel="top-1", points=[0.1, 1.0], runs=[0], verified=1),
        ),
        (
            regression.REPLICA_8_1,
            regression.compute(NOWHERE, figure="8.1", panel="a", points=[0.1, 1.0], run=0, verified=True),
        ),
        (
            regression.REPLICA_8_3,
            regression.compute(NOWHERE, figure="8.3", panel="top-1", points=[0.1, 1.0], run=0, verified=True),
        ),
    ]


def test_pictures_show_verified_curves_of_every_scheme_that_adds_noise() -> None:
    for replica, found in verified_cells():
        require_guarantees(found)
        verified = [r for r in found if r["calibration"] == VERIFIED]
        assert {r["curve"] for r in verified} == set(SCHEMES)
        assert all(r["original"] == replica.figure for r in verified)
        figure = draw_replica(replica, Results(found), Results([]))
        labels = {line.get_label() for axes in figure.axes for line in axes.lines}
        assert any(label.startswith("verified") for label in labels)
        assert ("verified, real loss" in labels) is replica.magnitude


def test_verified_rows_of_the_network_are_those_with_as_many_records() -> None:
    def own(panel: str, measure: str, n_records: int | None) -> dict:
        more = {} if n_records is None else {"n_records": n_records}
        return row(panel=panel, curve="CAPE", calibration=VERIFIED, x=0.5, measure=measure, value=0.9, run=0, **more)

    results = Results(
        [
            own(network.BY_EPSILON, network.TRAIN, 10_000),
            own(network.BY_EPSILON, network.TRAIN, 5000),
            own(network.BY_RECORDS, network.TEST, None),
        ]
    )
    found = {panel: [r["value"] for r in network.REPLICA_3_5.verified(results, panel)] for panel in "abcd"}
    assert found == {"a": [90.0], "b": [], "c": [], "d": [90.0]}
