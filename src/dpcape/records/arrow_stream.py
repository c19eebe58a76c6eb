"""Streams of Arrow record batches: pyarrow data sets, DuckDB queries, and any other repeatable source."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.records.clip import strips
from dpcape.records.data_plan import Columns, selected
from dpcape.records.read_ahead import AHEAD
from dpcape.records.readers.columnar import by_type
from dpcape.records.readers.tables import column_of
from dpcape.records.recipes import Names, OfLabelled, OfRows, Recipe
from dpcape.records.streams import Checksum, Piece, Raw, Stream, changed, checked_windows, counted_windows, in_pieces
from dpcape.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads

_log = logging.getLogger(__name__)

# Numbers per batch of a data set (4 MiB), and batches and files decoded ahead: they bound the memory for any size.
_BATCH_ENTRIES = 2**19
_BATCHES_AHEAD, _FILES_AHEAD = 4, 2
# Coarsest timestamp resolution of file systems, in nanoseconds.
_COARSEST_CLOCK = 2 * 10**9

Stamp: TypeAlias = tuple[tuple[str, int, int], ...]
"""Names, sizes and times of files."""


class ArrowStream(Stream):
    """Records that come as Arrow record batches.

    Parameters
    ----------
    data : object
        Data set of pyarrow; an object that gives an Arrow stream each time it is asked (``__arrow_c_stream__``); a
        function without arguments that returns record batches; or an iterable of them that can be gone through again.
    recipe : Recipe
        How they become records: which columns are read.
    target : object
        Name of the column of responses or labels, for labelled records.
    """

    def __init__(self, data: object, recipe: Recipe, target: object = None) -> None:
        self._source = _source(data)
        schema = self._source.schema()
        if len(set(schema.names)) != len(schema.names):
            raise InvalidParameter("Column names of the stream", "be unique", "duplicates", "Rename them.")
        self._target = _target(schema, target, recipe.is_text) if isinstance(recipe, OfLabelled) else None
        self._tables = [_ArrowTable.of(schema, table, self._target or ()) for table in recipe.tables]
        self.names: Sequence[Names] = [table.columns if table.is_numeric else None for table in self._tables]
        self._columns = list(dict.fromkeys(chain(*(table.columns for table in self._tables), self._target or ())))
        self.n_columns = len(self._columns)
        self._first: Checksum | None = None
        self._stamp: Stamp | None = None

    def windows(self, n_rows: int) -> Iterator[Raw]:
        """Return consecutive windows; see :class:`~dpcape.records.streams.Stream`."""
        stamp = self._source.stamp()
        batches = self._again() if self._first is not None else self._source.batches(self._columns)
        windows = map(self._raw(n_rows), in_pieces(batches, n_rows, lambda batch: int(batch.num_rows)))
        if self._first is not None and stamp is not None and stamp == self._stamp:
            # The files are unchanged since the first reading, so skip the checksum.
            yield from counted_windows(windows, self._first.n_rows)
            if self._source.stamp() != stamp:
                raise changed()
            return
        seen = Checksum()
        yield from checked_windows(windows, self._first, seen)
        if self._first is None:
            self._first, self._stamp = seen, _settled(stamp)

    def _again(self) -> Iterator[pa.RecordBatch]:
        """Yield batches; a source that can no longer be read counts as changed."""
        try:
            yield from self._source.batches(self._columns)
        except (OSError, import_module("pyarrow").ArrowException) as error:
            _log.exception("the data could not be read again")
            raise changed() from error

    def check_unchanged(self) -> None:
        """Raise an error if what would be read now is not what was read first; unchanged files are not read."""
        if self._stamp is not None and self._stamp == self._source.stamp():
            return
        for _ in self.windows(max(1, _BATCH_ENTRIES // self.n_columns)):
            pass

    def _raw(self, n_rows: int) -> Callable[[list[Piece[pa.RecordBatch]]], Raw]:
        """Return the function that assembles a window's pieces into raw values; numeric arrays are reused."""
        rings = [_Ring(len(table.columns), n_rows) for table in self._tables]

        def assembled(pieces: list[Piece[pa.RecordBatch]]) -> Raw:
            slices = [batch.slice(start, stop - start) for batch, start, stop in pieces]
            tables = [table.values(slices, ring) for table, ring in zip(self._tables, rings, strict=True)]
            return (*tables, *(_cells(slices, {name: is_text})[name] for name, is_text in (self._target or {}).items()))

        return assembled


class _Ring:
    """Arrays that are filled in turn: enough for the windows that wait, are made and are in use."""

    def __init__(self, n_columns: int, n_rows: int) -> None:
        self._shape = n_rows, n_columns
        self._arrays: list[FloatArray] = []
        self._at = -1

    def next(self) -> FloatArray:
        """Return an array."""
        if len(self._arrays) < AHEAD + 2:
            # Allocated on demand: a small source needs only one.
            self._arrays.append(np.empty(self._shape))
        self._at = (self._at + 1) % (AHEAD + 2)
        return self._arrays[self._at]


def stream_columns(recipe: OfRows, available: Sequence[str], besides: Collection[str]) -> Columns:
    """Return the columns of one table that are read: those described or named, or all but those ``besides``."""
    described = Schema.of(recipe.ranges) if isinstance(recipe.ranges, Mapping | Schema) else None
    if described is not None:
        wanted = tuple(column.name for column in described.columns)
    else:
        wanted = tuple(recipe.feature_names or (name for name in available if name not in besides))
    columns = Columns(wanted, len(wanted), ranges=described)
    selected(available, columns, subject="the stream")
    return columns


@dataclass(frozen=True)
class _ArrowTable:
    """Columns of one table, and which of them are text."""

    columns: tuple[str, ...]
    texts: Mapping[str, bool]
    is_numeric: bool

    @classmethod
    def of(cls, schema: pa.Schema, recipe: OfRows, besides: Collection[str]) -> _ArrowTable:
        columns = stream_columns(recipe, schema.names, besides)
        wanted, texts = columns.names, {name: columns.is_text(name) for name in columns.names}
        kinds = import_module("pyarrow").types
        types = [schema.field(name).type for name in wanted]
        is_numeric = not any(texts.values()) and all(
            kinds.is_integer(kind) or kinds.is_floating(kind) for kind in types
        )
        return cls(wanted, texts, is_numeric)

    def values(self, slices: Sequence[pa.RecordBatch], ring: _Ring) -> object:
        """Return numbers as one array, and columns of other types each by itself."""
        if not self.is_numeric:
            return _cells(slices, self.texts)
        window, start = ring.next(), 0
        for batch in slices:
            columns = [batch.column(name).to_numpy(zero_copy_only=False) for name in self.columns]
            _side_by_side(columns, window[start : start + batch.num_rows])
            start += batch.num_rows
        return window[:start]


def _side_by_side(columns: Sequence[AnyArray], out: FloatArray) -> None:
    """Write columns into an array that is stored by rows, a few rows at a time so that they stay in the cache."""
    for rows in strips(*out.shape):
        for at, column in enumerate(columns):
            out[rows, at] = column[rows]


def _cells(slices: Sequence[pa.RecordBatch], texts: Mapping[str, bool]) -> dict[str, AnyArray]:
    """Return columns as a reader of files does."""
    arrow = import_module("pyarrow")
    table = arrow.Table.from_batches(slices).select(list(texts))
    for at, (name, is_text) in enumerate(texts.items()):
        if is_text and arrow.types.is_string(table[name].type):
            table = table.set_column(at, name, table[name].dictionary_encode())
    columns = by_type(table, texts)
    return {name: column_of(name, columns[name], is_text) for name, is_text in texts.items()}


def _settled(stamp: Stamp | None) -> Stamp | None:
    """Return the stamp of files old enough that rewriting them must change their timestamps."""
    latest = max((modified for _, _, modified in stamp or ()), default=0)
    return stamp if time.time_ns() - latest > _COARSEST_CLOCK else None


def _target(schema: pa.Schema, name: object, is_text: bool) -> dict[str, bool]:
    if not isinstance(name, str):
        remedy = "Write y='outcome'."
        raise InvalidParameter("y", "be the name of a column where X is a stream", type(name).__name__, remedy)
    selected(schema.names, Columns((name,), 1), subject="the stream")
    return {name: is_text}


class _Source:
    """What gives record batches, from the first one on, each time it is asked."""

    def schema(self) -> pa.Schema:
        """Return names and types of all columns."""
        raise NotImplementedError

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Return batches of some columns."""
        raise NotImplementedError

    def stamp(self) -> Stamp | None:
        """Return what changes when files do; None where there are no files."""
        return None


@dataclass(frozen=True)
class _Dataset(_Source):
    data: pads.Dataset

    def schema(self) -> pa.Schema:
        return self.data.schema

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        n_rows = max(1, _BATCH_ENTRIES // len(columns))
        return cast(
            "Iterator[pa.RecordBatch]",
            self.data.to_batches(
                columns=columns, batch_size=n_rows, batch_readahead=_BATCHES_AHEAD, fragment_readahead=_FILES_AHEAD
            ),
        )

    def stamp(self) -> Stamp | None:
        files, system = getattr(self.data, "files", None), getattr(self.data, "filesystem", None)
        if not files or system is None:
            return None
        infos = system.get_file_info(files)
        return tuple((entry.path, entry.size or 0, entry.mtime_ns or 0) for entry in infos)


@dataclass(frozen=True)
class _Batches(_Source):
    open: Callable[[], Iterable[pa.RecordBatch]]

    def schema(self) -> pa.Schema:
        for batch in self._checked():
            return batch.schema
        remedy = "Leave a site without records out of the federation."
        raise InvalidParameter("X", "have at least one row and one column", "a stream without batches", remedy)

    def batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        known = None
        for batch in self._checked():
            known = batch.schema if known is None else known
            if not batch.schema.equals(known):
                raise changed()
            yield batch.select(columns)

    def _checked(self) -> Iterator[pa.RecordBatch]:
        kind = import_module("pyarrow").RecordBatch
        for batch in self.open():
            if not isinstance(batch, kind):
                remedy = "Convert each part with pyarrow.RecordBatch.from_pandas or from_pydict."
                raise InvalidParameter("A stream", "give record batches of pyarrow", type(batch).__name__, remedy)
            yield batch


def _source(data: object) -> _Source:
    sets = import_module("pyarrow.dataset")
    if isinstance(data, sets.Dataset):
        return _Dataset(data)
    if hasattr(data, "read_next_batch") or (isinstance(data, Iterable) and iter(data) is data):
        must = "be readable again, once for every release"
        remedy = "Give a function that opens it: rows(lambda: connection.execute(query).to_arrow_reader(), ...)."
        raise InvalidParameter("A stream", must, f"{type(data).__name__}, which can be read once", remedy)
    if hasattr(type(data), "__arrow_c_stream__"):
        reader = import_module("pyarrow").RecordBatchReader
        return _Batches(lambda: cast("Iterable[pa.RecordBatch]", reader.from_stream(data)))
    if callable(data):
        return _Batches(cast("Callable[[], Iterable[pa.RecordBatch]]", data))
    return _Batches(lambda: cast("Iterable[pa.RecordBatch]", data))
