"""Statistical tests of noise. Each returns a p-value; a test suite compares it with ALPHA.

A true hypothesis is rejected with probability ALPHA per test. Teeth are tested in test_distribution.py: with
50 000 draws or more, every rejection of a scale that is wrong by a factor 0.9 or 1.1 is certain in practice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

ALPHA = 1e-6


def variance_p_value(draws: NDArray[np.int64], scale: float) -> float:
    """Two-sided chi-square test of the second moment about zero."""
    statistic = float(np.sum((draws / scale) ** 2))
    law = stats.chi2(draws.size)
    return float(2.0 * min(law.cdf(statistic), law.sf(statistic), 0.5))


def mean_p_value(draws: NDArray[np.int64], scale: float) -> float:
    """Two-sided test that the mean is zero."""
    return float(2.0 * stats.norm.sf(abs(float(np.mean(draws / scale))) * np.sqrt(draws.size)))


def shape_p_value(draws: NDArray[np.int64], scale: float) -> float:
    """Kolmogorov-Smirnov test against the normal law, for scales of a thousand steps or more."""
    return float(stats.kstest(draws / scale, "norm").pvalue)


def counts_p_value(draws: NDArray[np.int64], scale: float) -> float:
    """Chi-square test of the frequency of every integer against the exact law; rare integers are pooled."""
    reach = int(np.ceil(12 * scale))
    support = np.arange(-reach, reach + 1)
    law = np.exp(-0.5 * (support / scale) ** 2)
    expected = draws.size * law / law.sum()
    observed = np.bincount(np.clip(draws, -reach, reach) + reach, minlength=support.size)
    common = expected >= 20.0
    expected = np.append(expected[common], expected[~common].sum())
    observed = np.append(observed[common], observed[~common].sum())
    return float(stats.chisquare(observed, expected).pvalue)


def correlation_p_value(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """Two-sided test that two samples drawn side by side are uncorrelated."""
    correlation = float(np.corrcoef(first, second)[0, 1])
    return float(2.0 * stats.norm.sf(abs(correlation) * np.sqrt(first.size)))


def low_bits_p_value(draws: NDArray[np.int64], n_bits: int) -> float:
    """Chi-square test that the lowest bits are uniform, as they are on a fine grid."""
    return float(stats.chisquare(np.bincount(draws & ((1 << n_bits) - 1), minlength=1 << n_bits)).pvalue)


def gaussian_p_value(draws: NDArray[np.int64], scale: float) -> float:
    """Smallest p-value of mean, variance and shape, multiplied by three."""
    shape = shape_p_value if scale >= 1000.0 else counts_p_value
    values = (mean_p_value(draws, scale), variance_p_value(draws, scale), shape(draws, scale))
    return min(1.0, 3.0 * min(values))
