"""The coverage law, quick cells: intervals of means and eigenvalues cover, tests of components and correlations hold.

The full grid is ``experiments/intervals/components.py``; its figures are in docs/analyses/intervals_components.md.
Every cell is decided by an exact one-sided binomial test at 1e-4, so that a true law fails one of these tests with a
probability of at most 1.1e-3 (seeds are fixed).
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.intervals import components as cells
from scipy.stats import binom

from dpcape import CCA, PCA, Exact, Federation, Independent, Mean, Replay, in_process, rows, views
from dpcape.postprocessing import component_tests
from dpcape.postprocessing.component_tests import (
    MomentNoise,
    UnrelatedViews,
    component_p_values,
    correlation_draws,
    correlation_of_noise,
    correlation_p_values,
    moment_error,
    quantile,
)
from dpcape.postprocessing.eigen import Spectrum, all_eigen
from dpcape.postprocessing.largest_norms import LargestNorms, operator_norms
from dpcape.postprocessing.verdicts import DETERMINED

quiet = pytest.mark.filterwarnings("ignore::dpcape.core.errors.UtilityWarning")
ROOT = Path(__file__).parents[2]
ALPHA = 1e-4


Cell = cells.Cell
QUICK = [
    (Cell("mean", "skewed", 3, 400, 1.0, 0.5, 2.0, (("ranges", True),)), 40),
    (Cell("mean", "uniform", 3, 400, 0.1, 200.0, 2.0), 40),
    (Cell("mean", "skewed", 3, 2000, 10.0, None, 1.0), 40),
    (Cell("pca", "normal", 4, 1200, 3.0, 5.0, 2.0, (), (4.0,)), 50),
    (Cell("pca", "laplace", 4, 1200, 10.0, 2.0, 0.0), 50),
    (Cell("eigenvalues", "normal", 3, 1000, 1.0, 3.0, 1.0), 50),
    (Cell("cca", "normal", 3, 1200, 3.0, 1.0, 3.0), 50),
    (Cell("cca", "skewed", 3, 1200, 3.0, 50.0, 1.0, (("scale", "private"),)), 50),
    (Cell("cca", "normal", 3, 1200, 3.0, 1.0, 0.0, (("center", False),), (0.9,)), 50),
    (Cell("mean", "skewed", 2, 600, 1.0, None, 1.0, sites="lost"), 12),
    (Cell("pca", "normal", 3, 1500, 1.0, 2.0, 1.0, sites="lost"), 12),
]


@pytest.mark.parametrize(("cell", "n_runs"), QUICK, ids=[cell.label for cell, _ in QUICK])
def test_the_law_holds_in_quick_cells(cell: Any, n_runs: int) -> None:
    found = cells.run(cell, n_runs, seed=3)
    assert cells.p_value(cell, found) >= ALPHA, (found.hits, found.trials)


def test_the_law_can_fail() -> None:
    """Intervals of clipped rows taken for intervals of the mean cover almost nothing, and the test says so."""
    cell = Cell("mean", "skewed", 3, 2000, 10.0, 0.5, 3.0)
    assert cells.p_value(cell, cells.Found(hits=80, trials=120, size=1.0)) < ALPHA
    assert cells.p_value(Cell("pca", "normal", 4, 1200, 3.0), cells.Found(hits=12, trials=50, size=1.0)) < ALPHA


def test_no_cell_of_the_stored_grid_is_below_its_level() -> None:
    results = json.loads((ROOT / "experiments" / "intervals" / "components.json").read_text("utf-8"))
    assert {entry["cell"] for entry in results} <= {cell.label for cell in cells.grid()}
    assert {entry["cell"].partition(":")[0] for entry in results} == set(cells.RUNNERS)
    assert min(entry["p_value"] for entry in results) >= cells.FAMILY / len(results)


def _views(unit: float, seed: int = 5) -> Federation:
    generator = np.random.default_rng(4)
    shared = generator.normal(size=(1500, 1))
    X = shared * [1.0, 0.2] + generator.normal(size=(1500, 2)) * 0.5 + 1
    Y = shared * [0.5, 1.0, 0.0] + generator.normal(size=(1500, 3)) * 0.5
    held = views(X, unit * Y, bounds=(2.0, unit * 2.0))
    return Federation(in_process({"here": held}, noise=Replay(seed)), protocol=Independent())


@quiet
@pytest.mark.parametrize("options", [{}, {"center": True}, {"scale": "private"}], ids=str)
def test_correlations_do_not_depend_on_the_units_of_a_view(options: dict[str, Any]) -> None:
    """The second view in units a thousand times smaller: everything is equal to 1e-9."""
    plain, other = (CCA(2, epsilon=2.0, delta=1e-5, **options).fit(_views(unit)) for unit in (1.0, 1000.0))
    np.testing.assert_allclose(other.correlations_, plain.correlations_, rtol=1e-9)
    np.testing.assert_allclose(other.x_weights_, plain.x_weights_, rtol=1e-9)
    np.testing.assert_allclose(other.y_weights_ * 1000, plain.y_weights_, rtol=1e-9)
    np.testing.assert_allclose(other.y_mean_ / 1000, plain.y_mean_, rtol=1e-9, atol=1e-12)
    assert other.p_values_.tolist() == plain.p_values_.tolist()
    assert other.noise_level_ == pytest.approx(plain.noise_level_, rel=1e-9)


@quiet
def test_widths_do_not_fall_when_noise_grows() -> None:
    """The same standardised draws, less and less epsilon: median widths and noise levels never fall."""
    X = np.random.default_rng(1).uniform(-1, 1, size=(1500, 3)) * [1.0, 0.5, 0.5]
    means, spectra, levels = [], [], []
    for epsilon in (10.0, 3.0, 1.0, 0.3, 0.1):
        made = Federation(
            in_process({"here": rows(X, bound=1.0, ranges=[(-1, 1)] * 3)}, noise=Replay(2)), protocol=Independent()
        )
        means.append(float(np.median(np.ptp(Mean(epsilon=epsilon, delta=1e-5).fit(made).interval_, axis=0))))
        spectra.append(float(np.ptp(PCA(1, epsilon=epsilon, delta=1e-5).fit(made).interval_, axis=0)[0]))
        levels.append(CCA(1, epsilon=epsilon, delta=1e-5).fit(_views(1.0)).noise_level_)
    assert means == sorted(means)
    assert levels == sorted(levels)
    # The largest eigenvalue is at most the squared bound, so that only the upper part of its interval can be cut.
    assert spectra[:4] == sorted(spectra[:4])


@quiet
def test_means_are_given_in_original_units_and_clamped_to_them() -> None:
    X = np.column_stack([np.full(400, 37.0), np.full(400, 120.0)])
    made = Federation(
        in_process({"here": rows(X, ranges=[(20, 90), (80, 200)])}, noise=Replay(1)), protocol=Independent()
    )
    model = Mean(epsilon=50.0, delta=1e-5).fit(made)
    np.testing.assert_allclose(model.original_mean_, [37.0, 120.0], atol=1.0)
    assert model.about_ == "the mean"
    assert model.clipped_ == 0.0
    wide = Mean(epsilon=0.01, delta=1e-5).fit(made)
    assert wide.original_interval_.tolist() == [[20.0, 80.0], [90.0, 200.0]]
    assert {entry.word for entry in wide.verdicts_} == {"not determined"}


@quiet
def test_a_bound_that_clips_widens_the_interval_and_is_named() -> None:
    X = np.full((4000, 2), 0.9)
    made = Federation(
        in_process({"here": rows(X, bound=0.3, ranges=[(-1, 1)] * 2)}, noise=Replay(1)), protocol=Independent()
    )
    model = Mean(epsilon=10.0, delta=1e-5).fit(made)
    assert model.clipped_ == pytest.approx(1 - 0.3 / np.hypot(0.9, 0.9), abs=0.01)
    assert (model.interval_[0] <= 0.9).all()
    assert (model.interval_[1] >= 0.9).all()
    assert all("clipping" in entry.reason and entry.word != DETERMINED for entry in model.verdicts_)


@quiet
def test_hidden_unreadable_records_do_not_bias_a_mean() -> None:
    """Of 150 fits with 0.7% unreadable rows, which noise hides, at least 130 cover, except with probability 2e-5."""
    generator, hits = np.random.default_rng(6), 0
    for seed in range(150):
        X = 0.7 + 0.05 * generator.normal(size=(500, 1))
        X[generator.random(500) < 0.007] = np.nan
        made = Federation(in_process({"here": rows(X, bound=1.0)}, noise=Replay(seed)), protocol=Independent())
        low, high = Mean(epsilon=5.0, delta=1e-5).fit(made).interval_[:, 0]
        hits += int(low <= 0.7 <= high)
    assert hits >= 130


@quiet
def test_recentring_removes_the_noise_that_a_mean_multiplies() -> None:
    """Forty columns of mean 0.9 and standard deviation 0.1: the error was 1.7; it is below 0.1."""
    generator = np.random.default_rng(3)
    X = 0.9 + 0.1 * generator.normal(size=(2000, 40))
    bound = float(np.sqrt(40))
    made = Federation(in_process({"here": rows(X, bound=bound)}, noise=Replay(1)), protocol=Independent())
    model = PCA(40, epsilon=1.0, delta=1e-5, center=True).fit(made)
    found = (model.components_.T * model.explained_variance_) @ model.components_
    assert np.linalg.norm(found - np.cov(X.T), 2) < 0.1
    np.testing.assert_allclose(model.mean_, X.mean(axis=0), atol=0.1)


def test_large_matrices_are_tested_by_a_bound_that_agrees_with_small_ones() -> None:
    """Just above the size at which all eigenvalues are computed, quantiles exceed those just below, by at most 15%."""
    errors = []
    for size in (64, 65):
        noise = MomentNoise(scale=1.0, mean_scale=0.05, mean=np.full(size, 0.1), record_share=1e-4)
        errors.append(moment_error(noise, size))
    assert errors[0] <= errors[1] <= 1.15 * errors[0]
    matrix = np.diag(np.r_[40.0, np.ones(199)])
    p_values = component_p_values(*all_eigen(matrix), MomentNoise(1.0, 0.0, np.zeros(200), 1e-4), 2)
    assert p_values[0] <= 0.01
    assert p_values[1] > 0.05


def test_automatic_components_are_those_the_test_finds() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(4000, 6)) * [3.0, 2.0, 0.5, 0.5, 0.5, 0.5] / 6
    made = Federation(in_process({"here": rows(X, bound=1.5)}), protocol=Exact())
    assert len(PCA("auto", epsilon=1.0, delta=1e-5).fit(made).components_) == 2


@pytest.mark.parametrize("size", [20, 24, 40])
def test_the_operator_norm_of_noise_is_below_its_quantile(size: int) -> None:
    """Both ends of the spectrum count: of fresh noise, 95% is below; false alarms have a probability of 1e-4."""
    scale, runs = 0.3, 3000
    noise = MomentNoise(scale=scale, mean_scale=0.0, mean=np.zeros(size), record_share=1e-4)
    squares = np.random.default_rng(9).standard_normal((runs, size, size)) * scale
    fresh = (squares + squares.swapaxes(1, 2)) / 2
    fresh[:, range(size), range(size)] = squares[:, range(size), range(size)]
    share = np.mean(np.linalg.norm(fresh, 2, axis=(1, 2)) <= moment_error(noise, size))
    # The quantile is that of 999 draws, so that its own level is uncertain too.
    assert share > 0.95 - 3.8 * math.sqrt(0.95 * 0.05 * (1 / runs + 1 / 999))


def test_the_corner_of_a_tridiagonal_form_has_its_outermost_eigenvalues(monkeypatch: pytest.MonkeyPatch) -> None:
    found = component_tests._tridiagonal_draws.__wrapped__(400, 20)
    monkeypatch.setattr(component_tests, "_CORNER", 400)
    for part, whole in zip(found, component_tests._tridiagonal_draws.__wrapped__(400, 20), strict=True):
        np.testing.assert_allclose(part, whole, rtol=1e-12)


@pytest.mark.parametrize(("n_x", "n_y"), [(4, 4), (3, 6), (7, 2), (20, 22), (30, 18)])
def test_pairs_are_counted_against_every_draw(n_x: int, n_y: int) -> None:
    """Draws that a bound rules out are not decomposed: p-values are those of all of them."""
    generator = np.random.default_rng(5)
    draws = generator.standard_normal((400, n_x, n_y))
    left = np.linalg.qr(generator.standard_normal((n_x, n_x)))[0]
    right = np.linalg.qr(generator.standard_normal((n_y, n_y)))[0]
    strong = np.zeros((n_x, n_y))
    # The second is as large as that of some draws within the directions that are left, and not of others.
    second = 1.05 * np.median(operator_norms(draws))
    np.fill_diagonal(strong, [2 * second, second, 0.3 * second][: min(n_x, n_y)] + [0.0] * (min(n_x, n_y) - 3))
    released = left @ strong @ right.T
    found = correlation_p_values(released, UnrelatedViews(draws), 2)
    turned_x, values, turned_y = np.linalg.svd(released)
    norms = operator_norms(turned_x[:, 1:].T @ draws @ turned_y[1:].T)
    margin = _margin_of(draws)
    assert found[0] == 1 / 401
    assert found[1] == pytest.approx((1 + np.sum(margin * norms >= values[1])) / 401)
    assert 0.02 < found[1] < 1


@pytest.mark.parametrize("shape", [(5, 9), (16, 17), (17, 17), (40, 25), (60, 70)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_few_largest_norms_are_those_of_all(kind: type[np.floating[Any]], shape: tuple[int, int]) -> None:
    """The quantile of draws, and how many exceed a value, are the same as from the norms of every one."""
    draws = np.random.default_rng(8).standard_normal((250, *shape)).astype(kind)
    expected = np.sort(np.linalg.norm(draws.astype(np.float64), 2, axis=(1, 2)))
    made = UnrelatedViews(draws)
    np.testing.assert_allclose(made.largest, expected[: -len(made.largest) - 1 : -1], rtol=1e-5)
    assert made.largest[-1] == pytest.approx(quantile(expected), rel=1e-5)
    norms = LargestNorms(draws)
    for place in (0, 1, 20, 125, 248):
        between = (expected[place] + expected[place + 1]) / 2
        assert np.count_nonzero(norms.at_least(between)) == 250 - place - 1
    assert norms.at_least(0.0).all()
    assert not norms.at_least(2 * expected[-1]).any()


def _margin_of(draws: Any) -> float:
    """Return the factor by which norms of draws are multiplied."""
    small = draws / 100
    return correlation_of_noise(UnrelatedViews(small)) / quantile(operator_norms(small))


@pytest.mark.parametrize("shape", [(20, 30), (60, 70), (310, 320)])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_operator_norms_are_those_of_double_precision(kind: type[np.floating[Any]], shape: tuple[int, int]) -> None:
    matrices = np.random.default_rng(4).standard_normal((3, *shape)).astype(kind)
    expected = [np.linalg.norm(matrix.astype(np.float64), 2) for matrix in matrices]
    found = operator_norms(matrices)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_wide_views_that_are_unrelated_are_not_found_related() -> None:
    """Views of 60 columns, tested in single precision, at a level of 5%: false alarms have a probability of 1e-5."""
    noise = MomentNoise(scale=0.05, mean_scale=0.0, mean=np.zeros(120), record_share=0.01)
    spectrum = Spectrum(np.linspace(0.5, 1.5, 60), np.eye(60), floor=0.1)
    unrelated = correlation_draws((spectrum, spectrum), noise)
    assert unrelated.draws.dtype == np.float32
    spread, whitener = (np.outer(each, each) for each in (spectrum.spread, spectrum.whitener))
    sd = np.sqrt(noise.record_share * spread**2 + noise.scale**2 / 2 * whitener**2)
    rng, runs = np.random.default_rng(6), 300
    p_values = [correlation_p_values(sd * rng.normal(size=(60, 60)), unrelated, 1)[0] for _ in range(runs)]
    assert np.count_nonzero(np.array(p_values) <= 0.05) <= binom.ppf(1 - 1e-5, runs, 0.05)
    # A correlation well above noise is found.
    related = sd * rng.normal(size=(60, 60))
    related[0, 0] += 2 * unrelated.largest[0]
    assert correlation_p_values(related, unrelated, 1)[0] <= 0.05
