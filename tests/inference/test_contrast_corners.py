"""Adjusted contrasts where something besides the slope is noisy: the number of records, the contrast, deviations.

Misses of 95% intervals are decided at 1e-5 each (seeds are fixed); an open end misses nothing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpcape import Exact, Federation, GroupContrast, Independent, MassUnivariate, Replay, in_process, table
from dpcape.core.errors import DpcapeWarning
from dpcape.estimators.contrasts.ratio_intervals import of_deviation, of_divisor, of_inverse_deviation, ratio_interval

LEVELS = {"levels": [0, 1]}
Case = tuple[dict[str, Any], dict[str, Any], float, float]


def _fit(case: Case, seed: int | None, kind: type = GroupContrast, **given: Any) -> Any:
    records = table(case[0], columns=case[1])
    noise = {} if seed is None else {"noise": Replay(seed)}
    protocol = Exact() if seed is None else Independent()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        federation = Federation(in_process({"here": records}, **noise), protocol=protocol)
        return kind("dx", delta=1e-5, **given).fit(federation)


def _far_from_the_middle(rng: np.random.Generator) -> Case:
    """Forty sites, and an outcome whose range is wide on one side."""
    dx, site = rng.integers(0, 2, 4000), rng.integers(0, 40, 4000)
    values = {"dx": dx, "y": 6 + rng.normal(size=4000) + dx - 0.5, "site": site}
    return values, {"dx": LEVELS, "y": (-10.0, 10.0), "site": {"levels": list(range(40))}}, 1.0, 1.0


def _slope(rng: np.random.Generator) -> Case:
    """A number whose variance is a small part of its range."""
    x = np.clip(rng.normal(0, 0.1, 10_000), -1, 1)
    y = 9.5 * x + math.sqrt(1 - 0.95**2) * rng.normal(size=10_000)
    return {"dx": x, "y": y}, {"dx": (-1.0, 1.0), "y": (-4.0, 4.0)}, 0.95, 9.5


def _hidden(rng: np.random.Generator) -> Case:
    """A number that noise hides in half of all data sets."""
    x = np.clip(rng.normal(0, 0.25, 2000), -1, 1)
    return {"dx": x, "y": 3.2 * x + 0.6 * rng.normal(size=2000)}, {"dx": (-1.0, 1.0), "y": (-4.0, 4.0)}, 0.8, 3.2


def _long_tails(rng: np.random.Generator) -> Case:
    """A large difference of outcomes with exponential tails."""
    dx = rng.integers(0, 2, 2000)
    return {"dx": dx, "y": rng.exponential(size=2000) + 6 * dx}, {"dx": LEVELS, "y": (-1.0, 15.0)}, 6.0, 6.0


@pytest.mark.parametrize(
    ("case", "epsilon", "given"),
    [
        (_far_from_the_middle, 3.0, {"site": "site"}),
        (_slope, 1.0, {}),
        (_hidden, 1.0, {}),
        (_long_tails, 200.0, {}),
    ],
)
def test_intervals_cover(case: Callable[[np.random.Generator], Case], epsilon: float, given: dict[str, Any]) -> None:
    missed, runs = np.zeros(2), 250
    for run in range(runs):
        found = case(np.random.default_rng([run, 41]))
        model = _fit(found, run, outcomes="y", epsilon=epsilon, **given)
        for at, (ends, truth) in enumerate(((model.d_interval_, found[2]), (model.effect_interval_, found[3]))):
            missed[at] += not ends[0, 0] <= truth <= ends[1, 0]
    assert (missed <= binom.ppf(1 - 1e-5, runs, 0.05)).all(), missed


def _different_deviations(n_records: int, rng: np.random.Generator) -> tuple[Case, np.ndarray]:
    deviations = np.array([1.0] * 6 + [0.5, 0.2])
    dx = rng.integers(0, 2, n_records)
    outcomes = deviations * (rng.normal(size=(n_records, 8)) + 0.6 * (dx[:, np.newaxis] - 0.5))
    names = [f"y{at}" for at in range(8)]
    values = {"dx": dx, **dict(zip(names, outcomes.T, strict=True))}
    means = [outcomes[dx == level].mean(axis=0) for level in (0, 1)]
    within = np.sqrt((outcomes - np.where(dx[:, np.newaxis], means[1], means[0])).var(axis=0))
    return (values, {"dx": LEVELS, **dict.fromkeys(names, (-4.0, 4.0))}, 0.6, 0.6), (means[1] - means[0]) / within


def test_outcomes_with_different_deviations_have_their_own() -> None:
    found, d = _different_deviations(5000, np.random.default_rng(42))
    np.testing.assert_allclose(_fit(found, None, MassUnivariate, epsilon=1.0).d_, d, rtol=0.01)


def test_with_noise_too() -> None:
    missed, runs = 0, 80
    for run in range(runs):
        found, _ = _different_deviations(5000, np.random.default_rng([run, 43]))
        low, high = _fit(found, run, MassUnivariate, epsilon=3.0).d_interval_
        # One outcome of each data set: outcomes of one data set depend on each other.
        missed += not low[7] <= 0.6 <= high[7]
    assert missed <= binom.ppf(1 - 1e-5, runs, 0.05), missed


def test_d_of_an_outcome_that_hardly_varies_is_open() -> None:
    """The deviation is 1/1000 of half of the range: all that is said of d is that it is not small."""
    rng = np.random.default_rng(44)
    dx = rng.integers(0, 2, 5000)
    case = {"dx": dx, "y": rng.normal(size=5000) + 0.5 * dx}, {"dx": LEVELS, "y": (-1000.0, 1000.0)}, 0.5, 0.5
    for seed in (None, 1):
        model = _fit(case, seed, outcomes="y", epsilon=100.0)
        low, high = model.d_interval_[:, 0]
        assert low < 0.5
        assert np.isinf(high)
        assert np.isnan(model.d_noise_scale_) == np.isinf(model.standard_errors_)


def test_noise_of_divisors_is_counted_as_fieller_does() -> None:
    """A ratio with a noisy divisor, its product with a deviation, and with the inverse of one. Without records."""
    rng, z, n = np.random.default_rng(45), 1.959964, 4000
    numerator, divisor = 2 + 0.3 * rng.normal(size=n), 1 + 0.2 * rng.normal(size=n)
    clear = divisor > 0.5
    spread = 1 + 0.15 * rng.normal(size=n)
    relative = z * 0.15 / (2 * spread)
    known = of_divisor(z * 0.2 / divisor)
    for factor, reach in (
        (np.ones(n), known),
        (1 / np.sqrt(spread), known & of_deviation(relative)),
        (np.sqrt(spread), known & of_inverse_deviation(relative)),
    ):
        scale = factor / divisor
        low, high = ratio_interval(numerator * scale, z * 0.3 * scale, reach)
        missed = np.sum(clear & ~((low <= 2) & (high >= 2)))
        assert missed <= binom.ppf(1 - 1e-5, n, 0.05), missed / n
