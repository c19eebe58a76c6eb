"""Rotate draws onto a common frame before averaging them.

The likelihood does not change when factors and loadings are rotated together, so the posterior draws wander
over rotations, signs and orders, and their plain average shrinks towards zero as the chain gets longer (the
weakest column fell to 0.19 of its rms in 5,800 draws). Each draw is therefore rotated onto one fixed frame,
the principal-component scores of the same data, by orthogonal Procrustes; the frame is the same for every
chain.
"""

from __future__ import annotations

import numpy as np

from dpcape.core.arrays import FloatArray


def rotation_onto(factors: FloatArray, frame: FloatArray) -> FloatArray:
    """Return the orthogonal R (K x K) that minimises |factors R - frame| (Schoenemann 1966)."""
    left, _, right = np.linalg.svd(factors.T @ frame)
    return np.asarray(left @ right)


def kept_spread(draws: FloatArray) -> FloatArray:
    """Return, per factor, the rms of the mean over that of the draws; one: averaging shrank nothing.

    ``draws`` is n_draws x n x K.
    """
    mean_square = np.mean(draws.mean(axis=0) ** 2, axis=0)
    return np.asarray(np.sqrt(mean_square / np.mean(draws**2, axis=(0, 1))))
