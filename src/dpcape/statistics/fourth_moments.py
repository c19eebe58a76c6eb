"""Second and fourth moments of single time points after a public reduction (record unit).

The reduced row z = projection' x is brought into a ball *after* projection. Clipping the norm keeps the directions of
independent, sign-symmetric sources stationary, so it biases no direction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from dpcape.facts import Facts
from dpcape.statistics.fourth_packing import layout, packed_size4, pair_products
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.reduced import checked_matrix, checked_positive, reduced_blocks
from dpcape.statistics.statistic import Statistic, known

Vector = NDArray[np.float64]


class _OfReducedRows(Statistic):
    """What statistics of reduced rows share: a public projection and a public radius."""

    kinds = frozenset({"rows", "subjects"})
    units = frozenset({"record"})

    def __init__(self, facts: Facts, projection: Vector, clip: float) -> None:
        matrix = checked_matrix("projection", projection, (facts.n_features, None))
        super().__init__(facts, projection=matrix, clip=checked_positive("clip", clip))
        self._projection, self._clip = matrix, float(clip)

    @property
    def _width(self) -> int:
        return int(self._projection.shape[1])


@known
class ReducedSecondMoment(_OfReducedRows):
    """Mean of z z'. |z z' - w w'|_F^2 = |z|^4 + |w|^4 - 2 (z.w)^2 <= 2 clip^4."""

    name = "reduced_second_moment"

    @property
    def size(self) -> int:
        return packed_size(self._width)

    @property
    def diameter(self) -> float:
        return math.sqrt(2) * self._clip**2

    @property
    def radius(self) -> float:
        return self._clip**2

    def total(self, records: Any) -> Vector:
        matrix = np.zeros((self._width, self._width))
        for block in reduced_blocks(records, self._projection, self._clip):
            matrix += block.T @ block
        return pack(matrix)

    def unpack(self, packed: Vector) -> Vector:
        return unpack(packed, self._width)


@known
class FourthMoment(_OfReducedRows):
    """Mean of z x z x z x z, packed.

    The inner product of two contributions is (z.w)^4 >= 0, so their squared distance is at most |z|^8 + |w|^8 <= 2
    clip^8. ``unpack`` leaves the packed form, which is what post-processing works with.
    """

    name = "fourth_moment"

    @property
    def size(self) -> int:
        return packed_size4(self._width)

    @property
    def diameter(self) -> float:
        return math.sqrt(2) * self._clip**4

    @property
    def radius(self) -> float:
        return self._clip**4

    def total(self, records: Any) -> Vector:
        n_pairs = packed_size(self._width)
        matrix = np.zeros((n_pairs, n_pairs), order="F")
        for block in reduced_blocks(records, self._projection, self._clip):
            # The transpose of a C-ordered array is Fortran-ordered: nothing is copied.
            matrix = dsyrk(1.0, pair_products(block).T, beta=1.0, c=matrix, trans=1, overwrite_c=1, lower=0)
        # All three pairings of a fourth power are equal, so one upper-triangle entry each is enough.
        where = layout(self._width)
        first, second = where.pairings[0]
        entries: Vector = where.weights * matrix[np.minimum(first, second), np.maximum(first, second)]
        return entries


def reduced_second_moment(facts: Facts, projection: Vector, *, clip: float) -> ReducedSecondMoment:
    """Mean of z z' for the reduced row z, clipped to norm ``clip``."""
    return ReducedSecondMoment(facts, projection, clip)


def fourth_moment(facts: Facts, projection: Vector, *, clip: float) -> FourthMoment:
    """Mean of the fourth power of the reduced row, clipped to norm ``clip``."""
    return FourthMoment(facts, projection, clip)
