"""Eigenvalues, whitening and canonical correlations of released matrices."""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg

from dpcape.arrays import FloatArray


def top_eigen(matrix: FloatArray, n_components: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues in descending order, and their eigenvectors as columns with fixed signs."""
    size = matrix.shape[0]
    values, vectors = scipy.linalg.eigh(matrix, subset_by_index=(size - n_components, size - 1))
    return values[::-1].copy(), fix_signs(vectors[:, ::-1])


def fix_signs(vectors: FloatArray) -> FloatArray:
    """Return columns with signs such that each one's largest entry is positive, whatever the solver returned."""
    largest = np.argmax(np.abs(vectors), axis=0)
    signs = np.sign(vectors[largest, np.arange(vectors.shape[1])])
    signs[signs == 0] = 1.0
    flipped: FloatArray = vectors * signs
    return flipped


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


def canonical(moment: FloatArray, widths: tuple[int, int], scale: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return (x weights, y weights, correlations) of a stacked second moment with noise of this scale.

    Each view is whitened with eigenvalues floored at 1.5 times the operator norm of its noise; correlations above one
    are set to one. Never raises on an indefinite block.
    """
    split = widths[0]
    whiten_x = floored_whitener(moment[:split, :split], 1.5 * noise_norm(scale, widths[0]))
    whiten_y = floored_whitener(moment[split:, split:], 1.5 * noise_norm(scale, widths[1]))
    left, values, right = np.linalg.svd(whiten_x @ moment[:split, split:] @ whiten_y, full_matrices=False)
    x_weights = whiten_x @ left
    signs = np.sign(x_weights[np.argmax(np.abs(x_weights), axis=0), np.arange(x_weights.shape[1])])
    signs[signs == 0] = 1.0
    return x_weights * signs, (whiten_y @ right.T) * signs, np.clip(values, 0.0, 1.0)


def cross_noise_norm(whiten_x: FloatArray, whiten_y: FloatArray, scale: float) -> float:
    """Return a bound on the expected operator norm of noise in a whitened cross moment (Chevet's inequality).

    Entries of the cross block are off-diagonal entries of the stacked matrix: standard deviation scale / sqrt(2).
    """
    spread_x, spread_y = np.linalg.norm(whiten_x), np.linalg.norm(whiten_y)
    top_x, top_y = np.linalg.norm(whiten_x, 2), np.linalg.norm(whiten_y, 2)
    return float(scale / math.sqrt(2) * (spread_x * top_y + top_x * spread_y))
