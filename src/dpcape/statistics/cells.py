r"""Cells into which records are counted, and their encoding, which leaves little noise in cumulative counts.

A record lies in one cell of each column, or between two neighbouring ones; what it contributes is the row of its cell
in a matrix A, or the same mixture of two rows. All that privacy needs are the distances of the rows; all that accuracy
needs is their Gram matrix.

**Encoding.** Cells in no order (levels, missing) have orthogonal rows of length :math:`1/\sqrt 2`, which are 1 apart.
The knots of a number are encoded by the coefficients :math:`b_k` of :math:`(1-z)^{-1/2}`: knot i is the sequence
:math:`p_i = (0, ..., 0, b_0, b_1, ...)` that begins at i. Then a cumulative count, whose weights are the coefficients
of :math:`(1-z)^{-1} = (1-z)^{-1/2}(1-z)^{-1/2}`, sums the noise with weights :math:`b_k` that fall off, rather than
with weights one (Fichtenberger, Henzinger & Upadhyay 2023). With :math:`d_{ij} = |p_i - p_j| / \max |p_i - p_j|`, the
rows are a Cholesky factor of :math:`(1 - d_{ij}^2)/2`: each is :math:`1/\sqrt 2` long, and rows i and j are
:math:`d_{ij} \le 1` apart. The factor exists if the sphere through the points, in units of their diameter, has a
radius below :math:`1/\sqrt 2`; it has for all numbers of knots that are allowed (0.66 for 257), and where it had not,
there would be no factor and no release.

**Consequences.** All rows of a column are :math:`1/\sqrt 2` long and at most 1 apart; missing is orthogonal to the
rest. A mixture of rows is no longer than the longest of them, and two mixtures are no farther apart than two rows,
because length and distance are convex. So two records are at most 1 apart, and two records of different groups, whose
contributions are orthogonal, are at most :math:`\sqrt{1/2 + 1/2} = 1` apart as well: groups cost nothing.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.facts import PublicColumn

CATEGORY = "category"


def n_cells_of(column: PublicColumn, n_bins: int) -> int:
    """Return the number of cells of a column: its levels, or the knots of its range, and one for missing values."""
    return (len(column.levels) if column.kind == CATEGORY else n_bins + 1) + 1


def codes_of(codes: FloatArray, n_levels: int | IntArray) -> IntArray:
    """Return the positions of levels, missing as the last one; any number is moved into the list."""
    positions = np.fmin(codes, n_levels).astype(np.intp)
    return np.maximum(positions, 0, out=positions)


def taken(positions: list[int]) -> list[int] | slice[int, int, None]:
    """Return how to take columns: neighbouring ones as a slice, which is not copied."""
    first, after = positions[0], positions[-1] + 1
    return slice(first, after) if positions == list(range(first, after)) else positions


def encoding(column: PublicColumn, n_bins: int) -> FloatArray:
    """Return the matrix A, one row per cell; the last row is that of missing values."""
    if column.kind == CATEGORY:
        rows: FloatArray = np.eye(len(column.levels) + 1) / np.sqrt(2)
        return rows
    return _of_knots(n_bins + 1)


@lru_cache(maxsize=16)
def _of_knots(n_knots: int) -> FloatArray:
    coefficients = np.cumprod(np.r_[1.0, (2 * np.arange(1, n_knots) - 1) / (2 * np.arange(1, n_knots))])
    points = np.zeros((n_knots, n_knots))
    for knot in range(n_knots):
        points[knot, knot:] = coefficients[: n_knots - knot]
    gram = points @ points.T
    squares = np.diagonal(gram)
    apart = np.maximum(squares[:, np.newaxis] + squares - 2 * gram, 0.0)
    np.fill_diagonal(apart, 0.0)
    rows = np.zeros((n_knots + 1, n_knots + 1))
    rows[:-1, :-1] = np.linalg.cholesky((1 - apart / apart.max()) / 2)
    rows[-1, -1] = np.sqrt(0.5)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=16)
def encoding_of_times(n_bins: int) -> FloatArray:
    """Return the matrix A of times to an event: bins of events, bins of other ends and beyond, and missing.

    Bins of events and bins of other ends are encoded in order, each kind in places of its own, so that all rows are
    1/sqrt(2) long and at most 1 apart.
    """
    events, ends = _of_knots(n_bins)[:-1, :-1], _of_knots(n_bins + 1)
    rows = np.zeros((2 * n_bins + 2, 2 * n_bins + 2))
    rows[:n_bins, :n_bins] = events
    rows[n_bins:, n_bins:] = ends
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=16)
def decoding_of_times(n_bins: int) -> FloatArray:
    """Return the inverse of the matrix A of times to an event, one part after the other."""
    rows = encoding_of_times(n_bins)
    inverse = np.zeros_like(rows)
    for block in (slice(0, n_bins), slice(n_bins, None)):
        inverse[block, block] = np.linalg.inv(rows[block, block])
    inverse.flags.writeable = False
    return inverse
