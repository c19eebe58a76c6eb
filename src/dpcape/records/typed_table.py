"""A table of typed columns: numbers, dates and categories, with missing values as a level of their own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcape.core.arrays import AnyArray, BoolArray, FloatArray
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.facts import PublicFacts, TypedColumns
from dpcape.core.tiles import Tile, tile_of_codes, tile_rows
from dpcape.records.features import KEPT_ENTRIES
from dpcape.records.kinds import Records, checked_size
from dpcape.records.sources import SchemaOrPath, described, raw_table
from dpcape.schema.column import Column
from dpcape.schema.schema import Ranges, Schema
from dpcape.schema.table import NUMERIC_KINDS, ArrayTable, ColumnTable, read_table

if TYPE_CHECKING:
    from dpcape.records.streamed import Streamed

_BLOCK = 1 << 14
# Entries of blocks that are read together: 512 KiB, so that they stay in the cache.
_READ_TOGETHER = 1 << 16
# Entries of tiles that are read together: 8 MiB, so that the calls per column do not count.
_TILES_TOGETHER = 1 << 20


def table(
    data: object,
    *,
    columns: Ranges | None = None,
    missing: object = None,
    schema: SchemaOrPath | None = None,
    progress: bool = False,
) -> TypedTable | Streamed:
    """Return a table with typed columns as records, for summaries and survival curves.

    A number or date is moved into its public range; a category is one of its public levels. A missing value, a value
    that is not on the list of levels, and one that cannot be read, count as missing: a level of its own, so that every
    record is valid and none is left out.

    Parameters
    ----------
    data : object
        Pandas or polars table, or mapping from name to column; one row per record. Or the path of a CSV or Parquet
        file, of a folder of Parquet files, or a query. Or a stream, or a table of Dask, as for `rows`.
    columns : Ranges or None
        Mapping from column name to (low, high), two numbers or two dates; to a list of levels; to a mapping with
        "range" or "levels" and perhaps "missing"; or, for a time to an event, to a mapping with "time" and "event"
        (names of two columns), "range" from 0 to the end of follow-up, and perhaps "levels" and "occurred". Or a
        Schema.
    missing : object
        Public constant, or mapping from column to constant or level, that replaces missing values.
    schema : SchemaOrPath or None
        Another name of `columns`; or the path of a schema file. One of them must be given.
    progress : bool
        Whether to show a bar on standard error while a stream is read.

    Privacy
    -------
    One row is one record. Public: number of rows, names, ranges and levels of columns, fills. Values are private, also
    which of them are missing or outside.

    Edge cases
    ----------
    ==============================================  =============================================
    situation                                       outcome
    ==============================================  =============================================
    value outside its range                         moved to the nearer end
    value not on the list of levels                 missing; a local warning gives their number
    infinity, or text where numbers are expected    missing; a local warning gives their number
    column of the table that is not described       ignored
    column absent from the table                    refused, naming the column
    ==============================================  =============================================

    Examples
    --------
    >>> people = {"age": [34.0, 71.0, float("nan")], "sex": ["F", "M", "F"], "seen": ["2021-05-01", None, "2023-01-31"]}
    >>> table(people, columns={"age": (18, 90), "sex": ["F", "M"], "seen": {"range": ["2020-01-01", "2024-12-31"]}})
    TypedTable(n_records=3, columns=('age', 'sex', 'seen'))
    """
    schema_or_ranges = described(schema, columns)
    if schema_or_ranges is None:
        raise InvalidParameter("columns", "describe the columns of the table", "None", "Write columns={...}.")
    from dpcape.records.recipes import OfTable
    from dpcape.records.streamed import is_streamed, stream_records

    described_columns = Schema.of(schema_or_ranges).with_missing(missing)
    recipe = OfTable(described_columns)
    if is_streamed(data):
        return _warned(stream_records(recipe, data, progress=progress))
    values, names = raw_table(data, described_columns)
    if names is not None:
        values = dict(zip(names, values.T, strict=True))
    return _warned(recipe.records(values))


def _warned(records: TypedTable | Streamed) -> TypedTable | Streamed:
    """Return the records; warn locally, where they are built, of entries that count as missing."""
    if records.unusable:
        counts = ", ".join(f"{name}: {count}" for name, count in records.unusable.items())
        warnings.warn(
            f"some entries of {records.n_records} records are not on the list of levels, or cannot be read, and count "
            f"as missing ({counts}). Correct them, or the columns. These numbers stay here.",
            UtilityWarning,
            stacklevel=3,
        )
    return records


class TypedTable(Records):
    """Rows of a table of typed columns; blocks are (n, columns), one number per column.

    A number or date is its place in the public range, from -1 to 1, and a category the position of its level; NaN is
    a missing value. No record is invalid.

    Parameters
    ----------
    data : object
        Pandas or polars table, or mapping from name to column; kept, and copied only as codes: those of columns that
        are not of numbers, and all of a small table.
    schema : Schema
        Public description of the columns.
    is_window : bool
        Whether the values are some of many, which are not kept.
    is_checked : bool
        Whether all values were read before, so that those that cannot be used are not counted again.
    """

    def __init__(self, data: object, schema: Schema, *, is_window: bool = False, is_checked: bool = False) -> None:
        self._schema = schema
        self._table = read_table(data, subject="data")
        if not schema.named or isinstance(self._table, ArrayTable):
            must = "be a table with named columns, and columns a mapping from their names"
            remedy = "Pass a pandas or polars table, or a mapping from name to column."
            raise InvalidParameter("data", must, "an array or a list", remedy)
        for column in schema.columns:
            if column.range is None and column.levels is None:
                raise InvalidParameter(f"Column {column.name!r}", "have a range or levels", "neither", "State one.")
        self._positions = schema.positions(self._table.names, subject="data")
        n_columns = len(schema.columns)
        super().__init__(
            PublicFacts(
                kind="table",
                unit="record",
                n_records=self._table.shape[0],
                widths=(n_columns,),
                bounds=(1.0,),
                feature_names=tuple(column.name for column in schema.columns),
                preparation=schema.digest(),
                typed=TypedColumns(tuple(column.public() for column in schema.columns), schema.events),
                schemas=(schema.public(),),
            )
        )
        self._kept: list[AnyArray | None] = [None] * n_columns
        self._word_codes: dict[int, tuple[FloatArray, BoolArray]] = {}
        self._unusable = {} if is_checked else self._read_all(keeps=not is_window)

    @property
    def unusable(self) -> Mapping[str, int]:
        """Entries per column that are present but unusable and count as missing: for the site's steward, never sent."""
        return self._unusable

    def blocks(self, size: int = 1024) -> Iterator[FloatArray]:
        """Return an iterator over blocks of at most `size` records; the buffer is used again."""
        step = checked_size(size)
        # Several blocks are read together: each column costs a few calls, however few records are read.
        together = step * max(1, _READ_TOGETHER // (step * self.n_features))
        # Stored by columns, because columns are read one at a time.
        buffer = np.empty((min(together, self.n_records), self.n_features), order="F")
        for start in range(0, self.n_records, together):
            filled = buffer[: min(together, self.n_records - start)]
            self._fill_codes(start, start + len(filled), filled)
            for first in range(0, len(filled), step):
                yield filled[first : first + step]

    def tiles(self) -> Iterator[tuple[Tile, BoolArray | None]]:
        """Return an iterator over tiles, and which of their records are beyond the last; the buffer is used again."""
        size = tile_rows(self.n_features, self.n_records)
        # Several tiles are read together: each column costs a few calls, however few records are read.
        together = size * max(1, min(_TILES_TOGETHER // (size * self.n_features), -(-self.n_records // size)))
        buffer = np.zeros((together, self.n_features), order="F")
        for start in range(0, self.n_records, together):
            n_filled = min(together, self.n_records - start)
            self._fill_codes(start, start + n_filled, buffer[:n_filled])
            for first in range(0, n_filled, size):
                codes, n_read = buffer[first : first + size], min(size, n_filled - first)
                codes[n_read:] = 0.0
                yield tile_of_codes(codes), None if n_read == size else np.arange(size) >= n_read

    @property
    def n_invalid(self) -> int:
        """Zero: what cannot be read is a missing value."""
        return 0

    def _fill_codes(self, start: int, stop: int, out: FloatArray) -> None:
        """Write some records into `out`."""
        for at, (column, position) in enumerate(zip(self._schema.columns, self._positions, strict=True)):
            stored = self._kept[at]
            if stored is None:
                self._code(column, position, slice(start, stop), out[:, at])
            else:
                codes = stored[start:stop]
                np.copyto(out[:, at], codes)
                if codes.dtype.kind == "i" and (missing := codes < 0).any():
                    out[missing, at] = np.nan

    def _code(self, column: Column, position: int, rows: slice, out: FloatArray) -> int:
        """Write the codes of some rows of a column, and return how many entries could not be used."""
        words = self._table.words(position) if isinstance(self._table, ColumnTable) else None
        if words is None:
            return column.fill_codes(self._table.values(rows, position), out)
        if position not in self._word_codes:
            codes = np.empty(len(words.texts))
            column.fill_codes(words.texts, codes)
            # A text that has no code cannot be used; what is missing is None.
            unusable = np.isnan(codes) & np.array([text is not None for text in words.texts.tolist()])
            self._word_codes[position] = codes, unusable
        codes, unusable = self._word_codes[position]
        positions = words.positions[rows]
        np.take(codes, positions, out=out, mode="clip")
        return int(np.count_nonzero(unusable[positions])) if unusable.any() else 0

    def _read_all(self, *, keeps: bool) -> dict[str, int]:
        """Read everything once: keep what is slow to read or small, and return how many entries could not be used."""
        n_unusable = {}
        small = keeps and self.n_records * self.n_features <= KEPT_ENTRIES
        for at, (column, position) in enumerate(zip(self._schema.columns, self._positions, strict=True)):
            numeric = self._table.values(slice(0, 1), position).dtype.kind in NUMERIC_KINDS
            if small or not numeric or column.levels is not None or column.dates:
                fits_two_bytes = column.levels is not None and len(column.levels) < 2**15
                stored = np.empty(self.n_records, dtype=np.int16 if fits_two_bytes else np.float64)
                count = self._read_column(column, position, stored)
                self._kept[at] = stored if keeps else None
            else:
                count = self._n_infinite(position)
            if count:
                n_unusable[column.name] = count
        return n_unusable

    def _n_infinite(self, position: int) -> int:
        """Return how many entries of a column of numbers cannot be used; nothing else is wrong with a number."""
        count = 0
        for start in range(0, self.n_records, _BLOCK):
            with np.errstate(over="ignore"):  # An extended number too large for float64 counts as infinite.
                numbers = self._table.values(slice(start, start + _BLOCK), position).astype(np.float64, copy=False)
            if not np.isfinite(numbers).all():
                count += int(np.count_nonzero(np.isinf(numbers)))
        return count

    def _read_column(self, column: Column, position: int, stored: AnyArray) -> int:
        """Write the codes of a column into `stored`, and return how many entries could not be used."""
        scratch, count = np.empty(min(_BLOCK, self.n_records)), 0
        for start in range(0, self.n_records, _BLOCK):
            block = scratch[: min(_BLOCK, self.n_records - start)]
            count += self._code(column, position, slice(start, start + len(block)), block)
            stored[start : start + len(block)] = (
                np.where(np.isnan(block), -1.0, block) if stored.dtype.kind == "i" else block
            )
        return count

    def feature_blocks(self, size: int = 1024) -> Iterator[Any]:
        """Refuse: the columns of a table are not the entries of a row of bounded length."""
        remedy = "Build the records with rows(...)."
        raise InvalidParameter("rows", "be asked of records made of bounded rows", "a table", remedy)

    def __repr__(self) -> str:
        return f"TypedTable(n_records={self.n_records}, columns={self.facts().feature_names})"
