r"""Adjusted contrasts from two releases: a residualiser from the moments of the design, then estimates and tests.

The residual of the contrast, :math:`r = w_s (d - \gamma' x - o_s)`, is free of site and covariates but for the noise of
the first release. The slope is :math:`\sum r y / \sum r d`. What noise leaves of site and covariates in r multiplies
their effects on the outcome; these are unknown, so the variance counts them with an assumed size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from dpcape.core.arrays import FloatArray
from dpcape.statistics.adjusted_products import CONTRAST, DesignMeans, MomentWeights, ProductMeans, length_of_outcomes

# Where noise is small against sampling, rows are shortened less: up to this ratio, and this many standard deviations.
_QUIET, _LONGEST = 0.3, 4.0
# z-score that the product of residual and contrast must reach; below it, no contrast is estimable.
_CLEAR = 4.0
_LEAST_SD = 0.01
# Number of outcomes from which their squared products inform the variances.
_MANY = 10


@dataclass(frozen=True)
class Residualiser:
    """Public numbers that turn records into residuals and standardised outcomes.

    Attributes
    ----------
    coefficients, offsets, site_weights : array
        Of the residual, divided by ``reach``.
    centre, sd : (V,) array
        Means and standard deviations of the outcomes, as places in their ranges.
    variances, variance_errors : (V,) array
        Variances as released, and the standard deviations of their noise.
    reach : float
        Largest residual that is not clipped.
    length : float
        Largest length of standardised outcomes that is not shortened.
    leak : float
        Variance of the sum of residuals times what site and covariates do to an outcome of unit variance.
    n_complete : float
        Complete records, as released.
    contrast_sd : float
        Standard deviation of the contrast.
    contrast_sd_error : float
        Standard deviation of its noise, as a part of it; infinite if noise hides it.
    n_error : float
        Standard deviation of the noise of ``n_complete``, as a part of it.
    """

    coefficients: FloatArray
    offsets: FloatArray
    site_weights: FloatArray
    centre: FloatArray
    sd: FloatArray
    variances: FloatArray
    variance_errors: FloatArray
    reach: float
    length: float
    leak: float
    n_complete: float
    contrast_sd: float
    contrast_sd_error: float = 0.0
    n_error: float = 0.0

    @property
    def scale(self) -> FloatArray:
        """Divisor of centred outcomes; rows of length up to one are then not clipped."""
        return self.sd * self.length


@dataclass(frozen=True)
class Slopes:
    """Slopes of standardised outcomes on the contrast, per coded unit, and their tests.

    Attributes
    ----------
    slope, se : (V,) array
        Estimates and standard errors, without the uncertainty of the standard deviations.
    p : (V,) array
        Two-sided p-values of no effect.
    noise_part : float
        Part of the variance that is noise of privacy, on average.
    noise : (V,) array
        Standard deviations of the noise of privacy in the slopes, what it leaves of site and covariates included; NaN
        where nothing is known.
    relative : float
        Standard deviation of the noise of what slopes are divided by, as a part of it; infinite where nothing is known.
    """

    slope: FloatArray
    se: FloatArray
    p: FloatArray
    noise_part: float
    noise: FloatArray
    relative: float = 0.0


@dataclass(frozen=True)
class _Sites:
    """Means of the design by site, and what noise does to them."""

    sizes: FloatArray
    means: FloatArray
    is_there: FloatArray


def residualiser_of(
    sums: DesignMeans, weights: MomentWeights, *, noise: float, next_noise: float, is_binary: bool, assumed: float
) -> Residualiser:
    """Return the residualiser that follows from the moments of a design.

    Parameters
    ----------
    sums : DesignMeans
        Sums over all records.
    weights : MomentWeights
        Weights with which they were released.
    noise : float
        Standard deviation of the noise of the packed sums.
    next_noise : float
        The same of the release that follows.
    is_binary : bool
        Whether the contrast is a category of two levels.
    assumed : float
        Assumed effects of site and covariates on an outcome, in its standard deviations.
    """
    n_complete, n_error = _number(sums, weights, noise, is_binary=is_binary)
    sites = _sites(sums, noise / weights.counts)
    of_sum, of_count = noise / weights.sums, noise / weights.counts
    within = sums.products - (sites.sizes * sites.means.T) @ sites.means
    within += np.eye(len(within)) * float(np.sum(of_sum**2 / sites.sizes * sites.is_there))
    direction, residual_products = _direction(within, _moment_noise(sites, noise, of_sum))
    variance = min(max(float(direction @ within @ direction) / n_complete, 0.02), 4.0)
    projected = sites.means @ direction
    leaks = of_sum**2 * float(direction @ direction) + (projected * of_count) ** 2
    leaks = assumed**2 * leaks
    least = float(length_of_outcomes(sums.outcomes.size))
    reach, site_weights = _reach(sites, variance, leaks, next_noise * least, is_binary=is_binary)
    quiet = _QUIET * math.sqrt(n_complete * variance) / max(next_noise * reach, 1e-300)
    length = min(max(quiet, least), _LONGEST * math.sqrt(sums.outcomes.size) + 1.5)
    gamma = -direction[1:]
    of_covariates = math.sqrt(max(float(gamma @ within[1:, 1:] @ gamma) / n_complete, 0.0))
    reach += min(max(1.5 * quiet / least, 1.5), 3.0) * of_covariates
    covariates = float(np.sum(residual_products**2 + _leak_of_slopes(sites, direction, noise, of_sum)))
    # Products of residual and covariates are sums over records, with the weights of their sites.
    mean_weight = float(site_weights @ sites.sizes) / float(sites.sizes.sum())
    leak = (float(np.sum(site_weights**2 * leaks)) + (assumed * mean_weight) ** 2 * covariates) / reach**2
    centre, variances, errors = _outcomes(sums, weights, noise, n_complete)
    sd, _ = standard_deviations(variances, errors)
    contrast_sd, contrast_sd_error = _contrast_sd(sums, of_sum, noise, (n_complete, n_error), is_binary=is_binary)
    return Residualiser(
        coefficients=direction / reach,
        offsets=projected / reach,
        site_weights=site_weights,
        centre=centre,
        sd=sd,
        variances=variances,
        variance_errors=errors,
        reach=reach,
        length=length,
        leak=leak,
        n_complete=n_complete,
        contrast_sd=contrast_sd,
        contrast_sd_error=contrast_sd_error,
        n_error=n_error,
    )


def _number(sums: DesignMeans, weights: MomentWeights, noise: float, *, is_binary: bool) -> tuple[float, float]:
    """Return the number of complete records, and the standard deviation of its noise as a part of it."""
    n_complete, variance = float(sums.counts.sum()), len(sums.counts) * (noise / weights.counts) ** 2
    if is_binary and noise > 0:
        # A contrast of two levels is -1 or 1: its squares count records too, with the noise of one number.
        share = variance / (variance + noise**2)
        n_complete, variance = n_complete + share * (float(sums.products[0, 0]) - n_complete), share * noise**2
    n_complete = max(n_complete, 1.0)
    return n_complete, math.sqrt(variance) / n_complete


def _contrast_sd(
    sums: DesignMeans, of_sum: float, noise: float, number: tuple[float, float], *, is_binary: bool
) -> tuple[float, float]:
    """Return the standard deviation of the contrast and that of its noise, as a part of it."""
    n_complete, n_error = number
    mean = min(max(float(sums.sums[:, 0].sum()) / n_complete, -1.0), 1.0)
    of_mean = of_sum * math.sqrt(len(sums.counts)) / n_complete
    if is_binary:
        variance, error = 1 - mean**2, 2 * abs(mean) * math.hypot(of_mean, mean * n_error)
    else:
        variance = float(sums.products[0, 0]) / n_complete - mean**2
        error = math.hypot(noise / n_complete, 2 * mean * of_mean, (mean**2 - variance) * n_error)
    bounded = min(max(variance, _LEAST_SD**2), 1.0)
    is_known = is_binary or variance >= _LEAST_SD**2
    return math.sqrt(bounded), error / (2 * bounded) if is_known else math.inf


def _sites(sums: DesignMeans, count_noise: float) -> _Sites:
    """Return sizes and means of sites; a site that noise hides is left out."""
    sizes = np.maximum(sums.counts, max(2 * count_noise, 1.0))
    is_there = (sums.counts >= max(2 * count_noise, 2.0)).astype(np.float64)
    means = np.clip(sums.sums / sizes[:, np.newaxis], -1.0, 1.0)
    return _Sites(sizes, means, is_there)


def _moment_noise(sites: _Sites, noise: float, of_sum: float) -> float:
    """Return the standard deviation of the noise of an entry of the within-site products, at most."""
    squares = float(np.max((sites.means**2).sum(axis=0), initial=0.0))
    variance = noise**2 + 2 * of_sum**2 * squares + 2 * float(np.sum(of_sum**4 / sites.sizes**2))
    return math.sqrt(variance)


def _direction(within: FloatArray, noise: float) -> tuple[FloatArray, FloatArray]:
    """Return (1, -gamma), and the products of residual and covariates that are left because gamma is shrunk."""
    covariates, crossed = within[1:, 1:], within[1:, 0]
    if not len(crossed):
        return np.ones(1), np.zeros(0)
    values, vectors = np.linalg.eigh(covariates)
    shrunk = np.maximum(values, 0.0) / (np.maximum(values, 0.0) ** 2 + noise**2 + 1e-300)
    gamma = vectors @ (shrunk * (vectors.T @ crossed))
    return np.concatenate([[1.0], -gamma]), crossed - covariates @ gamma


def _leak_of_slopes(sites: _Sites, direction: FloatArray, noise: float, of_sum: float) -> FloatArray:
    """Return the variances of the products of residual and covariates that noise causes."""
    projected, length = sites.means @ direction, float(direction @ direction)
    from_means = np.sum(projected**2) + length * (sites.means[:, 1:] ** 2).sum(axis=0)
    twice = 2 * length * float(np.sum(of_sum**4 / sites.sizes**2))
    variances: FloatArray = noise**2 * length + of_sum**2 * from_means + twice
    return variances


def _reach(
    sites: _Sites, variance: float, leaks: FloatArray, noise: float, *, is_binary: bool
) -> tuple[float, FloatArray]:
    """Return the reach of residuals but for covariates, and weights of sites with which no residual is longer.

    Both minimise the expected variance of a slope: sites in which the contrast is rare have long residuals, and noise
    is in proportion to the longest.
    """
    means = sites.means[:, 0]
    longest = 1 + np.abs(means) if is_binary else np.full(len(means), min(4 * math.sqrt(variance), 2.0))
    informative = sites.sizes * variance
    best = sites.is_there * informative / (informative + leaks)
    options: list[tuple[float, float, FloatArray]] = []
    for reach in np.unique(np.concatenate([longest * best, [float((longest * best).max())]])):
        if reach <= 0:
            continue
        weights = np.minimum(best, reach / longest)
        spread = float(np.sum(weights**2 * (informative + leaks))) + (noise * reach) ** 2
        options.append((spread / float(weights @ informative) ** 2, float(reach), weights))
    if not options:
        return 1.0, best
    _, reach, weights = min(options, key=lambda entry: entry[0])
    return reach, weights


def _outcomes(
    sums: DesignMeans, weights: MomentWeights, noise: float, n_complete: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return means and variances of the outcomes as released, and the standard deviations of the latter's noise."""
    of_mean, of_square = noise / weights.outcomes / n_complete, noise / weights.squares / n_complete
    centre = np.clip(sums.outcomes / n_complete, -1.0, 1.0)
    variances = sums.squares / n_complete - centre**2 + of_mean**2
    return centre, variances, np.hypot(of_square, 2 * np.abs(centre) * of_mean)


def standard_deviations(variances: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return standard deviations from variances with noise, and their relative errors."""
    estimates, spread = shrunk_to_middle(variances, errors)
    # Values scaled to [-1, 1] have a variance of at most 1.
    bounded = np.clip(estimates, _LEAST_SD**2, 1.0)
    # Below the smallest variance, the relative error is at least 1.
    return np.sqrt(bounded), np.maximum(spread / (2 * bounded), np.where(estimates < bounded, 1.0, 0.0))


def shrunk_to_middle(values: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return positive values shrunk to their median as far as noise explains their spread, and their errors.

    None is moved by more than its own error, so that one that differs from the others stays different (limited
    translation: B. Efron and C. Morris, 1972). What noise may have made small is raised to its error.
    """
    if len(values) < 3:
        return np.maximum(values, errors), errors
    middle = max(float(np.median(values)), 0.0)
    middle_error = 1.2533 * float(np.mean(errors)) / math.sqrt(len(values))
    middle = max(middle, middle_error)
    spread = float(np.mean((values - middle) ** 2))
    own_weight = np.clip(1 - errors**2 / max(spread, 1e-300), 0.0, 1.0)
    wanted = (1 - own_weight) * (middle - values)
    moved = np.clip(wanted, -errors, errors)
    estimates = np.maximum(values + moved, np.minimum(middle / 2, errors))
    # The part shrunk away differs from the median as much as the spread that noise does not explain.
    own = np.maximum(spread - errors**2, 0.0)
    squared = own_weight**2 * errors**2 + (1 - own_weight) ** 2 * (own + middle_error**2)
    # A value whose shrinkage was limited keeps its own noise; the farther out it is, the less the others inform it.
    beyond = np.clip(np.abs(wanted) - errors, 0.0, errors)
    return estimates, np.where(beyond > 0, np.hypot(errors, beyond), np.sqrt(squared))


def slopes_of(sums: ProductMeans, fitted: Residualiser, *, noise: float) -> Slopes:
    """Return slopes and tests from the products of residuals.

    Parameters
    ----------
    sums : ProductMeans
        Sums over all records.
    fitted : Residualiser
        What turned records into residuals.
    noise : float
        Standard deviation of the noise of the packed sums.
    """
    products = sums.products * fitted.length
    squares, errors = shrunk_to_middle(sums.squares, np.full(len(products), noise * math.sqrt(2)))
    # Add one standard error: a variance that is too small by chance would turn noise into findings.
    sampling = (squares + errors) * fitted.length**2
    of_noise = (noise * fitted.length) ** 2
    variance = sampling + of_noise + fitted.leak
    contrast, contrast_error = sums.contrast, noise / CONTRAST
    if contrast < _CLEAR * contrast_error or contrast <= 0:
        nothing = np.zeros(len(products))
        return Slopes(
            nothing, nothing + math.inf, nothing + 1.0, noise_part=1.0, noise=nothing + math.nan, relative=math.inf
        )
    slope = products / contrast
    se = np.sqrt(variance + (slope * contrast_error) ** 2) / contrast
    p_values = 2 * ndtr(-np.abs(products) / np.sqrt(variance))
    part = float(np.mean((of_noise + fitted.leak) / variance))
    own = np.sqrt(of_noise + fitted.leak + (slope * contrast_error) ** 2) / contrast
    return Slopes(slope, se, p_values, noise_part=part, noise=own, relative=contrast_error / contrast)


def refined_deviations(sums: ProductMeans, fitted: Residualiser, *, noise: float) -> tuple[FloatArray, FloatArray]:
    """Return standard deviations of the outcomes from both releases, and their relative errors.

    The squared products are in proportion to the variances, by a factor that is the same for all outcomes.
    """
    middle = float(np.median(sums.squares))
    if len(sums.squares) < _MANY or noise == 0 or middle < 4 * noise:
        deviations, error = standard_deviations(fitted.variances, fitted.variance_errors)
    else:
        again = fitted.sd**2 * sums.squares / middle
        errors = fitted.sd**2 * (noise * math.sqrt(2) / middle)
        first, second = fitted.variance_errors**-2.0, errors**-2.0
        combined = (first * fitted.variances + second * again) / (first + second)
        deviations, error = standard_deviations(combined, (first + second) ** -0.5)
    # Noise in the record count scales every variance; the error grows with the squared distance of the mean from
    # mid-range.
    of_number = np.abs(fitted.centre**2 - deviations**2) * fitted.n_error
    return deviations, np.hypot(error, of_number / (2 * deviations**2))


def false_discovery_rates(p_values: FloatArray) -> FloatArray:
    """Return the smallest rates of false discoveries at which each hypothesis is rejected (Benjamini & Hochberg)."""
    order = np.argsort(p_values)
    raised = p_values[order] * len(p_values) / np.arange(1, len(p_values) + 1)
    rates = np.empty(len(p_values))
    rates[order] = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0)
    return rates
