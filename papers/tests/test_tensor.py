"""Figures 5.1 to 5.3: published formulas, claimed against verified epsilon, verdicts that can fail, tiny cells."""

from __future__ import annotations

import math

import matplotlib
import numpy as np
import pytest
from verdict_search import about

from dpcape.core.privacy.gaussian import epsilon_of
from dpcape.metrics import component_error
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RunSetting
from dpcape_papers.experiments.results import PUBLISHED, VERIFIED, Results
from dpcape_papers.figures.tensor import EXPERIMENTS
from dpcape_papers.figures.tensor.simulated import NOISE_VARIANCE, in_order, mixture, topics
from dpcape_papers.figures.tensor.work import compute
from dpcape_papers.published.cape import cape_exposure
from dpcape_papers.published.tensor import (
    agn,
    agn_noise,
    asymmetry_exposure,
    claimed_sensitivities,
    mixture_means,
    mixture_moments,
    symmetric_tensor_noise,
    topic_vectors,
    true_sensitivities,
    word_moments,
)

matplotlib.use("Agg")
NOWHERE = DataFolder(None)
FIVE = {"delta": 0.01, "site_size": 1000, "n_sites": 5, "n_colluding": 1, "n_features": 10}


def test_sensitivities_of_mixtures():
    assert claimed_sensitivities("mixture", 10, 0.05) == pytest.approx((1.0, 5.0))
    second, third = true_sensitivities("mixture", 10, 0.05)
    assert second == pytest.approx(math.sqrt(2))
    # A vector computed apart (D = 10, s2 = .05), and the closed form elsewhere.
    assert third == pytest.approx(1.777639, abs=5e-7)
    assert true_sensitivities("mixture", 3, 0.1)[1] == pytest.approx(1.483240, abs=5e-7)


def test_no_pair_of_records_is_farther_apart_than_the_true_sensitivity():
    rng, variance = np.random.default_rng(0), 0.05
    pairs = rng.standard_normal((400, 2, 4))
    pairs /= np.linalg.norm(pairs, axis=2, keepdims=True)
    pairs[:50, 1] = -pairs[:50, 0]
    second, third = true_sensitivities("mixture", 4, variance)
    farthest = 0.0
    for one, two in pairs:
        found = [mixture_moments(x[None], variance) for x in (one, two)]
        assert np.linalg.norm(found[0].second - found[1].second) <= second * (1 + 1e-12)
        farthest = max(farthest, float(np.linalg.norm(found[0].third - found[1].third)))
    assert farthest == pytest.approx(third, rel=1e-9)


def test_claimed_and_verified_epsilon_of_mixtures():
    noise = agn_noise("mixture", "CAPE", epsilon=1.0, noise_variance=0.05, **FIVE)
    nominal = 2 * math.sqrt(2 * math.log(1.25 / 0.005))
    assert noise.second_scale == pytest.approx(nominal / 5000)
    assert noise.third_scale == pytest.approx(5.0 * nominal / 5000)
    # Exposure squared 1.875 at five sites, one colluding; both moments together.
    assert cape_exposure(5, 1) ** 2 == pytest.approx(1.875)
    mu = math.sqrt(1.875) * math.hypot(math.sqrt(2), 1.777639 / 5) / nominal
    assert noise.verified_epsilon == pytest.approx(epsilon_of(0.01, mu), rel=1e-6)
    assert noise.verified_epsilon < 1.0
    large = agn_noise("mixture", "CAPE", epsilon=10.0, noise_variance=0.05, **FIVE)
    assert large.verified_epsilon > 10.0


@pytest.mark.parametrize("scheme", ["CAPE", "conventional", "local", "pooled"])
def test_topics_as_printed_have_no_guarantee(scheme):
    noise = agn_noise("topics", scheme, epsilon=1.0, **FIVE)
    assert noise.verified_epsilon == math.inf
    assert 0 < noise.verified_symmetrised < math.inf


def test_the_asymmetry_is_really_released():
    words = np.random.default_rng(0).integers(0, 4, size=(50, 3))
    moments = word_moments(words, 4)
    assert asymmetry_exposure(3, cancelling=True) == asymmetry_exposure(1, cancelling=False) == math.inf
    rng = np.random.default_rng(1)
    draws = rng.normal(scale=10, size=(3, 4, 4))
    zero_sum, own = draws - draws.mean(axis=0), rng.normal(scale=10, size=(3, 4, 4))
    released = np.mean([moments.second + e + g + g.T for e, g in zip(zero_sum, own, strict=True)], axis=0)
    true = moments.second - moments.second.T
    assert np.abs(released - moments.second).max() > 1
    np.testing.assert_allclose(released - released.T, true, atol=1e-12)
    assert np.abs(true).max() > 0


def test_published_noise_has_the_stated_scale_on_every_distinct_entry():
    tensor = symmetric_tensor_noise(np.random.default_rng(0), 40, 2.0)
    np.testing.assert_array_equal(tensor, tensor.transpose(2, 0, 1))
    distinct = np.array([tensor[i, j, k] for i in range(40) for j in range(i, 40) for k in range(j, 40)])
    error = 1 / math.sqrt(2 * distinct.size)
    # alpha = 1e-6: 4.9 standard errors; scales off by 10 % are 15 errors away.
    assert abs(distinct.std() / 2.0 - 1) < 4.9 * error < 0.05
    diagonal, mixed = tensor[np.arange(40), np.arange(40), np.arange(40)], tensor[0, 1, 2:]
    assert 0.5 < diagonal.std() / mixed.std() < 2


def test_algorithm_without_noise_finds_the_components():
    rng = np.random.default_rng(0)
    rows, means = mixture(10, 3, 0, n_records=40_000)
    bound = 3.0
    found = agn(mixture_moments(rows / bound, NOISE_VARIANCE / bound**2), 3, noise=None, rng=rng)
    assert component_error(bound * mixture_means(*found), means) < 0.05
    counts, truth = topics(10, 3, 0, n_records=40_000)
    halves = agn(word_moments(in_order(counts, 1), 10), 3, noise=None, rng=rng)[1]
    assert component_error(topic_vectors(halves), truth) < 0.05
    np.testing.assert_array_equal(np.bincount(in_order(counts, 1).ravel(), minlength=10), counts.sum(axis=0))


@pytest.fixture(scope="module")
def tiny():
    found = []
    for model in ("mixture", "topics"):
        for size, epsilons in ((300, [1.0, 10.0]), (900, [1.0, 10.0])):
            for run in range(3):
                options = {"model": model, "n_features": 4, "n_components": 2, "site_size": size, "run": run}
                found += compute(NOWHERE, epsilons=epsilons, deltas=[0.01], **options)
    return Results(found)


def test_cells_are_repeatable_and_carry_both_epsilons(tiny):
    options = {"model": "mixture", "n_features": 4, "n_components": 2, "site_size": 300, "run": 0}
    again = compute(NOWHERE, epsilons=[1.0, 10.0], deltas=[0.01], **options)
    assert again == list(tiny)[: len(again)]
    noisy = [r for r in tiny if r["calibration"] in (PUBLISHED, VERIFIED)]
    assert len(noisy) == len(tiny) * 6 // 8
    assert all(r["claimed_epsilon"] is not None and r["verified_epsilon"] is not None for r in noisy)
    assert all(
        r["verified_epsilon"] <= r["claimed_epsilon"] * (1 + 1e-9) for r in noisy if r["calibration"] == VERIFIED
    )
    assert all(math.isinf(r["verified_epsilon"]) for r in tiny.where(model="topics", calibration=PUBLISHED))


@pytest.mark.parametrize(("index", "model"), [(0, "mixture"), (1, "topics"), (2, None)])
def test_figures_are_drawn_and_judged(tiny, index, model):
    rows = tiny if model is None else tiny.where(model=model)
    experiment = EXPERIMENTS[index]
    figure = experiment.draw(rows)
    assert figure.legends[0].get_title().get_text().startswith("as published, claimed")
    verdicts = experiment.judge(rows)
    theorem = [v for v in verdicts if v.where == "theorem 5.1"]
    assert {v.outcome for v in theorem if "topics" in v.claim} <= {"fails"}
    assert all(v.numbers and "nan" not in v.numbers for v in verdicts)
    matplotlib.pyplot.close(figure)


def test_verdicts_follow_the_rows(tiny):
    def outcomes(**value):
        rows = [{**r, "value": value.get(str(r["curve"]), r["value"])} for r in tiny.where(model="mixture")]
        return {v.claim: v.outcome for v in EXPERIMENTS[0].judge(Results(rows))}

    low = outcomes(CAPE=1e-6, conventional=1.0, local=1.0)
    high = outcomes(CAPE=1e6)
    for kind in (PUBLISHED, VERIFIED):
        words = ("lower error than conventional", kind)
        assert (about(low, *words), about(high, *words)) == ("holds", "fails")
    # A larger epsilon than those tried may be enough.
    assert (about(low, "matches"), about(high, "matches")) == ("holds", "not shown")
    # The same at every epsilon.
    assert about(low, "as epsilon grows") == "not shown"


def test_a_bound_that_is_too_large_proves_no_claim_broken(tiny):
    """Both moments' worst cases added up are an upper bound; only the second moment alone, which is exact, tells."""

    def theorem(claimed, real):
        rows = [{**r, "claimed_epsilon": claimed, "verified_epsilon": real} for r in tiny.where(model="mixture")]
        (found,) = (v for v in EXPERIMENTS[0].judge(Results(rows)) if v.where == "theorem 5.1")
        return found.outcome, found.numbers

    nominal = math.sqrt(2 * math.log(1.25 / 0.005))
    for claimed, outcome in ((9.0, "not shown"), (10.0, "fails")):
        alone = epsilon_of(0.01, math.sqrt(1.875 * 2) * claimed / 2 / nominal)
        assert (alone > claimed) is (outcome == "fails")
        found, numbers = theorem(claimed, claimed + 2)
        assert found == outcome
        assert f"claimed {claimed:g}, real {alone:.3g} at delta 0.01" in numbers
    assert theorem(1.0, 0.5)[0] == "holds"


def test_data_are_not_those_on_which_anything_was_chosen(monkeypatch):
    seeds = []
    monkeypatch.setattr("dpcape_papers.figures.tensor.work.make_task", lambda *_, seed, **__: seeds.append(seed))
    monkeypatch.setattr("dpcape_papers.figures.tensor.work.compare", lambda *_, **__: [])
    for experiment in EXPERIMENTS:
        for cell in experiment.cells(RunSetting(quick=False, data=NOWHERE)):
            cell.compute(NOWHERE, **cell.options)
    assert set(seeds) == set(range(100, 110))


def test_quick_runs_are_smaller_than_full_ones():
    for experiment in EXPERIMENTS:
        quick, full = (experiment.cells(RunSetting(quick=q, data=NOWHERE)) for q in (True, False))
        assert len(quick) < len(full)
        assert max(c.options["run"] for c in full) == 9
