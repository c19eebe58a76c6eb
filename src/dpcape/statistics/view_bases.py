"""Bases of rows that consist of views: one basis per view, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.fine_grid import FineRows
from dpcape.core.grid import GridRows
from dpcape.statistics.basis import MOST_COLUMNS, Basis, Listed, basis_parts


class Columns(Basis):
    """The columns themselves: the basis of a view that needs none, which leaves nothing out.

    Parameters
    ----------
    n_features : int
        Number of columns.
    """

    kind: ClassVar[str] = "columns"

    def __init__(self, n_features: int) -> None:
        if not 1 <= n_features <= MOST_COLUMNS:
            must = f"have at most {MOST_COLUMNS} columns beside one with a basis"
            raise InvalidParameter("A view without a basis", must, n_features, "Give it a public basis.")
        self.n_features = self.n_columns = int(n_features)

    @property
    def is_complete(self) -> bool:
        """Whether nothing of a row is left out: always."""
        return True

    @property
    def sent_array(self) -> IntArray:
        """The number of columns."""
        return np.array([self.n_features], dtype=np.int64)

    def listed(self) -> Listed:
        """Return the basis as plain lists."""
        return [self.kind, [self.n_features]]

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return a copy of the rows."""
        return np.array(rows)

    def expanded(self, coordinates: FloatArray) -> FloatArray:
        """Return a copy of the coordinates."""
        return np.array(coordinates)

    def exact_coordinates(self, rows: GridRows) -> FloatArray:
        """Return the rows."""
        return rows.values

    def exact_expansion(self, coordinates: FineRows, factor: float = 1.0) -> FloatArray:
        """Return the coordinates times a factor."""
        return coordinates.ints * (factor / coordinates.steps)


class SideBySide(Basis):
    """One basis per view: the coordinates of a row are those of its views, one after the other.

    Parameters
    ----------
    parts : sequence of Basis
        Basis of each view; :class:`Columns` for a view that is read as it is.
    """

    kind: ClassVar[str] = "views"

    def __init__(self, parts: Sequence[Basis]) -> None:
        self._parts = tuple(parts)
        self.n_features = sum(part.n_features for part in self._parts)
        self.n_columns = sum(part.n_columns for part in self._parts)
        if len(self._parts) < 2 or any(len(part.parts) > 1 for part in self._parts) or self.n_columns > MOST_COLUMNS:
            must = f"be two or more, and their bases must have at most {MOST_COLUMNS} columns together"
            remedy = "Use smaller bases."
            raise InvalidParameter("Views", must, f"{len(self._parts)} views and {self.n_columns} columns", remedy)

    @property
    def parts(self) -> tuple[Basis, ...]:
        """Basis of each view."""
        return self._parts

    @property
    def is_complete(self) -> bool:
        """Whether nothing of any view is left out."""
        return all(part.is_complete for part in self._parts)

    @property
    def sent_array(self) -> FloatArray:
        """For each view the kind of its basis, the shape of what that basis is made from, and its numbers."""
        each = []
        for part in self._parts:
            array = part.sent_array
            head = [KINDS.index(part.kind), array.ndim, *array.shape]
            each.append(np.concatenate([np.array(head, dtype=np.float64), array.ravel().astype(np.float64)]))
        return np.concatenate(each)

    def listed(self) -> Listed:
        """Return the basis as plain lists."""
        return [self.kind, *(part.listed() for part in self._parts)]

    @property
    def used(self) -> BoolArray:
        """Which columns are not zero."""
        return np.concatenate([part.used for part in self._parts])

    def coordinates(self, rows: FloatArray) -> FloatArray:
        """Return the coordinates of each row, one view after the other."""
        result = np.empty((len(rows), self.n_columns))
        for part, columns, own in basis_parts(self):
            result[:, own] = part.coordinates(np.ascontiguousarray(rows[:, columns]))
        return result

    def expanded(self, coordinates: FloatArray) -> FloatArray:
        """Return the rows of each row of coordinates, one view after the other."""
        result = np.empty((len(coordinates), self.n_features))
        for part, columns, own in basis_parts(self):
            result[:, columns] = part.expanded(np.ascontiguousarray(coordinates[:, own]))
        return result

    def exact_coordinates(self, rows: GridRows) -> FloatArray:
        """Return the coordinates of each row of a record, one view after the other."""
        result = np.empty((len(rows), self.n_columns))
        for part, columns, own in basis_parts(self):
            result[:, own] = part.exact_coordinates(GridRows(rows.ints[:, columns], rows.steps))
        return result

    def exact_expansion(self, coordinates: FineRows, factor: float = 1.0) -> FloatArray:
        """Return the rows of the coordinates of each record, times a factor, one view after the other."""
        result = np.empty((len(coordinates.ints), self.n_features))
        for part, columns, own in basis_parts(self):
            result[:, columns] = part.exact_expansion(FineRows(coordinates.ints[:, own], coordinates.steps), factor)
        return result


KINDS = ("columns", "cosines", "atlas", "template")
"""Kinds of bases that a view may have, by their numbers in messages."""
