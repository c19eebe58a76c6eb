"""The kinds of records a site may hold.

Every kind gives out its records only as blocks in which the public bounds hold. Labelled rows come, where asked for,
with the factors by which they were shortened. Blocks live in a buffer that is used again for the next block: use a
block before asking for the next, and copy it to keep it.

A block without a valid record is given out by `all_blocks` alone. Code that fails on an empty block would otherwise
make a site fail where, for example, the last record by itself is invalid, and so reveal that record without noise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import rows_of_views
from dpcape.core.tiles import Series, Tile, tile_of_counts, tile_of_rows, tile_of_series, tile_rows
from dpcape.core.word_counts import WordCounts
from dpcape.records.counts import Counts, SparseBlock
from dpcape.records.features import Features, Mask
from dpcape.records.labels import Codes, Response

# Entries that are read together, unless one block has more: 2 MiB.
_READ_AHEAD = 1 << 18
T = TypeVar("T")


class Records:
    """What one site holds, clipped to public bounds, and the facts that are public.

    Attributes
    ----------
    n_records : int
        Number of protected units.
    n_features : int
        Columns, all views together.
    kind : "rows", "views", "labelled", "documents", "subjects" or "table"
    unit : str
        What is protected: "record" or "subject".
    """

    def __init__(self, facts: PublicFacts) -> None:
        self._facts = facts

    def facts(self) -> PublicFacts:
        """Return everything about these records that is public."""
        return self._facts

    @property
    def n_records(self) -> int:
        """Number of protected units."""
        return self._facts.n_records

    @property
    def n_features(self) -> int:
        """Columns, all views together."""
        return self._facts.n_features

    @property
    def kind(self) -> str:
        """Which kind of records these are."""
        return self._facts.kind

    @property
    def unit(self) -> str:
        """What one neighbouring data set replaces."""
        return self._facts.unit

    def each_alone(self) -> Iterator[Records]:
        """Return an iterator over protected units, each as records of its own."""
        from dpcape.records.one_at_a_time import one_at_a_time

        return one_at_a_time(self)

    def blocks(self, size: int = 1024) -> Iterator[Any]:
        """Return an iterator over blocks of at most `size` records; the buffer of a block is used again."""
        return self.feature_blocks(size)

    def feature_blocks(self, size: int = 1024) -> Iterator[FloatArray]:
        """Return an iterator over clipped rows, (at most `size`, n_features); the buffer is used again."""
        return (block for block in Records.all_blocks(self, size) if len(block))

    def all_blocks(self, size: int = 1024) -> Iterator[Any]:
        """Return the same as `blocks`, those without a valid record included: blocks follow from positions alone."""
        return self._read_ahead(checked_size(size))

    def _read_ahead(self, size: int) -> Iterator[FloatArray]:
        """Return blocks of rows; several are read together, because each reading costs some calls."""
        for start, stop, buffer in self._spans(size * max(1, _READ_AHEAD // (size * max(1, self.n_features)))):
            rows = buffer[: stop - start]
            valid = self._fill(start, stop, rows)
            all_valid = bool(valid.all())
            for first in range(0, len(rows), size):
                block = rows[first : first + size]
                yield block if all_valid else block[valid[first : first + size]]

    def tiles(self) -> Iterator[tuple[Tile, Mask | None]]:
        """Return an iterator over tiles, and which of their records are invalid or beyond the last; None for none."""
        facts = self._facts
        size = tile_rows(self.n_features, self.n_records)
        buffer, ints = np.empty((2, size, self.n_features))
        for start in range(0, self.n_records, size):
            stop = min(start + size, self.n_records)
            gone = np.zeros(size, dtype=np.bool_)
            values = self._as_they_are(start, stop) if stop - start == size else None
            if values is None:
                gone[stop - start :], buffer[stop - start :] = True, 0.0
                gone[: stop - start] = ~self._prepare(start, stop, buffer[: stop - start])
                values = buffer
            rows, factors, unreadable = rows_of_views(values, facts.widths, facts.bounds, out=ints)
            if unreadable is not None:
                gone |= unreadable
            targets = np.zeros(size)
            self._read_targets(start, stop, targets[: stop - start])
            if not gone.any():
                yield tile_of_rows(rows, factors, targets), None
                continue
            rows.drop(gone)
            factors[gone], targets[gone] = 1.0, 0.0
            yield tile_of_rows(rows, factors, targets), gone

    def _as_they_are(self, start: int, stop: int) -> FloatArray | None:
        """Return rows that need no preparation, without copying them; None where there are no such rows."""
        return None

    def _read_targets(self, start: int, stop: int, out: FloatArray) -> None:
        """Write the targets of records `start` to `stop` into `out`, if they have any."""

    def _prepare(self, start: int, stop: int, out: FloatArray) -> Mask:
        """Write the features of records `start` to `stop`, not clipped, into `out`; return which of them are valid.

        A row that is not finite is found when it is put on the grid.
        """
        must, remedy = "be asked of records made of bounded rows", "Use a statistic made for this kind of records."
        raise InvalidParameter("rows", must, f"{self.kind} of unit {self.unit!r}", remedy)

    def shortened_blocks(self, size: int = 1024) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Return an iterator over (clipped rows, factors) by which rows, or their most clipped view, were shortened."""
        for start, stop, buffer in self._spans(checked_size(size)):
            block, factors = buffer[: stop - start], np.ones(stop - start)
            valid = self._fill(start, stop, block, factors)
            if valid.any():
                yield (block, factors) if valid.all() else (block[valid], factors[valid])

    def _spans(self, size: int) -> Iterator[tuple[int, int, FloatArray]]:
        """Yield where blocks start and stop, and the buffer they share."""
        buffer = np.empty((min(size, self.n_records), self.n_features))
        for start in range(0, self.n_records, size):
            yield start, min(start + size, self.n_records), buffer

    @property
    def n_invalid(self) -> int:
        """Number of records that cannot be read and contribute zero: for the site's steward, never to be sent."""
        if not self._any_invalid():
            return 0
        return self.n_records - sum(len(block) for block in self.feature_blocks())

    @property
    def computed_on(self) -> str:
        """Where totals are computed, if not in the site's own process: a cluster inside the site."""
        return ""

    def check_unchanged(self) -> None:
        """Raise an error if records are read from a source that no longer holds what was read first."""

    def each_part(self, function: Callable[[Records], T]) -> Iterator[T] | None:
        """Return what a function gives for each part of the records, computed elsewhere; None for this process."""
        return None

    def _any_invalid(self) -> bool:
        """Tell whether a part of some record was found invalid when it was first read."""
        return True

    def _fill(self, start: int, stop: int, out: FloatArray, factors: FloatArray | None = None) -> Mask:
        """Write the clipped features of records `start` to `stop` into `out`; return which of them are valid.

        The factors by which rows were shortened are written into `factors` if it is given.
        """
        must, remedy = "be asked of records made of bounded rows", "Use a statistic made for this kind of records."
        raise InvalidParameter("rows", must, f"{self.kind} of unit {self.unit!r}", remedy)

    def __repr__(self) -> str:
        facts = self._facts
        return (
            f"{type(self).__name__}(n_records={facts.n_records}, widths={facts.widths}, "
            f"bounds={facts.bounds}, unit={facts.unit!r})"
        )


class Rows(Records):
    """Rows of one table; blocks are (n, n_features)."""

    def __init__(self, features: Features, facts: PublicFacts) -> None:
        super().__init__(facts)
        self._features = features

    def _fill(self, start: int, stop: int, out: FloatArray, factors: FloatArray | None = None) -> Mask:
        return self._features.fill(start, stop, out, factors)

    def _as_they_are(self, start: int, stop: int) -> FloatArray | None:
        return self._features.as_they_are(start, stop)

    def _prepare(self, start: int, stop: int, out: FloatArray) -> Mask:
        return self._features.prepared(start, stop, out)

    def _any_invalid(self) -> bool:
        return self._features.n_invalid > 0


class Views(Records):
    """Two or more tables with the same records; blocks hold them side by side, each clipped to its own bound."""

    def __init__(self, tables: Sequence[Features], facts: PublicFacts) -> None:
        super().__init__(facts)
        self._tables = tuple(tables)

    def _fill(self, start: int, stop: int, out: FloatArray, factors: FloatArray | None = None) -> Mask:
        valid: Mask = np.ones(stop - start, dtype=bool)
        end = 0
        for features in self._tables:
            first, end = end, end + features.n_features
            own = None if factors is None else np.ones(stop - start)
            valid &= features.fill(start, stop, out[:, first:end], own)
            if factors is not None and own is not None:
                np.minimum(factors, own, out=factors)
        return valid

    def _prepare(self, start: int, stop: int, out: FloatArray) -> Mask:
        valid: Mask = np.ones(stop - start, dtype=bool)
        end = 0
        for features in self._tables:
            first, end = end, end + features.n_features
            valid &= features.prepared(start, stop, out[:, first:end])
        return valid

    def _any_invalid(self) -> bool:
        return any(features.n_invalid for features in self._tables)


class Labelled(Records):
    """Rows with a response or a class; blocks are pairs (rows, responses in [-1, 1] or class codes)."""

    def __init__(self, features: Features, targets: Response | Codes, facts: PublicFacts) -> None:
        super().__init__(facts)
        self._features, self._targets = features, targets

    def blocks(self, size: int = 1024) -> Iterator[tuple[FloatArray, AnyArray]]:
        """Return an iterator over (rows, targets); codes are positions in the public list of classes."""
        return (pair for pair in self.all_blocks(size) if len(pair[0]))

    def all_blocks(self, size: int = 1024) -> Iterator[tuple[FloatArray, AnyArray]]:
        """Return the same as `blocks`, those without a valid record included."""
        return (self._pair(*span) for span in self._spans(checked_size(size)))

    def _pair(self, start: int, stop: int, buffer: FloatArray) -> tuple[FloatArray, AnyArray]:
        block, targets = buffer[: stop - start], self._targets.read(start, stop)
        valid = self._fill(start, stop, block)
        return (block, targets) if valid.all() else (block[valid], targets[valid])

    def _fill(self, start: int, stop: int, out: FloatArray, factors: FloatArray | None = None) -> Mask:
        return self._features.fill(start, stop, out, factors) & self._targets.valid(start, stop)

    def _as_they_are(self, start: int, stop: int) -> FloatArray | None:
        return self._features.as_they_are(start, stop) if self._targets.valid(start, stop).all() else None

    def _prepare(self, start: int, stop: int, out: FloatArray) -> Mask:
        return self._features.prepared(start, stop, out) & self._targets.valid(start, stop)

    def _read_targets(self, start: int, stop: int, out: FloatArray) -> None:
        out[:] = self._targets.read(start, stop)

    def _any_invalid(self) -> bool:
        return self._features.n_invalid + self._targets.n_invalid > 0


class Documents(Records):
    """Word counts; blocks are sparse, and a document with fewer than three words is a row of zeros."""

    def __init__(self, counts: Counts, facts: PublicFacts) -> None:
        super().__init__(facts)
        self._counts = counts

    def blocks(self, size: int = 1024) -> Iterator[SparseBlock]:
        """Return an iterator over sparse blocks of counts, (at most `size`, n_features)."""
        # A document that cannot be read is a row of zeros, as a short one is.
        return (self._counts.read(start, stop) for start, stop in self._places(size))

    def tiles(self) -> Iterator[tuple[Tile, Mask | None]]:
        """Return an iterator over tiles of documents, and which of these hold an entry that is not a count."""
        for start, stop in self._places():
            block, bad = self._counts.marked(start, stop)
            yield tile_of_counts(WordCounts(block)), bad if bad.any() else None

    def _places(self, size: int = 1024) -> Iterator[tuple[int, int]]:
        step = checked_size(size)
        return ((at, min(at + step, self.n_records)) for at in range(0, self.n_records, step))

    @property
    def n_invalid(self) -> int:
        """Number of documents with entries that are not counts."""
        return self._counts.n_invalid


class Subjects(Records):
    """Time series of several people, (time points x voxels) each, every time point clipped to the bound.

    Unit "record" protects one time point: `blocks` runs over the time points of all subjects, as for rows.
    Unit "subject" protects a whole person: only `each_subject` gives out anything, because a statistic of
    single time points has a far larger sensitivity to a person than to a time point. Each refuses in the
    other unit.
    """

    def __init__(self, series: Sequence[Features], facts: PublicFacts, rows_per_subject: int | None = None) -> None:
        super().__init__(facts)
        self.rows_per_subject = rows_per_subject
        """Public largest number of time points of a subject, if it was stated."""
        # Of unit "subject" these are the series that could be opened; the others contribute zero.
        self._series = tuple(series)
        self.longest_series = max((features.n_rows for features in series), default=0)
        """Largest number of time points of a subject here; it stays at the site."""
        self._people = tuple(Series(functools.partial(_whole, features), facts.n_features) for features in series)
        self._ends = np.cumsum([features.n_rows for features in series])

    def each_subject(self) -> Iterator[FloatArray]:
        """Return an iterator over subjects, (time points, n_features) each; the buffer is used again."""
        if self.unit != "subject":
            remedy = "Build the records with unit='subject', or use blocks()."
            raise InvalidParameter("unit", "be 'subject' to go through whole subjects", "'record'", remedy)
        return self._each_subject()

    def _each_subject(self) -> Iterator[FloatArray]:
        buffer = np.empty((max((features.n_rows for features in self._series), default=0), self.n_features))
        for features in self._series:
            block = buffer[: features.n_rows]
            # One time point that cannot be read makes the person's whole contribution zero.
            if features.n_rows and features.fill(0, features.n_rows, block).all():
                yield block

    @property
    def n_invalid(self) -> int:
        """Number of subjects, or of time points in unit "record", that contribute zero."""
        if self.unit == "record":
            return super().n_invalid
        are_all_there = len(self._series) == self.n_records and all(features.n_rows for features in self._series)
        if are_all_there and not self._any_invalid():
            return 0
        return self.n_records - sum(1 for _ in self._each_subject())

    def _any_invalid(self) -> bool:
        return any(features.n_invalid for features in self._series)

    def blocks(self, size: int = 1024) -> Iterator[FloatArray]:
        """Return an iterator over all subjects' time points, for unit "record"; the buffer is used again."""
        return self.feature_blocks(size)

    def feature_blocks(self, size: int = 1024) -> Iterator[FloatArray]:
        """Return the same as `blocks`."""
        self._require_time_points()
        return super().feature_blocks(size)

    def all_blocks(self, size: int = 1024) -> Iterator[FloatArray]:
        """Return the same as `blocks`, those without a valid time point included."""
        self._require_time_points()
        return super().all_blocks(size)

    def _require_time_points(self) -> None:
        if self.unit != "record":
            remedy = "Use each_subject(), and a statistic that treats a subject as one contribution."
            raise InvalidParameter("unit", "be 'record' to go through single time points", "'subject'", remedy)

    def tiles(self) -> Iterator[tuple[Tile, Mask | None]]:
        """Return an iterator over tiles: of all subjects' time points, or of one subject each for unit "subject"."""
        return super().tiles() if self.unit == "record" else self._tiles_of_people()

    def _tiles_of_people(self) -> Iterator[tuple[Tile, Mask | None]]:
        for series in self._people:
            yield tile_of_series(series), None if series.is_valid else np.ones(1, dtype=np.bool_)
            series.forget()

    def _fill(self, start: int, stop: int, out: FloatArray, factors: FloatArray | None = None) -> Mask:
        valid = np.ones(stop - start, dtype=np.bool_)
        for features, first, end, span in self._of_subjects(start, stop):
            some = None if factors is None else factors[span]
            valid[span] = features.fill(first, end, out[span], some)
        return valid

    def _prepare(self, start: int, stop: int, out: FloatArray) -> Mask:
        valid = np.ones(stop - start, dtype=np.bool_)
        for features, first, end, span in self._of_subjects(start, stop):
            valid[span] = features.prepared(first, end, out[span])
        return valid

    def _of_subjects(self, start: int, stop: int) -> Iterator[tuple[Features, int, int, slice]]:
        """Yield which time points of which subjects lie from `start` to `stop`, and where among these."""
        position = start
        while position < stop:
            subject = int(np.searchsorted(self._ends, position, side="right"))
            first = int(self._ends[subject]) - self._series[subject].n_rows
            end = min(stop, int(self._ends[subject]))
            yield self._series[subject], position - first, end - first, slice(position - start, end - start)
            position = end


def _whole(features: Features) -> FloatArray | None:
    """Return all time points of a subject, in an array of their own; None if one of them cannot be read."""
    # Its memory begins at a multiple of 64 bytes, as every other subject's does.
    memory = np.empty(features.n_rows * features.n_features + 8)
    start = -(memory.ctypes.data // 8) % 8
    series = memory[start : start + features.n_rows * features.n_features].reshape(features.n_rows, -1)
    return series if features.n_rows and features.fill(0, features.n_rows, series).all() else None


def checked_size(size: int) -> int:
    """Return the number of records per block."""
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
        raise InvalidParameter("size", "be a positive whole number", repr(size), "Leave it out for 1024.")
    return int(size)
