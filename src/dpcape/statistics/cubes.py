"""Sums of x (x) x (x) x of rows on the grid, each entry once.

Entries with i <= j <= k are sums of a pair x_i x_j, on a grid of its own, times x_k, where neighbouring middle indices
j share a product (:class:`~dpcape.core.contributions.Cubes`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import ROUND, Cubes, finer_bits
from dpcape.core.extent import UNIT_ROUNDOFF, row_error
from dpcape.core.grid import GridRows
from dpcape.core.tiles import PART_ENTRIES
from dpcape.statistics.packing import middle_groups, packed_size


def cube_error(width: float, reach: float) -> float:
    """Return how far the packed cube of a row of at most ``reach`` moves when its pairs are put on the grid.

    A pair moves by d_ij, and the entry (i, j, k) by d_ij x_k. The entry counts as often as it has permutations, at most
    three times as often as its pair. So the square of the distance is at most 3 |d|^2 |x|^2, d over all pairs. These
    have f bits more than rows (:class:`~dpcape.core.contributions.Cubes`), and d is smaller by a factor of 2^f.
    """
    moved = row_error(packed_size(width), reach**2, roundings=0) * 2.0 ** -finer_bits(width)
    return math.sqrt(3) * reach * (moved + 64 * UNIT_ROUNDOFF * reach**2)


def cubes(rows: GridRows) -> list[Cubes]:
    """Return the cubes of rows, one form for each group of middle indices."""
    by_column = np.asfortranarray(rows.ints)
    return [Cubes(rows, by_column, middles) for middles in middle_groups(rows.width)]


def cube_entries(sums: Sequence[FloatArray], width: int) -> FloatArray:
    """Return the sums of :func:`cubes` in packed order, without the weights of multiplicity."""
    blocks = []
    for middles, total in zip(middle_groups(width), sums, strict=True):
        start = 0
        for j in middles:
            block = total[start : start + j + 1, j - middles[0] :] / math.sqrt(2)
            block[j] = total[start + j, j - middles[0] :]
            blocks.append(block.ravel())
            start += j + 1
    return np.concatenate(blocks)


def pairs_at_a_time(width: int) -> int:
    """Return a quarter of the pairs of a record that are computed together: tiles are not made too small.

    It is more where a record counts as several, so that no tile has more records than can be added at a time.
    """
    quarter = max(sum(j + 1 for j in middles) for middles in middle_groups(width)) // 4
    return max(quarter, PART_ENTRIES // (ROUND >> finer_bits(width)))
