"""Parts of intervals and tests of counts that others hide: censoring, unknown order, pooled counts, lumps, leaks.

Without records: counts and sums are drawn by their law, so that one part of an error dominates. Mean squares of errors
in standard errors, or numbers of misses, are decided at 1e-5 each (seeds are fixed).
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import binom, chi2

from dpcape import Federation, GroupContrast, Independent, Replay, in_process, table
from dpcape.core.errors import DpcapeWarning
from dpcape.estimators.contrasts.ratio_intervals import of_deviation, ratio_interval
from dpcape.estimators.contrasts.residualiser import Residualiser, residualiser_of, slopes_of
from dpcape.estimators.survival.curves import curve_of, log_rank
from dpcape.postprocessing.group_summaries import (
    CellCounts,
    Level,
    deviation_and_interval,
    mean_and_interval,
    pooled,
    quantile_and_interval,
)
from dpcape.statistics.adjusted_products import CONTRAST, DesignMeans, ProductMeans, moment_weights

ALPHA = 1e-5
LEVEL = Level(0.95)


def _in_errors(truth: float, estimate: float, ends: tuple[float, float]) -> float:
    """Return the error in standard errors, of the side of the interval on which the truth is."""
    half = ends[1] - estimate if truth > estimate else estimate - ends[0]
    return LEVEL.z * (truth - estimate) / max(half, 1e-300)


def _check_squares(errors: list[float] | np.ndarray) -> None:
    squares = np.square(errors)
    assert squares.sum() <= chi2.ppf(1 - ALPHA, len(squares)), squares.mean()


def _check_misses(misses: int, runs: int, level: float = 0.05) -> None:
    assert misses <= binom.ppf(1 - ALPHA, runs, level), misses / runs


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_curves_count_those_who_left_before_the_events(noise: float) -> None:
    """Nobody leaves in a bin with events, so that order says nothing; most leave before the last events."""
    errors, hazard = [], 0.3 if noise == 0 else 0.12
    for run in range(300):
        rng = np.random.default_rng([run, 21])
        first = rng.binomial(800, 0.0 if noise else 0.2)
        gone = int(0.95 * (800 - first))
        last = rng.binomial(800 - first - gone, hazard)
        counts = np.array([first, 0, last, 0, gone, 0, 800 - first - gone - last, 0], dtype=float)
        held = CellCounts(counts + noise * rng.normal(size=8), noise**2 * np.eye(8))
        if noise:
            held.counts[[0, 3, 5]] = 0.0
        curve = curve_of(held, LEVEL)
        truth = (1.0 if noise else 0.8) * (1 - hazard)
        errors.append(_in_errors(truth, float(curve.survival[2]), (float(curve.low[2]), float(curve.high[2]))))
    _check_squares(errors)


def test_the_log_rank_test_allows_for_any_order_within_a_bin() -> None:
    """Two groups of one hazard, so large that sampling says nothing: people leave before the events, or after."""
    hazard, groups = 0.02, []
    for leaves_first in (True, False):
        at_risk, events, ended = 1e6, [], []
        for _ in range(6):
            gone = 0.2 * at_risk
            events.append(hazard * (at_risk - gone if leaves_first else at_risk))
            ended.append(gone)
            at_risk -= events[-1] + gone
        counts = np.array([*events, *ended, at_risk, 0.0])
        groups.append(CellCounts(counts, np.zeros((len(counts), len(counts)))))
    assert log_rank(groups).p_value > 0.05


@pytest.mark.parametrize("n_groups", [2, 3])
def test_the_log_rank_test_keeps_its_level_for_several_groups(n_groups: int) -> None:
    shares, rejected = np.array([0.2, 0.15, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.45, 0.0]), 0
    for run in range(500):
        rng = np.random.default_rng([run, 22])
        sizes = (500, 300, 200)[:n_groups]
        groups = [CellCounts(rng.multinomial(size, shares).astype(float), np.zeros((10, 10))) for size in sizes]
        rejected += log_rank(groups).p_value <= 0.05
    _check_misses(rejected, 500)


def test_pooled_counts_have_the_stated_covariances() -> None:
    """Two columns with different noise, three groups: one size, one cell and one total of each run."""
    units = [np.diag([1.0, 2.0, 1.5]), np.diag([4.0, 3.0])]
    truth = [np.array([[30.0, 20, 10], [50, 5, 5], [10, 40, 30]]), np.array([[35.0, 25], [30, 30], [60, 20]])]
    sizes, cells, totals, whole = [], [], [], []
    for run in range(300):
        rng = np.random.default_rng([run, 23])
        parts = [
            part + 5 * rng.normal(size=part.shape) * np.sqrt(np.diagonal(unit))
            for part, unit in zip(truth, units, strict=True)
        ]
        found = pooled(parts, units, n_records=200.0, scale=5.0)
        sizes.append((found.sizes[0] - 60) / np.sqrt(found.variance))
        of_group, of_all = found.groups[1][0], found.total[0]
        cells.append((of_group.counts[0] - 35) / np.sqrt(of_group.covariance[0, 0]))
        totals.append((of_all.counts[1] - 65) / np.sqrt(of_all.covariance[1, 1]))
        size, variance = of_group.of(np.ones(2))
        whole.append((size - 60) / np.sqrt(variance))
    for errors in (sizes, cells, totals, whole):
        _check_squares(errors)
        # They are not larger than they need be either.
        assert np.sum(np.square(errors)) >= chi2.ppf(ALPHA, len(errors))


def test_means_and_standard_deviations_count_sampling() -> None:
    knots, shares = np.arange(9.0), np.array([1, 3, 8, 14, 16, 14, 8, 3, 1]) / 68
    sd = float(np.sqrt(shares @ (knots - 4) ** 2))
    of_means, of_deviations = [], []
    for run in range(300):
        rng = np.random.default_rng([run, 24])
        # Values at the knots: what sharing adds to the variance is zero, the end for which the interval allows.
        held = CellCounts(rng.multinomial(300, shares).astype(float), np.zeros((9, 9)))
        of_means.append(_in_errors(4.0, *mean_and_interval(held, LEVEL)))
        of_deviations.append(deviation_and_interval(held, LEVEL)[1][1] < sd)
    _check_squares(of_means)
    _check_misses(int(np.sum(of_deviations)), 300, 0.025)


@pytest.mark.parametrize("place", [0.0, 0.5])
def test_standard_deviations_allow_for_all_that_sharing_adds(place: float) -> None:
    """So many records that sampling says nothing, all at knots or all in the middle between two."""
    values, n_bins = np.array([2.0, 4.0, 6.0]) + place, 9
    counts = sum(np.maximum(1 - np.abs(np.arange(n_bins + 1.0) - value), 0.0) for value in values) * 1e9
    low, high = deviation_and_interval(CellCounts(np.asarray(counts), np.zeros((10, 10))), LEVEL)[1]
    assert low - 1e-3 <= np.std(values) <= high + 1e-3


@pytest.mark.parametrize("part", ["sampling", "noise"])
def test_quantiles_of_lumps_count_sampling_and_noise(part: str) -> None:
    """A lump brings the distribution function to exactly one half, where it stays: nothing is to spare."""
    n_records, noise, missed = (2000.0, 0.0, 0) if part == "sampling" else (1e9, 1e7, 0)
    # Two tenths at 1, three tenths at 4.5, and one half at 9.
    cells = np.zeros(11)
    cells[[1, 4, 5, 9]] = 0.2, 0.15, 0.15, 0.5
    for run in range(400):
        rng = np.random.default_rng([run, 25])
        if part == "sampling":
            below, lump, above = rng.multinomial(int(n_records), [0.2, 0.3, 0.5])
            counts = np.zeros(11)
            counts[[1, 4, 5, 9]] = below, lump / 2, lump / 2, above
        else:
            counts = n_records * cells + noise * rng.normal(size=11)
        low, high = quantile_and_interval(CellCounts(counts, noise**2 * np.eye(11)), 0.5, LEVEL)[1]
        missed += not low - 1e-9 <= 4.5 <= high + 1e-9
    _check_misses(missed, 400)


def test_slopes_count_the_noise_of_what_they_are_divided_by() -> None:
    ones, noise = np.ones(1), 10.0
    fitted = Residualiser(
        coefficients=ones,
        offsets=0 * ones,
        site_weights=ones,
        centre=0 * ones,
        sd=ones,
        variances=ones,
        variance_errors=0 * ones,
        reach=1.0,
        length=1e-3,
        leak=0.0,
        n_complete=1e6,
        contrast_sd=1.0,
    )
    errors, scale = [], noise / CONTRAST
    for run in range(300):
        rng = np.random.default_rng([run, 26])
        sums = ProductMeans(2.0 * 20 * scale / 1e-3 * ones, 1e-9 * ones, 20 * scale + scale * float(rng.normal()))
        slopes = slopes_of(sums, fitted, noise=noise)
        errors.append(float((slopes.slope[0] - 2.0) / slopes.se[0]))
    _check_squares(errors)


@pytest.mark.parametrize(("effect", "error"), [(0.0, 0.3), (1.0, 0.05), (1.0, 0.4), (2.0, 0.2), (-2.0, 0.4)])
def test_ratios_to_a_deviation_count_the_noise_of_its_variance(effect: float, error: float) -> None:
    """An effect with a standard error of 0.2 over the root of a variance of 1 with noise."""
    rng = np.random.default_rng(27)
    effects, variances = effect + 0.2 * rng.normal(size=2000), 1 + error * rng.normal(size=2000)
    variances = np.maximum(variances, error)
    deviations = np.sqrt(variances)
    reach = of_deviation(LEVEL.z * error / (2 * variances))
    low, high = ratio_interval(effects / deviations, LEVEL.z * 0.2 / deviations, reach)
    _check_misses(int(np.sum((low > effect) | (high < effect))), 2000)
    assert (low <= effects / deviations).all()
    assert (high >= effects / deviations).all()


def test_ratios_to_a_known_deviation_have_symmetric_intervals() -> None:
    found = ratio_interval(np.array([1.0, -3.0, 0.0]), np.array([0.5, 0.5, np.inf]), of_deviation(np.zeros(3)))
    np.testing.assert_allclose(found, [[0.5, -3.5, -np.inf], [1.5, -2.5, np.inf]])


def test_groups_far_apart_have_intervals_of_d_that_count_the_noise_of_the_deviation() -> None:
    """With records: two groups that are two standard deviations apart. An open end counts as no error."""
    errors = []
    for run in range(60):
        rng = np.random.default_rng([run, 28])
        dx = rng.integers(0, 2, 2000)
        values = {"dx": dx, "y": 2.0 * (dx - 0.5) + rng.normal(size=2000)}
        records = table(values, columns={"dx": {"levels": [0, 1]}, "y": (-6, 6)})
        federation = Federation(in_process({"here": records}, noise=Replay(run)), protocol=Independent())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DpcapeWarning)
            model = GroupContrast("dx", "y", epsilon=1.0, delta=1e-5).fit(federation)
        low, high = model.d_interval_[:, 0]
        errors.append(_in_errors(2.0, float(model.d_[0]), (float(low), float(high))))
    assert np.mean(np.array(errors) != 0) > 0.4
    _check_squares(errors)


def test_an_open_end_is_written_as_such() -> None:
    rng = np.random.default_rng([0, 78])
    dx = rng.integers(0, 2, 600)
    values = {"dx": dx, "y": dx - 0.5 + rng.normal(size=600)}
    records = table(values, columns={"dx": {"levels": [0, 1]}, "y": (-6, 6)})
    federation = Federation(in_process({"here": records}, noise=Replay(4)), protocol=Independent())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        model = GroupContrast("dx", "y", epsilon=1.0, delta=1e-5).fit(federation)
    low, high = model.d_interval_[:, 0]
    assert np.isfinite(low)
    assert np.isinf(high)
    assert f"{low:.2f} or more" in model.to_text()


@pytest.mark.parametrize("part", ["sites", "covariates"])
def test_what_noise_leaves_of_sites_and_covariates_is_counted(part: str) -> None:
    """Effects of the assumed size on the outcome, of every site or of the covariate, times residuals with noise."""
    sizes, noise, assumed = np.array([600.0, 500.0, 400.0]), 20.0, 0.5
    width = 1 if part == "sites" else 2
    means = np.array([[-0.2, 0.3], [0.1, -0.2], [0.4, 0.1]])[:, :width]
    covariance = np.array([[0.9, 0.1], [0.1, 0.3]])[:width, :width]
    products = (sizes * means.T) @ means + sizes.sum() * covariance
    weights, errors = moment_weights(width, 1), []
    for run in range(300):
        rng = np.random.default_rng([run, 29])
        upper = np.triu(rng.normal(size=(width, width))) * np.where(np.eye(width), 1.0, np.sqrt(0.5))
        sums = DesignMeans(
            sizes + noise / weights.counts * rng.normal(size=3),
            sizes[:, np.newaxis] * means + noise / weights.sums * rng.normal(size=(3, width)),
            products + noise * (upper + np.triu(upper, 1).T),
            np.zeros(1),
            np.array([0.3 * sizes.sum()]),
        )
        fitted = residualiser_of(sums, weights, noise=noise, next_noise=noise, is_binary=True, assumed=assumed)
        # Sums of residuals by site, and of residuals times the covariate.
        left = fitted.site_weights * sizes * (means @ fitted.coefficients - fitted.offsets)
        if part == "covariates":
            inside = means[:, np.newaxis, :] * means[:, :, np.newaxis] + covariance
            own = inside[:, :, 1] @ fitted.coefficients - fitted.offsets * means[:, 1]
            left = fitted.site_weights * sizes * own
            effects = np.full(3, assumed)
        else:
            effects = assumed * rng.choice([-1.0, 1.0], 3)
        errors.append(float(left @ effects) / np.sqrt(max(fitted.leak, 1e-300)))
    _check_squares(errors)
