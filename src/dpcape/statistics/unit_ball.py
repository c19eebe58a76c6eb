"""Moving standardised rows into a ball, in double and in single precision."""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import FloatArray, SingleArray, shorten_rows


def clip_to_ball(rows: FloatArray, length: float = 1.0) -> FloatArray:
    """Move rows into the ball of this length, in place, and return their factors; rows not finite become zero.

    The target is below one by more than the rounding of norm, quotient and product (see ``records/clip.py``).
    """
    target = length * (1 - (rows.shape[1] + 16) * 2.0**-52)
    with np.errstate(all="ignore"):
        # By columns, entries of a row are far apart.
        by_columns = rows.flags.f_contiguous and not rows.flags.c_contiguous
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows) if by_columns else np.vecdot(rows, rows))
        factors: FloatArray = target / np.maximum(norms, target)
    # Not a number if one of them is none.
    if not math.isfinite(norms.max(initial=0.0)):
        lost = ~np.isfinite(norms)
        rows[lost], factors[lost], norms[lost] = 0.0, 0.0, 0.0
    shorten_rows(rows, norms, target)
    return factors


def clip_to_ball_in_single(rows: SingleArray) -> None:
    """Move rows in single precision into the unit ball, in place; rows that are not finite become zero.

    Lengths computed in single precision are only used to find rows that are certainly short enough, as in
    ``records/features.py``; others are shortened in double precision to less than one, by more than rounding them to
    single precision adds.
    """
    certain = (1 - 2.0**-23) * (1 - (rows.shape[1] + 16) * 2.0**-23)
    squares = np.vecdot(rows, rows)
    if float(squares.max(initial=0)) <= certain**2:
        return
    longer = ~(squares.astype(np.float64) <= certain**2)
    moved = rows[longer].astype(np.float64)
    clip_to_ball(moved, length=1 - 2.0**-23)
    rows[longer] = moved
