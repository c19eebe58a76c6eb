"""PCA as published, figure 4.1's cells, and verdicts that can fail."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcape.core.privacy.gaussian import delta_of, epsilon_of
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RunSetting
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, Row, row
from dpcape_papers.figures.pca import EXPERIMENTS
from dpcape_papers.figures.pca.claims import judge
from dpcape_papers.figures.pca.panels import PANELS, compute
from dpcape_papers.figures.pca.rows import source
from dpcape_papers.published.cape import cape_exposure
from dpcape_papers.published.pca import (
    cape_moment,
    conventional_moments,
    dpdis_pca,
    leading_directions,
    moment_scale,
    partial_square_root,
    symmetric_noise,
    verified_epsilon,
)

NOWHERE = DataFolder(None)


@pytest.mark.parametrize(("n_sites", "n_colluding"), [(3, 0), (4, 1), (5, 1), (10, 0), (10, 3), (10, 8)])
def test_exposure_of_published_cape(n_sites: int, n_colluding: int) -> None:
    honest = n_sites - n_colluding
    kappa = n_sites / honest * (n_sites + honest) / (n_sites + 1)
    assert cape_exposure(n_sites, n_colluding) ** 2 == pytest.approx(kappa, rel=1e-10)


def test_published_scale_is_the_printed_formula() -> None:
    expected = math.sqrt(2 * math.log(1.25 / 0.01)) / (0.5 * 1000)
    assert moment_scale(1000, epsilon=0.5, delta=0.01) == pytest.approx(expected, rel=1e-14)


def test_replacing_a_record_costs_more_than_the_sensitivity_says() -> None:
    """Two orthogonal unit rows: their second moments are sqrt(2) apart; tau was sized for 1."""
    first, second = np.eye(2)
    distance = np.linalg.norm(np.triu(np.outer(first, first) - np.outer(second, second)))
    tau = moment_scale(1, epsilon=1.0, delta=1e-5)
    real = verified_epsilon(epsilon=1.0, delta=1e-5)
    assert real == pytest.approx(epsilon_of(1e-5, distance / tau), rel=1e-9)
    # Claimed (1, 1e-5) is really delta 3.7e-5 at epsilon 1.
    assert delta_of(1.0, distance / tau) == pytest.approx(3.7e-5, rel=0.02)


def test_repeated_records_multiply_mu() -> None:
    """Ten copies at claimed (1, .01): 11.9 with the right sensitivity, 20.1 with the printed one."""
    assert verified_epsilon(epsilon=1, delta=0.01, copies=10, sensitivity=math.sqrt(2)) == pytest.approx(
        11.918, abs=1e-3
    )
    assert verified_epsilon(epsilon=1, delta=0.01, copies=10) == pytest.approx(20.140, abs=1e-3)


def test_noise_is_symmetric_with_one_scale() -> None:
    """alpha = 1e-6, two-sided chi-squared on 80,200 independent entries; 0.9 and 1.1 times the scale are rejected."""
    noise = symmetric_noise(np.random.default_rng(1), 400, 0.5)
    assert (noise == noise.T).all()
    entries = noise[np.triu_indices(400)]
    for factor, accepted in ((1.0, True), (0.9, False), (1.1, False)):
        ratio = float(np.mean((factor * entries / 0.5) ** 2))
        assert (abs(ratio - 1) < 4.9 * math.sqrt(2 / entries.size)) == accepted


def test_cape_has_pooled_noise_and_conventional_more() -> None:
    """Entry standard deviations tau/S and tau/sqrt(S)."""
    held = [np.zeros((200, 200))] * 10
    cape = cape_moment(held, scale=1.0, rng=np.random.default_rng(2))
    conventional = np.mean(conventional_moments(held, scale=1.0, rng=np.random.default_rng(3)), axis=0)
    upper = np.triu_indices(200)
    assert cape[upper].std() == pytest.approx(0.1, rel=0.03)
    assert conventional[upper].std() == pytest.approx(math.sqrt(0.1), rel=0.03)


def test_printed_decomposition_prefers_large_negative_eigenvalues() -> None:
    matrix = np.diag([3.0, -5.0, 1.0])
    assert np.abs(leading_directions(matrix, 1)) == pytest.approx(np.array([[0.0, 1.0, 0.0]]))


def test_dpdis_pca_of_clean_moments_finds_the_common_directions() -> None:
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    held = [turn @ np.diag(values) @ turn.T for values in ([9, 8, 1, 0.5, 0.2, 0.1], [7, 9, 0.5, 1, 0.1, 0.2])]
    found = dpdis_pca([np.asarray(one) for one in held], 2)
    assert np.linalg.norm(found @ turn[:, :2]) ** 2 == pytest.approx(2.0)
    root = partial_square_root(held[0], 6)
    assert root @ root.T == pytest.approx(held[0])


def test_stand_ins_say_what_they_are_and_records_keep_the_bound() -> None:
    held = source(NOWHERE, "Covertype")
    assert "stand-in" in held.name
    drawn = held.draw(500, [1])
    assert np.linalg.norm(drawn, axis=1).max() <= 1 + 1e-12
    assert (held.draw(500, [1]) == drawn).all()


def test_cells_of_both_lengths() -> None:
    (experiment,) = EXPERIMENTS
    quick, full = (experiment.cells(RunSetting(quick=one, data=NOWHERE)) for one in (True, False))
    assert len({cell.options["letter"] for cell in quick}) == len(PANELS) == 9
    assert {cell.options["run"] for cell in full} == set(range(10))
    assert all(cell.files == ["mnist.npz"] for cell in full if cell.options["letter"] in "beh")


def test_a_tiny_cell_has_every_curve_and_both_epsilons() -> None:
    rows = compute(NOWHERE, letter="c", run=0, points=[1.0], n_components=10, side=28)
    curves = {(r["curve"], r["calibration"]) for r in rows}
    assert len(curves) == len(rows) == 10
    real = {(r["curve"], r["calibration"]): r["verified_epsilon"] for r in rows}
    assert real[("non-private", NON_PRIVATE)] is None
    for curve in ("pooled", "CAPE", "conventional", "DPdisPCA", "local"):
        assert 0.999 < float(real[(curve, VERIFIED)]) <= 1.0  # numbers
    assert real[("CAPE", PUBLISHED)] == pytest.approx(1.374316, rel=1e-6)
    assert real[("local", PUBLISHED)] == pytest.approx(0.810916, rel=1e-6)
    assert rows == compute(NOWHERE, letter="c", run=0, points=[1.0], n_components=10, side=28)


def made(values: dict[tuple[str, str], list[float]], panel: str) -> list[Row]:
    """Return rows at epsilons 0.1, 1, 10 with three runs that hardly differ."""
    return [
        row(
            panel=panel, curve=curve, calibration=kind, x=x, measure="captured energy", value=value + run * 1e-6,
            claimed_epsilon=x, verified_epsilon=2 * x, delta=0.01, run=run,
        )
        for (curve, kind), points in values.items()
        for x, value in zip((0.1, 1.0, 10.0), points, strict=True)
        for run in range(3)
    ]  # fmt: skip


def figure(cape: list[float], conventional: list[float]) -> Results:
    others = ("pooled", "local", "DPdisPCA")
    rows: list[Row] = []
    for by in ("epsilon", "records per site", "delta"):
        for letter, name in zip("abc", ("Synthetic", "MNIST", "Covertype"), strict=True):
            values = {("non-private", NON_PRIVATE): [10.0, 10.0, 10.0]}
            for kind in (PUBLISHED, VERIFIED):
                values[("CAPE", kind)] = cape
                values[("conventional", kind)] = conventional
                values |= {(other, kind): [1.0, 2.0, 3.0] for other in others}
            rows += made(values, f"({letter}) {name}, by {by}")
    return Results(rows)


def test_verdicts_follow_the_rows() -> None:
    good = {verdict.claim: verdict.outcome for verdict in judge(figure([5, 9, 10], [2, 5, 9]))}
    bad = {verdict.claim: verdict.outcome for verdict in judge(figure([5, 4, 3], [6, 7, 9]))}
    assert good["capePCA outperforms conventional."] == "holds"
    assert bad["capePCA outperforms conventional."] == "fails"
    assert good["As epsilon grows, captured energy of capePCA grows."] == "holds"
    assert bad["As epsilon grows, captured energy of capePCA grows."] == "fails"
    assert good["capePCA reaches the non-private optimum for some epsilon."] == "holds"
    # A larger epsilon than those tried may be enough.
    assert bad["capePCA reaches the non-private optimum for some epsilon."] == "not shown"
    assert good["With the same guarantee capePCA has the utility of private PCA on pooled data."] == "holds"
    assert good["The noise gives the stated (epsilon, delta) (theorem 4.1)."] == "fails"


def test_a_claim_about_both_calibrations_needs_both() -> None:
    worse = figure([1.5, 2.5, 3.5], [2, 5, 9]).where(curve="CAPE", calibration=VERIFIED)
    better = Results(r for r in figure([5, 9, 10], [2, 5, 9]) if (r["curve"], r["calibration"]) != ("CAPE", VERIFIED))
    found = {verdict.claim: verdict.outcome for verdict in judge(Results([*better, *worse]))}
    assert found["capePCA outperforms conventional."] == "holds under conditions"
    assert found["capePCA outperforms local."] == "holds"
    assert found["capePCA reaches the non-private optimum for some epsilon."] == "holds under conditions"
