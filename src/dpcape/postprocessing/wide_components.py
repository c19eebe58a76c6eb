"""Components of wide rows from released moments in a public basis and released maps of what it leaves out.

Entries of a released moment have the same noise however many columns the basis has, so that a large basis costs
nothing: afterwards only as many of its first columns are kept as give the most energy. Maps of what the basis leaves
out carry equal noise on every voxel. It is projected off the basis and shrunk in each band of frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.postprocessing.eigen import fix_signs, noise_norm, top_eigen, top_values
from dpcape.statistics.basis import Basis

# Bands of frequencies in which maps are shrunk, up to the highest frequency along a side: few on a small image, because
# shrinkage leaves a part of the noise of each.
_BANDS, _BAND_ENTRIES = 24, 64
# Residuals are clipped to this many times their root mean square.
_RESIDUAL_CLIP = 1.1
# A direction that is mostly noise keeps this part of its released eigenvalue.
_LEAST_KEPT = 0.1


def kept_columns(moment: FloatArray, scale: float, n_components: int, cuts: Sequence[int]) -> int:
    """Return how many of the first columns of a basis to keep, so that the components capture the most energy.

    Symmetric noise of standard deviation s off the diagonal turns a direction of eigenvalue l in R columns so that it
    keeps l - s^2 R / l of its energy, and raises its eigenvalue by s^2 R / l: l follows from the released value.

    Parameters
    ----------
    moment : array of shape (R, R)
        The released matrix.
    scale : float
        Standard deviation of the noise on the diagonal.
    n_components : int
        Number of components that are wanted.
    cuts : sequence of int
        Numbers of columns that may be kept.
    """
    best, most = cuts[-1], -math.inf
    for n_kept in cuts:
        values = top_values(moment[:n_kept, :n_kept], min(n_components, n_kept))
        lost = scale**2 / 2 * n_kept
        without = without_noise(values, lost)
        gain = float(np.sum(np.maximum(without - lost / np.maximum(without, 1e-300), 0.0)))
        if gain > most * (1 + 1e-12) or (gain == most == 0.0):
            best, most = n_kept, gain
    return best


def clear_directions(
    moment: FloatArray, scale: float, least: int, cuts: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """Return the directions of a released moment that noise does not hide, (kept, d), and their eigenvalues.

    Of the first columns of the basis as many are kept as hold the most energy above the noise. Of their directions
    those count whose eigenvalue exceeds 1.5 times the operator norm of the noise, which is where canonical
    correlations floor eigenvalues, and at least ``least``.

    Parameters
    ----------
    moment : array of shape (R, R)
        The released matrix.
    scale : float
        Standard deviation of the noise on the diagonal.
    least : int
        How many directions are returned at least.
    cuts : sequence of int
        Numbers of columns that may be kept.
    """
    n_kept = kept_columns(moment, scale, len(moment), cuts)
    values, vectors = top_eigen(moment[:n_kept, :n_kept], n_kept)
    floor = max(1.5 * noise_norm(scale, n_kept), 1e-12 * float(np.abs(values).max()))
    clear = max(least, int(np.sum(values > floor)))
    return vectors[:, :clear], values[:clear]


def without_noise(values: FloatArray, spread: float) -> FloatArray:
    """Return eigenvalues without the ``spread`` / l that noise adds to them; zero where noise alone reaches them."""
    inside = np.maximum(values**2 - 4 * spread, 0.0)
    cleaned: FloatArray = np.where(values**2 > 4 * spread, (values + np.sqrt(inside)) / 2, 0.0)
    return np.where(values > 0, cleaned, 0.0)


def values_kept(values: FloatArray, scale: float, n_kept: int) -> FloatArray:
    """Return eigenvalues of kept columns without what noise adds to them, never less than a tenth of each.

    Parameters
    ----------
    values : array of shape (K,)
        Released eigenvalues, descending.
    scale : float
        Standard deviation of the noise on the diagonal.
    n_kept : int
        Number of columns that were kept.
    """
    raised = np.maximum(values, max(float(values[0]) * 1e-9, 1e-300))
    return np.maximum(without_noise(values, scale**2 / 2 * n_kept), _LEAST_KEPT * raised)


def residual_length(covariance: FloatArray, left_out: float, scale: float, n_kept: int) -> float:
    """Return about the length that most residuals of the kept columns do not exceed, from what was released.

    Parameters
    ----------
    covariance : array of shape (R, R)
        Released covariance, or second moment, of the coordinates.
    left_out : float
        Released energy that the whole basis leaves out.
    scale : float
        Standard deviation of the noise on the diagonal.
    n_kept : int
        Number of columns that were kept.
    """
    further = np.diagonal(covariance)[n_kept:]
    noise = scale * math.sqrt(1 + len(further))
    total = float(np.trace(covariance)) + left_out
    return _RESIDUAL_CLIP * math.sqrt(max(left_out + float(further.sum()), 2 * noise, 1e-4 * total, 1e-300))


def score_reach(n_scores: int) -> float:
    """Return the length to which scores of variance 1 are clipped: few normal ones exceed it, however few there are."""
    return math.sqrt(n_scores) + 1


def combined_components(
    basis: Basis, directions: FloatArray, values: FloatArray, maps: FloatArray, scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return eigenvalues and components, (K, D), from the directions inside a basis and maps of what it leaves out.

    Parameters
    ----------
    basis : Basis
        The public basis.
    directions : array of shape (kept, K)
        Orthonormal directions in the first columns of the basis.
    values : array of shape (K,)
        Their eigenvalues, as far as they are not noise.
    maps : array of shape (D, K)
        Released covariances of what those columns leave out with scores of variance 1.
    scale : float
        Standard deviation of the noise on an entry of the maps.
    """
    within = basis_maps(basis, directions * np.sqrt(values))
    beyond = shrunk_maps(off_basis(basis, maps.T, len(directions)), scale, basis.inside)
    return _decomposed(within + beyond)


def _decomposed(maps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvalues and orthonormal rows of the matrix whose factor are these rows."""
    values, vectors = np.linalg.eigh(maps @ maps.T)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    rows = (vectors.T @ maps) / np.sqrt(np.maximum(values, 1e-300))[:, np.newaxis]
    # Eigenvectors of near-zero eigenvalues have no accurate digits left.
    orthonormal = np.linalg.qr(rows.T)[0]
    return values, fix_signs(np.asarray(orthonormal, dtype=np.float64)).T.copy()


def basis_maps(basis: Basis, directions: FloatArray) -> FloatArray:
    """Return directions in the first columns of a basis, (kept, K), at full resolution: (K, D)."""
    padded = np.zeros((directions.shape[1], basis.n_columns))
    padded[:, : len(directions)] = directions.T
    return basis.expanded(padded)


def off_basis(basis: Basis, maps: FloatArray, n_kept: int) -> FloatArray:
    """Return maps, (K, D), without their part in the first columns of the basis."""
    coordinates = basis.coordinates(np.ascontiguousarray(maps))
    coordinates[:, n_kept:] = 0.0
    return maps - basis.expanded(coordinates)


def shrunk_maps(maps: FloatArray, scale: float, inside: BoolArray | None) -> FloatArray:
    """Return noisy maps, (K, D), shrunk towards zero: each map in each band of frequencies (James and Stein 1961).

    Parameters
    ----------
    maps : array of shape (K, D)
        Maps with independent noise on every entry.
    scale : float
        Standard deviation of the noise.
    inside : array of bool or None
        Mask of the image whose voxels the entries are; None shrinks each map as a whole.
    """
    if scale == 0:
        return maps
    if inside is None:
        factors = _factors((maps**2).sum(axis=1), maps.shape[1] * scale**2, maps.shape[1])
        return maps * factors[:, np.newaxis]
    from scipy.fft import dctn, idctn  # Slow to import, and every PCA imports this module.

    bands = _bands(inside.shape)
    counts = np.bincount(bands)
    expected = _sums(bands, _noise_of_cosines(inside).ravel()) * scale**2
    result = np.empty_like(maps)
    for at, one in enumerate(maps):
        volume = np.zeros(inside.shape)
        volume[inside] = one
        cosines = dctn(volume, norm="ortho").ravel()
        factors = _factors(_sums(bands, cosines**2), expected, counts)
        shrunk = idctn((cosines * factors[bands]).reshape(inside.shape), norm="ortho")
        result[at] = shrunk[inside]
    return result


def _sums(bands: IntArray, values: FloatArray) -> FloatArray:
    """Return the sum of the values in each band."""
    return np.asarray(np.bincount(bands, weights=values), dtype=np.float64)


def _factors(energy: FloatArray, noise: FloatArray | float, count: IntArray | int) -> FloatArray:
    """Return the factors by which entries of this energy are shrunk, of which noise is expected to be a part."""
    fewer = np.maximum(np.asarray(count) - 2, 0) / np.maximum(count, 1)
    factors: FloatArray = np.maximum(1 - noise * fewer / np.maximum(energy, 1e-300), 0.0)
    return factors


def _bands(shape: tuple[int, ...]) -> IntArray:
    """Return the band of each cosine of an image, by its distance from frequency zero."""
    sides = np.meshgrid(*(np.arange(side) / side for side in shape), indexing="ij")
    lengths = np.sqrt(sum(side**2 for side in sides)).ravel()
    return (lengths * min(_BANDS, max(1, lengths.size // _BAND_ENTRIES))).astype(np.int64)


def _noise_of_cosines(inside: BoolArray) -> FloatArray:
    """Return the variance, in each cosine of an image, of noise of variance 1 on each voxel of the mask."""
    from scipy.fft import dct

    result = inside.astype(np.float64)
    for axis, side in enumerate(inside.shape):
        squares = dct(np.eye(side), norm="ortho", axis=0) ** 2
        result = np.moveaxis(np.tensordot(squares, result, axes=(1, axis)), 0, axis)
    return result
