"""Moving standardised rows into a ball."""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray, shorten_rows

# Factor for huge rows, after which their squares neither overflow nor vanish.
_FAR_SMALLER = 2.0**-600


def clip_to_ball(rows: FloatArray, length: float = 1.0) -> FloatArray:
    """Move rows into the ball of this length, in place, and return their factors; rows not finite become zero.

    The target is below one by more than the rounding of norm, quotient and product (see ``records/clip.py``).

    What a row becomes depends on that row alone, to the last bit: the nearest centre, say, is found afterwards. So
    squares are added by NumPy, which orders them by the number of columns, and not by a linear algebra library, which
    may order them by where a row stands in memory; and a row is lost by its entries, not by a sum that overflows or not
    as it is rounded. (By columns, a row alone is rounded differently; no contribution jumps with such rows.)
    """
    target = length * (1 - (rows.shape[1] + 16) * 2.0**-52)
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
        factors: FloatArray = target / np.maximum(norms, target)
    # The maximum is NaN if any norm is.
    if not math.isfinite(norms.max(initial=0.0)):
        huge = np.flatnonzero(~np.isfinite(norms))
        rows[huge], factors[huge] = _huge_clipped(rows[huge], target)
        norms[huge] = 0.0
    shorten_rows(rows, norms, target)
    return factors


def _huge_clipped(rows: FloatArray, target: float) -> tuple[FloatArray, FloatArray]:
    """Return rows whose squares overflow in the ball, zero where an entry is not finite, and their factors."""
    finite: BoolArray = np.asarray(np.isfinite(rows).all(axis=1))
    smaller = np.where(finite[:, np.newaxis], rows, 0.0) * _FAR_SMALLER
    norms = np.sqrt(np.einsum("ij,ij->i", smaller, smaller))
    growth = np.minimum(target / np.where(finite, norms, 1.0), 1 / _FAR_SMALLER)
    return smaller * growth[:, np.newaxis], np.where(finite, growth * _FAR_SMALLER, 0.0)
