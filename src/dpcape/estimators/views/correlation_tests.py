"""Correlations from a released covariance, with intervals and tests.

A correlation is r = S_jk / sqrt(S_jj S_kk). Its error follows from those of the three entries: noise of standard
deviation s on the diagonal of S and s / sqrt(2) off it, noise of the mean that was subtracted, and sampling. Where
noise is more than a quarter of a column's variance nothing is known about its correlations: their interval is [-1, 1].

Sampling errors of columns that are 1 for the records of a level and else 0 follow from the share of these records: two
such columns and their correlation are a table of two by two, of which the variance of phi is known; a level and a
number have the variance of a point-biserial correlation (Tate 1954), counted twice as for two numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.postprocessing.component_tests import MomentNoise

CLIPPING = 0.01
"""By how much rows that were clipped may make unrelated columns correlate.

Clipping a row by its length couples columns that are skewed. Independent exponential and log-normal columns correlate
by at most 0.006 if 2% of the rows are clipped (docs/analyses/correlation.md); intervals are wider by more than that.
"""

# The sampling variance of r is (1 - r^2)^2 / N for normal rows, and up to so many times that where the lengths of rows
# vary as in a multivariate t distribution with five degrees of freedom, clipped.
_SAMPLING = 2.0
# Noise of a variance, as a share of it, up to which correlations of the column are known.
_MOST_NOISE = 0.25
# The variance of a level is released with noise; errors are computed for one that is smaller by as much.
_LEAST_VARIANCE = 1 - _MOST_NOISE


@dataclass(frozen=True)
class Correlations:
    """Correlations of all pairs of columns.

    Attributes
    ----------
    values : array of shape (D, D)
        Correlations; 0 where nothing is known.
    errors : array of shape (D, D)
        Their standard errors, of noise and sampling; infinite where nothing is known, 0 on the diagonal.
    noise : array of shape (D, D)
        Standard deviations of the noise alone, to first order; NaN where nothing is known, 0 on the diagonal.
    """

    values: FloatArray
    errors: FloatArray
    noise: FloatArray

    def interval(self, confidence: float) -> FloatArray:
        """Return lower and upper ends, (2, D, D); -1 and 1 where a correlation is not estimable."""
        reach = float(ndtri((1 + confidence) / 2)) * self.errors + CLIPPING * ~np.eye(len(self.values), dtype=bool)
        return np.clip(np.stack([self.values - reach, self.values + reach]), -1.0, 1.0)

    def p_values(self) -> FloatArray:
        """Return the p-value of "no correlation" for every pair, allowing for clipping; 0 on the diagonal."""
        distance = np.maximum(np.abs(self.values) - CLIPPING, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            p_values: FloatArray = 2 * ndtr(-np.where(self.errors > 0, distance / self.errors, np.inf))
        return p_values


def correlations_of(
    covariance: FloatArray, noise: MomentNoise, shares: FloatArray | None = None, *, tails: float = 1.0
) -> Correlations:
    """Return the correlations of a released covariance.

    Parameters
    ----------
    covariance : array of shape (D, D)
        Released second moment minus the outer product of the released mean.
    noise : MomentNoise
        Its noise, and the number of records.
    shares : array of shape (D,) or None
        Share of the records of a level, for columns that are levels; NaN for numbers. None for numbers alone.
    tails : float
        How much more products of columns vary than those of normal rows, by the released lengths of rows.
    """
    # The square of the noise of the mean was subtracted too.
    variances = np.diag(covariance) + noise.mean_scale**2
    spread = np.sqrt(noise.scale**2 + 4 * noise.mean**2 * noise.mean_scale**2 + 2 * noise.mean_scale**4)
    known = variances > np.maximum(spread / _MOST_NOISE, 1e-300)
    scales = np.sqrt(np.where(known, variances, 1.0))
    values = np.clip(covariance / np.outer(scales, scales), -1.0, 1.0)
    added = _added(values, scales, spread, noise)
    sampled = sampling_variance(values, np.full(len(values), np.nan) if shares is None else shares)
    sampled = sampled * max(tails / _SAMPLING, 1.0)
    return _with_unknown(values, np.sqrt(added + sampled * noise.record_share), np.sqrt(added), known)


def sampling_variance(values: FloatArray, shares: FloatArray) -> FloatArray:
    """Return N times the sampling variance of correlations that is allowed for.

    Parameters
    ----------
    values : array of shape (D, D)
        Correlations.
    shares : array of shape (D,)
        Share of the records of a level, for columns that are levels; NaN for numbers.
    """
    of_numbers = _SAMPLING * (1 - values**2) ** 2
    is_level = ~np.isnan(shares)
    if not is_level.any():
        return of_numbers
    inside = np.clip(np.where(is_level, shares, 0.5), 1e-9, 1 - 1e-9)
    variances = inside * (1 - inside)
    least = _LEAST_VARIANCE * np.where(is_level, variances, np.inf)[:, np.newaxis]
    mixed = of_numbers * np.maximum(1 - 1.5 * values**2 + values**2 / (4 * np.minimum(least, least.T)), 1.0)
    lopsided = (2 * inside - 1) / np.sqrt(variances)
    of_levels = np.maximum(_of_phi(values, lopsided), _of_phi(values, lopsided / np.sqrt(_LEAST_VARIANCE)))
    return np.where(np.outer(is_level, is_level), np.maximum(of_levels, of_numbers), mixed)


def _of_phi(values: FloatArray, lopsided: FloatArray) -> FloatArray:
    """Return N times the variance of phi, for (p - q) / sqrt(p q) of each column (Bishop, Fienberg & Holland 1975)."""
    crossed = values * (1 + values**2 / 2) * np.outer(lopsided, lopsided)
    return 1 - values**2 + crossed - 0.75 * values**2 * np.add.outer(lopsided**2, lopsided**2)


def _added(values: FloatArray, scales: FloatArray, spread: FloatArray, noise: MomentNoise) -> FloatArray:
    """Return the variances that noise gives correlations, by the delta method."""
    means = np.add.outer(noise.mean**2, noise.mean**2)
    crossed = noise.scale**2 / 2 + noise.mean_scale**4 + means * noise.mean_scale**2
    relative = (spread / scales**2) ** 2
    return crossed / np.outer(scales, scales) ** 2 + values**2 / 4 * np.add.outer(relative, relative)


def _with_unknown(values: FloatArray, errors: FloatArray, noise: FloatArray, known: BoolArray) -> Correlations:
    pairs = np.outer(known, known)
    values, errors = np.where(pairs, values, 0.0), np.where(pairs, errors, np.inf)
    noise = np.where(pairs, noise, np.nan)
    np.fill_diagonal(values, 1.0)
    np.fill_diagonal(errors, 0.0)
    np.fill_diagonal(noise, 0.0)
    return Correlations(values, errors, noise)


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values of several tests such that one at most 0.05 is wrong in at most 5% of studies (Holm 1979)."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.minimum(1.0, np.maximum.accumulate(factors * p_values[order]))
    in_order: FloatArray = np.empty_like(adjusted)
    in_order[order] = adjusted
    return in_order
