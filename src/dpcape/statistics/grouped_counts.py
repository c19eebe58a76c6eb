"""Counts of records in the cells of every column, by group, in one release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.contributions import Between, Cells, Form
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import CONVERSIONS, UNIT_ROUNDOFF, Extent, exact_sums
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.cells import CATEGORY, codes_of, encoding, n_cells_of, taken

MOST_BINS = 1024
"""Most bins of the range of a number."""

# Columns are counted some at a time: an eighth of those of a tile, which stays in the cache.
_SPANS = 8


@known
class GroupedCounts(Summed[tuple[FloatArray, ...]]):
    r"""Shares of records in the cells of every chosen column, in every group.

    Groups are the combinations of the levels of the columns in ``by``, missing included. A record of group g
    contributes, for column j, :math:`v_j e_g \otimes a_j`: the row of its cell, or a mixture of the rows of two
    neighbouring knots, in the place of its group (:mod:`dpcape.statistics.cells`).

    *Diameter.* Let two records contribute :math:`v_j e_g \otimes a_j` and :math:`v_j e_h \otimes b_j`. In the same
    group, g = h, part j differs by :math:`v_j |a_j - b_j| \le v_j`. In different groups the parts are orthogonal, and
    differ by :math:`v_j \sqrt{|a_j|^2 + |b_j|^2} \le v_j`, because no row is longer than :math:`1/\sqrt 2`. So the
    distance is at most :math:`|v|`, whatever the groups are; two groups, or two levels in all columns, attain it. No
    contribution is longer than :math:`|v| / \sqrt 2`.

    Shares are whole numbers of 2^-20 that add up to one, so a contribution is such a mixture exactly. A position that
    is not in its range would count between the last knot and missing, or not at all, and codes are moved into their
    list: this holds for any tile.

    *Rounding.* The rows of the encoding are computed with 4 (n + 64) roundings for n cells. Sums become packed numbers
    in a product of n terms; the absolute values of the terms of all records add up to a vector that is no longer than
    N times the radius, because a row of absolute values is as long as the row.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    columns : (J,) array of int
        Positions of the columns that are counted.
    by : array of int
        Positions of the columns, all categories, whose levels form the groups; may be empty.
    weights : (J,) array
        The v_j: positive numbers. The noise of a column is in inverse proportion to its weight.
    n_bins : int
        Bins of the range of a number or date.
    """

    name = "grouped_counts"
    kinds = frozenset({"table"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, columns: IntArray, by: IntArray, weights: FloatArray, n_bins: int) -> None:
        super().__init__(facts, columns=columns, by=by, weights=weights, n_bins=n_bins)
        chosen, groups = checked_positions(facts, columns, "columns"), checked_positions(facts, by, "by")
        if not chosen or set(chosen) & set(groups) or any(facts.columns[at].kind != CATEGORY for at in groups):
            must = "name at least one column, and by only categories among the others"
            raise InvalidParameter("columns", must, f"{chosen} and {groups}", "Choose columns of the table.")
        if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or not 1 <= n_bins <= MOST_BINS:
            raise InvalidParameter("n_bins", f"be a whole number from 1 to {MOST_BINS}", repr(n_bins))
        self._columns, self._by, self._n_bins = chosen, groups, int(n_bins)
        self._weights = _checked_weights(weights, len(chosen))
        self.counted = tuple(facts.columns[at] for at in chosen)
        is_level = [column.kind == CATEGORY for column in self.counted]
        n_together = -(-facts.n_features // _SPANS)
        self._levels = [
            Levels.of([facts.columns[at] for at in span], span)
            for span in spans_of([at for at, level in zip(chosen, is_level, strict=True) if level], n_together)
        ]
        self._numbers = spans_of([at for at, level in zip(chosen, is_level, strict=True) if not level], n_together)

    @staticmethod
    def extent(*, n_cells: float, length: float, most_cells: float) -> Extent:
        """Return the extent for ``n_cells`` counts under weights of this Euclidean ``length``.

        ``most_cells`` is the number of cells of the column that has most of them.
        """
        radius = length / math.sqrt(2)
        return exact_sums(
            n_cells,
            length,
            radius,
            error=4 * (most_cells + 64) * UNIT_ROUNDOFF * radius,
            roundings=most_cells + CONVERSIONS,
        )

    @property
    def numbers(self) -> Mapping[str, float]:
        return numbers_of([self.facts.columns[at] for at in self._by], self.counted, self._weights, self._n_bins)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return n_groups_of([self.facts.columns[at] for at in self._by])

    def terms(self, tile: Tile) -> Sequence[Form]:
        groups, columns = groups_in(self.facts, self._by, tile.codes), tile.codes.T
        by_group = Cells(groups, self.n_groups)
        return [
            *(levels.cells(columns, groups, self.n_groups) for levels in self._levels),
            *(Between(by_group, self._places(columns[taken(span)]), self._n_bins + 2) for span in self._numbers),
        ]

    def _places(self, positions: FloatArray) -> FloatArray:
        """Return places among the knots of ranges, which are a bin apart; missing ones in the cell after the last."""
        places = positions * (self._n_bins / 2)
        places += self._n_bins / 2
        return np.fmin(places, self._n_bins + 1.0, out=places)

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        counts: dict[int, FloatArray] = {}
        for levels, values in zip(self._levels, sums[: len(self._levels)], strict=True):
            counts |= zip(levels.span, levels.counts(values, self.n_groups), strict=True)
        for span, values in zip(self._numbers, sums[len(self._levels) :], strict=True):
            by_group = values.reshape(len(span), self.n_groups + 1, self._n_bins + 2)
            counts |= zip(span, by_group[:, :-1], strict=True)
        return np.concatenate(
            [
                (weight * (counts[at] @ encoding(self.facts.columns[at], self._n_bins))).ravel()
                for weight, at in zip(self._weights, self._columns, strict=True)
            ]
        )

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, ...]:
        """Return, for every column, the shares of all records by group and cell, (groups, cells)."""
        sizes = [self.n_groups * n_cells_of(column, self._n_bins) for column in self.counted]
        blocks = np.split(packed, np.cumsum(sizes)[:-1])
        shares = []
        for column, weight, block in zip(self.counted, self._weights, blocks, strict=True):
            rows = encoding(column, self._n_bins)
            shares.append(np.linalg.solve(rows.T, block.reshape(self.n_groups, -1).T / weight).T)
        return tuple(shares)


class Levels(NamedTuple):
    """Categories that are counted together, by group.

    Attributes
    ----------
    span : list of int
        Positions of their columns.
    last : (K, 1) array of int
        Cell of missing values, the last of each.
    first : (K, 1) array of int
        Where the cells of each begin among those of a group.
    """

    span: list[int]
    last: IntArray
    first: IntArray

    @classmethod
    def of(cls, columns: Sequence[PublicColumn], span: list[int]) -> Levels:
        """Return where the cells of these columns are."""
        last = np.array([len(column.levels) for column in columns], dtype=np.intp)
        return cls(span, last[:, np.newaxis], (np.cumsum(last + 1) - last - 1)[:, np.newaxis])

    def cells(self, columns: FloatArray, groups: IntArray, n_groups: int) -> Cells:
        """Return the cells of every record, given the columns of a table."""
        cells = codes_of(columns[taken(self.span)], self.last)
        n_cells = int(self.first[-1, 0] + self.last[-1, 0]) + 1
        cells += groups * n_cells
        cells += self.first
        return Cells(cells, n_groups * n_cells)

    def counts(self, sums: FloatArray, n_groups: int) -> list[FloatArray]:
        """Return the numbers of records of each column, by group and cell."""
        return np.split(sums.reshape(n_groups, -1), self.first[1:, 0], axis=1)


def spans_of(positions: list[int], n_together: int) -> list[list[int]]:
    """Return positions in lists of this length, the last of which may be shorter."""
    return [positions[at : at + n_together] for at in range(0, len(positions), n_together)]


def groups_in(facts: PublicFacts, by: Sequence[int], block: FloatArray) -> IntArray:
    """Return the group of every record: its combination of the levels of the columns in ``by``."""
    groups = np.zeros(len(block), dtype=np.intp)
    for position in by:
        n_levels = len(facts.columns[position].levels)
        groups = groups * (n_levels + 1) + codes_of(block[:, position], n_levels)
    return groups


def n_groups_of(by: Sequence[PublicColumn]) -> int:
    """Return the number of combinations of levels, missing included."""
    return math.prod(len(column.levels) + 1 for column in by)


def numbers_of(
    by: Sequence[PublicColumn], counted: Sequence[PublicColumn], weights: FloatArray, n_bins: int
) -> dict[str, float]:
    """Return the public numbers that determine the extent of the counts of these columns."""
    cells = [n_cells_of(column, n_bins) for column in counted]
    length = float(np.sqrt(math.fsum(float(weight) ** 2 for weight in weights)))
    return {"n_cells": n_groups_of(by) * sum(cells), "length": length, "most_cells": max(cells)}


def planned_numbers(n_columns: float, n_groups: float, n_bins: float) -> dict[str, float]:
    """Return the public numbers for so many columns of numbers in so many groups, all of weight one."""
    return {"n_cells": n_groups * n_columns * (n_bins + 2), "length": math.sqrt(n_columns), "most_cells": n_bins + 2}


def grouped_counts(
    facts: PublicFacts, *, columns: Sequence[int], by: Sequence[int], weights: Sequence[float], n_bins: int
) -> GroupedCounts:
    """Return the statistic for these columns, by position."""
    return GroupedCounts(
        facts,
        columns=np.array(columns, dtype=np.int64),
        by=np.array(by, dtype=np.int64),
        weights=np.array(weights, dtype=np.float64),
        n_bins=n_bins,
    )


def checked_positions(facts: PublicFacts, positions: IntArray, name: str) -> list[int]:
    """Return positions of different columns of the table."""
    array = np.asarray(positions)
    checked = array.tolist() if array.ndim == 1 and array.dtype.kind in "iu" else [-1]
    if len(set(checked)) != len(checked) or not all(0 <= at < len(facts.columns) for at in checked):
        must = f"be different positions of the {len(facts.columns)} columns of a table"
        raise InvalidParameter(name, must, repr(positions))
    return checked


def _checked_weights(weights: FloatArray, n_columns: int) -> FloatArray:
    array = np.asarray(weights, dtype=np.float64)
    # Written so that NaN is refused.
    if array.shape != (n_columns,) or not ((array >= 1e-3) & (array <= 1e3)).all():
        raise InvalidParameter("weights", f"be {n_columns} numbers from 0.001 to 1000, one per column", repr(weights))
    return array
