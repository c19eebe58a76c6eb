"""Tiles: some records of a site at a time, in a shape that is public."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.contributions import ROUND
from dpcape.core.grid import GridRows

# Entries of a tile, 1 MiB, so that whatever is computed from it finds it in the cache.
_ENTRIES = 1 << 17
# Rows are a multiple of this.
_ALIGNED = 8

# The C library of Linux gives memory back to the system, page by page, as soon as more is free than twice the largest
# array that was freed so far; the arrays of every tile would be given back and asked for again, for a third of all
# time. After one array of nearly 32 MiB, the largest that counts, it keeps 64 MiB. No page of it is touched.
np.empty(2**25 - 2**16, dtype=np.uint8)


def tile_rows(n_features: int, n_records: int) -> int:
    """Return the records of a tile: it follows from public numbers."""
    fitting = max(1, min(ROUND, _ENTRIES // max(1, n_features)) // _ALIGNED)
    return _ALIGNED * max(1, min(fitting, -(-n_records // _ALIGNED)))


@dataclass
class Tile:
    """Some records, as a statistic sees them.

    Invalid records, and what is left of the last tile, are rows of zeros in their places: a statistic cannot tell them
    apart, and what it says they contribute is dropped.

    Attributes
    ----------
    rows : GridRows
        Rows within their bounds, on the grid; not for tables.
    factors : (N,) array
        Factors in [0, 1] by which rows, or their most clipped view, were shortened; 1 for tables.
    targets : (N,) array
        Responses in [-1, 1], or class codes, of labelled records; zeros for other kinds.
    codes : (N, columns) array
        Columns of a table, stored one after another: places in the public range, from -1 to 1, positions of levels,
        and NaN for a missing value; without columns for other kinds.
    """

    rows: GridRows
    factors: FloatArray
    targets: FloatArray
    codes: FloatArray

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.factors)

    @property
    def classes(self) -> IntArray:
        """Class codes of labelled records."""
        return self.targets.astype(np.intp)


def tile_of_rows(rows: GridRows, factors: FloatArray, targets: FloatArray | None = None) -> Tile:
    """Return a tile of bounded rows."""
    n_records = len(factors)
    targets = np.zeros(n_records) if targets is None else targets
    return Tile(rows, factors, targets, np.empty((n_records, 0)))


def tile_of_codes(codes: FloatArray) -> Tile:
    """Return a tile of the columns of a table."""
    n_records = len(codes)
    return Tile(GridRows(np.empty((n_records, 0)), 1.0), np.ones(n_records), np.zeros(n_records), codes)


def empty_tile(kind: str, n_features: int) -> Tile:
    """Return a tile of rows of zeros, from which the shapes of a statistic's sums follow."""
    zeros = np.zeros((_ALIGNED, n_features))
    return tile_of_codes(zeros) if kind == "table" else tile_of_rows(GridRows(zeros, 1.0), np.ones(_ALIGNED))
