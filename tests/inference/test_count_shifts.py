"""Slopes of Poisson models where counts vary more than the model says: intervals allow for what clipping does to them.

Clipped residuals of negative binomial counts have a mean below zero that depends on the rate. The constant takes what
is the same everywhere; the rest moves slopes, by a fixed part of them that no number of records makes smaller.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import fsolve
from scipy.stats import binom, chi2, nbinom

from dpcape import Exact, Federation, GeneralizedLinearModel, in_process, labelled
from dpcape.core.errors import DpcapeWarning
from dpcape.estimators.linear.count_shifts import slope_shift
from dpcape.statistics.count_residuals import centred_residuals

ALPHA = 1e-5
LAWS = ["same factor", "grows"]


def _factor(law: str, rates: np.ndarray, excess: float, level: float) -> np.ndarray:
    """Return variances over means: 1 plus the excess, or plus the excess at the level in proportion to the mean."""
    return 1 + excess * (rates / level if law == "grows" else np.ones(len(rates)))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(
    ("rate", "excess"), [(0.03, 0.2), (0.1, 0.2), (0.3, 0.2), (0.7, 0.35), (1.0, 0.2), (2.0, 0.15), (6.0, 0.1)]
)
def test_slopes_of_all_people_are_off_by_no_more_than_the_shift(law: str, rate: float, excess: float) -> None:
    """Without sampling: coefficients at which expected scores vanish. The square of the first column has no effect."""
    x = np.linspace(-1, 1, 41)
    design = np.column_stack([np.ones(41), x, x**2 - 1 / 3])
    truth = np.array([np.log(rate), 0.8, 0.0])
    rates = np.exp(design @ truth)
    level = float(rates.mean())
    counts = np.arange(0.0, 120.0)
    factors = _factor(law, rates, excess, level)[:, np.newaxis]
    chances = nbinom.pmf(counts, rates[:, np.newaxis] / (factors - 1), 1 / factors)

    def expected(b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        own = np.exp(design @ b)
        found, covariances = centred_residuals(np.tile(counts, 41), np.repeat(own, len(counts)))
        residuals, ratio = found.reshape(41, -1), own / level
        mean, square = (chances * residuals).sum(axis=1), (chances * residuals**2).sum(axis=1)
        weight = np.minimum(ratio, 1.0)
        score = mean * np.sqrt(np.minimum(ratio, 1 / ratio))
        return score, covariances.reshape(41, -1)[:, 0] * weight, square * weight

    b = fsolve(lambda b: expected(b)[0] @ design, truth)
    _, weights, squares = expected(b)
    shift = slope_shift(float(squares.sum() / weights.sum()), level, float(np.std(design @ b)))
    inverse = np.linalg.inv((design * weights[:, np.newaxis]).T @ design)
    allowed = shift.part * np.abs(b) + shift.rest * np.sqrt(weights.sum() * np.diagonal(inverse))
    off = np.abs(b - truth)
    assert (off <= allowed)[1:].all(), (off, allowed)
    # The worse of both laws is allowed for, and little more than that.
    assert allowed[1] <= 0.2 * b[1]


@pytest.mark.parametrize("rate", [0.4, 0.7])
def test_intervals_of_many_records_allow_for_the_shift(rate: float) -> None:
    """Mean squares of errors, in standard errors: false alarms have a probability of at most 1e-5."""
    n_records, truth, squares = 100_000, 1.0, []
    for run in range(8):
        rng = np.random.default_rng([run, 31])
        x = rng.uniform(-1, 1, (n_records, 1))
        rates = rate * np.exp(truth * x[:, 0])
        y = rng.negative_binomial(rates / 0.2, 1 / 1.2)
        federation = Federation(in_process({"here": labelled(x, y, bound=1.0, response=(0, 60))}), protocol=Exact())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DpcapeWarning)
            model = GeneralizedLinearModel("poisson", epsilon=1.0, delta=1e-5).fit(federation)
        low, high = model.interval_[:, 0]
        assert np.isfinite([low, high]).all()
        half = high - model.coef_[0] if model.coef_[0] < truth else model.coef_[0] - low
        squares.append((1.959964 * (model.coef_[0] - truth) / half) ** 2)
    assert sum(squares) <= chi2.ppf(1 - ALPHA, len(squares)), squares


def test_where_counts_vary_as_the_model_says_slopes_keep_their_intervals() -> None:
    """At the released spread of Poisson counts of a rate from about two on, nothing is added."""
    counts = np.arange(0.0, 100.0)
    for rate in (2.0, 10.0):
        chance = nbinom.pmf(counts, 1e9, 1e9 / (1e9 + rate))
        residuals, covariances = centred_residuals(counts, np.full(len(counts), rate))
        shift = slope_shift(float(chance @ residuals**2) / covariances[0], rate, 0.3)
        assert shift.part < 0.004
        assert shift.rest < 0.001


@pytest.mark.parametrize("law", LAWS)
def test_intercepts_far_from_the_records_allow_for_the_shift_of_slopes(law: str) -> None:
    """Rates of few are far from those of most, or the intercept is far from all records. False alarms: 1e-5 each."""
    n_records, runs, missed = 100_000, 8, 0
    for run in range(runs):
        rng = np.random.default_rng([run, 46])
        if law == "grows":
            x = np.column_stack([np.where(rng.random(n_records) < 0.05, 0.7, -0.7), rng.uniform(-0.7, 0.7, n_records)])
            slope, typical = 2.0, 1.0
        else:
            x, slope, typical = rng.uniform(0.25, 0.95, (n_records, 1)), 3.0, 0.3 * np.exp(-1.8)
        rates = typical * np.exp(slope * x[:, 0])
        factors = _factor(law, rates, 0.15 if law == "grows" else 0.2, float(rates.mean()))
        y = np.minimum(rng.negative_binomial(rates / (factors - 1), 1 / factors), 60)
        federation = Federation(in_process({"here": labelled(x, y, bound=1.0, response=(0, 60))}), protocol=Exact())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DpcapeWarning)
            model = GeneralizedLinearModel("poisson", epsilon=1.0, delta=1e-5).fit(federation)
        low, high = model.intercept_interval_
        assert np.isfinite([low, high]).all()
        missed += not low <= np.log(typical) <= high
    assert missed <= binom.ppf(1 - ALPHA, runs, 0.05), missed
