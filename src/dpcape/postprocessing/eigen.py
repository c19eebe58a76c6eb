"""Eigenvalues, whitening and canonical correlations of released matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import scipy.linalg

from dpcape.core.arrays import FloatArray


def top_eigen(matrix: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues in descending order, and their eigenvectors as columns with fixed signs."""
    size = matrix.shape[0]
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(size - n_components, size - 1))
    return values[::-1].copy(), fix_signs(vectors[:, ::-1])


def top_values(matrix: FloatArray, n_components: int) -> FloatArray:
    """Return the largest eigenvalues in descending order, without eigenvectors."""
    last = len(matrix) - 1
    values = scipy.linalg.eigh(matrix, eigvals_only=True, subset_by_index=(last + 1 - n_components, last))
    return np.asarray(values[::-1], dtype=np.float64)


def all_eigen(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return all eigenvalues in descending order, and their eigenvectors as columns with fixed signs."""
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1].copy(), fix_signs(vectors[:, ::-1])


def fix_signs(vectors: FloatArray) -> FloatArray:
    """Return columns with signs such that each one's largest entry is positive, whatever the solver returned."""
    return signed(vectors)[0]


def signed(vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return columns with the signs that :func:`fix_signs` gives them, and those signs."""
    largest = np.argmax(np.abs(vectors), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    signs[signs == 0] = 1.0
    flipped: FloatArray = vectors * signs
    return flipped, signs


def noise_norm(scale: float, size: int, failure: float | None = None) -> float:
    """Return a bound on the operator norm of isotropic symmetric noise with scale ``scale`` on the diagonal.

    The expected norm is at most scale sqrt(2 size) (edge of the semicircle), and it is ``scale``-Lipschitz in the
    noise, so it exceeds that by more than ``scale * t`` with probability at most 2 exp(-t^2 / 2). With ``failure`` the
    bound holds except with that probability; otherwise it is on the expected norm.
    """
    excess = 0.0 if failure is None else math.sqrt(2 * math.log(2 / failure))
    return scale * (math.sqrt(2 * size) + excess)


def floored_whitener(moment: FloatArray, floor: float) -> FloatArray:
    """Return the symmetric inverse square root of a noisy moment whose eigenvalues are first raised to ``floor``.

    Works on indefinite matrices: directions below the noise are damped instead of amplified.
    """
    values, vectors = np.linalg.eigh(moment)
    # An absolute minimum keeps the exact, rank-deficient case finite.
    least = max(floor, float(np.abs(values).max()) * 1e-12, 1e-300)
    whitener: FloatArray = (vectors / np.sqrt(np.maximum(values, least))) @ vectors.T
    return whitener


def inverted(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a released matrix, or its pseudo-inverse if noise left it singular or not finite."""
    finite = np.nan_to_num(matrix, nan=0.0, posinf=0.0, neginf=0.0)
    try:
        inverse: FloatArray = np.asarray(np.linalg.inv(finite), dtype=np.float64)
        if np.isfinite(inverse).all():
            return inverse
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.pinv(finite), dtype=np.float64)


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of the released moment of a view, raised to a floor before it is whitened.

    Attributes
    ----------
    values : array of shape (D,)
        Eigenvalues as released.
    vectors : array of shape (D, D)
        Eigenvectors, as columns.
    floor : float
        Least eigenvalue that is whitened.
    """

    values: FloatArray
    vectors: FloatArray
    floor: float

    @property
    def size(self) -> int:
        """Number of columns of the view."""
        return len(self.values)

    @property
    def whitener(self) -> FloatArray:
        """Factor of each direction when it is whitened."""
        return 1 / np.sqrt(np.maximum(self.values, self.floor))

    @property
    def spread(self) -> FloatArray:
        """Largest standard deviation that a whitened direction may have in the sample."""
        # An eigenvalue that noise made small may be as large as the average.
        likely = np.maximum(self.values, max(float(self.values.mean()), 0.0))
        return np.sqrt(np.minimum(1.0, likely * self.whitener**2))


class PlainSpectrum(Spectrum):
    """Eigenvalues of the released moment of a view that is not whitened: covariances are compared, not correlations."""

    @classmethod
    def of(cls, spectrum: Spectrum) -> PlainSpectrum:
        """Return the same eigenvalues and eigenvectors, without whitening."""
        return cls(spectrum.values, spectrum.vectors, spectrum.floor)

    @property
    def whitener(self) -> FloatArray:
        """One for each direction."""
        return np.ones(self.size)

    @property
    def spread(self) -> FloatArray:
        """Largest standard deviation that a direction may have in the sample."""
        # An eigenvalue that noise made small may be as large as the average.
        return np.sqrt(np.maximum(self.values, max(float(self.values.mean()), 0.0)))


def spectra_of(moment: FloatArray, widths: tuple[int, int], scale: float) -> tuple[Spectrum, Spectrum]:
    """Return the spectra of two views from their stacked second moment, with noise of this scale."""
    first, second = view_spectra(moment, widths, scale)
    return first, second


def view_spectra(moment: FloatArray, widths: Sequence[int], scale: float) -> list[Spectrum]:
    """Return the spectra of views from their stacked second moment, with noise of this scale.

    Eigenvalues are floored at 1.5 times the operator norm of the noise of their view. Never raises on an indefinite
    block.
    """
    spectra = []
    for end, width in zip(accumulate(widths), widths, strict=True):
        block = moment[end - width : end, end - width : end]
        values, vectors = np.linalg.eigh(block)
        # An absolute minimum keeps the exact, rank-deficient case finite.
        floor = max(1.5 * noise_norm(scale, len(block)), float(np.abs(values).max()) * 1e-12, 1e-300)
        spectra.append(Spectrum(values, vectors, floor))
    return spectra


def whitened_cross(moment: FloatArray, spectra: tuple[Spectrum, Spectrum]) -> FloatArray:
    """Return the cross moment of two views, whitened, in the eigenbases of the views."""
    first, second = spectra
    cross = first.vectors.T @ moment[: first.size, first.size :] @ second.vectors
    return first.whitener[:, np.newaxis] * cross * second.whitener


def canonical(moment: FloatArray, widths: tuple[int, int], scale: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (x weights, y weights, correlations) of a stacked second moment with noise of this scale."""
    spectra = spectra_of(moment, widths, scale)
    return canonical_pairs(whitened_cross(moment, spectra), spectra)


def canonical_pairs(
    whitened: FloatArray, spectra: tuple[Spectrum, Spectrum]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (x weights, y weights, correlations) of a whitened cross moment; correlations above one are set to one."""
    first, second = spectra
    left, values, right = np.linalg.svd(whitened, full_matrices=False)
    x_weights, signs = signed((first.vectors * first.whitener) @ left)
    y_weights = (second.vectors * second.whitener) @ right.T
    return x_weights, y_weights * signs, np.clip(values, 0.0, 1.0)
