"""Public bases of wide rows, as operators: cosines on a mask, means over an atlas, and templates.

Wide rows (the voxels of an image) are analysed by their coordinates y = Q'x in a public basis of fewer columns, and
by what is left, r = x - Qy. A basis is applied without writing Q down: with 200,000 columns and 1,000 cosines it
would take 1.6 GB. Q is orthonormal up to rounding, which makes y and r what they are called; no diameter relies on
it.

Records are read through ``exact_coordinates`` and ``exact_expansion``, in which what a row becomes depends on that row
alone, to the last bit (``core/fine_grid.py``). ``coordinates`` and ``expanded`` are for what is released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, TypeAlias

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.fine_grid import FineRows
from dpcape.core.grid import GridRows

MOST_COLUMNS = 4096
"""Most columns of a basis: the release of their second moment then has 8.4 million numbers."""

Listed: TypeAlias = "list[str | list[int] | list[list[float]] | Listed]"
"""A basis as plain lists, as study files and stored models have it."""


class Basis(ABC):
    """Orthonormal columns Q that are public, the first of them being the most important.

    Attributes
    ----------
    kind : str
        Name in messages and study files.
    n_features : int
        Length of a row.
    n_columns : int
        Number of columns.
    """

    kind: ClassVar[str]
    n_features: int
    n_columns: int

    @property
    @abstractmethod
    def sent_array(self) -> FloatArray | IntArray:
        """What a message carries, from which ``bases.basis_from`` makes the same basis."""

    @abstractmethod
    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return Q'x of each row, (rows, n_columns)."""

    @abstractmethod
    def expanded(self, coordinates: FloatArray) -> FloatArray:
        """Return Qy of each row of coordinates, (rows, n_features)."""

    @abstractmethod
    def exact_coordinates(self, rows: GridRows) -> FloatArray:
        """Return Q'x of each row of a record, (rows, n_columns), of this row alone."""

    @abstractmethod
    def exact_expansion(self, coordinates: FineRows, factor: float = 1.0) -> FloatArray:
        """Return Qy of the coordinates of each record, times a factor, (rows, n_features), of these alone."""

    @abstractmethod
    def listed(self) -> Listed:
        """Return the basis as plain lists, for study files and stored models."""

    @property
    def inside(self) -> BoolArray | None:
        """Mask of the image whose voxels the columns of a row are, in C order; None if there is no image."""
        return None

    @property
    def used(self) -> BoolArray:
        """Which columns are not zero."""
        return np.ones(self.n_columns, dtype=np.bool_)

    @property
    def parts(self) -> tuple[Basis, ...]:
        """Bases of the parts of a row that stand side by side, such as its views; itself if a row is one part."""
        return (self,)

    @property
    def is_complete(self) -> bool:
        """Whether nothing of a row is left out."""
        return False

    def cuts(self, least: int) -> list[int]:
        """Return how many of the first columns may be kept without the others, at least ``least``, ascending."""
        return [self.n_columns]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Basis):
            return NotImplemented
        return self.kind == other.kind and np.array_equal(self.sent_array, other.sent_array)

    def __hash__(self) -> int:
        return hash((self.kind, self.n_features, self.n_columns))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_features={self.n_features}, n_columns={self.n_columns})"


BasisPart: TypeAlias = "tuple[Basis, slice[int, int, None], slice[int, int, None]]"
"""A part of a basis, its columns of a row, and its coordinates."""


def basis_parts(basis: Basis) -> Iterator[BasisPart]:
    """Yield each part of a basis, with the columns of a row and the coordinates that belong to it."""
    end = last = 0
    for part in basis.parts:
        start, first = end, last
        end, last = start + part.n_features, first + part.n_columns
        yield part, slice(start, end), slice(first, last)
