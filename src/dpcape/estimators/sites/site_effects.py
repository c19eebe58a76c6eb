"""Location and scale of every site from noisy moments, shrunk as far as noise and sampling explain their spread."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.statistics.site_moments import WEIGHT, SiteMeans

_LEAST_SD = 0.01
# The remaining difference is estimated as if sites differed equally in all directions and no row had been clipped.
# Neither holds: on real connectivity data the estimate was exceeded by up to 1.6 times.
_CAUTION = 2.0
# Noise of a site's mean, in standard deviations of a column, up to which rows are shortened less.
_QUIET = 0.05
# A column is hidden by noise if its variance, relative to the median of all columns, is below the first number; this is
# judged only if the noise of that variance is below the second.
_TOO_LITTLE, _JUDGED = 0.25, 0.2
# Plausible range of the ratio of standard deviations.
_NARROWEST, _WIDEST = 0.5, 2.0


@dataclass(frozen=True)
class SiteEffects:
    """How sites differ, in standard deviations of a column.

    Attributes
    ----------
    location : (S, V) array
        What a site's values are too large by.
    ratio : (S, V) array
        Standard deviation at a site over that of all sites.
    kept : (S,) array
        Part of a site's mean that is not explained by noise and sampling.
    sizes : (S,) array
        Complete records, as released.
    before, left : float
        Variance between sites before harmonisation, and an upper limit of it afterwards, over that within sites; the
        mean over the columns that are not hidden.
    is_hidden : (V,) array of bool
        Columns that vary so little, within their ranges, that noise would add more than it takes away. They stay as
        they are.
    """

    location: FloatArray
    ratio: FloatArray
    kept: FloatArray
    sizes: FloatArray
    before: float
    left: float
    is_hidden: BoolArray


def length_of_rows(n_columns: int, records_per_site: float, noise: float) -> float:
    """Return the length, in standard deviations, to which rows are shortened: longer where there is little noise.

    Parameters
    ----------
    n_columns : int
        Entries of a row.
    records_per_site : float
        Mean number of records of a site.
    noise : float
        Standard deviation of the noise of the packed sums.
    """
    unit = math.sqrt(n_columns)
    quiet = _QUIET * records_per_site / max(noise, 1e-300)
    return min(max(quiet, unit + 1.0), 2 * unit + 1.5)


def pooled_columns(sums: SiteMeans, *, noise: float) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of columns from sums of places over their number's square root.

    Parameters
    ----------
    sums : SiteMeans
        Sums over all records, of rows divided by the square root of their number of columns.
    noise : float
        Standard deviation of the noise of the packed sums.
    """
    n_columns, n_records = sums.sums.shape[1], max(float(sums.counts[0]), 1.0)
    unit = math.sqrt(n_columns)
    centre = np.clip(sums.sums[0] * unit / n_records, -1.0, 1.0)
    of_mean, of_square = noise * unit / n_records, noise * n_columns / WEIGHT / n_records
    variances = sums.squares[0] * n_columns / n_records - centre**2 + of_mean**2
    errors = np.hypot(of_square, 2 * np.abs(centre) * of_mean)
    middle = max(float(np.median(variances)), float(errors.mean()) / unit, _LEAST_SD**2)
    spread = max(float(np.mean((variances - middle) ** 2)), 1e-300)
    shrinkage = np.clip(1 - errors**2 / spread, 0.0, 1.0)
    shrunk = np.maximum(middle + shrinkage * (variances - middle), middle / 4)
    return centre, np.sqrt(shrunk)


def site_effects(sums: SiteMeans, *, length: float, noise: float, scale: bool) -> SiteEffects:
    """Return how sites differ.

    Parameters
    ----------
    sums : SiteMeans
        Sums over all records of rows divided by their standard deviations and ``length``.
    length : float
        Length to which rows were shortened, in standard deviations.
    noise : float
        Standard deviation of the noise of the packed sums.
    scale : bool
        Whether standard deviations of sites may differ.
    """
    least = max(2 * noise / WEIGHT, 2.0)
    sizes = np.maximum(sums.counts, least)
    is_there = sums.counts >= least
    means = sums.sums * length / sizes[:, np.newaxis]
    # Relative to the mean of the sites, not of the records, which a large site would pull towards itself.
    apart = means - is_there @ means / max(int(is_there.sum()), 1)
    is_hidden = _hidden_columns(sums, means, sizes, is_there, length=length, noise=noise)
    if is_hidden.any():
        return _of_other_columns(sums, is_hidden, length=length, noise=noise, scale=scale)
    within = _within(sums, means, sizes, is_there, length)
    errors = (noise * length / sizes) ** 2 + within / sizes
    before = _between(apart, errors, is_there)
    location = _location(apart, errors, is_there, before)
    # The mean of all records stays as it is.
    location -= np.outer(is_there, (sizes * is_there) @ location / max(float(sizes @ is_there), 1.0))
    risk = _risk(before, errors, sizes, is_there)
    left = _CAUTION * risk
    kept = is_there * before / np.maximum(before + errors, 1e-300)
    ratio = np.ones_like(location)
    if risk >= before:
        # Correcting would add more noise than it removes differences: leave records unchanged.
        location, kept = np.zeros_like(location), np.zeros(len(kept))
        return SiteEffects(location, ratio, kept, sums.counts, before / within, left / within, is_hidden)
    if scale:
        ratio = _ratios(sums, means, sizes, is_there, noise, length, within)
    return SiteEffects(location, ratio, kept, sums.counts, before / within, left / within, is_hidden)


def _hidden_columns(
    sums: SiteMeans, means: FloatArray, sizes: FloatArray, is_there: BoolArray, *, length: float, noise: float
) -> BoolArray:
    """Tell which columns clearly vary far less than they were taken to, compared with the others."""
    count = max(float(sizes @ is_there), 1.0)
    squares = (sums.squares[is_there] * length**2).sum(axis=0)
    # Noise makes squares of means larger by its own variance.
    of_means = (sizes[is_there, np.newaxis] * means[is_there] ** 2).sum(axis=0)
    of_means -= float(np.sum((noise * length) ** 2 / sizes[is_there]))
    of_squares = noise / WEIGHT * length**2 * math.sqrt(is_there.sum())
    lengths = np.linalg.norm(means[is_there], axis=0)
    own, error = (squares - of_means) / count, np.hypot(of_squares, 2 * noise * length * lengths) / count
    typical = float(np.median(own))
    is_hidden: BoolArray = (error < _JUDGED * typical) & (own + error / 2 < _TOO_LITTLE * typical)
    return is_hidden


def _of_other_columns(
    sums: SiteMeans, is_hidden: BoolArray, *, length: float, noise: float, scale: bool
) -> SiteEffects:
    """Return how sites differ in the columns that are not hidden; in the others nothing is changed."""
    clear = np.flatnonzero(~is_hidden)
    chosen = SiteMeans(sums.counts, sums.sums[:, clear], sums.squares[:, clear])
    effects = site_effects(chosen, length=length, noise=noise, scale=scale)
    location, ratio = np.zeros(sums.sums.shape), np.ones(sums.sums.shape)
    location[:, clear], ratio[:, clear] = effects.location, effects.ratio
    hidden = is_hidden.copy()
    hidden[clear] = effects.is_hidden
    return replace(effects, location=location, ratio=ratio, is_hidden=hidden)


def _within(sums: SiteMeans, means: FloatArray, sizes: FloatArray, is_there: BoolArray, length: float) -> float:
    """Return the mean variance within sites."""
    squares = float((sums.squares[is_there] * length**2).sum())
    centred = squares - float((sizes[is_there, np.newaxis] * means[is_there] ** 2).sum())
    count = max(float(sizes @ is_there), 1.0) * means.shape[1]
    variance: float = min(max(centred / count, 0.1), 2.0)
    return variance


def _between(apart: FloatArray, errors: FloatArray, is_there: BoolArray) -> float:
    """Return the variance between sites, the mean over columns."""
    n_sites = int(is_there.sum())
    if n_sites < 2:
        return 0.0
    per_site = (apart**2).mean(axis=1) * n_sites / (n_sites - 1) - errors
    # Squared distances also vary with the between-site variance, so that no single site dominates.
    first = max(float(np.average(per_site, weights=is_there)), 0.0)
    return max(float(np.average(per_site, weights=is_there / (first + errors) ** 2)), 0.0)


def _risk(before: float, errors: FloatArray, sizes: FloatArray, is_there: BoolArray) -> float:
    """Return the variance left between sites, for an upper limit of what it was (as if all columns were one)."""
    freedom = max(int(is_there.sum()) - 1, 1)
    error = float(np.average(errors, weights=sizes))
    upper = before + 1.645 * math.sqrt(2 / freedom) * (before + error)
    per_site = np.where(is_there, upper * errors / np.maximum(upper + errors, 1e-300), upper)
    return float(np.average(per_site, weights=sizes))


def _location(apart: FloatArray, errors: FloatArray, is_there: BoolArray, before: float) -> FloatArray:
    """Return the distances of the sites, shrunk along every direction by its share of noise and sampling."""
    directions, variances, remainder = _directions(apart, errors, is_there, before)
    column, there = errors[:, np.newaxis], is_there[:, np.newaxis]
    shared = remainder / np.maximum(remainder + column, 1e-300) * there
    parts = variances / np.maximum(variances + column, 1e-300) * there
    # Directions without a variance of their own share one factor, so they need not be computed.
    location: FloatArray = shared * apart + (apart @ directions * (parts - shared)) @ directions.T
    return location


def _directions(
    apart: FloatArray, errors: FloatArray, is_there: BoolArray, before: float
) -> tuple[FloatArray, FloatArray, float]:
    """Return the directions with a variance between sites of their own, these variances, and that of the others.

    Sites differ along few directions, in which many columns go together. A direction counts with its own variance if
    it is above what noise and sampling reach in as many columns; the others share what is left.
    """
    n_sites, n_columns = int(is_there.sum()), apart.shape[1]
    if n_sites < 2:
        return np.empty((n_columns, 0)), np.empty(0), before
    error = float(np.mean(errors[is_there]))
    # Weighted so that the distances of all sites have the same variance: else the largest site alone gives a direction.
    weights = (before + error) / (before + errors[is_there])
    equal = apart[is_there] * np.sqrt(weights)[:, np.newaxis]
    _, lengths, vectors = np.linalg.svd(equal, full_matrices=False)
    values = lengths**2 / (n_sites - 1)
    shrink = float(np.mean(weights))
    reached = error * (1 + math.sqrt(n_columns / (n_sites - 1))) ** 2
    own = np.where(values > reached, values - error * (1 + n_columns / (n_sites - 1)), 0.0) / shrink
    has_own = own > 0
    remainder = max(before * n_columns - float(own.sum()), 0.0) / max(n_columns - int(has_own.sum()), 1)
    return vectors[has_own].T, np.maximum(own[has_own], remainder), remainder


def _ratios(
    sums: SiteMeans,
    means: FloatArray,
    sizes: FloatArray,
    is_there: BoolArray,
    noise: float,
    length: float,
    within: float,
) -> FloatArray:
    """Return ratios of standard deviations: shrunk to one for a whole site, and to the site's for each column."""
    n_columns = means.shape[1]
    column = sizes[:, np.newaxis]
    variances = np.clip(sums.squares * length**2 / column - means**2, 0.0, 10.0) / within
    errors = (noise / WEIGHT * length**2 / sizes / within) ** 2 + 2 / sizes
    of_site = variances.mean(axis=1) - 1
    error_of_site = errors / n_columns + 1 / sizes
    spread = max(float(np.average(of_site**2 - error_of_site, weights=is_there + 1e-300)), 0.0)
    sited = of_site * spread / np.maximum(spread + error_of_site, 1e-300)
    beyond = variances - variances.mean(axis=1, keepdims=True)
    extra = max(float(np.average((beyond**2).mean(axis=1) - errors, weights=is_there + 1e-300)), 0.0)
    own = beyond * (extra / np.maximum(extra + errors, 1e-300))[:, np.newaxis]
    squared = np.where(is_there[:, np.newaxis], 1 + sited[:, np.newaxis] + own, 1.0)
    return np.clip(np.sqrt(np.maximum(squared, 0.0)), _NARROWEST, _WIDEST)
