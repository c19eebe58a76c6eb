"""Sources of records that are read again for every release, window by window, and never held whole.

A source is read once when records are made. Every later reading must give the same rows in the same order: otherwise
the public number of records, or the pairing of rows with targets, might no longer hold. What a source gave the first
time is remembered as a number of rows and a checksum of all values (CRC-32 of their bytes), which misses one change in
2^32. It is no defence against data forged on purpose: the source is the site's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, TypeAlias, TypeVar
from zlib import crc32

import msgspec
import numpy as np

from dpcape.core.arrays import AnyArray
from dpcape.core.errors import InvalidParameter, ProtocolError
from dpcape.core.facts import PublicFacts
from dpcape.records.kinds import Records
from dpcape.records.recipes import Names, Recipe
from dpcape.schema.table import Words

Raw: TypeAlias = tuple[object, ...]
"""Raw values of consecutive records, as a recipe takes them: tables, perhaps a target."""

T = TypeVar("T")
B = TypeVar("B")

Piece: TypeAlias = tuple[B, int, int]
"""Some rows of a batch: the batch, the first row, and the one after the last."""


class Stream(ABC):
    """A source of raw values that can be read from its beginning again and again."""

    names: Sequence[Names]
    """Names of the columns of each table, or None for a table that has its own."""

    n_columns: int
    """Number of columns of all tables."""

    computed_on: str = ""
    """Where totals are computed, if not in the site's own process."""

    @abstractmethod
    def windows(self, n_rows: int) -> Iterator[Raw]:
        """Return consecutive windows of ``n_rows`` rows, the last perhaps shorter.

        From the second time on, rows that differ from those of the first raise an error, at the latest after the last
        window.
        """

    @abstractmethod
    def check_unchanged(self) -> None:
        """Raise an error if what would be read now is not what was read first."""

    def scan(self, recipe: Recipe, windows: Iterator[Raw]) -> Scan:
        """Read everything once: count records, and those that are invalid.

        Parameters
        ----------
        recipe : Recipe
            How raw values become records.
        windows : iterator
            All windows.
        """
        return Scan.of(Scan.of_part(recipe, raw) for raw in windows)

    def tell(self, *, refuses: bool) -> None:
        """Tell the site's own user what could not be read; raise it where such records are refused."""
        return None  # most streams have nothing to tell

    def each_part(self, recipe: Recipe, function: Callable[[Records], T]) -> Iterator[T] | None:
        """Return what a function gives for the records of each part, computed where they are; None in this process.

        Parameters
        ----------
        recipe : Recipe
            How raw values become records.
        function : callable
            Function of dpcape's own, of the records of one part.
        """
        return None


@dataclass(frozen=True)
class Scan:
    """What the first reading finds: public facts, and what is invalid or unusable, which is not public."""

    facts: PublicFacts
    n_invalid: int
    unusable: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_part(cls, recipe: Recipe, raw: Raw) -> Scan:
        """Return what is found in one part that has rows."""
        records = recipe.records(*raw)
        return cls(records.facts(), records.n_invalid, getattr(records, "unusable", {}))

    @classmethod
    def of(cls, scans: Iterable[Scan]) -> Scan:
        """Return what is found in all parts together; refuse parts that do not fit one another."""
        first: PublicFacts | None = None
        n_records = n_invalid = 0
        unusable: Counter[str] = Counter()
        for scan in scans:
            first = scan.facts if first is None else first
            if scan.facts.shape_facts() != first.shape_facts():
                remedy = "Give every part the same names, in the same order."
                raise InvalidParameter("All parts of X", "have the same columns", "parts that differ", remedy)
            n_records, n_invalid = n_records + scan.facts.n_records, n_invalid + scan.n_invalid
            unusable.update(scan.unusable)
        if first is None:
            remedy = "Leave a site without records out of the federation."
            raise InvalidParameter("X", "have at least one row and one column", "a stream without rows", remedy)
        return cls(msgspec.structs.replace(first, n_records=n_records), n_invalid, dict(unusable))


class Checksum:
    """A running checksum of all values, whatever the windows they come in."""

    def __init__(self) -> None:
        self.n_rows = 0
        self._sums: dict[tuple[int, str], int] = {}

    def add(self, raw: Raw) -> None:
        """Add the values of a window."""
        self.n_rows += n_rows_of(raw[0])
        for number, table in enumerate(raw):
            for name, values in _columns(table):
                key = (number, name)
                self._sums[key] = crc32(_as_bytes(values), self._sums.get(key, 0))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Checksum) and (self.n_rows, self._sums) == (other.n_rows, other._sums)

    __hash__ = None  # type: ignore[assignment]  # it changes


def changed() -> ProtocolError:
    """Return the error for a source that does not give what it gave the first time."""
    why = "they are not those that were read first: rows were added, removed or changed, or came in another order"
    return ProtocolError("The data were refused", why, "Make the records again; a query needs ORDER BY.")


def checked_windows(windows: Iterator[Raw], first: Checksum | None, seen: Checksum) -> Iterator[Raw]:
    """Yield windows and add them to ``seen``; raise if they are not those of the first time."""
    for raw in windows:
        seen.add(raw)
        if first is not None and seen.n_rows > first.n_rows:
            raise changed()
        yield raw
    if first is not None and seen != first:
        raise changed()


def counted_windows(windows: Iterator[Raw], n_rows: int) -> Iterator[Raw]:
    """Yield windows of a source whose values cannot have changed; raise if there are more or fewer rows."""
    n_seen = 0
    for raw in windows:
        n_seen += n_rows_of(raw[0])
        if n_seen > n_rows:
            raise changed()
        yield raw
    if n_seen != n_rows:
        raise changed()


def in_pieces(batches: Iterable[B], n_rows: int, length: Callable[[B], int]) -> Iterator[list[Piece[B]]]:
    """Yield the pieces of batches of any length that make windows of ``n_rows`` rows, the last perhaps shorter."""
    pieces: list[Piece[B]] = []
    room = n_rows
    for batch in batches:
        start, n_batch = 0, length(batch)
        while start < n_batch:
            stop = min(start + room, n_batch)
            pieces.append((batch, start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield pieces
                pieces, room = [], n_rows
    if pieces:
        yield pieces


def joined(pieces: Sequence[Raw]) -> Raw:
    """Return arrays and frames of consecutive rows as one."""
    if len(pieces) == 1:
        return pieces[0]
    return tuple(
        np.concatenate(tables)
        if isinstance(tables[0], np.ndarray)
        else import_module("pandas").concat(list(tables), ignore_index=True)
        for tables in zip(*pieces, strict=True)
    )


def n_rows_of(table: object) -> int:
    """Return the number of rows of raw values."""
    if isinstance(table, Mapping):
        return len(next(iter(table.values()), ()))
    return len(table)  # type: ignore[arg-type]  # an array or a frame


def _columns(table: object) -> Iterator[tuple[str, AnyArray | Words]]:
    """Yield the arrays of a table with their names: an array is one, whatever its columns."""
    if isinstance(table, np.ndarray):
        yield "", table
    elif isinstance(table, Mapping):
        yield from (
            (str(name), values if isinstance(values, Words) else np.asarray(values)) for name, values in table.items()
        )
    elif getattr(table, "ndim", 0) == 1:
        yield "", _plain(table)
    else:
        frame: _Frame = table  # type: ignore[assignment]  # pandas', by elimination
        yield from ((str(name), _plain(frame.iloc[:, at])) for at, name in enumerate(frame.columns))


class _Frame(Protocol):
    columns: Sequence[object]
    iloc: Mapping[tuple[slice, int], object]


def _plain(series: object) -> AnyArray:
    """Return a pandas column as an array of numbers, moments or objects."""
    convert: Callable[..., AnyArray] = series.to_numpy  # type: ignore[attr-defined]  # pandas'
    values = convert()
    return values if values.dtype.kind in "biufmM" else convert(dtype=object)


def _as_bytes(values: AnyArray | Words) -> bytes | memoryview:
    """Return what a checksum reads: the numbers themselves, or one checksum of each object's own words."""
    if isinstance(values, Words):
        return _word_sums(values.texts)[values.positions].data
    if values.dtype.kind in "biufmM":
        plain = np.ascontiguousarray(values)
        return (plain.view(np.int64) if plain.dtype.kind in "mM" else plain).data
    return _word_sums(values).data


def _word_sums(objects: AnyArray) -> AnyArray:
    """Return the checksum of each object, whatever the others are."""
    sums = (crc32(repr(value).encode("utf-8", "surrogatepass")) for value in objects.tolist())
    return np.fromiter(sums, dtype=np.uint32, count=len(objects))
