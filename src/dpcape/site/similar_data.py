"""Data sets that may be of the same people although their rows are not recognised; only their steward can tell.

A changed column changes the fingerprint of every row. What is left to see is that two data sets have equally many rows
and similar columns. The steward is shown such data sets of the site and asked; nothing of it leaves the site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpcape.core.errors import InvalidParameter
from dpcape.records.readers.files import fingerprint
from dpcape.records.readers.row_fingerprints import column_names
from dpcape.site.cohorts import LARGEST_OVERLAP, RowStore, holds_files, shared_rows

# Relative difference below which row counts are considered equal: rows without any value are not counted.
_ROWS_APART = 0.01
# Columns are similar if both tables have this share of the wider table's column names or column count.
_COLUMNS_ALIKE = 0.5


class Shape(NamedTuple):
    """Numbers of rows, by the layouts they are in, number of columns, and names of columns if they have some."""

    n_rows: tuple[int, ...]
    n_columns: int
    names: tuple[str, ...] = ()

    def is_like(self, other: Shape) -> bool:
        """Return whether two data sets have equally many rows and similar columns."""
        equal = any(abs(a - b) <= _ROWS_APART * max(a, b) for a in self.n_rows for b in other.n_rows)
        wider = max(self.n_columns, other.n_columns, 1)
        alike = max(min(self.n_columns, other.n_columns), self.n_same_names(other))
        return equal and alike >= _COLUMNS_ALIKE * wider

    def n_same_names(self, other: Shape) -> int:
        """Return how many columns have a name that the other data set has too."""
        return len(set(self.names) & set(other.names))


class Similar(NamedTuple):
    """A registered data set that looks like a new one."""

    name: str
    shape: Shape
    n_same_names: int

    def __str__(self) -> str:
        named = f", {self.n_same_names} of the same name" if self.shape.names else ""
        return f"{self.name}: {max(self.shape.n_rows)} rows, {self.shape.n_columns} columns{named}"


def shape_of(store: RowStore, path: Path, content: str) -> Shape:
    """Return the shape of a data set; ``content`` is the digest of its files."""
    names, n_columns = column_names(path)
    return Shape(tuple(sorted({int(hashes.size) for hashes in store.take(path, content).values()})), n_columns, names)


def similar_data(
    store: RowStore, known: Mapping[str, Mapping[str, Any]], name: str, path: Path, content: str
) -> list[Similar]:
    """Return registered data sets that look like a new one, and whose rows are not recognised in it.

    A data set that the steward called different is left out for as long as the file stays as it was then.
    """
    mine, entry = shape_of(store, path, content), known.get(name, {})
    different = entry.get("different", ()) if entry.get("content") == content else ()
    shares = shared_rows(store, store.take(path, content), known, name)
    similar = []
    for other in sorted(set(shares) - set(different)):
        location = Path(known[other]["path"])
        if shares[other] > LARGEST_OVERLAP or not holds_files(location):
            continue
        shape = shape_of(store, location, fingerprint(location))
        if mine.is_like(shape):
            similar.append(Similar(other, shape, mine.n_same_names(shape)))
    return similar


def similar_refused(name: str, similar: Sequence[Similar]) -> InvalidParameter:
    """Return the refusal of a data set that may describe the same people as a registered one."""
    return InvalidParameter(
        "a data set",
        "have one budget",
        f"{name!r}, which may be of the same people as {'; '.join(map(str, similar))}",
        f"If it is, register it under the name {similar[0].name!r}, so that its spending counts. If it is of other "
        "people, add --different-people.",
    )


def different_note(name: str, other: str) -> str:
    """Return what the ledger says once the steward called two similar data sets different."""
    return f"{name} looks like {other} in size and columns; the steward stated that it is of other people."
