"""Covariances within sites, from moments and noisy means by site."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.statistics.moments import SITE_WEIGHT, MomentsBySite

# z-score from which a site's count of valid records is taken to be below its number of records.
_CLEARLY = 4.0
# z-score above the expected effect of noise from which sites are taken to differ.
_UNLIKELY = 2.0


@dataclass(frozen=True)
class SiteNoise:
    """What noise in the means of sites adds to a covariance: the sum over sites of -t e' - e t' - e e' + v I.

    Attributes
    ----------
    rows : (S, D) array
        The means t, times the square root of each site's share of the records.
    scales : (S,) array
        Standard deviations of the entries of e; v is their square.
    """

    rows: FloatArray
    scales: FloatArray

    def scaled(self, unit: float) -> SiteNoise:
        """Return the same for rows that are ``unit`` times as long."""
        return SiteNoise(self.rows * unit, self.scales * unit)

    def towards(self, directions: FloatArray) -> SiteNoise:
        """Return the same within some directions, orthonormal columns."""
        return SiteNoise(self.rows @ directions, self.scales)

    @property
    def variance(self) -> float:
        """Variance of an entry of the diagonal, on average over directions."""
        squares = self.scales**2
        return float(4 * (self.rows**2).mean(axis=1) @ squares + 2 * (squares**2).sum())

    def errors(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Return draws of e, (count, S, D)."""
        return generator.standard_normal((count, *self.rows.shape)) * self.scales[:, np.newaxis]

    def matrices(self, generator: np.random.Generator, count: int) -> FloatArray:
        """Return draws of the sum, (count, D, D)."""
        errors = self.errors(generator, count)
        crossed = self.rows.T @ errors
        sums = -crossed - crossed.swapaxes(1, 2) - errors.swapaxes(1, 2) @ errors
        at = np.arange(self.rows.shape[1])
        sums[:, at, at] += float((self.scales**2).sum())
        return np.asarray(sums)

    def largest(self, generator: np.random.Generator, count: int, sign: float) -> tuple[FloatArray, FloatArray]:
        """Return draws of the largest eigenvalue of the sum times ``sign``, and of the mean of all eigenvalues."""
        n_sites, size = self.rows.shape
        errors = self.errors(generator, count)
        shift = float((self.scales**2).sum())
        traces = -2 * np.einsum("sd,nsd->n", self.rows, errors) - np.einsum("nsd,nsd->n", errors, errors)
        averages: FloatArray = sign * (traces / size + shift)
        # Without v I the sum is A K A', A with the rows t and e as columns: of low rank, if there are few sites.
        both = np.concatenate([np.broadcast_to(self.rows, errors.shape), errors], axis=1).swapaxes(1, 2)
        small = np.asarray(np.linalg.qr(both, mode="r"))
        inner = np.kron(np.array([[0.0, -1.0], [-1.0, -1.0]]), np.eye(n_sites))
        tops = np.linalg.eigvalsh(sign * (small @ inner @ small.swapaxes(1, 2)))[:, -1]
        if 2 * n_sites < size:
            tops = np.maximum(tops, 0.0)
        return np.asarray(tops + sign * shift), averages


@dataclass(frozen=True)
class WithinSites:
    """Moments of rows minus the mean of their site.

    Attributes
    ----------
    covariance : (D, D) array
        Mean over sites, by their numbers of records.
    mean : (D,) array
        Mean of all rows.
    site_means : (S, D) array
        Means of sites, moved towards that of all as far as noise explains their distance from it; all the way if it
        may well explain all of them.
    noise : SiteNoise
        What noise in the means of sites adds to the covariance.
    """

    covariance: FloatArray
    mean: FloatArray
    site_means: FloatArray
    noise: SiteNoise


def within_sites(
    moments: MomentsBySite, *, sizes: FloatArray, scale: float, divisor: float, bound: float
) -> WithinSites:
    """Return the covariance within sites; noise in their means makes it neither larger nor smaller on average.

    Parameters
    ----------
    moments : MomentsBySite
        The release, divided by ``divisor``.
    sizes : (S,) array
        Share of all records that is each site's, from public sizes; 0 for a site that was lost.
    scale : float
        Standard deviation of the noise on the diagonal of the moment.
    divisor : float
        Share of valid records that the release was divided by; 1 if it was not.
    bound : float
        Largest length of a row.
    """
    took_part: BoolArray = sizes > 0
    unit = SITE_WEIGHT * bound
    shares = _shares_of(moments.counts[took_part], sizes[took_part] / divisor, scale / (unit * bound))
    sums = moments.sums[took_part]
    sum_scale = scale / unit
    noise = SiteNoise(sums / np.sqrt(shares)[:, np.newaxis], sum_scale / np.sqrt(shares))
    covariance = moments.moment - noise.rows.T @ noise.rows
    covariance[np.diag_indices(len(covariance))] += float((noise.scales**2).sum())
    mean = sums.sum(axis=0) / shares.sum()
    apart = sums / shares[:, np.newaxis] - mean
    site_means = np.tile(mean, (len(sizes), 1))
    site_means[took_part] += _shrunken(apart, shares, sum_scale / shares)
    return WithinSites(covariance, mean, site_means, noise)


def _shares_of(counts: FloatArray, sizes: FloatArray, scale: float) -> FloatArray:
    """Return the share of the records that each site has: all of its own, unless clearly fewer are valid."""
    fewer = counts < sizes - _CLEARLY * scale
    least = np.maximum(np.minimum(_CLEARLY * scale, sizes), 1e-6 * sizes)
    return np.where(fewer, np.maximum(counts, least), sizes)


def _shrunken(apart: FloatArray, shares: FloatArray, scales: FloatArray) -> FloatArray:
    """Return distances from the mean of all, less what noise explains of them in each direction in which sites differ.

    An empirical-Bayes estimate: along a principal direction of the sites' means, their variance less that of the noise,
    over their variance, is kept. Nothing is if noise may well explain all of their distances: subtracting it would make
    sites differ.
    """
    weighted = np.sqrt(shares)[:, np.newaxis] * apart
    squares, width = shares * scales**2, apart.shape[1]
    likely = width * float(squares.sum()) + _UNLIKELY * float(np.sqrt(2 * width * (squares**2).sum()))
    _, values, directions = np.linalg.svd(weighted, full_matrices=False)
    if float((values**2).sum()) <= likely:
        return np.zeros_like(apart)
    factors = np.maximum(values**2 - float(squares.sum()), 0.0) / np.maximum(values**2, 1e-300)
    return np.asarray((apart @ directions.T * factors) @ directions)
