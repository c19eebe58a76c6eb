"""Figures 8.1 to 8.3: published noise and what it guarantees, verdicts that can fail, tiny cells."""

from __future__ import annotations

import json
import math

import matplotlib
import numpy as np
import pytest
from scipy.stats import chi2
from verdict_search import about

from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import epsilon_of
from dpcape_papers.baselines import regression as baselines
from dpcape_papers.experiments.comparison import Method, MethodResult
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RunSetting
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, row
from dpcape_papers.figures.regression import EXPERIMENTS
from dpcape_papers.figures.regression.cells import make_task, sweep
from dpcape_papers.figures.regression.claims import judge_error, judge_loss, judge_real
from dpcape_papers.figures.regression.methods import DP_FM, LOSS, OBJECTIVE, loss, papers_methods
from dpcape_papers.figures.regression.reached import reached_at
from dpcape_papers.published.regression import capefm, classical_multiplier, degree_scales
from dpcape_papers.verdicts import Curve

matplotlib.use("Agg")
NOWHERE = DataFolder(None)
ALPHA = 1e-6
ALL = [(method.curve, method.calibration) for method in papers_methods()]


# Published noise.


def test_each_degree_gets_the_whole_budget():
    constant, linear, quadratic = degree_scales("linear", epsilon=1.0, delta=1e-5, n_records=1000)
    assert constant == pytest.approx(4.8448e-3, rel=1e-4)
    assert (linear / constant, quadratic / constant) == pytest.approx((4.0, math.sqrt(2)))
    assert degree_scales("logistic", epsilon=1.0, delta=1e-5, n_records=1000)[0] == 0.0
    with pytest.raises(InvalidParameter, match="linear"):
        degree_scales("poisson", epsilon=1.0, delta=1e-5, n_records=10)


def accepted(values: np.ndarray, scale: float) -> bool:
    """Two-sided chi-squared test of the variance; false alarm ALPHA."""
    low, high = chi2.ppf([ALPHA / 2, 1 - ALPHA / 2], values.size)
    return bool(low <= float((values**2).sum()) / scale**2 <= high)


@pytest.mark.parametrize(("scheme", "expected"), [("CAPE", 3.0 / 5), ("conventional", 3.0 / math.sqrt(5))])
def test_noise_of_the_aggregate_is_pooled_for_cape_and_larger_for_conventional(scheme, expected):
    noise = baselines._aggregated_noise(scheme, 5, (100, 100), 3.0, np.random.default_rng(1))
    assert accepted(noise, expected)
    assert not accepted(noise, 0.9 * expected)
    assert not accepted(noise, 1.1 * expected)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_real_epsilon_follows_from_the_closed_form_of_the_view(epsilon):
    """Joint sensitivity 1.5 in units of each degree's own, and kappa = (S/S_H)(S+S_H)/(S+1)."""
    n_sites, n_honest = 5, 4
    kappa = n_sites / n_honest * (n_sites + n_honest) / (n_sites + 1)
    mu = 1.5 * math.sqrt(kappa) / classical_multiplier(epsilon, 1e-5)
    found = capefm("linear", epsilon=epsilon, delta=1e-5, n_sites=n_sites, n_colluding=1)
    assert found.verified_epsilon == pytest.approx(epsilon_of(1e-5, mu), rel=1e-9)
    assert found.verified_epsilon > epsilon
    alone = capefm("linear", epsilon=epsilon, delta=1e-5, n_sites=1, n_colluding=0, pooled=True)
    assert alone.verified_epsilon == pytest.approx(epsilon_of(1e-5, 1.5 / classical_multiplier(epsilon, 1e-5)))


def test_dp_fm_is_pure_with_room_to_spare():
    """No two records' coefficients are farther apart in L1 than 2 (1 + sqrt(D))^2: the verified epsilon's reason."""
    rng, width = np.random.default_rng(0), 6

    def coefficients(x: np.ndarray, y: float) -> np.ndarray:
        return np.concatenate([[y * y], -2 * y * x, np.outer(x, x).ravel()])

    bound, farthest = 2 * (1 + math.sqrt(width)) ** 2, 0.0
    for _ in range(300):
        one, two = (v / np.linalg.norm(v) for v in np.sign(rng.standard_normal((2, width))))
        farthest = max(farthest, float(np.abs(coefficients(one, 1.0) - coefficients(two, -1.0)).sum()))
    assert 0.4 * bound < farthest <= bound
    fit = baselines.laplace_functional_mechanism(np.eye(6), np.ones(6), 1.0, rng)
    assert fit.verified_epsilon == pytest.approx(bound / (2 * (width + 1) ** 2))
    assert fit.verified_epsilon < fit.claimed_epsilon


def test_objective_perturbation_of_the_squared_loss_has_no_pure_epsilon():
    """The log-ratio of the densities of w on neighbouring data grows without bound in w."""
    n, epsilon, ridge = 100, 1.0, 1 / 100

    def log_density(w: float, moment: float, cross: float) -> float:
        noise = 2 * n * (cross - (moment + ridge) * w)
        return -epsilon / 2 * abs(noise) + math.log(2 * n * (moment + ridge))

    ratios = [log_density(w, 0.0, 0.0) - log_density(w, 1 / n, 1 / n) for w in (1.0, 10.0, 100.0, 1000.0)]
    assert ratios[-1] > 100 * epsilon
    assert np.all(np.diff(ratios) > 0)
    fit = baselines.objective_perturbation_linear(np.eye(3), np.ones(3), 1.0, np.random.default_rng(0))
    assert math.isinf(fit.verified_epsilon)


@pytest.mark.parametrize("scheme", ["CAPE", "conventional"])
def test_published_fits_find_the_truth_when_epsilon_is_huge(scheme):
    _, task = make_task(NOWHERE, "D=20", n_records=5000, delta=1e-5, seed=0)
    fit = baselines.gaussian_functional_mechanism(
        list(task.sites.values()),
        scheme=scheme,
        epsilon=1e5,
        delta=1e-5,
        n_colluding=1,
        generator=np.random.default_rng(0),
    )
    assert loss(fit.coefficients, task) == pytest.approx(0.0025, rel=0.1)


# Rows.


def made(levels, *, x=(0.1, 1.0), vary="epsilon", panel="synthetic, D = 20", n_runs=4, jitter=0.02):
    """Return rows in which each curve has the given value at each x, up to a little chance."""
    rng = np.random.default_rng(5)
    return [
        row(
            panel=f"{panel} {vary}", curve=curve, calibration=kind, x=place, measure=LOSS,
            value=level[i] * math.exp(jitter * rng.standard_normal()),
            claimed_epsilon=None if kind == NON_PRIVATE else 1.0,
            verified_epsilon={NON_PRIVATE: None, VERIFIED: 1.0}.get(kind, math.inf if curve == OBJECTIVE else 1.6),
            delta=None if kind == NON_PRIVATE else 1e-5, run=run, source=panel, vary=vary,
        )
        for (curve, kind), level in levels.items() for i, place in enumerate(x) for run in range(n_runs)
    ]  # fmt: skip


def test_where_a_curve_comes_down_is_interpolated():
    levels = {("non-private", NON_PRIVATE): (1.0, 1.0), ("CAPE", VERIFIED): (4.0, 1.0)}
    rows = Results(made(levels, x=(1.0, 100.0), jitter=0.0))
    assert reached_at(rows, Curve("CAPE", VERIFIED)) == pytest.approx(10.0)
    assert reached_at(rows, Curve("CAPE", VERIFIED), 4.0) == pytest.approx(1.0)
    assert math.isinf(reached_at(rows, Curve("CAPE", VERIFIED), 0.5))


# Verdicts.


def whole_figure(cape: float, conventional: float, objective: float) -> Results:
    """Return rows of a whole figure with the given heights of three curves over the non-private one."""
    rows = []
    for width in (20, 50):
        for vary, x in (("epsilon", (0.1, 1.0)), ("N", (100.0, 1000.0)), ("delta", (1e-7, 1e-3))):
            heights = {"CAPE": cape, "pooled": cape, "conventional": conventional, "local": 8.0, DP_FM: 50.0}
            heights |= {OBJECTIVE: objective, "non-private": 1.0}
            levels = {
                key: (
                    (heights[key[0]],) * 2
                    if key[0] in ("non-private", DP_FM, OBJECTIVE)
                    else (2 * width * heights[key[0]], heights[key[0]])
                )
                for key in ALL
            }
            rows += made(levels, x=x, vary=vary, panel=f"synthetic, D = {width}")
    exact = {(r["panel"], r["curve"], r["run"]): r["value"] for r in rows if r["vary"] == "delta"}
    pure = (DP_FM, OBJECTIVE)
    return Results(
        {**r, "value": exact[r["panel"], r["curve"], r["run"]]} if r["vary"] == "delta" and r["curve"] in pure else r
        for r in rows
    )


def outcomes(results: Results) -> dict[str, str]:
    return {verdict.claim: verdict.outcome for verdict in judge_loss(results)}


def test_verdicts_follow_the_rows():
    good = outcomes(whole_figure(cape=1.1, conventional=2.0, objective=500.0))
    bad = outcomes(whole_figure(cape=4.0, conventional=2.0, objective=0.9))
    for words in ("outperforms conventional", "outperforms objective perturbation"):
        assert (about(good, words), about(bad, words)) == ("holds", "fails")
    # A larger N or epsilon than those tried may be enough.
    words = "reaches the non-private result"
    assert (about(good, words), about(bad, words)) == ("holds", "not shown")
    for words in ("as epsilon grows", "a smaller epsilon", "do not vary with delta"):
        assert about(good, words) == "holds"
    for words in GUARANTEES:
        assert about(good, *words) == "fails"


GUARANTEES = (("capeFM", "private"), ("dp-fm", "pure epsilon"), ("Objective perturbation", "pure epsilon"))


def test_a_guarantee_that_is_kept_is_found_to_hold():
    kept = Results(
        {**r, "verified_epsilon": 0.9} if r["calibration"] == PUBLISHED else r for r in whole_figure(1.1, 2.0, 500.0)
    )
    found = outcomes(kept)
    for words in GUARANTEES:
        assert about(found, *words) == "holds"


# Cells.

TINY = {"vary": "epsilon", "values": [0.5, 5.0], "epsilon": 1.0, "delta": 1e-5, "run": 0}


def test_a_cell_has_every_curve_with_both_epsilons_and_repeats_itself():
    rows = Results(sweep(NOWHERE, source="D=20", n_records=1000, **TINY))
    assert [(r["curve"], r["calibration"]) for r in rows.where(x=0.5, measure=LOSS)] != []
    assert {(r["curve"], r["calibration"]) for r in rows} == set(ALL)
    for r in rows:
        if r["calibration"] == NON_PRIVATE:
            assert r["claimed_epsilon"] is None
            assert r["verified_epsilon"] is None
        elif r["calibration"] == VERIFIED:
            assert r["verified_epsilon"] <= r["claimed_epsilon"] * (1 + 1e-9)
            assert r["verified_epsilon"] > 0.99 * r["claimed_epsilon"]
    (published,) = {r["verified_epsilon"] for r in rows.where(curve="CAPE", calibration=PUBLISHED, x=0.5)}
    assert published == pytest.approx(
        capefm("linear", epsilon=0.5, delta=1e-5, n_sites=5, n_colluding=1).verified_epsilon
    )
    assert list(rows) == sweep(NOWHERE, source="D=20", n_records=1000, **TINY)


@pytest.mark.parametrize("source", ["Crime", "BlogFeedback (for Twitter)"])
def test_without_files_the_panel_says_simulated(source):
    rows = sweep(NOWHERE, source=source, n_records=500, **TINY)
    assert {str(r["panel"]).split(",")[0] for r in rows} == {f"simulated in place of {source.split()[0]}"}


def test_the_same_seed_gives_the_same_sites_of_equal_size():
    _, task = make_task(NOWHERE, "Crime", n_records=0, delta=1e-3, seed=3)
    assert {len(y) for _, y in task.sites.values()} == {398}
    assert max(np.linalg.norm(X, axis=1).max() for X, _ in task.sites.values()) <= 1 + 1e-12


def zero(task, epsilon, seed):
    X, _ = next(iter(task.sites.values()))
    return MethodResult(np.zeros(X.shape[1]), verified_epsilon=0.0)


def test_a_method_of_ones_own_joins_and_is_drawn(monkeypatch):
    monkeypatch.setattr("dpcape_papers.figures.regression.cells.load_method", lambda name: METHODS[name])
    rows = sweep(NOWHERE, source="D=20", n_records=500, methods=["mine"], **TINY)
    assert "nothing" in {r["curve"] for r in rows}
    EXPERIMENTS[0].draw(Results(rows))
    matplotlib.pyplot.close("all")


METHODS = {"mine": Method("nothing", VERIFIED, zero)}


def cheap(curve: str, kind: str) -> Method:
    """Return a method of that name without the protocol behind it, which other tests run."""

    def fit(task, epsilon, seed):
        X, y = (np.concatenate(part) for part in zip(*task.sites.values(), strict=True))
        noise = 0.0 if kind == NON_PRIVATE else np.random.default_rng([seed, len(curve)]).standard_normal(X.shape[1])
        coefficients = np.linalg.lstsq(X, y, rcond=None)[0] + noise / (1e3 * epsilon * task.delta**0.01)
        return MethodResult(coefficients, None if kind == NON_PRIVATE else 1.5 * epsilon)

    return Method(curve, kind, fit)


def test_experiments_are_drawn_and_judged(monkeypatch):
    methods = [cheap(*key) for key in ALL]
    monkeypatch.setattr("dpcape_papers.figures.regression.cells.papers_methods", lambda: methods)
    for experiment, judge in zip(EXPERIMENTS, (judge_loss, judge_real, judge_error), strict=True):
        cells = experiment.cells(RunSetting(quick=True, data=NOWHERE, runs=1))
        json.dumps([cell.options for cell in cells])
        rows = []
        for cell in cells:
            few = {**cell.options, "values": [cell.options["values"][0], cell.options["values"][-1]]}
            if few["vary"] == "N":
                few["values"] = [500, 1000]
            few["n_records"] = 500 if few["vary"] != "N" else 0
            rows += cell.compute(NOWHERE, **few)
        results = Results(rows)
        assert experiment.work().judge is judge
        verdicts = experiment.judge(results)
        assert len({verdict.claim for verdict in verdicts}) == len(verdicts) > 10
        figure = experiment.draw(results)
        assert sum(axes.get_visible() for axes in figure.axes) >= 6
        matplotlib.pyplot.close(figure)
