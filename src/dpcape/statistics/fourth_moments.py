"""Second and fourth moments of single time points after a public reduction (record unit).

The reduced row z = projection' x is brought into a ball *after* projection. Clipping the norm keeps the directions of
independent, sign-symmetric sources stationary, so it biases no direction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.extent import Extent, block_rows, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import RowBlocks
from dpcape.core.statistic import Statistic, known
from dpcape.statistics.outer_products import OuterProducts
from dpcape.statistics.packing import layout, pack, packed_size, packed_size4, pair_products, unpack
from dpcape.statistics.reduced import checked_matrix, checked_positive, reduced_blocks


class _OfReducedRows(Statistic[RowBlocks, FloatArray]):
    """Base class of statistics of reduced rows, with a public projection and a public radius."""

    kinds = frozenset({"rows", "subjects"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, projection: FloatArray, clip: float) -> None:
        matrix = checked_matrix("projection", projection, (facts.n_features, None))
        super().__init__(facts, projection=matrix, clip=checked_positive("clip", clip))
        self._projection, self._clip = matrix, float(clip)

    @property
    def _width(self) -> int:
        return int(self._projection.shape[1])


@known
class ReducedSecondMoment(_OfReducedRows):
    """Mean of z z', of diameter sqrt(2) clip^2: |z z' - w w'|_F^2 = |z|^4 + |w|^4 - 2 (z.w)^2 <= 2 clip^4."""

    name = "reduced_second_moment"

    @staticmethod
    def extent(*, n_features: float, n_columns: float, clip: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns reduced to ``n_columns`` and to length ``clip``."""
        radius = clip**2
        rounding = rounding_in_blocks(n_features, radius, block=block_rows(n_features))
        return Extent(packed_size(n_columns), math.sqrt(2) * clip**2, radius, rounding)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_columns": self._width, "clip": self._clip}

    def total(self, records: RowBlocks) -> FloatArray:
        matrix = np.zeros((self._width, self._width))
        for block in reduced_blocks(records, self._projection, self._clip):
            matrix += block.T @ block
        return pack(matrix)

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack(packed, self._width)


@known
class FourthMoment(_OfReducedRows):
    """Mean of z x z x z x z, packed.

    *Diameter.* The inner product of two contributions is (z.w)^4 >= 0, so their squared distance is at most
    |z|^8 + |w|^8 <= 2 clip^8. ``unpack`` keeps the packed form, which post-processing uses.
    """

    name = "fourth_moment"

    @staticmethod
    def extent(*, n_features: float, n_components: float, clip: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns reduced to ``n_components`` and to length ``clip``."""
        radius = clip**4
        rounding = rounding_in_blocks(n_features, radius, block=block_rows(n_features))
        return Extent(packed_size4(n_components), math.sqrt(2) * clip**4, radius, rounding)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_components": self._width, "clip": self._clip}

    def total(self, records: RowBlocks) -> FloatArray:
        n_pairs = packed_size(self._width)
        products = OuterProducts(n_pairs)
        for block in reduced_blocks(records, self._projection, self._clip):
            products.add(pair_products(block).T)
        # All three pairings of a fourth power are equal, so one upper-triangle entry each is enough.
        indices = layout(self._width)
        first, second = indices.pairings[0]
        entries: FloatArray = indices.weights * products.upper[np.minimum(first, second), np.maximum(first, second)]
        return entries


def reduced_second_moment(facts: PublicFacts, projection: FloatArray, *, clip: float) -> ReducedSecondMoment:
    """Mean of z z' for the reduced row z, clipped to norm ``clip``."""
    return ReducedSecondMoment(facts, projection, clip)


def fourth_moment(facts: PublicFacts, projection: FloatArray, *, clip: float) -> FourthMoment:
    """Mean of the fourth power of the reduced row, clipped to norm ``clip``."""
    return FourthMoment(facts, projection, clip)
