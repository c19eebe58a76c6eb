"""Figures 2 to 4 of the factor release: tiny fits, verdicts that can fail."""

from __future__ import annotations

import json
import math

import matplotlib
import numpy as np
import pytest
from verdict_search import about

from dpcape.core.errors import ConvergenceWarning
from dpcape.factor_release import posterior
from dpcape_papers.data import factor as prepared
from dpcape_papers.experiments import runner
from dpcape_papers.experiments.cache import Cache
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, Results, row
from dpcape_papers.figures.factor import EXPERIMENTS
from dpcape_papers.figures.factor.cells import (
    BEST,
    CHANCE,
    CREDIBLE,
    ERROR,
    FOUND,
    GUESSED,
    N_FACTORS,
    PREDICTIVE,
    PROPOSED,
    REBUILT,
    SVD,
    TWO_STAGE,
    WORST,
    connectivity,
    simulation,
)
from dpcape_papers.figures.factor.claims import judge_connectivity, judge_number, judge_size

matplotlib.use("Agg")
NOWHERE = DataFolder(None)
SHORT = {"n_burn_in": 40, "n_draws": 20, "thin": 1}


def test_what_has_not_converged_is_said_in_quick_runs(tmp_path, monkeypatch) -> None:
    """With a limit that every chain exceeds, the warning reaches the caller and is kept with the rows."""
    monkeypatch.setattr(posterior, "r_hat_limit", lambda *of_the_chain: 0.5)
    chain = {"n": 40, "n_features": 30, "n_factors": 2, "along": "n_factors", "attack": False, "run": 0, **SHORT}
    with pytest.warns(ConvergenceWarning, match="R-hat"):
        simulation(NOWHERE, **chain)
    assert runner._work("key", Cell(simulation, chain), runner._Place(NOWHERE, tmp_path)) is None
    kept = Cache(tmp_path).load("key")
    assert kept is not None
    assert any("R-hat" in text for text in kept.warnings)


def test_full_runs_have_the_papers_sweeps() -> None:
    """20,000 sweeps in full runs, of which 5,000 come before the first draw."""
    for experiment in EXPERIMENTS:
        for cell in experiment.cells(RunSetting(quick=False, data=NOWHERE, runs=1)):
            chain = cell.options
            assert (chain["n_burn_in"], chain["n_burn_in"] + chain["thin"] * chain["n_draws"]) == (5_000, 20_000)


def made(levels, *, x, n_runs=6, jitter=0.02, attack=(0.0, 0.0, 0.01, 0.01)):
    """Return rows in which each curve has the given error at each x, times what its data set is worth."""
    rng, rows = np.random.default_rng(3), []
    for run in range(n_runs):
        worth = math.exp(0.5 * rng.standard_normal())
        rows += [
            row(
                panel="made", curve=curve, calibration=NON_PRIVATE if curve in (BEST, WORST) else PUBLISHED, x=place,
                measure=ERROR, value=worth * level[i] * math.exp(jitter * rng.standard_normal()), run=run,
            )
            for curve, level in levels.items() for i, place in enumerate(x)
        ]  # fmt: skip
    for measure, value in zip((REBUILT, GUESSED, FOUND, CHANCE), attack, strict=True):
        rows.append(row(panel="made", curve=PROPOSED, calibration=PUBLISHED, x=x[0], measure=measure, value=value))
    return Results(rows)


def outcomes(verdicts):
    return {verdict.claim: verdict.outcome for verdict in verdicts}


def test_the_order_of_the_methods_is_judged_within_data_sets():
    levels = {PROPOSED: (2.0, 1.0), SVD: (2.4, 1.2), TWO_STAGE: (1.6, 0.8), BEST: (1.98, 0.99), WORST: (9.0, 9.0)}
    found = outcomes(judge_size(made(levels, x=(50, 200))))
    assert found["The proposed release predicts better than SVD at every sample size"] == "holds"
    assert found["The proposed release predicts better than two-stage at every sample size"] == "fails"
    assert found["The loss of accuracy against the original features is minimal"] == "holds"
    assert found["The error falls as the sample size grows"] == "holds"
    levels |= {PROPOSED: (1.0, 2.0)}
    found = outcomes(judge_size(made(levels, x=(50, 200))))
    assert found["The error falls as the sample size grows"] == "fails"
    assert found["The loss of accuracy against the original features is minimal"] == "holds under conditions"


@pytest.mark.parametrize(
    ("attack", "outcome"),
    [((0.0, 0.0, 0.01, 0.01), "not shown"), ((0.6, 0.0, 0.01, 0.01), "fails"), ((0.0, 0.0, 0.5, 0.01), "fails")],
)
def test_a_guarantee_fails_when_an_attack_works(attack, outcome):
    levels = dict.fromkeys((PROPOSED, SVD, TWO_STAGE, BEST, WORST), (2.0, 1.0))
    found = outcomes(judge_size(made(levels, x=(50, 200), attack=attack)))
    assert found["The privacy of the original features is fully guaranteed"] == outcome


@pytest.mark.parametrize(
    ("errors", "lowest", "shape"),
    [
        ((5.0, 1.2, 1.0, 1.02), "holds", "holds"),
        ((5.0, 1.0, 1.2, 1.0), "fails", "holds"),
        ((5.0, 1.0, 1.002, 4.0), "not shown", "holds under conditions"),
        ((1.0, 2.0, 3.0, 3.0), "fails", "fails"),
    ],
)
def test_the_best_number_of_factors_is_looked_for(errors, lowest, shape):
    levels = dict.fromkeys((SVD, TWO_STAGE, BEST), (6.0,) * 4) | {PROPOSED: errors}
    if shape == "holds":
        levels[PROPOSED] = (errors[0], errors[1], errors[2], errors[1])
    jitter = 0.1 if lowest == "not shown" else 0.02
    found = outcomes(judge_number(made(levels, x=(4.0, 10.0, 12.0, 16.0), jitter=jitter)))
    assert about(found, "lowest error", "12 factors") == lowest
    assert about(found, "plateaus") == shape


def test_best_and_worst_case_frame_the_brain_data():
    near = {PROPOSED: (3.7, 3.5, 3.6, 3.6), SVD: (3.8,) * 4, TWO_STAGE: (3.9,) * 4, BEST: (3.4,) * 4, WORST: (4.0,) * 4}
    x = (8.0, 18.0, 25.0, 30.0)
    found = outcomes(judge_connectivity(made(near, x=x)))
    assert about(found, "closer to the best case") == "holds"
    assert about(found, "Printed", "best case") == "holds"
    assert about(found, "Printed", "significant") == "holds"
    assert about(found, "lowest error", "18 factors") == "holds"
    assert about(found, "Beyond 25 factors") == "holds"
    far = near | {PROPOSED: (3.9, 3.9, 3.9, 5.0)}
    found = outcomes(judge_connectivity(made(far, x=x)))
    assert about(found, "closer to the best case") == "fails"
    assert about(found, "Beyond 25 factors") == "fails"


def test_an_advantage_within_the_spread_of_splits_is_not_significant():
    levels = {PROPOSED: (3.6,) * 4, SVD: (3.8,) * 4, TWO_STAGE: (3.9,) * 4, BEST: (3.4,) * 4, WORST: (4.0,) * 4}
    found = outcomes(judge_connectivity(made(levels, x=(8.0, 18.0, 25.0, 30.0), jitter=0.2)))
    assert about(found, "Printed", "significant") == "not shown"


@pytest.mark.parametrize("share", [0.94, 0.09])
def test_intervals_of_predictions_do_not_fail_because_responses_lie_outside(share):
    levels = dict.fromkeys((PROPOSED, SVD, TWO_STAGE, BEST, WORST), (2.0, 1.0))
    rows = [
        row(panel="made", curve=PROPOSED, calibration=PUBLISHED, x=50.0, measure=measure, value=value)
        for measure, value in ((CREDIBLE, share), (PREDICTIVE, 0.95))
    ]
    found = outcomes(judge_size(Results([*made(levels, x=(50, 200)), *rows])))
    assert about(found, "credible intervals") == "not shown"


def test_larger_samples_hold_the_smaller_ones():
    small, large = (prepared.simulated(n, 30, seed=2) for n in (50, 100))
    np.testing.assert_array_equal(np.vstack([small.X, small.X_test]), large.X[:50])
    assert (len(small.y), len(small.y_test)) == (35, 15)


def test_a_simulated_cell_predicts_and_is_attacked():
    options = {"n": 80, "n_features": 200, "n_factors": 10, "along": "n_factors", "run": 0, "attack": True, **SHORT}
    rows = Results(simulation(NOWHERE, **options))
    errors = {str(r["curve"]): float(r["value"]) for r in rows.where(measure=ERROR)}
    assert set(errors) == {PROPOSED, SVD, TWO_STAGE, BEST, WORST}
    assert max(errors[name] for name in (PROPOSED, SVD, TWO_STAGE)) < 0.6 * errors[WORST]
    assert rows.mean(measure=REBUILT) > 0.5
    assert rows.mean(measure=FOUND) > 10 * rows.mean(measure=CHANCE)
    assert {r["verified_epsilon"] for r in rows.where(calibration=PUBLISHED)} == {math.inf}
    again = simulation(NOWHERE, **{**options, "attack": False})
    assert [r["value"] for r in again] == pytest.approx([r["value"] for r in rows][: len(again)], rel=1e-6)


def test_without_files_the_panel_says_simulated(monkeypatch):
    monkeypatch.setattr(prepared, "simulated", lambda n, n_features, seed: SUBJECTS)
    rows = connectivity(NOWHERE, n=40, n_factors=5, run=0, every=1, attack=False, **SHORT)
    assert {r["panel"] for r in rows} == {"simulated in place of PNC and ABIDE, n = 40"}


SUBJECTS = prepared.simulated(40, 120, 0)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_pictures_show_what_attacks_find(experiment):
    cells = experiment.cells(RunSetting(quick=True, data=NOWHERE))
    json.dumps([cell.options for cell in cells])
    x = sorted({float(cell.options["n" if experiment.name == "factor-2" else "n_factors"]) for cell in cells})
    levels = dict.fromkeys((PROPOSED, SVD, TWO_STAGE, BEST, WORST), tuple(np.linspace(2, 1, len(x))))
    rows = [*made(levels, x=x, attack=(0.6, 0.0, 0.9, 0.01))]
    rows.append(row(panel="made", curve=PROPOSED, calibration=PUBLISHED, x=x[0], measure=N_FACTORS, value=10))
    figure = experiment.draw(Results(rows))
    assert "90% of people" in figure.legends[0].get_title().get_text()
    assert experiment.judge(Results(rows))
    matplotlib.pyplot.close(figure)
