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
from dpcape.core.errors import InvalidParameter

ROW_BITS = 20
"""Rows are at most 2^20 steps long: products of two entries, added over 2^13 records, stay within 2^53."""

PUBLIC_BITS = 32
"""Public vectors are at most 2^32 steps long: their products with rows stay within 2^52."""

LONGEST_SQUARE = 2.0 ** (2 * ROW_BITS)
"""Largest squared length of a row on the grid."""

_EXACT_BITS = 53
# Lengths whose squares, and those of their steps, neither overflow nor vanish.
_SMALLEST_REACH, _LARGEST_REACH = 1e-140, 1e140
# Exponents of public numbers with which nothing overflows or vanishes.
_ORDINARY = 500
# Factor for rows whose steps overflow.
_FAR_SMALLER = 2.0**-200
# Share of rows above which all rows are multiplied, and not only those that are too long.
_RARE = 1 / 8
# Columns from which products of rows with themselves are faster one row at a time.
_WIDE = 40


def steps_per_unit(bits: int, width: float) -> float:
    """Return how many steps a length of 1 has, such that `width` entries remain within 2^bits steps when rounded."""
    return 2.0**bits - math.sqrt(width) / 2 - 1


def reach_on_grid(reach: float, width: float) -> float:
    """Return how long a row of this ``width`` may be on the grid if it is at most ``reach`` long before.

    The row has at most (2^20 - sqrt(width)/2 - 1) (1 + 4 u) steps, and rounding its entries adds at most sqrt(width)/2:
    less than 2^20, which is this length.
    """
    return reach * (2.0**ROW_BITS / steps_per_unit(ROW_BITS, width)) * (1 + 2.0**-40)


def entry_on_grid(reach: float, width: float) -> float:
    """Return how large an entry may be on the grid if it is at most 1 before: half a step more.

    The grid is that of rows of this ``width`` that are at most ``reach`` long.
    """
    return 1 + reach * (0.5 + 2.0**-16) / steps_per_unit(ROW_BITS, width)


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

    @property
    def finest(self) -> tuple[FloatArray, FloatArray | float]:
        """The rows as fine as they were read: whole numbers, and how many of them are one unit, of all or by column."""
        return self.ints, self.steps

    def alike(self, ints: FloatArray) -> GridRows:
        """Return other rows on the grid of ``finest``."""
        return GridRows(ints, self.steps)

    @cached_property
    def values(self) -> FloatArray:
        """The rows in their own units."""
        return self.ints / self.steps

    def products(self, columns: PublicColumns, steps: float = 1.0) -> FloatArray:
        """Return the products with public columns, (N, K), computed from exact sums, times ``steps``.

        Entry by entry the absolute values add up to at most 2^20 2^32 (Cauchy and Schwarz), so every partial sum, in
        any order, is an integer below 2^53.
        """
        found: FloatArray = self.ints @ columns.ints
        with np.errstate(all="ignore"):
            first, *further = columns.units
            found *= first * (steps / self.steps)
            for unit in further:
                found *= unit
        return found

    def products_by_column(self, columns: PublicColumns, factor: float = 1.0) -> FloatArray:
        """Return the same products times a factor, those with one public column after another: (K, N)."""
        found: FloatArray = columns.ints.T @ self.ints.T
        with np.errstate(all="ignore"):
            first, *further = columns.units
            found *= (first * (factor / self.steps))[:, np.newaxis]
            for unit in further:
                found *= unit[:, np.newaxis]
        return found

    def nearest(self, columns: PublicColumns) -> IntArray:
        """Return which public column each row is nearest to, the first of those at equal distance."""
        distances = self.products_by_column(columns, -2.0)
        nearest: IntArray = np.zeros(len(self), dtype=np.intp)
        least = np.full(len(self), np.inf)
        with np.errstate(all="ignore"):
            distances += columns.squares[:, np.newaxis]
            for at, distance in enumerate(distances):
                closer = distance < least
                np.copyto(least, distance, where=closer)
                np.copyto(nearest, at, where=closer)
        return nearest

    def squared_lengths(self) -> FloatArray:
        """Return the squared lengths of rows in their own units."""
        return squares_of(self.ints) / self.steps**2

    def drop(self, gone: BoolArray) -> None:
        """Set rows to zero."""
        self.ints[gone] = 0.0
        self.__dict__.pop("values", None)


class RowsOfViews(GridRows):
    """Rows of several views, each view on a grid of its own: a view in small units is not lost beside one in large.

    Attributes
    ----------
    ints : (N, D) array
        The rows on one grid, on which they can be multiplied with each other; made when they are asked for.

    Parameters
    ----------
    own : (N, D) array
        Whole numbers; each view is at most 2^20 long.
    widths : sequence of int
        Columns per view.
    bounds : sequence of float
        Largest length of a row, per view.
    """

    def __init__(self, own: FloatArray, widths: Sequence[int], bounds: Sequence[float]) -> None:
        self._own, self._widths, self._bounds = own, widths, bounds
        self.steps = steps_for(own.shape[1], bounds)

    def __len__(self) -> int:
        return len(self._own)

    @property
    def width(self) -> int:
        return int(self._own.shape[1])

    @property
    def finest(self) -> tuple[FloatArray, FloatArray | float]:
        each = [steps_for(width, (bound,)) for width, bound in zip(self._widths, self._bounds, strict=True)]
        return self._own, np.repeat(each, self._widths)

    def alike(self, ints: FloatArray) -> GridRows:
        return RowsOfViews(ints, self._widths, self._bounds)

    @cached_property
    def ints(self) -> FloatArray:  # type: ignore[override]  # made from those of the views
        own, steps = self.finest
        return clipped(own * (self.steps / steps), self._widths, self._bounds)[0].ints

    def drop(self, gone: BoolArray) -> None:
        self._own[gone] = 0.0
        for made in ("ints", "values"):
            self.__dict__.pop(made, None)


class PublicColumns:
    """Columns of a public matrix as integers, for products with rows.

    Parameters
    ----------
    matrix : (D, K) or (D,) array
        Finite numbers.
    bits : int
        Columns are at most 2^bits steps long.
    """

    def __init__(self, matrix: FloatArray, bits: int = PUBLIC_BITS) -> None:
        columns = np.array(matrix, dtype=np.float64)
        if columns.ndim == 1:
            columns = columns[:, np.newaxis]
        # Powers of two first, so that squares neither overflow nor vanish.
        _, exponents = np.frexp(np.abs(columns).max(axis=0, initial=0.0))
        self._scaled, self._exponents = np.ldexp(columns, -exponents), exponents
        # From above, and so coarse that all libraries agree on them.
        lengths = np.sqrt(np.einsum("ij,ij->j", self._scaled, self._scaled)) * (1 + len(columns) * 2.0**-50)
        lengths = (np.floor(lengths * 2.0**20) + 1) * 2.0**-20
        steps = steps_per_unit(bits, len(columns)) / lengths
        self.ints = np.rint(self._scaled * steps)
        # In two factors where one would overflow or vanish.
        half = exponents // 2 if np.abs(exponents).max(initial=0) > _ORDINARY else exponents
        self.units = [
            np.ldexp(1 / steps, half),
            *([np.ldexp(1.0, exponents - half)] if (half != exponents).any() else []),
        ]
        """Factors whose product is the length of one step of each column."""

    @cached_property
    def squares(self) -> FloatArray:
        """Squared lengths of the columns."""
        sums = np.array([math.fsum(entry * entry for entry in column) for column in self._scaled.T.tolist()])
        with np.errstate(all="ignore"):
            squares: FloatArray = np.ldexp(sums, 2 * self._exponents)
        return squares


def squares_of(rows: FloatArray) -> FloatArray:
    """Return the squared lengths of rows, by what is fastest; of integers they are exact, in any order, up to 2^53."""
    if rows.shape[1] < 2 or rows.strides[1] != rows.itemsize:
        squares: FloatArray = np.einsum("ij,ij->i", rows, rows)
    elif rows.shape[1] < _WIDE:
        squares = (rows * rows) @ np.ones(rows.shape[1])
    else:
        squares = np.vecdot(rows, rows)
    return squares


def on_grid(
    values: FloatArray, reach: float, factors: FloatArray | None = None, out: FloatArray | None = None
) -> GridRows:
    """Return rows that are at most ``reach`` long on the grid; one that is longer, or not finite, becomes zero.

    Rows are multiplied by ``factors`` first, if these are given. The length is that of the integers, which is exact
    where it matters: up to 2^53, and monotone beyond.
    """
    if not _SMALLEST_REACH <= reach <= _LARGEST_REACH:
        must = f"be from {_SMALLEST_REACH:g} to {_LARGEST_REACH:g}"
        raise InvalidParameter("The largest length of a row", must, f"{reach:g}", "Change the units of the columns.")
    steps = steps_per_unit(ROW_BITS, values.shape[1]) / reach
    with np.errstate(all="ignore"):
        ints = np.multiply(values, steps if factors is None else (factors * steps)[:, np.newaxis], out=out)
        np.rint(ints, out=ints)
        lost = too_long(ints)
    if lost is not None:
        ints[lost] = 0.0
    return GridRows(ints, steps)


def too_long(ints: FloatArray) -> BoolArray | None:
    """Tell which rows are longer than 2^20 steps or not finite; None if none is."""
    lost: BoolArray = ~(squares_of(ints) <= LONGEST_SQUARE)
    return lost if lost.any() else None


def into_balls(
    values: FloatArray, widths: Sequence[int], bounds: Sequence[float], out: FloatArray | None = None
) -> tuple[GridRows, FloatArray, BoolArray | None]:
    """Return rows on the grid, each view moved into the ball of its bound, their factors, and which are not finite.

    Parameters
    ----------
    values : (N, D) array
        Rows.
    widths : sequence of int
        Columns per view.
    bounds : sequence of float
        Largest length of a row, per view.
    out : (N, D) array, optional
        Where to write the rows; not ``values``.
    """
    steps = steps_for(values.shape[1], bounds)
    with np.errstate(all="ignore"):
        rows, factors, lost = clipped(np.multiply(values, steps, out=out), widths, bounds)
        if lost is not None:
            # Rows so long that their steps overflow.
            huge = lost & np.isfinite(values).all(axis=1)
            if huge.any():
                smaller, more, _ = clipped(values[huge] * _FAR_SMALLER * steps, widths, bounds)
                rows.ints[huge], factors[huge] = smaller.ints, more * _FAR_SMALLER
                lost &= ~huge
            lost = lost if lost.any() else None
    return rows, factors, lost


def rows_of_views(
    values: FloatArray, widths: Sequence[int], bounds: Sequence[float], out: FloatArray | None = None
) -> tuple[GridRows, FloatArray, BoolArray | None]:
    """Return the same as :func:`into_balls`, each of several views on a grid of its own."""
    if len(widths) == 1:
        return into_balls(values, widths, bounds, out)
    own = np.empty(values.shape) if out is None else out
    factors, lost, end = np.ones(len(values)), np.zeros(len(values), dtype=np.bool_), 0
    for width, bound in zip(widths, bounds, strict=True):
        columns, end = slice(end, end + width), end + width
        _, shortened, unreadable = into_balls(values[:, columns], (width,), (bound,), own[:, columns])
        np.minimum(factors, shortened, out=factors)
        if unreadable is not None:
            lost |= unreadable
    own[lost] = 0.0
    return RowsOfViews(own, widths, bounds), factors, lost if lost.any() else None


def steps_for(width: int, bounds: Sequence[float]) -> float:
    """Return the steps per unit of rows whose views have these bounds."""
    return steps_per_unit(ROW_BITS, width) / math.hypot(*bounds)


def clipped(
    in_steps: FloatArray, widths: Sequence[int], bounds: Sequence[float]
) -> tuple[GridRows, FloatArray, BoolArray | None]:
    """Put rows that are measured in steps on the grid, in place, each view in its ball, as :func:`into_balls` does.

    A view of d columns has at most b s + sqrt(d)/2 steps for its bound b, s steps per unit, and all views together at
    most sqrt(sum b^2) s + sqrt(D)/2, which is less than 2^20. Where it has more, it is multiplied by b s / length and
    rounded again, which moves it by no more than sqrt(d)/2. A factor is that of the view that was shortened most. A row
    that is not finite becomes zero.
    """
    steps = steps_for(in_steps.shape[1], bounds)
    factors = np.ones(len(in_steps))
    lost: BoolArray | None = None
    with np.errstate(all="ignore"):
        ints = np.rint(in_steps, out=in_steps)
        end = 0
        for width, bound in zip(widths, bounds, strict=True):
            view, end = ints[:, end : end + width], end + width
            most = bound * steps + math.sqrt(width) / 2
            squares = squares_of(view)
            at = np.flatnonzero(~(squares <= most * most))
            if at.size:
                shortened, finite = _shorten(view, squares[at], at, bound * steps * (1 - 2.0**-40))
                factors[at] = np.minimum(factors[at], shortened)
                if not finite.all():
                    lost = np.zeros(len(ints), dtype=np.bool_) if lost is None else lost
                    lost[at[~finite]] = True
    if lost is not None:
        ints[lost] = 0.0
    return GridRows(ints, steps), factors, lost


def _shorten(view: FloatArray, squares: FloatArray, at: IntArray, length: float) -> tuple[FloatArray, BoolArray]:
    """Multiply some rows by length over their length and round them, in place; return factors, and which are finite.

    Squared lengths of integer rows are exact up to 2^52. Longer rows are measured by :func:`lengths_of`.
    """
    lengths = np.sqrt(squares)
    # A sum just above 2^53 may be rounded to it in one order and not in another; above 2^52 all agree.
    far = np.flatnonzero(~(squares <= 2.0 ** (_EXACT_BITS - 1)))
    if far.size:
        lengths[far] = lengths_of(view[at[far]])
    finite: BoolArray = np.isfinite(lengths)
    factors = np.where(finite, length / lengths, 1.0)
    if len(at) > _RARE * len(view):
        every = np.ones(len(view))
        every[at] = factors
        # Integers times 1 stay as they are.
        view *= every[:, np.newaxis]
        np.rint(view, out=view)
    else:
        # Of other arrays, all rows would be copied.
        some = view.take(at, axis=0) if view.flags.c_contiguous else view[at]
        some *= factors[:, np.newaxis]
        view[at] = np.rint(some, out=some)
    return factors, finite


def squares_in_steps(rows: FloatArray, steps: float) -> FloatArray:
    """Return the squared lengths of rows on a grid of so many steps per unit; exact, in any order, up to 2^53."""
    ints = np.multiply(rows, steps)
    np.rint(ints, out=ints)
    return squares_of(ints)


def lengths_of(rows: FloatArray) -> FloatArray:
    """Return the lengths of rows from above, each of its row alone; infinite where a row is not finite.

    A row is multiplied by a power of two such that its largest entry is from 1/2 to 1. Its entries are rounded to b
    bits, so few that D squares of them add up within 2^53, exactly in any order; sqrt(D)/2 of the last bits is added.
    Rows shorter than 2^-990 count as that long.
    """
    width = rows.shape[1]
    largest = np.abs(rows).max(axis=1, initial=0.0)
    finite = np.isfinite(largest)
    _, exponents = np.frexp(np.where(finite, largest, 0.0))
    bits = (_EXACT_BITS - math.ceil(math.log2(max(width, 2)))) // 2
    powers = np.where(largest > 0, np.maximum(exponents, -990), 0) - bits
    with np.errstate(all="ignore"):
        ints = rows * np.ldexp(1.0, -powers)[:, np.newaxis]
        np.rint(ints, out=ints)
        lengths = (np.sqrt(squares_of(ints)) + math.sqrt(width) / 2) * (1 + 2.0**-40)
        found = np.ldexp(lengths, powers)
    return np.where(finite, np.where(largest > 0, found, 0.0), np.inf)


def factors_into(rows: FloatArray, length: float) -> FloatArray:
    """Return the factors by which rows are at most ``length`` long, each of its row alone.

    Sums of squares that round tell which rows are certainly short enough, with a margin, and are used for nothing else:
    their factor would be 1 too.
    """
    factors = np.ones(len(rows))
    # Where squares overflow or vanish, all rows are measured.
    most = length * length * (1 - 2.0**-10) if _SMALLEST_REACH <= length <= _LARGEST_REACH else -1.0
    with np.errstate(all="ignore"):
        squares = squares_of(rows)
        at = np.flatnonzero(~(squares <= most))
        factors[at] = length / np.maximum(_close_lengths_of(rows[at]), length)
    return factors


def _close_lengths_of(rows: FloatArray) -> FloatArray:
    """Return the same as :func:`lengths_of`, nearer to the lengths: entries have twice as many bits.

    With h and l, the first b bits of an entry and the next b, the square is h h + 2 h l + l l; the absolute values of
    each of these add up within 2^53, so that all three sums are exact.
    """
    largest = np.maximum(rows.max(axis=1, initial=0.0), -rows.min(axis=1, initial=0.0))
    _, exponents = np.frexp(np.where(np.isfinite(largest), largest, 0.0))
    bits = (_EXACT_BITS - math.ceil(math.log2(max(rows.shape[1], 2)))) // 2
    half = exponents // 2
    low = rows * np.ldexp(1.0, bits - half)[:, np.newaxis]
    low *= np.ldexp(1.0, half - exponents)[:, np.newaxis]
    high = np.rint(low)
    low -= high
    low *= 2.0**bits
    np.rint(low, out=low)
    crossed = np.einsum("ij,ij->i", high, low) * 2.0 ** (1 - bits)
    squares = squares_of(low) * 2.0 ** (-2 * bits)
    squares += crossed
    squares += squares_of(high)
    above = math.sqrt(rows.shape[1]) * 2.0 ** (-bits - 1)
    lengths = (np.sqrt(np.maximum(squares, 0.0)) + above) * (1 + 2.0**-46)
    with np.errstate(over="ignore"):
        found = np.ldexp(lengths, exponents - bits)
    return np.where(np.isfinite(largest), np.where(largest > 0, found, 0.0), np.inf)
