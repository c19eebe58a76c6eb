"""Second and fourth moments of single time points after a public reduction (record unit).

The reduced row z = projection' x is brought into a ball *after* projection. Clipping the norm keeps the directions of
independent, sign-symmetric sources stationary, so it biases no direction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Form, Outer
from dpcape.core.extent import CONVERSIONS, Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import GridRows, PublicColumns, clipped, reach_on_grid, steps_for
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.packing import layout, pack, packed_size, packed_size4, unpack
from dpcape.statistics.reduced import checked_matrix, checked_positive, reduced_rows


class _OfReducedRows(Summed[FloatArray]):
    """Base class of statistics of reduced rows, with a public projection and a public radius.

    Reduced rows are shortened on the grid; the radius is how long they may be there.
    """

    kinds = frozenset({"rows", "subjects"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, projection: FloatArray, clip: float) -> None:
        matrix = checked_matrix("projection", projection, (facts.n_features, None))
        super().__init__(facts, projection=matrix, clip=checked_positive("clip", clip))
        self._columns, self._clip, self._width = PublicColumns(matrix), float(clip), int(matrix.shape[1])

    def _rows(self, tile: Tile) -> GridRows:
        return reduced_rows(tile.rows, self._columns, self._clip)


@known
class ReducedSecondMoment(_OfReducedRows):
    """Mean of z z', of diameter sqrt(2) clip^2: |z z' - w w'|_F^2 = |z|^4 + |w|^4 - 2 (z.w)^2 <= 2 clip^4."""

    name = "reduced_second_moment"

    @staticmethod
    def extent(*, n_features: float, n_columns: float, clip: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns reduced to ``n_columns`` and to length ``clip``."""
        radius = reach_on_grid(clip, n_columns) ** 2
        return exact_sums(packed_size(n_columns), math.sqrt(2) * radius, radius)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_columns": self._width, "clip": self._clip}

    def terms(self, tile: Tile) -> Sequence[Form]:
        return [Outer(self._rows(tile))]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return pack(sums[0].T)

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack(packed, self._width)


@known
class FourthMoment(_OfReducedRows):
    """Mean of z x z x z x z, packed.

    *Diameter.* Products of pairs p, z_i^2 and sqrt(2) z_i z_j for i < j, are a vector of length |z|^2, which is put on
    a grid of its own. The sum of p p' over records is a tensor of order four, of which the part that all permutations
    of indices have in common is released, an orthogonal projection: for z itself all of it. So two contributions are
    no farther apart than |p p' - q q'| <= sqrt(2) R^2, R the length of pairs on their grid, and none is longer than
    R^2. ``unpack`` keeps the packed form, which post-processing uses.
    """

    name = "fourth_moment"

    @staticmethod
    def extent(*, n_features: float, n_components: float, clip: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns reduced to ``n_components`` and to length ``clip``."""
        radius = reach_on_grid(reach_on_grid(clip, n_components) ** 2, packed_size(n_components)) ** 2
        return exact_sums(packed_size4(n_components), math.sqrt(2) * radius, radius, roundings=2 * CONVERSIONS)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_components": self._width, "clip": self._clip}

    def terms(self, tile: Tile) -> Sequence[Form]:
        rows = self._rows(tile)
        size, length = packed_size(self._width), reach_on_grid(self._clip, self._width) ** 2
        in_steps = steps_for(size, (length,)) / rows.steps**2
        # In columns, which are stored one after another.
        columns = np.ascontiguousarray(rows.ints.T)
        single, double = columns * in_steps, columns * (math.sqrt(2) * in_steps)
        pairs, start = np.empty((size, tile.n_records)), 0
        for at in range(self._width):
            end = start + self._width - at
            np.multiply(single[at], columns[at], out=pairs[start])
            np.multiply(double[at], columns[at + 1 :], out=pairs[start + 1 : end])
            start = end
        return [Outer(clipped(pairs.T, (size,), (length,))[0])]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        indices = layout(self._width)
        roots = np.full(len(sums[0]), math.sqrt(2))
        roots[indices.diagonal] = 1.0
        entries: FloatArray = np.zeros(self.size)
        for first, second in indices.pairings:
            # Only the lower triangle is filled.
            entries += sums[0][np.maximum(first, second), np.minimum(first, second)] / (roots[first] * roots[second])
        entries *= indices.weights / 3
        return entries


def reduced_second_moment(facts: PublicFacts, projection: FloatArray, *, clip: float) -> ReducedSecondMoment:
    """Mean of z z' for the reduced row z, clipped to norm ``clip``."""
    return ReducedSecondMoment(facts, projection, clip)


def fourth_moment(facts: PublicFacts, projection: FloatArray, *, clip: float) -> FourthMoment:
    """Mean of the fourth power of the reduced row, clipped to norm ``clip``."""
    return FourthMoment(facts, projection, clip)
