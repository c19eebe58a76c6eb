"""Rows on a grid of integers, on which all that is computed within a record is exact.

A contribution may depend on its own record alone, to the last bit: otherwise replacing one record moves what others
contribute, and no diameter bounds that. Floating-point sums do not have this property, because libraries order them by
shape, by place in memory and by processor. So every row is put on a grid of 2^20 steps per length it may have, and sums
of products on it are sums of integers below 2^53, which are exact in any order (docs/noise.md, section 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray, IntArray

ROW_BITS = 20
"""Rows are at most 2^20 steps long: products of two entries, added over 2^13 records, stay within 2^53."""

PUBLIC_BITS = 32
"""Public vectors are at most 2^32 steps long: their products with rows stay within 2^52."""

LONGEST_SQUARE = 2.0 ** (2 * ROW_BITS)
"""Largest squared length of a row on the grid."""

_EXACT_BITS = 53
# Rows up to 64 times too long are shortened by the length of their integers.
_EXACT_SQUARE = 2.0**52


def steps_per_unit(bits: int, width: float) -> float:
    """Return how many steps a length of 1 has, such that `width` entries remain within 2^bits steps when rounded."""
    return 2.0**bits - math.sqrt(width) / 2 - 1


def reach_on_grid(reach: float, width: float) -> float:
    """Return how long a row of this ``width`` may be on the grid if it is at most ``reach`` long before.

    The row has at most (2^20 - sqrt(width)/2 - 1) (1 + 4 u) steps, and rounding its entries adds at most sqrt(width)/2:
    less than 2^20, which is this length.
    """
    return reach * (2.0**ROW_BITS / steps_per_unit(ROW_BITS, width)) * (1 + 2.0**-40)


class GridRows:
    """Rows as integers, in float64.

    Attributes
    ----------
    ints : (N, D) array
        Whole numbers; the length of a row is at most 2^20.
    steps : float
        How many of them are one unit.
    """

    def __init__(self, ints: FloatArray, steps: float) -> None:
        self.ints, self.steps = ints, steps

    def __len__(self) -> int:
        return len(self.ints)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.ints.shape[1])

    @cached_property
    def values(self) -> FloatArray:
        """The rows in their own units."""
        return self.ints / self.steps

    def products(self, columns: PublicColumns) -> FloatArray:
        """Return the products with public columns, (N, K), computed from exact sums.

        Entry by entry the absolute values add up to at most 2^20 2^32 (Cauchy and Schwarz), so every partial sum, in
        any order, is an integer below 2^53.
        """
        found: FloatArray = self.ints @ columns.ints
        with np.errstate(all="ignore"):
            found /= self.steps
            found *= columns.unit
        return found

    def nearest(self, columns: PublicColumns) -> IntArray:
        """Return which public column each row is nearest to, the first of those at equal distance."""
        with np.errstate(all="ignore"):
            distances = columns.squares - 2 * self.products(columns)
        return np.argmin(np.where(np.isnan(distances), np.inf, distances), axis=1)

    def squared_lengths(self) -> FloatArray:
        """Return the squared lengths of rows in their own units."""
        return np.einsum("ij,ij->i", self.ints, self.ints) / self.steps**2

    def drop(self, gone: BoolArray) -> None:
        """Set rows to zero."""
        self.ints[gone] = 0.0
        self.__dict__.pop("values", None)


class PublicColumns:
    """Columns of a public matrix as integers, for products with rows.

    Parameters
    ----------
    matrix : (D, K) or (D,) array
        Finite numbers.
    """

    def __init__(self, matrix: FloatArray) -> None:
        columns = np.array(matrix, dtype=np.float64)
        if columns.ndim == 1:
            columns = columns[:, np.newaxis]
        # Powers of two first, so that squares neither overflow nor vanish.
        _, exponents = np.frexp(np.abs(columns).max(axis=0, initial=0.0))
        self._scaled, self._exponents = np.ldexp(columns, -exponents), exponents
        # From above, and so coarse that all libraries agree on them.
        lengths = np.sqrt(np.einsum("ij,ij->j", self._scaled, self._scaled)) * (1 + len(columns) * 2.0**-50)
        lengths = (np.floor(lengths * 2.0**20) + 1) * 2.0**-20
        steps = steps_per_unit(PUBLIC_BITS, len(columns)) / lengths
        self.ints = np.rint(self._scaled * steps)
        self.unit = np.ldexp(1 / steps, exponents)
        """Length of one step of each column."""

    @cached_property
    def squares(self) -> FloatArray:
        """Squared lengths of the columns."""
        sums = np.array([math.fsum(entry * entry for entry in column) for column in self._scaled.T.tolist()])
        with np.errstate(all="ignore"):
            return np.ldexp(sums, 2 * self._exponents)


def on_grid(values: FloatArray, reach: float) -> GridRows:
    """Return rows that are at most ``reach`` long on the grid; one that is longer, or not finite, becomes zero.

    The length is that of the integers, which is exact where it matters: up to 2^53, and monotone beyond.
    """
    steps = steps_per_unit(ROW_BITS, values.shape[1]) / reach
    with np.errstate(all="ignore"):
        ints = np.multiply(values, steps)
        np.rint(ints, out=ints)
        lost = too_long(ints)
    if lost is not None:
        ints[lost] = 0.0
    return GridRows(ints, steps)


def too_long(ints: FloatArray) -> BoolArray | None:
    """Tell which rows are longer than 2^20 steps or not finite; None if none is."""
    lost: BoolArray = ~(np.einsum("ij,ij->i", ints, ints) <= LONGEST_SQUARE)
    return lost if lost.any() else None


def into_balls(
    values: FloatArray, widths: Sequence[int], bounds: Sequence[float]
) -> tuple[GridRows, FloatArray, BoolArray | None]:
    """Return rows on the grid, each view moved into the ball of its bound, their factors, and which are not finite.

    A view of d columns has at most b s + sqrt(d)/2 steps for its bound b, s steps per unit, and all views together at
    most sqrt(sum b^2) s + sqrt(D)/2, which is less than 2^20. Where it has more, it is shortened from its own entries:
    its integers z are at most sqrt(d)/2 from x s, so x s b s / (|z| + sqrt(d)/2) is at most b s long. A factor is that
    of the view that was shortened most. A row that is not finite becomes zero.

    Parameters
    ----------
    values : (N, D) array
        Rows; used up.
    widths : sequence of int
        Columns per view.
    bounds : sequence of float
        Largest length of a row, per view.
    """
    steps = steps_per_unit(ROW_BITS, values.shape[1]) / math.hypot(*bounds)
    factors = np.ones(len(values))
    lost: BoolArray | None = None
    with np.errstate(all="ignore"):
        ints = np.multiply(values, steps)
        np.rint(ints, out=ints)
        end = 0
        for width, bound in zip(widths, bounds, strict=True):
            columns, end = slice(end, end + width), end + width
            most = bound * steps + math.sqrt(width) / 2
            view, own = ints[:, columns], values[:, columns]
            squares = np.einsum("ij,ij->i", view, view)
            longer = ~(squares <= most * most)
            if not longer.any():
                continue
            # Squares are exact up to 2^53, and what is beyond remains so however it is rounded.
            near = longer & (squares <= _EXACT_SQUARE)
            above = np.sqrt(np.where(near, squares, 1.0)) + math.sqrt(width) / 2
            shortened = np.where(near, bound * steps * (1 - 2.0**-40) / above, 1.0)
            np.multiply(own, (shortened * steps)[:, np.newaxis], out=view)
            np.rint(view, out=view)
            np.minimum(factors, shortened, out=factors)
            far = np.flatnonzero(longer & ~near)
            if far.size:
                view[far], shortened, finite = _shortened(own[far], bound, steps)
                factors[far] = np.minimum(factors[far], shortened)
                if not finite.all():
                    lost = np.zeros(len(values), dtype=np.bool_) if lost is None else lost
                    lost[far[~finite]] = True
    if lost is not None:
        ints[lost] = 0.0
    return GridRows(ints, steps), factors, lost


def _shortened(rows: FloatArray, bound: float, steps: float) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return rows of length ``bound`` on the grid, the factors they were multiplied by, and which of them are finite.

    Their lengths come from squares that are exact (:func:`scaled_lengths`) and are bounded from above, so that no
    integer row exceeds bound * steps by more than rounding its entries does.
    """
    scaled, lengths, exponents = scaled_lengths(rows)
    finite = np.isfinite(lengths)
    growth = np.where(finite & (lengths > 0), bound * steps * (1 - 2.0**-40) / lengths, 0.0)
    ints = np.where(finite[:, np.newaxis], scaled, 0.0)
    ints *= growth[:, np.newaxis]
    factors = np.where(finite, np.minimum(np.ldexp(growth / steps, -exponents), 1.0), 0.0)
    return np.rint(ints, out=ints), factors, finite


def scaled_lengths(rows: FloatArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return rows times 2^-e, the lengths of these from above, and e; infinite lengths for rows that are not finite.

    The largest entry of a scaled row is from 1/2 to 1. Its entries are rounded to b bits such that D squares of them
    add up within 2^53, exactly in any order: what is returned depends on the row alone.
    """
    largest = np.abs(rows).max(axis=1, initial=0.0)
    finite = np.isfinite(largest)
    _, exponents = np.frexp(np.where(finite, largest, 0.0))
    # In two steps: one power of two may be too large for the smallest numbers.
    scaled: FloatArray = rows * np.ldexp(1.0, -(exponents // 2))[:, np.newaxis]
    scaled *= np.ldexp(1.0, -(exponents - exponents // 2))[:, np.newaxis]
    bits = (_EXACT_BITS - math.ceil(math.log2(max(rows.shape[1], 2)))) // 2
    ints = np.rint(scaled * 2.0**bits)
    above = math.sqrt(rows.shape[1]) / 2
    lengths = (np.sqrt(np.einsum("ij,ij->i", ints, ints)) + above) * (2.0**-bits * (1 + 2.0**-40))
    return scaled, np.where(finite, np.where(largest > 0, lengths, 0.0), np.inf), exponents.astype(np.intp)


def lengths_of(rows: FloatArray) -> FloatArray:
    """Return the lengths of rows from above, each of its row alone; infinite where a row is not finite.

    As in :func:`scaled_lengths`, in one pass: rows shorter than 2^-900 count as that long.
    """
    width = rows.shape[1]
    largest = np.abs(rows).max(axis=1, initial=0.0)
    finite = np.isfinite(largest)
    _, exponents = np.frexp(np.where(finite, largest, 0.0))
    bits = (_EXACT_BITS - math.ceil(math.log2(max(width, 2)))) // 2
    powers = np.where(largest > 0, np.maximum(exponents, -900), 0) - bits
    with np.errstate(all="ignore"):
        ints = rows * np.ldexp(1.0, -powers)[:, np.newaxis]
        np.rint(ints, out=ints)
        lengths = (np.sqrt(np.einsum("ij,ij->i", ints, ints)) + math.sqrt(width) / 2) * (1 + 2.0**-40)
        return np.where(finite, np.where(largest > 0, np.ldexp(lengths, powers), 0.0), np.inf)
