"""What each record contributes to a total, in twelve forms, and the exact sums of them.

A statistic writes what the records of a tile contribute, and never adds. Every form is whole numbers, of which at most
2^13 records are added in float64: the absolute values add up to at most 2^53, so that every addition is exact in any
order, with any library, on any processor. These sums are carried into 64-bit integers, and parts of the records
(windows, workers) are joined as integers (docs/noise.md, section 4).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.sparse import csr_array

from dpcape.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from dpcape.core.grid import LONGEST_SQUARE, ROW_BITS, GridRows, steps_per_unit
from dpcape.core.word_counts import WordCounts

ROUND = 1 << 13
"""Records per exact sum in float64."""

SHARE_BITS = 20
"""A share of a cell is a whole number of 2^-20."""

PLAIN_BITS = 40
"""A vector of any other form has at most 2^40 steps per entry."""

# Sums of 2^22 records, 2^40 each, fit into 64 bits with a bit to spare; then their upper half is carried on.
_CARRIED = 1 << 22
# Pairs of the entries of rows with more columns than this are on a finer grid, by so many bits.
_MANY_COLUMNS, _FINER_BITS = 30, 3
_HALF = 32
# Entries of a sum that are converted at a time.
_AT_A_TIME = 1 << 16
# Below this width, the upper triangle of x x' is computed faster than the lower one.
_NARROW = 256
# Up to so many cells, a product with indicators is faster than sums by index.
_FEW_CELLS = 16
# What a record counts besides its place between two cells: more than the shares, of up to 2^20, of 2^13 records.
_WHOLE = 2.0**34
_LOW_BITS = 1.5 * 2.0**52
_FIRST_CELL = int(np.float64(_LOW_BITS).view(np.int64)) >> SHARE_BITS


class Form(Protocol):
    """What the records of a tile contribute to one array of sums."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the sums."""

    @property
    def scale(self) -> float:
        """Value of the sum 1."""

    def drop(self, gone: BoolArray) -> None:
        """Have these records contribute zero."""

    def added(self, sums: FloatArray) -> FloatArray:
        """Add all records to sums, and return these."""


def column_sums(ints: FloatArray) -> FloatArray:
    """Return the sums of columns of integers: a product with ones is the fastest way to add them."""
    return ints[0] if len(ints) == 1 else np.ones(len(ints)) @ ints


@dataclass(frozen=True, eq=False)
class Sum:
    """Sum of rows."""

    of: GridRows

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.of.width,)

    @property
    def scale(self) -> float:
        return 1 / self.of.steps

    def drop(self, gone: BoolArray) -> None:
        self.of.drop(gone)

    def added(self, sums: FloatArray) -> FloatArray:
        sums += column_sums(self.of.ints)
        return sums


@dataclass(frozen=True, eq=False)
class Squares:
    """Sum of the squared entries of rows."""

    of: GridRows

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.of.width,)

    @property
    def scale(self) -> float:
        return self.of.steps**-2

    def drop(self, gone: BoolArray) -> None:
        self.of.drop(gone)

    def added(self, sums: FloatArray) -> FloatArray:
        sums += column_sums(self.of.ints * self.of.ints)
        return sums


@dataclass(frozen=True, eq=False)
class Outer:
    """Sum of x x'; only the lower triangle is computed."""

    of: GridRows

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.of.width, self.of.width)

    @property
    def scale(self) -> float:
        return self.of.steps**-2

    def drop(self, gone: BoolArray) -> None:
        self.of.drop(gone)

    def added(self, sums: FloatArray) -> FloatArray:
        # Rows stored one after another are columns of the transpose, so nothing is copied.
        by_rows = self.of.ints.flags.c_contiguous
        ints = self.of.ints.T if by_rows else self.of.ints
        # Sums of narrow rows are stored row by row: the lower triangle is the upper one of the transpose.
        lower = self.of.width >= _NARROW
        into = sums if lower else sums.T
        result: FloatArray = dsyrk(1.0, ints, beta=1.0, c=into, trans=not by_rows, overwrite_c=1, lower=lower)
        return result if lower else result.T


@dataclass(frozen=True, eq=False)
class Cross:
    """Sum of l r'."""

    left: GridRows
    right: GridRows

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.left.width, self.right.width)

    @property
    def scale(self) -> float:
        return 1 / (self.left.steps * self.right.steps)

    def drop(self, gone: BoolArray) -> None:
        self.left.drop(gone)
        self.right.drop(gone)

    def added(self, sums: FloatArray) -> FloatArray:
        # The narrower side first is faster.
        if self.left.width < self.right.width:
            sums += self.left.ints.T @ self.right.ints
            return sums
        # Sums are stored column by column.
        transposed = sums.T
        transposed += self.right.ints.T @ self.left.ints
        return sums


@dataclass(frozen=True, eq=False)
class Cubes:
    """Sum of x_i x_j x_k for some middle indices j, i up to j, k from the first of them.

    Pairs x_i x_j, those of different indices times sqrt(2), are a vector of length |x|^2, which is put on a grid of its
    own: a row has at most 2^20 steps, so its pairs have at most 2^40 of the squared steps, and after multiplication at
    most what :func:`~dpcape.core.grid.steps_per_unit` leaves for them. They are computed when they are added, because
    there are many.

    Rounding moves a row of many columns by many pairs. There a pair has f = 3 bits more, and a record counts as 2^f:
    2^(13 - f) records with entries of at most 2^(40 + f) add up to 2^53.

    Attributes
    ----------
    of : GridRows
        Rows.
    by_column : (N, D) array
        Their integers, stored one column after another.
    middles : range
        Middle indices.
    """

    of: GridRows
    by_column: FloatArray
    middles: range

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(j + 1 for j in self.middles), self.of.width - self.middles[0])

    @property
    def n_counted(self) -> int:
        """As how many records of other forms one counts."""
        return 1 << finer_bits(self.of.width)

    @property
    def _factor(self) -> float:
        """Steps of pairs over squared steps of rows."""
        width = self.of.width
        bits = ROW_BITS + finer_bits(width)
        return steps_per_unit(bits, width * (width + 1) // 2) * 2.0 ** (-2 * ROW_BITS)

    @property
    def scale(self) -> float:
        return 1 / (self.of.steps**3 * self._factor)

    def drop(self, gone: BoolArray) -> None:
        self.of.drop(gone)
        self.by_column[gone] = 0.0

    def added(self, sums: FloatArray) -> FloatArray:
        columns, start = self.by_column.T, 0
        pairs = np.empty((len(sums), columns.shape[1]))
        for j in self.middles:
            np.multiply(columns[:j], columns[j] * (math.sqrt(2) * self._factor), out=pairs[start : start + j])
            np.multiply(columns[j], columns[j] * self._factor, out=pairs[start + j])
            start += j + 1
        np.rint(pairs, out=pairs)
        # Sums are stored column by column.
        transposed = sums.T
        transposed += columns[self.middles[0] :] @ pairs.T
        return sums


def finer_bits(width: float) -> int:
    """Return how many bits a pair of entries of a row of ``width`` columns has more than an entry."""
    return _FINER_BITS if width > _MANY_COLUMNS else 0


@dataclass(eq=False)
class Cells:
    """Numbers of records by cell, or sums of their shares; a cell that is none of ``n_cells`` counts nothing.

    Attributes
    ----------
    cells : (N,) or (K, N) array of int
        Cell of each record, or its cells in K columns.
    n_cells : int
        Number of cells, of all columns together.
    shares : (N,) array or None
        From 0 to 1, what each record counts; None for one.
    """

    cells: IntArray
    n_cells: int
    shares: FloatArray | None = None

    def __post_init__(self) -> None:
        # A negative number is a large one without its sign.
        outside = self.cells.astype(np.intp, copy=False).view(np.uintp) >= self.n_cells
        if outside.any():
            self.cells = np.where(outside, self.n_cells, self.cells)
        if self.shares is not None:
            steps = np.rint(np.where(np.isnan(self.shares), 0.0, np.clip(self.shares, 0.0, 1.0)) * 2.0**SHARE_BITS)
            self.shares = steps

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_cells,)

    @property
    def scale(self) -> float:
        return 1.0 if self.shares is None else 2.0**-SHARE_BITS

    def drop(self, gone: BoolArray) -> None:
        self.cells = np.where(gone, self.n_cells, self.cells)

    def added(self, sums: FloatArray) -> FloatArray:
        sums += np.bincount(self.cells.ravel(), self.shares, minlength=self.n_cells + 1)[: self.n_cells]
        return sums


@dataclass(eq=False)
class Count:
    """Number of records that are not dropped; they are dropped once."""

    n_records: int
    shape: tuple[int, ...] = (1,)
    scale: float = 1.0

    def drop(self, gone: BoolArray) -> None:
        self.n_records -= int(np.count_nonzero(gone))

    def added(self, sums: FloatArray) -> FloatArray:
        sums += self.n_records
        return sums


@dataclass(eq=False)
class Between:
    """Numbers of records by column, group and cell; each record is divided between the two cells next to its place.

    A record at 2.25 counts 3/4 in cell 2 and 1/4 in cell 3, in whole numbers of 2^-20 that add up to one. A place that
    is not a number from 0 to ``n_places`` - 1 counts nothing. The sums have zeros for a last group, of records that are
    dropped.

    Attributes
    ----------
    by : Cells
        Group of each record; K columns share it.
    places : (K, N) array
        Place of each record in each column; used up.
    n_places : int
        Number of cells of a column, at most 2^13.
    """

    by: Cells
    places: FloatArray
    n_places: int
    _cells: IntArray = field(init=False)

    def __post_init__(self) -> None:
        steps = self.places
        if self.n_places > ROUND:
            raise ValueError(f"at most {ROUND} places can be told apart")
        with np.errstate(all="ignore"):
            steps *= 2.0**SHARE_BITS
            # Numbers near 1.5 2^52 are whole, and their lower bits are what was added.
            steps += _LOW_BITS
        most = _LOW_BITS + (self.n_places - 1) * 2.0**SHARE_BITS
        # Not a number is neither.
        inside = steps.min(initial=most) >= _LOW_BITS and steps.max(initial=most) <= most
        outside = None if inside else ~((steps >= _LOW_BITS) & (steps <= most))
        if outside is not None:
            steps[outside] = _LOW_BITS
        self._cells = steps.view(np.int64) >> SHARE_BITS
        self._cells += np.arange(len(steps))[:, np.newaxis] * self._n_cells - _FIRST_CELL
        steps -= _LOW_BITS - _WHOLE
        if outside is not None:
            # Dropped, whatever the group.
            steps[outside] = 0.0

    @property
    def _n_cells(self) -> int:
        """Cells of a column, those of the last group included."""
        return (self.by.n_cells + 1) * self.n_places

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.places) * self._n_cells,)

    @property
    def scale(self) -> float:
        return 2.0**-SHARE_BITS

    def drop(self, gone: BoolArray) -> None:
        self.by.drop(gone)

    def added(self, sums: FloatArray) -> FloatArray:
        """Add 2^34 + 2^20 p for each record at p = i + s to its lower cell i: see ``whole``."""
        cells = self._cells + self.by.cells * self.n_places
        sums += np.bincount(cells.ravel(), self.places.ravel(), minlength=len(sums))
        return sums

    @property
    def whole(self) -> Callable[[FloatArray], FloatArray]:
        """Function that turns sums of at most 2^13 records into whole numbers of 2^-20."""
        return functools.partial(_divided, shape=(len(self.places), self.by.n_cells + 1, self.n_places))


def _divided(sums: FloatArray, shape: tuple[int, int, int]) -> FloatArray:
    """Return counts of records that are divided between two cells, given their sums by lower cell.

    For c <= 2^13 records between i and i + 1 the sum is t = c h + 2^20 sum(s), h = 2^34 + 2^20 i, which is less than
    2^48, and sum(s) <= c: t / h is at least c and less than c + 1, and so gives c and the sum of s.
    """
    found = sums.reshape(shape)
    heights = _WHOLE + np.arange(shape[2]) * 2.0**SHARE_BITS
    counts = np.floor(found / heights)
    upper = found - counts * heights
    counts *= 2.0**SHARE_BITS
    counts -= upper
    # No place is above the last cell, so nothing of it is left over.
    counts[:, :, 1:] += upper[:, :, :-1]
    # Records that are dropped, of which there may be more.
    counts[:, -1] = 0.0
    return counts.ravel()


@dataclass(frozen=True, eq=False)
class Grouped:
    """Sums of rows by cell."""

    by: Cells
    of: GridRows

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.by.n_cells, self.of.width)

    @property
    def scale(self) -> float:
        return 1 / self.of.steps

    def drop(self, gone: BoolArray) -> None:
        self.by.drop(gone)
        self.of.drop(gone)

    def added(self, sums: FloatArray) -> FloatArray:
        return self._by_cell(self.of.ints, sums)

    def _by_cell(self, entries: FloatArray, sums: FloatArray) -> FloatArray:
        n_rows, cells = len(entries), self.by.cells
        if self.by.n_cells <= _FEW_CELLS:
            sums += np.equal.outer(np.arange(self.by.n_cells), cells).astype(np.float64) @ entries
            return sums
        places = (np.ones(n_rows), cells, np.arange(n_rows + 1))
        by_cell: FloatArray = np.asarray(csr_array(places, shape=(n_rows, self.by.n_cells + 1)).T @ entries)
        sums += by_cell[:-1]
        return sums


@dataclass(frozen=True, eq=False)
class GroupedSquares(Grouped):
    """Sums of the squared entries of rows by cell."""

    @property
    def scale(self) -> float:
        return self.of.steps**-2

    def added(self, sums: FloatArray) -> FloatArray:
        return self._by_cell(self.of.ints * self.of.ints, sums)


@dataclass(eq=False)
class Plain:
    """Sum of vectors of any other form, of at most ``reach``; one that is longer, or not finite, counts nothing."""

    values: FloatArray
    reach: float
    ints: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):
            self.ints = np.rint(self.values * ((2.0**PLAIN_BITS - 1) / self.reach))
            # Lengths are rounded, so what is too long is told with a margin, which ``plain_error`` counts.
            longer = ~(np.einsum("ij,ij->i", self.ints, self.ints) <= 2.0 ** (2 * PLAIN_BITS) * (1 + 2.0**-20))
        if longer.any():
            self.ints[longer] = 0.0
        np.minimum(self.ints, 2.0**PLAIN_BITS, out=self.ints)
        np.maximum(self.ints, -(2.0**PLAIN_BITS), out=self.ints)

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.values.shape[1]),)

    @property
    def scale(self) -> float:
        return self.reach / (2.0**PLAIN_BITS - 1)

    def drop(self, gone: BoolArray) -> None:
        self.ints[gone] = 0.0

    def added(self, sums: FloatArray) -> FloatArray:
        sums += column_sums(self.ints)
        return sums


@dataclass(eq=False)
class WordSum:
    """Sum of vectors with one number for each word of a document, from 0 to ``reach``; any other counts nothing.

    Attributes
    ----------
    of : WordCounts
        Documents.
    values : (entries,) array
        A number for each word of each document.
    reach : float
        The largest.
    """

    of: WordCounts
    values: FloatArray
    reach: float
    ints: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        with np.errstate(all="ignore"):
            self.ints = np.rint(self.values * self._steps)
            lost = self._lost()
        self.ints[lost] = 0.0

    @property
    def _steps(self) -> float:
        return (2.0**PLAIN_BITS - 1) / self.reach

    def _lost(self) -> BoolArray:
        return ~((self.ints >= 0) & (self.ints <= 2.0**PLAIN_BITS))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.of.n_words,)

    @property
    def scale(self) -> float:
        return 1 / self._steps

    def drop(self, gone: BoolArray) -> None:
        self.ints[gone[self.of.documents]] = 0.0

    def added(self, sums: FloatArray) -> FloatArray:
        sums += np.bincount(self.of.words, self.ints, minlength=self.of.n_words)
        return sums


@dataclass(eq=False)
class WordOuter(WordSum):
    """Sum of x x' of such vectors, on the grid of rows; one that is longer than ``reach`` counts nothing."""

    @property
    def _steps(self) -> float:
        return steps_per_unit(ROW_BITS, self.of.n_words) / self.reach

    def _lost(self) -> BoolArray:
        # Sums of whole numbers, exact where it matters.
        lost: BoolArray = ~(self.of.totals(self.ints * self.ints) <= LONGEST_SQUARE)
        return lost[self.of.documents]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.of.n_words, self.of.n_words)

    @property
    def scale(self) -> float:
        return self._steps**-2

    def added(self, sums: FloatArray) -> FloatArray:
        rows = self.of.replaced(self.ints)
        # Symmetric, and stored column by column as the sums are.
        transposed = sums.T
        transposed += (rows.T @ rows).toarray()
        return sums


class ExactSum:
    """The sum of one form over tiles and parts, exact for up to 2^53 records.

    Up to 2^13 records are added in float64, then carried into 64-bit integers; these keep their lower 32 bits when
    2^22 records were added, and carry the rest.
    """

    def __init__(self, form: Form) -> None:
        self.scale = form.scale
        # Columns one after another, as LAPACK stores a triangle.
        self._now = np.zeros(form.shape, order="C" if isinstance(form, Outer) and form.of.width < _NARROW else "F")
        self._whole = form.whole if isinstance(form, Between) else None
        self._n_counted = form.n_counted if isinstance(form, Cubes) else 1
        self._lower: IntArray | None = None
        self._upper: IntArray | None = None
        self._n_now = self._n_lower = 0

    def add(self, form: Form, n_records: int) -> None:
        """Add the records of a tile, at most 2^13, or as many as count as that."""
        n_counted = n_records * self._n_counted
        if n_counted > ROUND:
            raise ValueError(f"at most {ROUND // self._n_counted} records can be added at a time")
        if self._n_now + n_counted > ROUND:
            self._carry()
        self._now = form.added(self._now)
        self._n_now += n_counted

    def join(self, other: ExactSum) -> None:
        """Add the sum over another part of the records."""
        if other.scale != self.scale:
            raise ValueError("sums of different scales cannot be joined")
        self._carry()
        other._carry()
        if self._n_lower + other._n_lower > _CARRIED:
            self._spill()
            other._spill()
        for name in ("_lower", "_upper"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if theirs is not None:
                setattr(self, name, theirs if mine is None else mine + theirs)
        self._n_lower += other._n_lower

    def values(self) -> FloatArray:
        """Return the sum in its own units, rounded once to float64 and once times the scale; nothing is added then."""
        if self._lower is None and self._whole is None:
            return self._now * self.scale
        self._carry()
        if self._lower is None:
            return np.zeros(self._now.shape)
        # In the memory of what was added last: a matrix is there once as numbers and once as integers.
        total, self._now = self._now, np.empty(0)
        if total.shape != self._lower.shape:
            total = np.empty_like(self._lower, dtype=np.float64)
        if self._upper is None:
            np.copyto(total, self._lower)
        else:
            self._spill()
            # Both are exact in float64, and so is the product: one rounding.
            np.multiply(self._upper, 2.0**_HALF, out=total)
            total += self._lower
        total *= self.scale
        return total

    def integers(self) -> list[int]:
        """Return the sum as Python integers, in order of memory."""
        self._carry()
        lower = [0] * self._now.size if self._lower is None else self._lower.ravel(order="F").tolist()
        upper = [0] * self._now.size if self._upper is None else self._upper.ravel(order="F").tolist()
        return [(high << _HALF) + low for high, low in zip(upper, lower, strict=True)]

    def _carry(self) -> None:
        if not self._n_now:
            return
        now = self._now if self._whole is None else self._whole(self._now)
        if self._lower is None:
            self._lower = now.astype(np.int64)
        else:
            # Converted first, some at a time: adding floats to integers would be done in floats.
            for total, some in _parts(self._lower, now):
                total += some.astype(np.int64)
        self._now[...] = 0.0
        self._n_lower += self._n_now
        self._n_now = 0
        if self._n_lower >= _CARRIED:
            self._spill()

    def _spill(self) -> None:
        if self._lower is None:
            return
        if self._upper is None:
            self._upper = np.zeros_like(self._lower)
        for upper, lower in _parts(self._upper, self._lower):
            upper += lower >> _HALF
            lower &= (1 << _HALF) - 1
        # What remains, below 2^32, counts as one record.
        self._n_lower = 1


def _parts(one: AnyArray, other: AnyArray) -> Iterator[tuple[AnyArray, AnyArray]]:
    """Yield the same places of two arrays that are stored alike, some at a time, so that copies stay small."""
    flat, beside = one.reshape(-1, order="A"), other.reshape(-1, order="A")
    for start in range(0, flat.size, _AT_A_TIME):
        yield flat[start : start + _AT_A_TIME], beside[start : start + _AT_A_TIME]
