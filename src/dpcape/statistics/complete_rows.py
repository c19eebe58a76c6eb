r"""Columns of a table read as rows: statistics of rows, over the records that are complete.

A number or date is its place in its public range, from -1 to 1. A category of two levels is -1 or 1. One of more levels
is one number per level: 1 for the level of the record and 0 for the others. So each column is at most 1 long, and the
row of a record at most :math:`\sqrt b` for b columns. A record with a missing value in one of them contributes zero.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray, IntArray
from dpcape.core.contributions import Cells, Form
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import UNIT_ROUNDOFF, Extent
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.core.grid import on_grid
from dpcape.core.kernel import Summed
from dpcape.core.statistic import PublicValue, known
from dpcape.core.tiles import Tile, tile_of_rows
from dpcape.statistics.cells import CATEGORY
from dpcape.statistics.moments import FirstMoments
from dpcape.statistics.scaling import AbsoluteDeviations, RadiusHistogram, ScaledCentredMoments
from dpcape.statistics.table_designs import checked_positions

PREFIX = "complete_"
"""What names of statistics of complete records begin with, before the name of the statistic of rows."""


class RowColumns:
    """Public columns of a table that become the columns of rows.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    columns : array of int
        Positions of the columns, all different.
    """

    def __init__(self, facts: PublicFacts, columns: IntArray | Sequence[int]) -> None:
        self._positions = checked_positions(facts, np.asarray(columns), "columns")
        if len(set(self._positions)) != len(self._positions):
            raise InvalidParameter("columns", "be different", f"positions {self._positions}", "Name each once.")
        chosen = [facts.columns[at] for at in self._positions]
        self._columns = chosen
        self.groups: IntArray = np.repeat(np.arange(len(chosen)), [row_width(column) for column in chosen])
        """Column of the table that each column of the rows belongs to."""
        self.is_number: BoolArray = np.array([chosen[at].kind != CATEGORY for at in self.groups])
        """Whether each column of the rows is a number in a range."""
        self.labels: list[str] = [label for column in chosen for label in _labels(column)]
        """Names of the columns of the rows; those of levels name column and level."""
        length = math.sqrt(len(chosen))
        self.facts = PublicFacts(
            kind="rows",
            unit=facts.unit,
            n_records=facts.n_records,
            widths=(len(self.groups),),
            bounds=(length,),
            longest=(length,),
            invalid=facts.invalid,
        )
        """Public facts of the rows."""

    @property
    def usual_scales(self) -> FloatArray:
        """Scale of each level, by which it is at most 2 from its mean; NaN for numbers, whose scale is found."""
        several = np.bincount(self.groups)[self.groups] > 1
        scales: FloatArray = np.where(self.is_number, np.nan, np.where(several, 0.5, 1.0))
        return scales

    def original(self, means: FloatArray) -> FloatArray:
        """Return means of columns of rows in original units: numbers in those of their range, levels as shares."""
        values = []
        for mean, at in zip(means, self.groups, strict=True):
            column = self._columns[at]
            if column.kind != CATEGORY:
                values.append(column.low + (mean + 1) / 2 * (column.high - column.low))
            else:
                values.append(mean if len(column.levels) > 2 else (mean + 1) / 2)
        return np.array(values)

    def rows(self, codes: FloatArray) -> tuple[FloatArray, BoolArray]:
        """Return the rows of all records, zeros for those that are not complete, and which are not."""
        chosen = codes[:, self._positions]
        incomplete: BoolArray = np.asarray(np.isnan(chosen).any(axis=1))
        chosen = np.where(incomplete[:, np.newaxis], 0.0, chosen)
        result = np.empty((len(chosen), len(self.groups)))
        start = 0
        for at, column in enumerate(self._columns):
            stop = start + row_width(column)
            _fill(column, chosen[:, at], result[:, start:stop])
            start = stop
        return result, incomplete


def row_width(column: PublicColumn) -> int:
    """Return how many columns of rows a column of a table becomes."""
    return len(column.levels) if column.kind == CATEGORY and len(column.levels) > 2 else 1


def _labels(column: PublicColumn) -> list[str]:
    if column.kind != CATEGORY:
        return [column.name]
    return [f"{column.name}: {level}" for level in column.levels[-row_width(column) :]]


def _fill(column: PublicColumn, codes: FloatArray, out: FloatArray) -> None:
    """Write a column as numbers, of a length of at most 1 together."""
    if column.kind != CATEGORY:
        np.clip(codes, -1.0, 1.0, out=out[:, 0])
    elif row_width(column) == 1:
        # A single level carries no information: it is -1 for every record.
        out[:, 0] = np.where(codes >= 1, 1.0, -1.0)
    else:
        levels = np.clip(codes, 0, len(column.levels) - 1).astype(np.intp)
        np.equal(levels[:, np.newaxis], np.arange(len(column.levels)), out=out, casting="unsafe")


class Complete(NamedTuple):
    """Means over all records of what complete ones contribute.

    Attributes
    ----------
    share : float
        Share of all records that are complete.
    packed : array
        Packed contributions of the statistic of rows.
    """

    share: float
    packed: FloatArray


def with_count(extent: Extent) -> tuple[Extent, float]:
    """Return the extent of contributions with a count of complete records, and the weight of the count."""
    weight = math.sqrt((extent.diameter**2 - extent.radius**2) / 2)

    def rounding(n_records: float) -> float:
        return extent.rounding(n_records) + 2 * UNIT_ROUNDOFF * n_records * weight

    def changed(n_records: float) -> float:
        return extent.changed(n_records) + 2 * UNIT_ROUNDOFF * n_records * weight

    radius = math.sqrt((extent.diameter**2 + extent.radius**2) / 2)
    return Extent(1 + extent.size, extent.diameter, radius, rounding, changed), weight


class OfComplete(Summed[Complete]):
    r"""Statistic of the rows of complete records, and their number.

    A subclass names the statistic of rows it is made of, ``inner``, whose diameter is D and radius R < D for rows
    that are at most :math:`\sqrt b` long; rows of b columns are. A complete record contributes (w, c), where c is what
    its row contributes to ``inner`` and :math:`w^2 = (D^2 - R^2)/2`, an incomplete one zero.

    *Diameter.* Two complete records are at most D apart, as for ``inner``. A complete and an incomplete one are at most
    :math:`\sqrt{w^2 + R^2} = \sqrt{(D^2 + R^2)/2} < D` apart: missing values and their count cost nothing. That is
    also the length of the longest contribution.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    columns : array of int
        Positions of the columns.
    **public
        Public values of ``inner``.
    """

    inner: ClassVar[type[Summed[Any]]]  # type: ignore[explicit-any]  # known when it runs
    kinds = frozenset({"table"})
    units = frozenset({"record"})

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        cls.name = f"{PREFIX}{cls.inner.name}"

        @functools.wraps(cls.inner.extent)
        def extent(**numbers: float) -> Extent:
            return with_count(cls.inner.extent(**numbers))[0]

        cls.extent = staticmethod(extent)

    def __init__(self, facts: PublicFacts, columns: IntArray, **public: PublicValue) -> None:
        super().__init__(facts, columns=columns, **public)
        self._columns = RowColumns(facts, columns)
        make: Callable[..., Summed[Any]] = self.inner  # type: ignore[explicit-any]  # keywords differ
        self._inner = make(msgspec.structs.replace(self._columns.facts, n_records=0), **public)
        self.weight = float(with_count(self.inner.extent(**self._inner.numbers))[1])
        """Weight of the count of complete records."""

    @property
    def numbers(self) -> Mapping[str, float]:
        return self._inner.numbers

    def terms(self, tile: Tile) -> Sequence[Form]:
        rows, incomplete = self._columns.rows(tile.codes)
        # A row has at most 1 for each column, so it is no longer than its bound.
        forms = self._inner.terms(tile_of_rows(on_grid(rows, self._columns.facts.bounds[0]), tile.factors))
        for form in forms:
            form.drop(incomplete)
        return [Cells(incomplete.astype(np.intp), 1), *forms]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate([self.weight * sums[0], self._inner.packed(sums[1:])])

    def unpack(self, packed: FloatArray) -> Complete:
        """Return the share of complete records, and what they contribute."""
        return Complete(float(packed[0]) / self.weight, packed[1:])

    def mean_of(self, complete: Complete, share: float) -> Any:  # type: ignore[explicit-any]  # the form of ``inner``
        """Return the mean over complete records, in the form of ``inner``, for a share of them."""
        return self._inner.unpack(complete.packed / share)


@known
class CompleteFirstMoments(OfComplete):
    """Means of the columns of complete records, and of their squares."""

    inner = FirstMoments


@known
class CompleteAbsoluteDeviations(OfComplete):
    """Mean absolute deviations of the columns of complete records from public numbers."""

    inner = AbsoluteDeviations


@known
class CompleteRadiusHistogram(OfComplete):
    """Shares of complete records by the length of their standardised rows."""

    inner = RadiusHistogram


@known
class CompleteScaledCentredMoments(OfComplete):
    """Mean and second moment of the standardised rows of complete records, released jointly."""

    inner = ScaledCentredMoments
