"""Standard errors are not too small: where one part of an error dominates, estimates miss the truth by no more than it.

Coverage of a few data sets does not tell a part that is too small from one that is right, because intervals cover more
than they say. The mean square of errors, in standard errors, does: under the law it is at most that of a normal
variable, and four times as large if the part that dominates is halved. A setting fails by chance with a probability of
at most 1e-5 (seeds are fixed; errors of one fit are of columns that do not correlate).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, chi2

from dpcape import (
    Cox,
    Exact,
    Federation,
    GeneralizedLinearModel,
    GroupContrast,
    Heterogeneity,
    Independent,
    Replay,
    in_process,
    labelled,
    table,
)
from dpcape.core.errors import DpcapeWarning
from dpcape.estimators.contrasts.residualiser import Residualiser, slopes_of
from dpcape.estimators.sites.random_effects import site_values
from dpcape.estimators.survival.curves import curve_of, log_rank
from dpcape.estimators.survival.hazard_rounds import Round
from dpcape.estimators.survival.hazards import Baseline
from dpcape.postprocessing.group_summaries import CellCounts, Level
from dpcape.statistics.adjusted_products import ProductMeans
from dpcape.statistics.hazard_scores import HazardMeans, curvature_weights, score_weights
from dpcape.statistics.site_moments import WEIGHT, SiteMeans

ALPHA = 1e-5
DELTA = 1e-5
QUANTILE = 1.959964


def _fit(model: Any, records: Any, seed: int, *, noise: bool) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        protocol = Independent() if noise else Exact()
        return model.fit(Federation(in_process({"here": records}, noise=Replay(seed)), protocol=protocol))


def _errors(truth: Any, estimate: Any, interval: Any) -> np.ndarray:
    """Return errors in standard errors: of the side of the interval on which the truth is."""
    truth, estimate, (low, high) = np.asarray(truth), np.asarray(estimate), np.asarray(interval)
    half = np.where(truth > estimate, high - estimate, estimate - low)
    return np.where(np.isfinite(half), QUANTILE * (truth - estimate) / np.maximum(half, 1e-300), 0.0).ravel()


def _check(found: Callable[[int], np.ndarray], runs: int) -> None:
    squares = np.concatenate([found(run) for run in range(runs)]) ** 2
    # An interval that is infinite says nothing, and is not counted.
    known = squares[squares > 0]
    assert len(known) > 0.7 * len(squares)
    assert known.sum() <= chi2.ppf(1 - ALPHA, len(known)), known.mean()


def _followed(rng: np.random.Generator, n_records: int) -> tuple[Any, np.ndarray]:
    truth = np.array([0.5, -0.4])
    values = np.clip(rng.normal(size=(n_records, 2)), -3, 3)
    event, end = rng.exponential(size=n_records) / np.exp(values @ truth), rng.uniform(0.3, 2, n_records)
    data = {"time": np.minimum(event, end), "event": (event <= end).astype(float), "a": values[:, 0], "b": values[:, 1]}
    survival = {"time": "time", "event": "event", "range": [0, 2]}
    return table(data, columns={"survival": survival, "a": (-3, 3), "b": (-3, 3)}), truth


def test_hazard_ratios_of_small_samples() -> None:
    def found(run: int) -> np.ndarray:
        records, truth = _followed(np.random.default_rng([run, 1]), 500)
        model = _fit(Cox(["a", "b"], epsilon=1.0, delta=DELTA), records, run, noise=False)
        return _errors(truth, model.coef_, model.interval_)

    _check(found, 30)


@pytest.mark.parametrize("part", ["sampling", "noise"])
def test_steps_of_hazards(part: str) -> None:
    """Without records: releases of the last round at the true hazards, drawn by their law."""
    width, limit, spread = 2, 1.25, np.full(2, 1 / 1.3)
    baseline = Baseline(np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.8]), np.array([-1.0, 1.0]), 0.5, 0.0)
    noise, n_records = (1e-9, 300.0) if part == "sampling" else (0.002, 1e12)
    usual = Round(_no_means(width), limit, noise, n_records, baseline, spread).expected_root
    curvature = 1.2 * np.diag(usual**2)

    def found(run: int) -> np.ndarray:
        rng = np.random.default_rng([run, 2])
        upper = np.triu(rng.normal(size=(4, 4))) * np.where(np.eye(4), 1.0, np.sqrt(0.5))
        scores = np.linalg.cholesky(curvature / n_records) @ rng.normal(size=4)
        means = HazardMeans(
            scores / limit + noise * rng.normal(size=4) / score_weights(width),
            curvature / limit + noise * (np.triu(upper) + np.triu(upper, 1).T) / curvature_weights(width),
        )
        last = Round(means, limit, noise, n_records, baseline, spread)
        step = last.step(last=True)
        deviations = np.sqrt(np.diagonal(last.covariance(step)[0]))
        return np.asarray((step / deviations)[2:])

    _check(found, 300)


def _no_means(width: int) -> HazardMeans:
    return HazardMeans(np.zeros(2 + width), np.zeros((2 + width, 2 + width)))


def _responses(family: str, line: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any]]:
    n = len(line)
    if family == "gaussian":
        return line + rng.normal(0, 0.5, n), {"response": (-3, 3)}
    if family == "logistic":
        return (rng.random(n) < 1 / (1 + np.exp(-line))).astype(float), {"classes": [0.0, 1.0]}
    if family == "multinomial":
        heights = np.exp(np.column_stack([np.zeros(n), line, -line]))
        shares = np.cumsum(heights / heights.sum(axis=1, keepdims=True), axis=1)
        return (rng.random(n)[:, None] > shares[:, :-1]).sum(axis=1).astype(float), {"classes": [0.0, 1.0, 2.0]}
    mean = np.exp(0.7 + line)
    counts = rng.poisson(mean).astype(float) if family == "poisson" else mean * rng.gamma(3, 1 / 3, n)
    return counts, {"response": (0, 20)}


@pytest.mark.parametrize("noise", [False, True], ids=["sampling", "noise"])
@pytest.mark.parametrize("family", ["gaussian", "logistic", "poisson", "gamma", "multinomial"])
def test_coefficients_of_generalised_linear_models(family: str, noise: bool) -> None:
    slopes = np.array([0.6, -0.4])
    truth = np.array([slopes, -slopes]) if family == "multinomial" else slopes

    def found(run: int) -> np.ndarray:
        rng = np.random.default_rng([run, 3])
        x = rng.uniform(-0.7, 0.7, (2000 if noise else 600, 2))
        y, target = _responses(family, x @ slopes, rng)
        model = GeneralizedLinearModel(family, epsilon=1.0, delta=DELTA)
        model = _fit(model, labelled(x, y, bound=1.0, **target), run, noise=noise)
        return _errors(truth, model.coef_, model.interval_)

    _check(found, 25)


@pytest.mark.parametrize("part", ["sampling", "noise"])
def test_survival_curves(part: str) -> None:
    """Without records: counts of four bins that are drawn by their law, without other ends of follow-up."""
    n_records = 400 if part == "sampling" else 10**7
    shares = np.array([0.2, 0.15, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.45, 0.0])
    covariance = np.diag(np.full(10, 0.0 if part == "sampling" else (0.02 * n_records) ** 2))
    truth = 1 - np.cumsum(shares[:4])

    def found(run: int) -> np.ndarray:
        rng = np.random.default_rng([run, 4])
        counts = rng.multinomial(n_records, shares) + np.sqrt(np.diagonal(covariance)) * rng.normal(size=10)
        if part == "noise":
            counts[4:8] = 0.0  # noise in other ends makes intervals wider by their unknown order
        curve = curve_of(CellCounts(counts, covariance), Level(0.95))
        return _errors(truth[1:2], curve.survival[1:2], [curve.low[1:2], curve.high[1:2]])

    _check(found, 300)


def test_the_log_rank_test_counts_noise() -> None:
    """Without records: two groups of one hazard, whose counts are mostly noise. More than 38 of 400: p = 1e-5."""
    shares = np.array([0.2, 0.15, 0.1, 0.1, 0.0, 0.0, 0.0, 0.0, 0.45, 0.0])
    covariance, rejected = np.diag(np.full(10, 2e4**2)), 0
    for run in range(400):
        rng = np.random.default_rng([run, 5])
        groups = []
        for _ in range(2):
            counts = 1e6 * shares + 2e4 * rng.normal(size=10)
            counts[4:8] = 0.0
            groups.append(CellCounts(counts, covariance))
        rejected += log_rank(groups).p_value <= 0.05
    assert rejected <= binom.ppf(1 - ALPHA, 400, 0.05)


@pytest.mark.parametrize("part", ["sampling", "noise"])
def test_means_of_sites(part: str) -> None:
    """Without records: sums of four sites, drawn by their law."""
    n, deviation, noise = 300.0, 0.3, 0.0 if part == "sampling" else 20.0
    means = np.array([0.1, -0.2, 0.3, 0.0])

    def found(run: int) -> np.ndarray:
        rng = np.random.default_rng([run, 6])
        spread = deviation if part == "sampling" else 1e-3
        sums = n * (means + rng.normal(0, spread / np.sqrt(n), 4)) + noise * rng.normal(size=4)
        squares = n * (means**2 + spread**2) + noise / WEIGHT * rng.normal(size=4)
        counts = n + noise / WEIGHT * rng.normal(size=4)
        values = site_values(SiteMeans(counts, sums[:, None], squares[:, None]), noise=noise)
        variance = values.sampling[:, 0] if part == "sampling" else values.noise[:, 0]
        return np.asarray((values.means[:, 0] - means) / np.sqrt(variance))

    _check(found, 150)


@pytest.mark.parametrize("epsilon", [10.0, 0.4], ids=["sampling", "noise"])
def test_pooled_means_and_means_of_sites_of_records(epsilon: float) -> None:
    columns = {"site": {"levels": [0, 1, 2]}, "value": (-4, 4)}
    shifts = np.array([-0.3, 0.0, 0.4])

    def found(run: int) -> np.ndarray:
        rng = np.random.default_rng([run, 7])
        site = np.arange(1200) % 3
        records = table({"site": site, "value": shifts[site] + rng.normal(0, 1, len(site))}, columns=columns)
        model = _fit(Heterogeneity("site", epsilon=epsilon, delta=DELTA), records, run, noise=True)
        pooled = _errors(shifts.mean(), model.pooled_[0], model.pooled_interval_[:, 0])
        return np.append(pooled, _errors(shifts, model.site_means_[:, 0], model.site_interval_[:, :, 0]))

    both = [found(run) for run in range(40)]
    _check(lambda run: both[run][:1], 40)
    _check(lambda run: both[run][1:], 40)


@pytest.mark.parametrize("part", ["sampling", "noise", "leak"])
def test_adjusted_differences(part: str) -> None:
    """Without records: products of residuals with outcomes that do not depend on the contrast, drawn by their law."""
    n_outcomes, length = 30, 5.0
    noise = 50.0 if part == "noise" else 1e-6
    leak = 300.0**2 if part == "leak" else 0.0
    # Squares of standardised outcomes times residuals add up to this, over the squared length.
    square = 4e4 if part == "sampling" else 1e-3
    ones = np.ones(n_outcomes)
    fitted = Residualiser(
        coefficients=np.ones(1),
        offsets=np.zeros(1),
        site_weights=np.ones(1),
        centre=0 * ones,
        sd=ones,
        variances=ones,
        variance_errors=0 * ones,
        reach=1.0,
        length=length,
        leak=leak,
        n_complete=1e6,
        contrast_sd=1.0,
    )

    def found(run: int) -> np.ndarray:
        rng = np.random.default_rng([run, 8])
        products = np.sqrt(square) * rng.normal(size=n_outcomes) + noise * rng.normal(size=n_outcomes)
        products = products + np.sqrt(leak) / length * rng.normal(size=n_outcomes)
        slopes = slopes_of(ProductMeans(products, square * ones, 1e6), fitted, noise=noise)
        # The same figures, as a test and as an interval.
        np.testing.assert_allclose(slopes.p, 2 * ndtr(-np.abs(slopes.slope / slopes.se)), rtol=1e-3)
        return np.asarray(slopes.slope / slopes.se)

    _check(found, 20)


@pytest.mark.parametrize("noise", [False, True], ids=["sampling", "noise"])
def test_differences_of_groups_of_records(noise: bool) -> None:
    columns = {"dx": {"levels": [0, 1]}, "y": (-4, 4)}

    def found(run: int) -> np.ndarray:
        rng = np.random.default_rng([run, 9])
        dx = rng.integers(0, 2, 600)
        records = table({"dx": dx, "y": 0.5 * dx + rng.normal(size=600)}, columns=columns)
        model = _fit(GroupContrast("dx", "y", epsilon=1.0, delta=DELTA), records, run, noise=noise)
        effect = _errors([0.5], model.effect_, model.effect_interval_)
        return np.append(effect, _errors([0.5], model.d_, model.d_interval_))

    # Both figures of a fit are nearly the same, so each is decided by itself.
    both = [found(run) for run in range(40)]
    _check(lambda run: both[run][:1], 40)
    _check(lambda run: both[run][1:], 40)
