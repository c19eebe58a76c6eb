"""Columns of records with a time to an event: means and squares, and how complete records are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.contributions import Cells, Form, Squares, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import entry_on_grid, on_grid
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.cells import CATEGORY
from dpcape.statistics.event_counts import checked_event
from dpcape.statistics.table_designs import NO_SITE, TableDesign

_SQUARES = 1.9
_COUNT = 0.25


class FollowedRows(NamedTuple):
    """The records of a tile; what is missing is not a number.

    Attributes
    ----------
    design : (N, width) array
        Columns as numbers, stored one after another.
    times : (N,) array
        Ends of follow-up, as places in the range of time, from 0 to 1.
    occurred : (N,) array of bool
        Whether the event happened then.
    incomplete : (N,) array of bool
        Whether a value is missing.
    """

    design: FloatArray
    times: FloatArray
    occurred: BoolArray
    incomplete: BoolArray


class FollowedDesign:
    """Public columns that covariates and a time to an event are read from.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    event : int
        Position of the time to an event among those of the table.
    design : array of int
        Positions of the covariates.
    """

    def __init__(self, facts: PublicFacts, event: int, design: IntArray) -> None:
        self._time, self._event, self._code = checked_event(facts, event)
        self._design = TableDesign(facts, np.array([self._time]), design, NO_SITE)
        self._positions = [int(at) for at in np.asarray(design)]
        if self._event in self._positions:
            remedy = "Choose other columns."
            raise InvalidParameter("design", "not contain the column of the event", "its position", remedy)
        columns = [facts.columns[at] for at in self._positions]
        self.width, self.n_columns = self._design.width, len(columns)
        numbers = [np.full(max(len(column.levels) - 1, 1), column.kind != CATEGORY) for column in columns]
        self.is_number: BoolArray = np.concatenate(numbers)

    def rows(self, codes: FloatArray, horizon: float = 1.0) -> FollowedRows:
        """Return the records of a tile, followed up to a horizon."""
        rows = self._design.rows(codes)
        times, events = (rows.outcomes[:, 0] + 1) / 2, codes[:, self._event]
        # A time at the end of the range may have been clipped to it.
        occurred = (events == self._code) & (times < 1) & (times <= horizon)
        incomplete = rows.incomplete | np.isnan(events)
        return FollowedRows(rows.design, np.minimum(times, horizon), occurred, incomplete)


class ColumnMeans(NamedTuple):
    """Means over all records of what complete records contribute.

    Attributes
    ----------
    complete : float
        Share of all records that are complete.
    means : (width,) array
        Columns as numbers.
    squares : array
        Squares of those that are numbers in a range.
    """

    complete: float
    means: FloatArray
    squares: FloatArray


@known
class FollowedColumns(Summed[ColumnMeans]):
    r"""Number of complete records, and means and squares of their columns.

    A complete record contributes :math:`(\sqrt{b}/2, x, \sqrt{1.9}\, x_r^2)`, an incomplete one zero, for b columns, of
    which :math:`x_r` are numbers in a range, from -1 to 1. A category of two levels is -1 or 1; one of L levels is
    L - 1 numbers, of which at most one is 1 and the others are 0.

    *Diameter.* Two numbers that are :math:`\Delta` apart have squares at most :math:`\Delta(2 - \Delta)` apart, and
    :math:`\Delta^2 + 1.9 \Delta^2(2 - \Delta)^2 \le 4` on [0, 2], as proved, with a larger weight, at
    :class:`~dpcape.statistics.adjusted_products.DesignMoments`. Two levels are 2 apart, more levels at most
    :math:`\sqrt 2`. So two complete records are at most :math:`2\sqrt b` apart, attained by opposite ends of all
    ranges. No contribution is longer than :math:`\sqrt{b/4 + 2.9 b}`, which is less. On the grid numbers may be larger
    than 1 by a public factor; sums are divided by it, and squares by its square.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    event : int
        Position of the time to an event among those of the table.
    design : array of int
        Positions of the columns.
    """

    name = "followed_columns"
    kinds = frozenset({"table"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, event: int, design: IntArray) -> None:
        super().__init__(facts, event=event, design=design)
        self._read = FollowedDesign(facts, event, design)
        self._reach = math.sqrt(self._read.n_columns)
        self._larger = entry_on_grid(self._reach, self._read.width)

    @staticmethod
    def extent(*, n_columns: float, width: float, n_numbers: float) -> Extent:
        """Return the extent for ``n_columns`` columns, which become ``width`` numbers, ``n_numbers`` of them ranged."""
        radius = math.sqrt(_COUNT + 1 + _SQUARES) * math.sqrt(n_columns)
        return exact_sums(1 + width + n_numbers, 2 * math.sqrt(n_columns), radius)

    @property
    def numbers(self) -> Mapping[str, float]:
        is_number = self._read.is_number
        return {"n_columns": self._read.n_columns, "width": self._read.width, "n_numbers": int(is_number.sum())}

    def terms(self, tile: Tile) -> Sequence[Form]:
        read = self._read.rows(tile.codes)
        rows = on_grid(read.design, self._reach)
        rows.drop(read.incomplete)
        return [Cells(read.incomplete.astype(np.intp), 1), Sum(rows), Squares(rows)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        count, columns, squares = sums
        weight, larger = math.sqrt(_COUNT * self._read.n_columns), self._larger
        of_numbers = squares[self._read.is_number] * (math.sqrt(_SQUARES) / larger**2)
        return np.concatenate([weight * count, columns / larger, of_numbers])

    def unpack(self, packed: FloatArray) -> ColumnMeans:
        """Return the means, without their weights."""
        width, larger = self._read.width, self._larger
        complete = float(packed[0]) / math.sqrt(_COUNT * self._read.n_columns)
        squares = packed[1 + width :] * (larger**2 / math.sqrt(_SQUARES))
        return ColumnMeans(complete, packed[1 : 1 + width] * larger, squares)
