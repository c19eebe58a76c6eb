"""Figures 6.2 to 6.6 and DP-djICA: published algorithms, claimed against verified epsilon, verdicts, tiny cells."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
import pytest

from dpcape.core.privacy.gaussian import compose, epsilon_of
from dpcape.metrics import gain_index
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RunSetting
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, row
from dpcape_papers.figures.ica import EXPERIMENTS, djica, gain, maps
from dpcape_papers.figures.ica.methods import dp_djica_found, joint_ica, overall
from dpcape_papers.figures.ica.series import real, simulated, some
from dpcape_papers.figures.ica.verdicts import judge_delta, judge_epsilon, judge_people
from dpcape_papers.published.ica import cape_djica, clipped_infomax, moments_claim, wishart_delta
from dpcape_papers.published.regression import classical_multiplier

matplotlib.use("Agg")
NOWHERE = DataFolder(None)
FOUR = {"epsilon_round": 0.5, "delta_round": 1e-2, "n_sites": 4, "n_colluding": 1, "delta": 1e-5}
BY_NAME = {experiment.name: experiment for experiment in EXPERIMENTS}


def test_names_are_those_of_the_papers():
    assert list(BY_NAME) == [*(f"dissertation-6.{n}" for n in range(2, 7)), "djica-1", "djica-2"]


def test_the_pca_is_one_more_release_with_its_true_sensitivity():
    plain = cape_djica(n_iter=100, n_records=1000, n_timepoints=10, **FOUR)
    assert plain.verified_epsilon == pytest.approx(17.465055, abs=1e-5)
    both = cape_djica(n_iter=100, n_records=1000, n_timepoints=10, with_pca=True, **FOUR)
    # Exposure of four sites, one colluding: kappa = 28/15; the PCA counts like two gradients, (sqrt 2)^2.
    one = math.sqrt(28 / 15) / classical_multiplier(0.5, 1e-2)
    assert both.verified_epsilon == pytest.approx(epsilon_of(1e-5, compose([one] * 200 + [math.sqrt(2) * one])))
    assert both.verified_subject == pytest.approx(epsilon_of(1e-5, 10 * compose([one] * 200 + [math.sqrt(2) * one])))


def test_one_site_alone_has_no_aggregator():
    alone = cape_djica(n_iter=100, n_records=1000, n_timepoints=10, **{**FOUR, "n_sites": 1})
    assert alone.verified_epsilon == alone.verified_output_only == pytest.approx(11.733230, abs=1e-5)


def test_the_moments_accountant_can_be_judged():
    sensitivity = 0.01 / 256_000
    claimed = moments_claim(sensitivity, sensitivity * classical_multiplier(0.5, 1e-2), 1, 1e-5)
    assert claimed == pytest.approx(0.0136, abs=5e-5)
    assert wishart_delta(5.0, 1, 0.5) == pytest.approx(1 - math.exp(-1))


def test_published_infomax_finds_sources_and_its_noise_has_the_stated_scale():
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    rows = rng.laplace(scale=math.sqrt(0.5), size=(4000, 3)) @ turn.T
    bounds = {"clip": 9.0, "bias_clip": 1.0}
    assert gain_index(clipped_infomax(rows, n_iter=80, **bounds), turn) < 0.05
    exact = clipped_infomax(rows, n_iter=1, **bounds)
    drawn = np.array(
        [clipped_infomax(rows, n_iter=1, noise=2.0, rng=np.random.default_rng(s), **bounds) - exact for s in range(500)]
    )
    # One step of size one: what is left is the noise of G, 2 clip/N times the multiplier; 4500 draws.
    ratio = drawn.std() / (2.0 * 2 * 9.0 / 4000)
    # alpha = 1e-6: 4.9 standard errors, .052; a scale off by 10 % is outside.
    assert abs(ratio - 1) < 4.9 / math.sqrt(2 * drawn.size)
    assert 4.9 / math.sqrt(2 * drawn.size) < 0.0945


def test_dp_djica_separates_only_where_epsilon_means_nothing():
    series = simulated(0, n_subjects=32, n_components=3, side=6, n_timepoints=100)
    found = {e: dp_djica_found(series, 3, epsilon=e, n_iter=300, seed=0) for e in (1.0, 1e6)}
    assert all(result.verified == math.inf for result in found.values())
    assert found[1.0].claimed == pytest.approx(301.0)
    assert gain_index(found[1e6].unmixing, series.mixing) < 0.15 < gain_index(found[1.0].unmixing, series.mixing)


def test_real_data_are_named_and_have_no_guarantee_as_published():
    stand_in = real(NOWHERE)
    assert "stand-in" in stand_in.name
    assert len(some(stand_in, 8, 0).arrays) == 8
    assert len({len(array) for array in stand_in.arrays}) == 1


TINY = {"n_components": 3, "side": 6, "n_timepoints": 40}


@pytest.fixture(scope="module")
def rows():
    found = []
    for n_subjects in (8, 32):
        for run in range(2):
            options = {**TINY, "n_iter": 20, "n_subjects": n_subjects, "run": run, "source": "simulated"}
            found += gain.compute(
                NOWHERE, epsilons=[0.5, 5.0], exact_at=[0.5, 5.0], delta=1e-5, delta_round=1e-2, **options
            )
    return Results(found)


def test_cells_carry_both_epsilons_and_all_curves(rows):
    errors = rows.where(measure=gain.ERROR)
    curves = {(r["curve"], r["calibration"]) for r in errors}
    assert curves == {
        ("non-private", NON_PRIVATE), ("CAPE", PUBLISHED), ("local", PUBLISHED), (gain.DP_DJICA, PUBLISHED),
        ("CAPE", VERIFIED), ("local", VERIFIED), (gain.SAME, VERIFIED),
    }  # fmt: skip
    for r in errors:
        if r["calibration"] == VERIFIED:
            assert r["verified_epsilon"] <= r["claimed_epsilon"] * (1 + 1e-9)
        if r["curve"] == gain.DP_DJICA:
            assert r["verified_epsilon"] == math.inf
    series = simulated(1, n_subjects=8, **TINY)
    totals = overall(series, epsilon=0.5, delta_round=1e-2, delta=1e-5, n_iter=20)
    at = {"panel": "simulated fMRI, 8 people", "x": 0.5}
    assert rows.mean(curve=gain.TIME_POINT, **at) == pytest.approx(totals.verified_epsilon)
    assert rows.mean(curve=gain.PERSON, **at) == pytest.approx(totals.verified_subject)
    same = next(iter(errors.where(curve=gain.SAME, **at)))
    assert same["claimed_epsilon"] == pytest.approx(totals.verified_epsilon)


def test_figures_of_the_gain_index(rows):
    for name, judge in (("6.2", judge_epsilon), ("6.3", judge_people), ("6.4", judge_delta)):
        figure = BY_NAME[f"dissertation-{name}"].draw(rows)
        assert "claimed" in figure.legends[0].get_title().get_text()
        assert all(verdict.numbers and "nan" not in verdict.numbers for verdict in judge(rows))
        matplotlib.pyplot.close(figure)


def test_verdicts_follow_the_rows(rows):
    def outcome(changed, start):
        return next(v.outcome for v in judge_epsilon(Results(changed)) if v.claim.startswith(start))

    def with_cape(value):
        """Return rows with these values of CAPE; two runs that differ by chance could tell nothing of DP-djICA."""
        made = {("CAPE", PUBLISHED): value, (gain.DP_DJICA, PUBLISHED): 0.5}
        return [{**r, "value": made.get((r["curve"], r["calibration"]), r["value"])} for r in rows]

    assert outcome(with_cape(1e-4), "capeDJICA has a smaller q_NGI than DP-djICA") == "holds"
    assert outcome(with_cape(0.9), "capeDJICA has a smaller q_NGI than DP-djICA") == "fails"
    assert outcome(with_cape(1e-4), "capeDJICA reaches") == "holds"
    assert outcome(with_cape(0.9), "capeDJICA reaches") == "fails"
    lower = [{**r, "verified_epsilon": 1e-3} if r["curve"] == "CAPE" else r for r in rows]
    assert outcome(lower, "capeDJICA guarantees the smallest") == "holds"
    assert outcome(rows, "capeDJICA guarantees the smallest") == "fails"
    higher = [{**r, "verified_epsilon": 1e9} if r["curve"] == "CAPE" else r for r in rows]
    assert outcome(higher, "All rounds together") == "fails"


def test_more_people_do_not_lower_the_real_epsilon(rows):
    """The noise shrinks with N as the sensitivity does; an epsilon that is computed is no matter of chance."""

    def outcome(found):
        return next(
            v.outcome for v in judge_people(Results(found)) if v.claim.startswith("More people give a smaller ov")
        )

    assert outcome(rows) == "fails"
    fewer = [{**r, "value": r["value"] / r["n_subjects"]} if r["measure"] == gain.OVERALL else r for r in rows]
    assert outcome(fewer) == "holds"


def test_maps_are_drawn_and_judged():
    found = []
    for n_subjects in (8, 32):
        for epsilon in (None, 0.5, 50.0):
            found += maps.compute(NOWHERE, n_subjects=n_subjects, n_iter=20, epsilon=epsilon, run=0, **TINY)
    results = Results(found)
    figure = maps.draw(results)
    assert len(figure.axes[0].get_yticklabels()) == 1 + 2 * 5
    verdicts = maps.judge_private(results)
    assert len(verdicts) == 5
    bad = [{**r, "value": 0.1} if r["measure"] == maps.CORRELATION else r for r in results]
    assert maps.judge_exact(Results(bad))[0].outcome == maps.judge_private(Results(bad))[0].outcome == "fails"
    good = [{**r, "value": 0.99} if r["measure"] == maps.CORRELATION else r for r in results]
    assert maps.judge_exact(Results(good))[0].outcome == "holds"
    matplotlib.pyplot.close(figure)


def test_paper_003_is_drawn_and_judged():
    options = {**TINY, "n_subjects": 16, "n_iter": 20, "pooled": False, "matrices": True}
    results = Results(
        [r for run in range(2) for r in djica.compute(NOWHERE, epsilons=[0.1, 1.0], run=run, **options)]
    )  # fmt: skip
    for draw, judge in (
        (djica.draw_independence, djica.judge_independence),
        (djica.draw_gain, djica.judge_gain),
    ):
        figure = draw(results)
        verdicts = judge(results)
        assert verdicts[-1].outcome == "fails"
        assert "retracted" in verdicts[-1].numbers
        matplotlib.pyplot.close(figure)
    equal = [{**r, "value": 0.01} if r["measure"] in (djica.OFF, gain.ERROR) else r for r in results]
    assert djica.judge_independence(Results(equal))[0].outcome == "holds"
    # Correlations of 0.35, where there are 0.01 without noise, are a verdict in quick runs too.
    far = [
        {**r, "value": 0.35 if r["calibration"] == PUBLISHED else 0.01, "run": run}
        for run in range(3)
        for r in results.where(run=0)
        if r["measure"] in (djica.OFF, gain.ERROR)
    ]
    assert BY_NAME["djica-1"].judge(Results(far), quick=True)[0].outcome == "fails"


@pytest.mark.parametrize(("pooled", "outcome"), [(0.2, "holds"), (0.05, "fails"), (None, "not shown")])
def test_half_as_many_pooled_people_are_compared_with_the_sites(pooled, outcome):
    options = {"measure": gain.ERROR, "x": 1.0, "claimed_epsilon": 5.0, "verified_epsilon": math.inf, "delta": 0.0}
    options["width"] = 16
    values = {"four sites, 8 people": 0.1} | ({} if pooled is None else {"pooled, 4 people": pooled})
    made = [
        row(panel=panel, curve=curve, calibration=kind, value=value, run=run, **options)
        for panel, value in values.items()
        for curve, kind in (("non-private", NON_PRIVATE), (gain.DP_DJICA, PUBLISHED))
        for run in range(3)
    ]
    verdicts = djica.judge_gain(Results(made))
    assert next(v.outcome for v in verdicts if v.claim.startswith("On pooled data")) == outcome


def test_the_verified_estimator_is_given_the_whole_budget_once():
    series = simulated(0, n_subjects=16, **TINY)
    found = joint_ica(series, 3, scheme="CAPE", epsilon=2.0, delta=1e-5, seed=0)
    assert found.claimed == 2.0
    assert 1.9 < found.verified <= 2.0


def test_data_are_not_those_on_which_anything_was_chosen(monkeypatch):
    """Bounds, steps and rounds were chosen on seed 0."""
    seeds = []

    def stop(seed, **_):
        seeds.append(seed)
        raise InterruptedError

    for module in (gain, djica, maps):
        monkeypatch.setattr(module, "simulated", stop)
    for experiment in EXPERIMENTS:
        for cell in experiment.cells(RunSetting(quick=False, data=NOWHERE)):
            if cell.options.get("source") != "real":
                with pytest.raises(InterruptedError):
                    cell.compute(NOWHERE, **cell.options)
    assert set(seeds) == set(range(1, 11))


def test_quick_runs_are_smaller_than_full_ones():
    for experiment in EXPERIMENTS:
        quick, full = (experiment.cells(RunSetting(quick=q, data=NOWHERE)) for q in (True, False))
        assert len(quick) < len(full)
        assert max(c.options["run"] for c in full) == 9
        assert max(c.options["run"] for c in quick) == 2
