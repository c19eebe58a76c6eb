"""Products of rows with public matrices in several steps, each exact: what comes out depends on the row alone.

A row on the grid has 20 bits. Where a product is multiplied again (cosines along three sides, coordinates and what is
made from them), it is rounded to whole numbers of 26 bits in between. A row of at most 2^26 steps times a public column
of at most 2^26 has products whose absolute values add up to at most 2^52 (Cauchy and Schwarz), so that every partial
sum is a whole number, exact in any order: a library, the number of rows beside it and their place change nothing.
"""

from __future__ import annotations

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.grid import ROW_BITS, GridRows, PublicColumns, lengths_of, steps_per_unit

FINE_BITS = 26
"""Rows between two products, and public columns for them, are at most 2^26 steps long."""

ORTHONORMAL_STEPS = 2.0**FINE_BITS - 2.0**15
"""Steps per unit of a public matrix with orthonormal columns.

Its columns, and its rows too, are at most 1 + 2^-15 long, and rounding adds at most sqrt(2^28)/2 steps.
"""


def whole_columns(orthonormal: FloatArray) -> FloatArray:
    """Return orthonormal public columns as whole numbers, for products with either side."""
    steps = orthonormal * ORTHONORMAL_STEPS
    return np.rint(steps, out=steps)


def whole(numbers: FloatArray, factor: float) -> FloatArray:
    """Return numbers times a factor, rounded to whole numbers, in place."""
    numbers *= factor
    return np.rint(numbers, out=numbers)


def usual_reach(rows: GridRows) -> float:
    """Return how long coordinates of rows are at most, for orthonormal columns and with room for roundings."""
    return (1 + 2.0**-6) * 2.0**ROW_BITS / rows.steps


def whole_squares(ints: FloatArray) -> FloatArray:
    """Return the squared lengths of rows of whole numbers: exact up to 2^53."""
    squares: FloatArray = np.einsum("ij,ij->i", ints, ints)
    return squares


class FineRows:
    """Rows as whole numbers of at most 2^26 steps, each row with steps of its own.

    Attributes
    ----------
    ints : (N, D) array
        Whole numbers.
    steps : (N, 1) array
        How many of them are one unit.
    """

    def __init__(self, ints: FloatArray, steps: FloatArray) -> None:
        self.ints, self.steps = ints, steps

    def products(self, columns: PublicColumns) -> FloatArray:
        """Return the products with public columns of :data:`FINE_BITS`, (N, K), computed from exact sums."""
        found: FloatArray = self.ints @ columns.ints
        with np.errstate(all="ignore"):
            found /= self.steps
            for unit in columns.units:
                found *= unit
        return found


def fine_rows(values: FloatArray, reach: float) -> FineRows:
    """Return rows as whole numbers; zero if not finite.

    Parameters
    ----------
    values : (N, D) array
        Rows.
    reach : float
        Length that they are expected to have at most. One that is longer gets steps of its own; whether it is, is
        told by whole numbers whose squares add up exactly where it matters.
    """
    with np.errstate(all="ignore"):
        steps = np.full((len(values), 1), steps_per_unit(FINE_BITS, values.shape[1]) / reach)
        ints = np.rint(values * steps[:1])
        longer = np.flatnonzero(~(whole_squares(ints) <= 2.0 ** (2 * FINE_BITS)))
        if longer.size:
            own = adapted_rows(values[longer])
            ints[longer], steps[longer] = own.ints, own.steps
    return FineRows(ints, steps)


def adapted_rows(values: FloatArray) -> FineRows:
    """Return rows as whole numbers, so many steps per unit that each row is nearly 2^26 long; zero if not finite."""
    with np.errstate(all="ignore"):
        lengths = lengths_of(values)
        # Lengths are from above: rounded, no row has more steps than it may.
        steps = steps_per_unit(FINE_BITS, values.shape[1]) * (1 - 2.0**-40) / lengths
        usable = np.isfinite(lengths) & np.isfinite(steps)
        steps = np.where(usable, steps, 1.0)[:, np.newaxis]
        ints = np.where(usable[:, np.newaxis], values, 0.0) * steps
        np.rint(ints, out=ints)
    return FineRows(ints, steps)


def shortened(values: FloatArray, squares: FloatArray, steps: float) -> tuple[FloatArray, FloatArray]:
    """Return rows as whole numbers with squares that add up to at most ``squares``, and what they add up to.

    A row that is longer is shortened and its entries rounded towards zero, which makes no entry larger; one that is not
    finite becomes zero. All comparisons are of whole numbers below 2^53: what a row becomes depends on it alone.

    Parameters
    ----------
    values : (N, D) array
        Rows, in their own units.
    squares : (N,) array
        Whole numbers of at most 2^40.
    steps : float
        Steps per unit.
    """
    with np.errstate(all="ignore"):
        ints = np.rint(values * steps)
        found = whole_squares(ints)
        longer = np.flatnonzero(~(found <= squares))
        if longer.size:
            lengths = lengths_of(values[longer])
            usable = np.isfinite(lengths) & (lengths > 0)
            factors = np.where(usable, np.sqrt(squares[longer]) * (1 - 2.0**-40) / lengths, 0.0)
            moved = np.where(usable[:, np.newaxis], values[longer], 0.0)
            moved *= factors[:, np.newaxis]
            ints[longer] = np.trunc(moved, out=moved)
            found[longer] = whole_squares(moved)
    return ints, found
