"""Type aliases for NumPy arrays, and fast operations on all rows of an array."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
"""Real numbers in double precision, of any shape."""

IntArray: TypeAlias = NDArray[np.int64]
"""Integers, of any shape: positions, counts or class codes."""

BoolArray: TypeAlias = NDArray[np.bool_]
"""Booleans, of any shape."""

AnyArray: TypeAlias = NDArray[Any]  # type: ignore[explicit-any]  # raw columns are checked where they are read
"""Values of any type and shape, such as raw columns of a file."""

# Limits on row length and block size; beyond them, repeating the numbers costs more memory than it is worth.
_SHORT, _FEW = 64, 1 << 13
# Share of rows above the length up to which only those rows are scaled, not the whole block.
_RARE = 1 / 8


class ForEachRow:
    """One number per column, to be combined with every row of a block.

    Short ones are repeated for each row: NumPy subtracts or divides arrays of one shape up to three times as fast as it
    spreads a short array over many rows. The numbers, and what is computed with them, are the same.

    Parameters
    ----------
    numbers : (D,) array
        One number per column.
    """

    def __init__(self, numbers: FloatArray) -> None:
        self._numbers = numbers
        self._repeated = np.empty((0, len(numbers)))

    def __getstate__(self) -> dict[str, FloatArray]:
        """Leave the repeated numbers out of copies and files."""
        return {"_numbers": self._numbers, "_repeated": self._repeated[:0]}

    def of(self, n_rows: int) -> FloatArray:
        """Return the numbers in a shape that fits a block of so many rows."""
        if len(self._numbers) > _SHORT or n_rows > _FEW:
            return self._numbers
        if len(self._repeated) < n_rows:
            self._repeated = np.tile(self._numbers, (n_rows, 1))
        return self._repeated[:n_rows]


def shorten_rows(rows: FloatArray, norms: FloatArray, length: float) -> None:
    """Multiply rows whose norm is above a length by length / norm, in place.

    Parameters
    ----------
    rows : (n, D) array
        Rows, which are changed.
    norms : (n,) array
        Their norms as computed, all finite.
    length : float
        Largest norm that stays.
    """
    longer = np.flatnonzero(norms > length)
    if len(longer) > _RARE * len(rows):
        # Rows that are short enough get a factor of exactly 1.
        rows *= (length / np.maximum(norms, length))[:, np.newaxis]
    elif len(longer):
        rows[longer] *= (length / norms[longer])[:, np.newaxis]


def all_finite(values: AnyArray) -> bool:
    """Return whether all values are finite.

    Squares cannot cancel, so a finite sum of squares means finite values. Twice as fast as checking each value.
    """
    if values.flags.c_contiguous:
        with np.errstate(all="ignore"):
            if np.isfinite(np.dot(values.ravel(), values.ravel())):
                return True
    return bool(np.isfinite(values).all())
