"""Sums of x (x) x (x) x of rows on the grid, each entry once.

Pairs x_i x_j, those of different indices times sqrt(2), are a vector of length |x|^2, put on a grid of its own.
Entries with i <= j <= k are sums of a pair (i, j) times x_k, where neighbouring middle indices j share a product
(:mod:`dpcape.statistics.packing`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Cross
from dpcape.core.extent import row_error
from dpcape.core.grid import ROW_BITS, GridRows, steps_per_unit
from dpcape.statistics.packing import middle_groups, packed_size


def cube_error(width: float, reach: float) -> float:
    """Return how far the packed cube of a row of at most ``reach`` moves when its pairs are put on the grid.

    A pair moves by d_ij, and the entry (i, j, k) by d_ij x_k. The entry counts as often as it has permutations, at most
    three times as often as its pair. So the square of the distance is at most 3 |d|^2 |x|^2, d over all pairs.
    """
    return math.sqrt(3) * reach * row_error(packed_size(width), reach**2)


def cubes(rows: GridRows) -> list[Cross]:
    """Return products of pairs and entries of rows, one form for each group of middle indices.

    A row has at most 2^20 steps, so its pairs have at most 2^40 of the squared steps, and after multiplication at most
    what :func:`~dpcape.core.grid.steps_per_unit` leaves for them.
    """
    factor = steps_per_unit(ROW_BITS, packed_size(rows.width)) * 2.0 ** (-2 * ROW_BITS)
    # In columns, which are stored one after another.
    columns = np.ascontiguousarray(rows.ints.T)
    single, double = columns * factor, columns * (math.sqrt(2) * factor)
    forms = []
    for middles in middle_groups(rows.width):
        pairs, start = np.empty((sum(j + 1 for j in middles), len(rows))), 0
        for j in middles:
            np.multiply(columns[:j], double[j], out=pairs[start : start + j])
            np.multiply(columns[j], single[j], out=pairs[start + j])
            start += j + 1
        np.rint(pairs, out=pairs)
        right = GridRows(rows.ints[:, middles[0] :], rows.steps)
        forms.append(Cross(GridRows(pairs.T, rows.steps**2 * factor), right))
    return forms


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
    """Return how many pairs of a record are computed together."""
    return max(sum(j + 1 for j in middles) for middles in middle_groups(width))
