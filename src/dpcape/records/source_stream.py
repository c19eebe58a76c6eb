"""A source of named columns as records: window by window, compared with the first reading."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import DpcapeError, InvalidParameter
from dpcape.records.clip import strips
from dpcape.records.data_plan import Columns, selected
from dpcape.records.read_ahead import AHEAD
from dpcape.records.readers.cells import Batch, Wanted
from dpcape.records.readers.tables import BATCH_ENTRIES
from dpcape.records.recipes import Names, OfLabelled, OfRows, OfTable, Recipe
from dpcape.records.sources import Source, Stamp
from dpcape.records.streams import (
    Checksum,
    Piece,
    Raw,
    Stream,
    changed,
    checked_windows,
    counted_windows,
    in_pieces,
    n_rows_of,
)
from dpcape.schema.schema import Schema
from dpcape.schema.table import Words

_log = logging.getLogger(__name__)

# Coarsest timestamp resolution of file systems, in nanoseconds.
_COARSEST_CLOCK = 2 * 10**9
# What reading a source that is not there any more, or is another one, may raise.
_GONE = (OSError, ValueError, LookupError, EOFError, NotImplementedError, DpcapeError)


class SourceStream(Stream):
    """Records of one source.

    Parameters
    ----------
    source : Source
        The source.
    recipe : Recipe
        How its columns become records: which of them are read, and as what.
    target : object
        Name of the column of responses or labels, for labelled records.
    """

    def __init__(self, source: Source, recipe: Recipe, target: object = None) -> None:
        self._source = source
        available = source.names()
        if len(set(available)) != len(available):
            raise InvalidParameter("Column names of the stream", "be unique", "duplicates", "Rename them.")
        self._target = _target(available, target, recipe.is_text) if isinstance(recipe, OfLabelled) else ()
        besides = {name for name, _ in self._target}
        self._tables = [_Part.of(available, table, besides) for table in recipe.tables]
        self.names: Sequence[Names] = [table.names if table.is_array else None for table in self._tables]
        self._wanted = tuple(dict.fromkeys(chain(*(table.wanted for table in self._tables), self._target)))
        self.n_columns = len(self._wanted)
        self._first: Checksum | None = None
        self._stamp: Stamp | None = None

    def windows(self, n_rows: int) -> Iterator[Raw]:
        """Return consecutive windows; see :class:`~dpcape.records.streams.Stream`."""
        stamp = self._source.stamp()
        windows = map(self._raw(n_rows), in_pieces(self._batches(), n_rows, n_rows_of))
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

    def tell(self, *, refuses: bool) -> None:
        """Tell the site's own user what could not be read."""
        self._source.tell(refuses=refuses)

    def _batches(self) -> Iterator[Batch]:
        """Yield batches; a source that can no longer be read counts as changed."""
        n_rows = max(1, BATCH_ENTRIES // self.n_columns)
        if self._first is None:
            yield from self._source.batches(self._wanted, n_rows)
            return
        try:
            yield from self._source.batches(self._wanted, n_rows)
        except _GONE as error:
            _log.exception("the data could not be read again")
            raise changed() from error

    def check_unchanged(self) -> None:
        """Raise an error if what would be read now is not what was read first; unchanged files are not read."""
        if self._stamp is not None and self._stamp == self._source.stamp():
            return
        for _ in self.windows(max(1, BATCH_ENTRIES // self.n_columns)):
            pass

    def _raw(self, n_rows: int) -> Callable[[list[Piece[Batch]]], Raw]:
        """Return the function that assembles a window's pieces into raw values; numeric arrays are reused."""
        rings = [_Ring(len(table.wanted), n_rows) for table in self._tables]

        def assembled(pieces: list[Piece[Batch]]) -> Raw:
            tables = [table.values(pieces, ring) for table, ring in zip(self._tables, rings, strict=True)]
            return (*tables, *(np.asarray(_joined(pieces, column)) for column in self._target))

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


def stream_columns(recipe: OfRows | OfTable, available: Sequence[str], besides: Collection[str]) -> Columns:
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
class _Part:
    """Columns of one table; numbers of rows are one array, and columns of other tables stay by themselves."""

    names: tuple[str, ...]
    wanted: tuple[Wanted, ...]
    is_array: bool

    @classmethod
    def of(cls, available: Sequence[str], recipe: OfRows | OfTable, besides: Collection[str]) -> _Part:
        columns = stream_columns(recipe, available, besides)
        wanted = tuple((name, columns.is_text(name)) for name in columns.names)
        is_array = isinstance(recipe, OfRows) and not any(is_text for _, is_text in wanted)
        return cls(columns.names, wanted, is_array)

    def values(self, pieces: Sequence[Piece[Batch]], ring: _Ring) -> object:
        """Return numbers as one array, and columns of other types each by itself."""
        if not self.is_array:
            return {column[0]: _joined(pieces, column) for column in self.wanted}
        window, end = ring.next(), 0
        for batch, first, last in pieces:
            start, end = end, end + last - first
            columns = [np.asarray(batch[column][first:last]) for column in self.wanted]
            _side_by_side(columns, window[start:end])
        return window[:end]


def _side_by_side(columns: Sequence[AnyArray], out: FloatArray) -> None:
    """Write columns into an array that is stored by rows, a few rows at a time so that they stay in the cache."""
    for rows in strips(*out.shape):
        for at, column in enumerate(columns):
            out[rows, at] = column[rows]


def _joined(pieces: Sequence[Piece[Batch]], column: Wanted) -> AnyArray | Words:
    """Return one column of a window."""
    parts = [batch[column][first:last] for batch, first, last in pieces]
    if len(parts) == 1:
        return parts[0]
    words = [part for part in parts if isinstance(part, Words)]
    return Words.joined(words) if len(words) == len(parts) else np.concatenate([np.asarray(part) for part in parts])


def _settled(stamp: Stamp | None) -> Stamp | None:
    """Return the stamp of files old enough that rewriting them must change their timestamps."""
    latest = max((modified for _, _, modified in stamp or ()), default=0)
    return stamp if time.time_ns() - latest > _COARSEST_CLOCK else None


def _target(available: Sequence[str], name: object, is_text: bool) -> tuple[Wanted, ...]:
    if not isinstance(name, str):
        remedy = "Write y='outcome'."
        raise InvalidParameter("y", "be the name of a column where X is a stream", type(name).__name__, remedy)
    selected(available, Columns((name,), 1), subject="the stream")
    return ((name, is_text),)
