"""Tests whether components and canonical correlations are more than noise, by draws of noise alone.

A released covariance is C = M - d d', where the second moment M carries symmetric noise E and the mean d noise e: its
error is E - d e' - e d' + e e', to which the sampling of records adds. Where there is no direction, what is found is
the largest of many such errors; draws of them say how large that is. Only released and public numbers are used, so a
test costs no budget. Factors above one cover what the draws leave out: records that are not normal, and directions
that were chosen by looking. They were found by simulation (docs/analyses/intervals_components.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import scipy.linalg

from dpcape.core.arrays import AnyArray, BoolArray, FloatArray
from dpcape.postprocessing.eigen import Spectrum
from dpcape.postprocessing.largest_norms import LargestNorms, has_products
from dpcape.postprocessing.site_centring import SiteNoise
from dpcape.postprocessing.verdicts import LEVEL

FEWEST_DRAWS, MOST_DRAWS = 199, 999
"""Draws per test: fewer of large matrices. With few, the quantile of the draws itself is uncertain."""

# Entries of all draws of a test together, up to the fewest draws.
_MOST_ENTRIES = 2_000_000

# Entries of draws that errors of the mean are added to together: what is computed besides the draws stays small.
_PART_ENTRIES = 1 << 20

# Excess kurtosis of the columns that tests allow for: that of an exponential distribution.
_EXCESS = 6.0
# Margins for records that are not normal (with 1.05, PCA rejects 0.075 of Laplace samples).
_PCA_MARGIN = 1.15
_CCA_MARGIN = 1.05
# Up to this size all eigenvalues of a draw are computed; above it, only the largest, of a tridiagonal form, which is
# kept for the next fit.
_DENSE = 20
# Size of the corner of a tridiagonal form, in third roots of its own: what is left out changes its outermost
# eigenvalues by no more than rounding does.
_CORNER = 12
# Normal draws are cached in multiples of this many, up to 8 MiB.
_NORMALS = 1 << 16
# Up to this size of a view draws of its products are in double precision.
_SMALL_PAIRS = 48
# A fixed seed, so that a rebuilt result is identical; these draws are not protective noise.
_SEED = 20260713


@dataclass(frozen=True)
class MomentNoise:
    """Noise in a released mean and second moment, and the number of records.

    Attributes
    ----------
    scale : float
        Standard deviation of the noise on the diagonal of the second moment; off it, scale / sqrt(2).
    mean_scale : float
        Standard deviation of the noise on each entry of the mean that was subtracted; 0 if none was.
    mean : array of shape (D,)
        The released mean that was subtracted, in the units of the moment; zeros if none was.
    record_share : float
        One over the effective number of records.
    sites : SiteNoise or None
        Noise of the means of sites, where these were subtracted instead of one mean.
    """

    scale: float
    mean_scale: float
    mean: FloatArray
    record_share: float
    sites: SiteNoise | None = None

    @property
    def total_scale(self) -> float:
        """Standard deviation of the diagonal of the covariance, with what the means of sites add to it."""
        return self.scale if self.sites is None else math.sqrt(self.scale**2 + self.sites.variance)


def component_p_values(values: FloatArray, vectors: FloatArray, noise: MomentNoise, n_components: int) -> FloatArray:
    """Return for each component the p-value of "the rest has no direction", in order.

    The statistic of component k is l_k minus the mean of l_k, ..., l_D; under the hypothesis the rest is a multiple of
    the identity, and sampling adds symmetric noise of variance 2 lbar^2 / N to that of privacy, and on the diagonal
    6 lbar^2 / N more where columns have tails as long as those of an exponential distribution. After the first value
    above 0.05 no further one is computed: those that follow are set to it or to more.

    Parameters
    ----------
    values, vectors : array
        Eigenvalues of the released matrix in descending order, and its eigenvectors as columns.
    noise : MomentNoise
        The noise of the matrix.
    n_components : int
        How many components are tested at most.
    """

    def p_value(k: int) -> float:
        if k == len(values) - 1:
            # In the last remaining direction, test only whether there is any variance.
            alone = _largest_eigenvalues(1, noise.scale, noise, vectors[:, k:], centred=False)
            return p_value_of(float(values[k]), _PCA_MARGIN * np.abs(alone))
        remaining = values[k:]
        average = max(float(remaining.mean()), 0.0)
        total = math.sqrt(noise.scale**2 + 2 * average**2 * noise.record_share)
        tails = average * math.sqrt(_EXCESS * noise.record_share)
        drawn = _largest_eigenvalues(len(remaining), total, noise, vectors[:, k:], tails=tails)
        return p_value_of(
            float(remaining[0] - remaining.mean()), _PCA_MARGIN * drawn + average * len(remaining) * noise.record_share
        )

    return in_order(p_value, n_components)


def moment_error(noise: MomentNoise, size: int) -> float:
    """Return the 95% quantile of the operator norm of the noise in a released covariance.

    By Weyl's inequality every eigenvalue of the released matrix is within that distance of the same eigenvalue of the
    matrix without noise, which is that of the sample's clipped records.
    """
    if noise.scale == 0:
        return 0.0
    both = np.maximum(
        _largest_eigenvalues(size, noise.scale, noise, np.eye(size), centred=False),
        _largest_eigenvalues(size, noise.scale, noise, np.eye(size), centred=False, sign=-1.0),
    )
    return quantile(both)


@dataclass(frozen=True)
class UnrelatedViews:
    """Draws of the whitened cross moment of views that are unrelated.

    Attributes
    ----------
    draws : array of shape (n, Dx, Dy)
        In the eigenbases of the views.
    """

    draws: AnyArray

    @cached_property
    def largest(self) -> FloatArray:
        """Largest singular values of the draws from their 95% quantile on, in descending order."""
        return self._norms.largest(len(self.draws) - _index_of_quantile(len(self.draws)))

    def as_large(self, value: float) -> BoolArray:
        """Tell which draws have a largest singular value that is, with its margin, at least ``value``."""
        return self._norms.at_least(value / _CCA_MARGIN)

    @cached_property
    def _norms(self) -> LargestNorms:
        return LargestNorms(self.draws)


def correlation_draws(spectra: tuple[Spectrum, Spectrum], noise: MomentNoise) -> UnrelatedViews:
    """Return draws of the whitened cross moment of views that are unrelated, in the eigenbases of the views.

    Parameters
    ----------
    spectra : tuple of Spectrum
        Eigenvalues and eigenvectors of the views' released moments, as they were whitened.
    noise : MomentNoise
        Noise of the stacked moment.
    """
    first, second = spectra
    generator = np.random.default_rng(_SEED)
    shape = (n_draws(first.size * second.size), first.size, second.size)
    spread, whitener = first.spread[:, np.newaxis] * second.spread, first.whitener[:, np.newaxis] * second.whitener
    # Sampling and the noise of products are independent and normal: one draw of both.
    # In single precision where the norms of large draws would take longer than everything else: they are compared with
    # margins of percents.
    kind = np.float32 if min(shape[1:]) > _SMALL_PAIRS else np.float64
    draws = generator.standard_normal(shape, dtype=kind)
    draws *= np.sqrt(noise.record_share * spread**2 + noise.scale**2 / 2 * whitener**2).astype(kind)
    if noise.mean_scale:
        mean_x, mean_y = first.vectors.T @ noise.mean[: first.size], second.vectors.T @ noise.mean[first.size :]
        error_x = generator.standard_normal((shape[0], first.size, 1)) * noise.mean_scale
        error_y = generator.standard_normal((shape[0], 1, second.size)) * noise.mean_scale
        for some in _parts(*shape):
            x, y = error_x[some], error_y[some]
            draws[some] += (x * y - mean_x[:, np.newaxis] * y - x * mean_y) * whitener
    if noise.sites is not None:
        turned = scipy.linalg.block_diag(first.vectors, second.vectors)
        rows, errors = noise.sites.towards(turned).rows, noise.sites.errors(generator, shape[0])
        rows_x, rows_y, errors_x, errors_y = (
            part[..., at] for part in (rows, errors) for at in (slice(first.size), slice(first.size, None))
        )
        for some in _parts(*shape):
            crossed = errors_x[some].swapaxes(1, 2) @ (rows_y + errors_y[some])
            draws[some] -= (rows_x.T @ errors_y[some] + crossed) * whitener
    return UnrelatedViews(draws)


def _parts(count: int, n_first: int, n_second: int) -> Iterator[slice]:
    """Yield parts of so many draws, in order."""
    step = max(1, _PART_ENTRIES // (n_first * n_second))
    yield from (slice(start, start + step) for start in range(0, count, step))


def draws_bytes(n_first: int, n_second: int) -> int:
    """Return the bytes of the draws for views of so many columns, with the products by which they are compared."""
    count, size = n_draws(n_first * n_second), min(n_first, n_second)
    products = size**2 if has_products(size) else 0
    return (4 if size > _SMALL_PAIRS else 8) * count * (n_first * n_second + products) + 4 * 8 * _PART_ENTRIES


def correlation_p_values(whitened: FloatArray, unrelated: UnrelatedViews, n_components: int) -> FloatArray:
    """Return for each pair the p-value of "no further correlation", in order; testing stops as for components.

    Parameters
    ----------
    whitened : array of shape (Dx, Dy)
        The released cross moment, whitened, in the eigenbases of the views.
    unrelated : UnrelatedViews
        The same of unrelated views (:func:`correlation_draws`).
    n_components : int
        How many pairs are tested at most.
    """
    left, values, right = np.linalg.svd(whitened, full_matrices=True)
    n_draws = len(unrelated.draws)

    def p_value(k: int) -> float:
        value = float(values[k])
        if value > _CCA_MARGIN * unrelated.largest[0]:
            return 1 / (n_draws + 1)
        large = unrelated.as_large(value)
        n_large = int(np.count_nonzero(large))
        if k:
            # Pairs found so far leave the directions orthogonal to them, within which no draw is larger.
            kept_x, kept_y = (kept.astype(unrelated.draws.dtype) for kept in (left[:, k:], right[k:].T))
            found = np.flatnonzero(large)
            parts = (unrelated.draws[found[some]] for some in _parts(len(found), *whitened.shape))
            n_large = sum(int(UnrelatedViews(kept_x.T @ part @ kept_y).as_large(value).sum()) for part in parts)
        return float(1 + n_large) / (n_draws + 1)

    return in_order(p_value, n_components)


def correlation_of_noise(unrelated: UnrelatedViews) -> float:
    """Return the 95% quantile of the largest correlation of unrelated views."""
    return min(1.0, _CCA_MARGIN * float(unrelated.largest[-1]))


def quantile(draws: FloatArray) -> float:
    """Return the draw that a further one exceeds with a probability of 5%."""
    return float(np.sort(draws)[_index_of_quantile(len(draws))])


def _index_of_quantile(count: int) -> int:
    """Return the index of the quantile among sorted draws."""
    return math.ceil((1 - LEVEL) * (count + 1)) - 1


def n_draws(n_entries: int) -> int:
    """Return how many draws a test of matrices of this many entries takes."""
    return min(MOST_DRAWS, max(FEWEST_DRAWS, _MOST_ENTRIES // n_entries))


def in_order(p_value: Callable[[int], float], count: int) -> FloatArray:
    """Return p-values that never fall; after the first above 0.05 the rest are one."""
    p_values = np.ones(count)
    largest = 0.0
    for k in range(count):
        largest = p_values[k] = max(largest, p_value(k))
        if largest > LEVEL:
            break
    return p_values


def p_value_of(value: float, draws: FloatArray) -> float:
    """Return how often a further draw is at least ``value``, counting it among the draws."""
    return float(1 + np.count_nonzero(draws >= value)) / (len(draws) + 1)


def _largest_eigenvalues(
    size: int,
    scale: float,
    noise: MomentNoise,
    directions: FloatArray,
    *,
    centred: bool = True,
    sign: float = 1.0,
    tails: float = 0.0,
) -> FloatArray:
    """Return draws of the largest eigenvalue of the error of a covariance, within some directions.

    Parameters
    ----------
    size : int
        Number of directions.
    scale : float
        Standard deviation of the symmetric noise, on the diagonal.
    noise : MomentNoise
        The noise of the mean.
    directions : array of shape (D, size)
        Orthonormal columns that span the directions.
    centred : bool
        Whether the mean of the eigenvalues is subtracted.
    sign : float
        -1 for the largest eigenvalue of minus the error.
    tails : float
        Standard deviation of further noise on the diagonal.
    """
    if size > _DENSE:
        return _bounded_draws(size, scale, noise, directions, centred=centred, sign=sign, tails=tails)
    generator, count = np.random.default_rng(_SEED), n_draws(size**2)
    mean = directions.T @ noise.mean
    errors = generator.standard_normal((count, size)) * noise.mean_scale
    matrices = _symmetric(generator, count, size) * scale
    at = np.arange(size)
    matrices[:, at, at] += tails * generator.standard_normal((count, size))
    crossed = mean[:, np.newaxis] * errors[:, np.newaxis, :]
    matrices += errors[:, :, np.newaxis] * errors[:, np.newaxis, :] - crossed - crossed.swapaxes(1, 2)
    if noise.sites is not None:
        matrices += noise.sites.towards(directions).matrices(generator, count)
    values = np.linalg.eigvalsh(sign * matrices)
    draws: FloatArray = values[:, -1] - values.mean(axis=1) * centred
    return draws


def _bounded_draws(
    size: int, scale: float, noise: MomentNoise, directions: FloatArray, *, centred: bool, sign: float, tails: float
) -> FloatArray:
    """Return upper bounds on the same draws: the largest eigenvalues of each part of the error, added."""
    count = n_draws(size**2)
    tops, averages = _symmetric_draws(size, count, sign)
    draws: FloatArray = scale * (tops - averages * centred)
    if not (noise.mean_scale or tails or noise.sites):
        return draws
    errors, diagonals = _normals(2 * count * size).reshape(2, count, size)
    if noise.mean_scale:
        tops, averages = _of_mean(directions.T @ noise.mean, errors * noise.mean_scale, sign)
        draws += tops - averages * centred
    draws += tails * diagonals.max(axis=1)
    if noise.sites is not None:
        generator = np.random.default_rng(_SEED)
        generator.standard_normal(2 * count * size)
        tops, averages = noise.sites.towards(directions).largest(generator, count, sign)
        draws += tops - averages * centred
    return draws


def _of_mean(mean: FloatArray, errors: FloatArray, sign: float) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalue of sign (e e' - d e' - e d') for each error e of the mean d, and the mean of all.

    The matrix has rank two, trace t = e'e - 2 d'e, and -(e'e d'd - (d'e)^2) as the product of its two eigenvalues.
    """
    own, crossed = np.vecdot(errors, errors), errors @ mean
    traces = sign * (own - 2 * crossed)
    products = np.maximum(own * (mean @ mean) - crossed**2, 0.0)
    return (traces + np.sqrt(traces**2 + 4 * products)) / 2, traces / len(mean)


def _normals(length: int) -> FloatArray:
    """Return the first numbers of one fixed sequence of normal draws, cached: tests of many components reuse it."""
    rounded = -(-length // _NORMALS) * _NORMALS
    normals = _first_normals(rounded) if rounded <= 16 * _NORMALS else _first_normals.__wrapped__(rounded)
    return normals[:length]


@lru_cache(maxsize=1)
def _first_normals(length: int) -> FloatArray:
    normals: FloatArray = np.random.default_rng(_SEED).standard_normal(length)
    normals.flags.writeable = False
    return normals


def _symmetric_draws(size: int, count: int, sign: float) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds on draws of the largest eigenvalue of symmetric noise, times a sign, and the mean of all."""
    # The largest eigenvalue grows with the size, so that one set of draws serves several sizes.
    step = size // _DENSE * 4
    tops, bottoms, averages = _tridiagonal_draws(step * math.ceil(size / step), count)
    return (tops, averages) if sign > 0 else (-bottoms, -averages)


@lru_cache(maxsize=64)
def _tridiagonal_draws(size: int, count: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return draws of the largest and smallest eigenvalue of symmetric noise, and of the mean of all its eigenvalues.

    Symmetric noise has the eigenvalues of a tridiagonal matrix with chi-distributed entries (Dumitriu and Edelman
    2002), of which one is computed in far less time than a dense matrix takes. Its entries fall along the diagonal, so
    the vectors of the outermost eigenvalues are those of its corner, of about the third root of the size.
    """
    corner = min(size, _CORNER * math.ceil(size ** (1 / 3)))
    generator = np.random.default_rng([_SEED, size])
    tops, bottoms, averages = (np.empty(count) for _ in range(3))
    for at in range(count):
        diagonal = generator.standard_normal(size)
        beside = np.sqrt(generator.chisquare(np.arange(size - 1, 0, -1)) / 2)
        for ends, index in ((tops, corner - 1), (bottoms, 0)):
            ends[at] = scipy.linalg.eigvalsh_tridiagonal(
                diagonal[:corner], beside[: corner - 1], select="i", select_range=(index, index)
            )[0]
        averages[at] = diagonal.mean()
    return tops, bottoms, averages


def _symmetric(generator: np.random.Generator, count: int, size: int) -> FloatArray:
    """Return symmetric normal noise: standard deviation 1 on the diagonal, 1/sqrt(2) off it."""
    squares = generator.standard_normal((count, size, size))
    symmetric: FloatArray = (squares + squares.swapaxes(1, 2)) / 2
    at = np.arange(size)
    symmetric[:, at, at] = squares[:, at, at]
    return symmetric
