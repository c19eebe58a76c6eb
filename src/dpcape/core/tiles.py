"""Tiles: some records of a site at a time, in a shape that is public."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.contributions import ROUND
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import GridRows, steps_for
from dpcape.core.word_counts import WordCounts, zero_counts

# Entries of a tile, 2 MiB: it stays in the cache while things are computed from it, and calls cost little beside them.
_ENTRIES = 1 << 18
PART_ENTRIES = 1 << 17
"""Numbers that are computed of the records of a tile at a time, 1 MiB."""

# Rows are a multiple of this.
_ALIGNED = 8
# Wide rows: so many together that a public matrix is not read again for every few, in at most 32 MiB.
_TOGETHER, _WIDE_ENTRIES = 32, 1 << 22

# The C library of Linux gives memory back to the system, page by page, as soon as more is free than twice the largest
# array that was freed so far; the arrays of every tile would be given back and asked for again, for a third of all
# time. After one array of nearly 32 MiB, the largest that counts, it keeps 64 MiB. No page of it is touched.
np.empty(2**25 - 2**16, dtype=np.uint8)


def tile_rows(n_features: int, n_records: int) -> int:
    """Return the records of a tile: it follows from public numbers."""
    width = max(1, n_features)
    most = min(ROUND, max(_ENTRIES // width, min(_TOGETHER, _WIDE_ENTRIES // width)))
    fitting = _ALIGNED * max(1, most // _ALIGNED)
    # Tiles of one size, so that little of the last is left.
    n_tiles = max(1, -(-n_records // fitting))
    return _ALIGNED * max(1, -(-n_records // (n_tiles * _ALIGNED)))


class Series:
    """The time series of one subject, read when it is asked for; one row of zeros if it is invalid.

    What is computed from it is computed from it alone, in arrays of its own. What was computed last is kept, because
    later releases of an analysis often begin with the same.

    Parameters
    ----------
    read : callable
        Reads the series, (time points, n_features), every time point clipped; None if it is invalid.
    n_features : int
        Number of columns.
    """

    def __init__(self, read: Callable[[], FloatArray | None], n_features: int) -> None:
        self._read, self._n_features = read, n_features
        self._values: FloatArray | None = None
        self._is_valid: bool | None = None
        self._kept: tuple[bytes, FloatArray] | None = None

    @property
    def is_valid(self) -> bool:
        """Whether the series can be read; what was found first stands."""
        if self._is_valid is None:
            self._is_valid = self._read_now() is not None
        return self._is_valid

    @property
    def values(self) -> FloatArray:
        """The series; not to be changed."""
        found = self._read_now() if self._values is None else self._values
        return np.zeros((1, self._n_features)) if found is None else found

    def kept(self, key: bytes, compute: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return what a function makes of the series, kept under a key that says which function it is."""
        if self._kept is None or self._kept[0] != key:
            self._kept = key, compute(self.values)
        return self._kept[1]

    def forget(self) -> None:
        """Release the series, not what was computed from it."""
        self._values = None

    def _read_now(self) -> FloatArray | None:
        self._values = self._read()
        return self._values


def _no_series() -> Series:
    return Series(lambda: None, 0)


_NO_COUNTS = zero_counts(0, 1)


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
    series : Series
        Time series of the only subject of a tile, where whole subjects are protected.
    counts : WordCounts
        Counts of words, for documents.
    """

    rows: GridRows
    factors: FloatArray
    targets: FloatArray
    codes: FloatArray
    series: Series = field(default_factory=_no_series)
    counts: WordCounts = field(default_factory=lambda: _NO_COUNTS)

    @property
    def n_records(self) -> int:
        """Number of records."""
        return len(self.factors)

    @property
    def classes(self) -> IntArray:
        """Class codes of labelled records."""
        return self.targets.astype(np.intp)


def parts_of(tile: Tile, gone: BoolArray | None, n_entries: int) -> Iterator[tuple[Tile, BoolArray | None]]:
    """Yield the records of a tile, few at a time where so many numbers are computed of each that memory would grow."""
    step = max(1, PART_ENTRIES // max(1, n_entries) // _ALIGNED) * _ALIGNED
    if tile.n_records <= step:
        yield tile, gone
        return
    for start in range(0, tile.n_records, step):
        part = slice(start, start + step)
        rows = tile.rows.alike(tile.rows.finest[0][part])
        # Of the same class, which may say what its rows are.
        some = type(tile)(rows, tile.factors[part], tile.targets[part], tile.codes[part])
        if len(tile.counts):
            some.counts = tile.counts.chosen(part)
        yield some, None if gone is None or not gone[part].any() else gone[part]


def tile_of_rows(rows: GridRows, factors: FloatArray, targets: FloatArray | None = None) -> Tile:
    """Return a tile of bounded rows."""
    n_records = len(factors)
    targets = np.zeros(n_records) if targets is None else targets
    return Tile(rows, factors, targets, np.empty((n_records, 0)))


def tile_of_codes(codes: FloatArray) -> Tile:
    """Return a tile of the columns of a table."""
    n_records = len(codes)
    return Tile(GridRows(np.empty((n_records, 0)), 1.0), np.ones(n_records), np.zeros(n_records), codes)


def tile_of_series(series: Series) -> Tile:
    """Return a tile of one subject."""
    return Tile(GridRows(np.empty((1, 0)), 1.0), np.ones(1), np.zeros(1), np.empty((1, 0)), series)


def tile_of_counts(counts: WordCounts) -> Tile:
    """Return a tile of documents."""
    n_records = len(counts)
    nothing = np.empty((n_records, 0))
    return Tile(GridRows(nothing, 1.0), np.ones(n_records), np.zeros(n_records), nothing, counts=counts)


def empty_tile(facts: PublicFacts) -> Tile:
    """Return a tile of rows of zeros, from which the shapes and scales of a statistic's sums follow."""
    if facts.kind == "documents":
        return tile_of_counts(zero_counts(_ALIGNED, facts.n_features))
    zeros = np.zeros((_ALIGNED, facts.n_features))
    if facts.kind == "table":
        return tile_of_codes(zeros)
    tile = tile_of_rows(GridRows(zeros, steps_for(facts.n_features, facts.bounds)), np.ones(_ALIGNED))
    tile.series = Series(lambda: None, facts.n_features)
    return tile
