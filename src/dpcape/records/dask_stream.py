"""Arrays and tables of Dask: what they hold stays on the site's cluster, which computes with dpcape's own code.

The cluster lies inside the site's boundary. Its workers get a recipe, the name of a statistic and public arrays, and
give back the number of records of a part, a checksum, and a total without noise. Noise, ledger and keys stay in the
site's own process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Generic, TypeVar

from dpcape.core._version import __version__
from dpcape.core.errors import DpcapeError, InvalidParameter, ProtocolError
from dpcape.core.lazy import extra_module
from dpcape.records.kinds import Records
from dpcape.records.recipes import Names, OfLabelled, OfRows, OfTable, Recipe
from dpcape.records.source_stream import stream_columns
from dpcape.records.streams import Checksum, Piece, Raw, Scan, Stream, changed, in_pieces, joined, n_rows_of

T = TypeVar("T")
_log = logging.getLogger(__name__)

# Partitions that are computed together: their totals must fit the memory of the site's process.
_TOGETHER = 64


@dataclass(frozen=True)
class _OfPart(Generic[T]):
    """What a worker gives back for one part; no result for a part without rows."""

    checksum: Checksum
    result: T | None
    version: str


class DaskStream(Stream):
    """Records in the parts of a Dask collection.

    Parameters
    ----------
    recipe : Recipe
        How raw values become records.
    data : sequence of object
        Arrays or tables of Dask, one per table, and the target if there is one: a collection with the same parts, or
        the name of a column.
    """

    computed_on = "dask"

    def __init__(self, recipe: Recipe, data: Sequence[object]) -> None:
        self._dask = _dask()
        tables, target = _separated(recipe, data)
        parts: Sequence[OfRows | OfTable] = recipe.tables
        chosen = [_chosen(table, one, target) for table, one in zip(tables, parts, strict=True)]
        collections = [collection for collection, _ in chosen]
        self.names: Sequence[Names] = [names for _, names in chosen]
        self.n_columns = max(1, sum(int(collection.shape[1]) for collection in collections))
        if target is not None:
            collections.append(tables[0][target] if isinstance(target, str) else target)
        self._partitions = _partitions(collections)
        self._first: list[Checksum] | None = None

    def scan(self, recipe: Recipe, windows: Iterator[Raw]) -> Scan:
        """Have the cluster read everything once."""
        answers = list(self._each(recipe, Scan.of_part))
        first = [entry.checksum for entry in answers]
        scan = Scan.of(entry.result for entry in answers if entry.result is not None)
        self._first = first
        return scan

    def check_unchanged(self) -> None:
        """Have the cluster read everything again, and raise an error if it is not what was read first."""
        for _ in self._each(None, None):
            pass

    def each_part(self, recipe: Recipe, function: Callable[[Records], T]) -> Iterator[T] | None:
        """Return what a function gives for the records of each part, computed on the cluster."""
        return (entry.result for entry in self._each(recipe, _Applied(function)) if entry.result is not None)

    def windows(self, n_rows: int) -> Iterator[Raw]:
        """Return windows for what must be computed in the site's own process; parts come one after another."""
        for pieces in in_pieces(self._brought(), n_rows, lambda raw: n_rows_of(raw[0])):
            yield joined([_cut(piece) for piece in pieces])

    def _brought(self) -> Iterator[Raw]:
        for at, partition in enumerate(self._partitions):
            raw = tuple(self._computed(list(partition)))
            seen = Checksum()
            seen.add(raw)
            self._confirm(at, seen)
            yield raw

    def _each(self, recipe: Recipe | None, function: Callable[[Recipe, Raw], T] | None) -> Iterator[_OfPart[T]]:
        """Yield what workers give back for each part, in order, and raise if a part is not what it was."""
        work = self._dask.delayed(_on_part, pure=False)
        for start in range(0, len(self._partitions), _TOGETHER):
            partitions = self._partitions[start : start + _TOGETHER]
            answers: list[_OfPart[T]] = self._computed([work(recipe, function, *partition) for partition in partitions])
            for at, entry in enumerate(answers, start):
                if entry.version != __version__:
                    why = "workers of the site's Dask cluster have another version of dpcape"
                    raise ProtocolError("The computation was refused", why, "Install the same one there.")
                self._confirm(at, entry.checksum)
                yield entry

    def _confirm(self, at: int, seen: Checksum) -> None:
        if self._first is not None and seen != self._first[at]:
            raise changed()

    def _computed(self, tasks: list[Any]) -> list[Any]:
        try:
            return list(self._dask.compute(*tasks))
        except DpcapeError:
            raise
        except Exception as error:  # the cluster, or the code behind the collection, may raise anything
            # The error may contain values of records, so it is written only to the site's own log.
            _log.exception("the Dask cluster failed")
            what = f"The computation on the site's Dask cluster failed with {type(error).__name__}"
            raise ProtocolError(what, remedy="The site sent nothing. Look at its log, and at the cluster's.") from error


@dataclass(frozen=True)
class _Applied(Generic[T]):
    """A function of records, as one of raw values."""

    function: Callable[[Records], T]

    def __call__(self, recipe: Recipe, raw: Raw) -> T:
        return self.function(recipe.records(*raw))


def _on_part(recipe: Recipe, function: Callable[[Recipe, Raw], T] | None, *raw: object) -> _OfPart[T]:
    """Run on a worker: read one part, and compute."""
    checksum = Checksum()
    checksum.add(raw)
    result = function(recipe, raw) if function is not None and checksum.n_rows > 0 else None
    return _OfPart(checksum, result, __version__)


def _separated(recipe: Recipe, data: Sequence[object]) -> tuple[Sequence[Any], Any]:
    """Return the tables and the target; refuse a mixture of collections and values in memory."""
    tables, target = (data[:-1], data[-1]) if isinstance(recipe, OfLabelled) else (data, None)
    named = target is None or isinstance(target, str)
    if not all(hasattr(type(entry), "__dask_graph__") for entry in (*tables, *(() if named else (target,)))):
        remedy = "Convert them with dask.array.from_array, or compute the collections."
        raise InvalidParameter("Tables and target", "all be collections of Dask, or none of them", "both kinds", remedy)
    if isinstance(target, str) and not hasattr(tables[0], "columns"):
        must = "be an array of Dask where X is one"
        raise InvalidParameter("y", must, f"the name {target!r}", "Pass the array, or a table.")
    return tables, target


def _chosen(collection: Any, recipe: OfRows | OfTable, target: object) -> tuple[Any, Names]:
    """Return the columns of a collection that are read, and the names to give them."""
    if not hasattr(collection, "columns"):
        if getattr(collection, "ndim", 0) != 2:
            raise InvalidParameter("A collection of Dask", "be an array of rows or a table", "a different one")
        return collection.rechunk({1: -1}), recipe.feature_names
    available = [str(name) for name in collection.columns]
    columns = stream_columns(recipe, available, (target,) if isinstance(target, str) else ())
    return collection[list(columns.names)], None


def _partitions(collections: Sequence[Any]) -> list[tuple[object, ...]]:
    """Return the partitions of all collections that belong together."""
    partitions = []
    for collection in collections:
        delayed = collection.to_delayed()
        partitions.append(list(delayed.ravel()) if hasattr(delayed, "ravel") else list(delayed))
    if len({len(entry) for entry in partitions}) > 1:
        must = "be divided into the same parts"
        raise InvalidParameter("Collections of Dask", must, "different numbers of them", "Use rechunk or repartition.")
    return list(zip(*partitions, strict=True))


def _cut(piece: Piece[Raw]) -> Raw:
    raw, start, stop = piece
    return tuple(table.iloc[start:stop] if hasattr(table, "iloc") else table[start:stop] for table in raw)  # type: ignore[index]  # arrays, by elimination


def _dask() -> ModuleType:
    return extra_module("dask", "The package dask for data on a cluster", "dask")
