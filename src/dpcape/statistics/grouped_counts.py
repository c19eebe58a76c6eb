"""Counts of records in the cells of every column, by group, in one release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, rounding_in_blocks
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.core.record_blocks import CodedBlocks
from dpcape.core.statistic import Statistic, known
from dpcape.statistics.cells import CATEGORY, encoding, n_cells_of

MOST_BINS = 1024
"""Most bins of the range of a number."""

_BLOCK = 1 << 14
# A knot's count is the difference of two sums, each rounded like the other.
_SUMS = 3


@known
class GroupedCounts(Statistic[CodedBlocks, tuple[FloatArray, ...]]):
    r"""Shares of records in the cells of every chosen column, in every group.

    Groups are the combinations of the levels of the columns in ``by``, missing included. A record of group g
    contributes, for column j, :math:`v_j e_g \otimes a_j`: the row of its cell, or a mixture of the rows of two
    neighbouring knots, in the place of its group (:mod:`dpcape.statistics.cells`).

    *Diameter.* Let two records contribute :math:`v_j e_g \otimes a_j` and :math:`v_j e_h \otimes b_j`. In the same
    group, g = h, part j differs by :math:`v_j |a_j - b_j| \le v_j`. In different groups the parts are orthogonal, and
    differ by :math:`v_j \sqrt{|a_j|^2 + |b_j|^2} \le v_j`, because no row is longer than :math:`1/\sqrt 2`. So the
    distance is at most :math:`|v|`, whatever the groups are; two groups, or two levels in all columns, attain it. No
    contribution is longer than :math:`|v| / \sqrt 2`.

    Positions are moved into their range and codes into their list here too, so this holds for any block.

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

    @staticmethod
    def extent(*, n_cells: float, length: float, most_cells: float) -> Extent:
        """Return the extent for ``n_cells`` counts under weights of this Euclidean ``length``.

        ``most_cells`` is the number of cells of the column that has most of them.
        """
        radius = length / math.sqrt(2)
        return Extent(n_cells, length, radius, rounding_in_blocks(most_cells, _SUMS * radius, block=_BLOCK))

    @property
    def numbers(self) -> Mapping[str, float]:
        return numbers_of([self.facts.columns[at] for at in self._by], self.counted, self._weights, self._n_bins)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return n_groups_of([self.facts.columns[at] for at in self._by])

    def total(self, records: CodedBlocks) -> FloatArray:
        counts = [np.zeros((self.n_groups, n_cells_of(column, self._n_bins))) for column in self.counted]
        for block in records.coded_blocks(_BLOCK):
            groups = groups_in(self.facts, self._by, block)
            for column, position, into in zip(self.counted, self._columns, counts, strict=True):
                add = _add_levels if column.kind == CATEGORY else _add_positions
                add(block[:, position], groups, into)
        columns = zip(self._weights, counts, self.counted, strict=True)
        return np.concatenate([(w * (into @ encoding(column, self._n_bins))).ravel() for w, into, column in columns])

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, ...]:
        """Return, for every column, the shares of all records by group and cell, (groups, cells)."""
        sizes = [self.n_groups * n_cells_of(column, self._n_bins) for column in self.counted]
        blocks = np.split(packed, np.cumsum(sizes)[:-1])
        shares = []
        for column, weight, block in zip(self.counted, self._weights, blocks, strict=True):
            rows = encoding(column, self._n_bins)
            shares.append(np.linalg.solve(rows.T, block.reshape(self.n_groups, -1).T / weight).T)
        return tuple(shares)


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


def _add_levels(codes: FloatArray, groups: IntArray, into: FloatArray) -> None:
    """Count the levels of a category, missing last."""
    n_cells = into.shape[1]
    cells = groups * n_cells + codes_of(codes, n_cells - 1)
    into += np.bincount(cells, minlength=into.size).reshape(into.shape)


def _add_positions(positions: FloatArray, groups: IntArray, into: FloatArray) -> None:
    """Count numbers at the knots of their range, each shared by the two knots next to it; missing last."""
    n_groups, n_cells = into.shape
    n_bins = n_cells - 2
    is_there = ~np.isnan(positions)
    if not is_there.all():
        into[:, -1] += np.bincount(groups[~is_there], minlength=n_groups)
        positions, groups = positions[is_there], groups[is_there]
    in_bins = np.clip((positions + 1) * (n_bins / 2), 0.0, n_bins)
    lower = np.minimum(in_bins.astype(np.intp), n_bins - 1)
    cells = groups * n_bins + lower
    shape = (n_groups, n_bins)
    upper = np.bincount(cells, weights=in_bins - lower, minlength=n_groups * n_bins).reshape(shape)
    into[:, :n_bins] += np.bincount(cells, minlength=n_groups * n_bins).reshape(shape) - upper
    into[:, 1 : n_bins + 1] += upper


def codes_of(codes: FloatArray, n_levels: int) -> IntArray:
    """Return the positions of levels, missing as the last one; any number is moved into the list."""
    positions: IntArray = np.where(np.isnan(codes), n_levels, np.clip(codes, 0, n_levels)).astype(np.intp)
    return positions


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
