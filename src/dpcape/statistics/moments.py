"""Means and moments of bounded rows.

Sensitivities are those of replacing one row; the second-moment value is sqrt(2) B^2 (the papers' 1 is that of removing
one). Each is proved in a comment at its line and searched for a violation in ``tests/laws``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.statistic import BLOCK_ROWS, Statistic, known

Vector = NDArray[np.float64]
_ROW_KINDS = frozenset({"rows", "labelled", "views", "subjects"})


def row_bound(facts: Facts) -> float:
    """Largest length of one row over all views together."""
    return math.hypot(*facts.bounds)


class _OfRows(Statistic):
    """What statistics of single rows share."""

    kinds = _ROW_KINDS
    units = frozenset({"record"})

    @property
    def _bound(self) -> float:
        return row_bound(self.facts)

    @property
    def _width(self) -> int:
        return self.facts.n_features


@known
class FirstMoments(_OfRows):
    """Mean of rows, with the mean of squared entries at no further cost.

    The contribution is (x, x*x / (2 B)). With s = x + y and d = x - y, the squared distance of two contributions is
    |d|^2 + |s*d|^2 / (4 B^2) <= |d|^2 (1 + (4 B^2 - |d|^2) / (4 B^2)), which grows in |d|^2 up to |d| = 2 B: the
    squares ride along within the diameter 2 B of the mean alone.
    """

    name = "first_moments"

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)

    @property
    def size(self) -> int:
        return 2 * self._width

    @property
    def diameter(self) -> float:
        return 2 * self._bound

    @property
    def radius(self) -> float:
        # |x|^2 + |x*x|^2/(4 B^2) <= B^2 (1 + 1/4).
        return self._bound * math.sqrt(1.25)

    def total(self, records: Any) -> Vector:
        result = np.zeros((2, self._width))
        for block in records.feature_blocks(BLOCK_ROWS):
            result[0] += block.sum(axis=0)
            result[1] += np.einsum("ij,ij->j", block, block)
        result[1] /= 2 * self._bound
        return result.ravel()

    def unpack(self, packed: Vector) -> tuple[Vector, Vector]:
        """Return (mean, mean of squares)."""
        mean, squares = packed.reshape(2, -1)
        return mean, squares * (2 * self._bound)


@known
class SecondMoment(_OfRows):
    """Mean of x x' (for two views of the stacked row), packed.

    |x x' - y y'|_F^2 = |x|^4 + |y|^4 - 2 (x.y)^2 <= 2 B^4, attained by orthogonal rows of full length.
    """

    name = "second_moment"

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)

    @property
    def size(self) -> int:
        return packed_size(self._width)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self._width, self._width)

    @property
    def diameter(self) -> float:
        return math.sqrt(2) * self._bound**2

    @property
    def radius(self) -> float:
        return self._bound**2

    def total(self, records: Any) -> Vector:
        return pack(sum_of_outer_products(records, self._width))

    def unpack(self, packed: Vector) -> Vector:
        return unpack(packed, self._width)


@known
class CentredMoments(_OfRows):
    """Mean and second moment jointly, for centring that is itself private.

    The contribution is (b B x, x x'), b at most sqrt(2); the largest distance is (b^2 + 2)/sqrt(2) B^2. Take B = 1,
    lengths p, q <= 1 and c the cosine: the square is b^2 (p^2 + q^2 - 2 p q c) + p^4 + q^4 - 2 p^2 q^2 c^2, concave
    in c. If b^2 <= 2 p q its maximum over c, at c = -b^2/(2 p q), is b^2 (p^2 + q^2) + p^4 + q^4 + b^4/2, at most
    (b^2 + 2)^2/2. Otherwise it is at c = -1: b^2 (p + q)^2 + (p^2 - q^2)^2 <= (1 + b^2/2)^2 (1 + b^4/4), which is
    less for b^2 <= 2.
    """

    name = "centred_moments"

    def __init__(self, facts: Facts, mean_weight: float) -> None:
        if not 0 < mean_weight <= math.sqrt(2):
            raise InvalidParameter(f"mean_weight must be in (0, sqrt(2)]; got {mean_weight!r}.")
        super().__init__(facts, mean_weight=mean_weight)
        self._mean_weight = float(mean_weight)

    @property
    def size(self) -> int:
        return self._width + packed_size(self._width)

    @property
    def diameter(self) -> float:
        return (self._mean_weight**2 + 2) / math.sqrt(2) * self._bound**2

    @property
    def radius(self) -> float:
        return math.sqrt(1 + self._mean_weight**2) * self._bound**2

    def total(self, records: Any) -> Vector:
        matrix, sums = np.zeros((self._width, self._width), order="F"), np.zeros(self._width)
        for block in records.feature_blocks(BLOCK_ROWS):
            matrix = _add_outer_products(block, matrix)
            sums += block.sum(axis=0)
        return np.concatenate([self._mean_weight * self._bound * sums, pack(matrix)])

    def unpack(self, packed: Vector) -> tuple[Vector, Vector]:
        """Return (mean, second moment)."""
        mean = packed[: self._width] / (self._mean_weight * self._bound)
        return mean, unpack(packed[self._width :], self._width)


@known
class Histogram(Statistic):
    """Shares of the public classes among labelled records: one entry moves down and one up, sqrt(2)."""

    name = "histogram"
    kinds = frozenset({"labelled"})

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        if facts.classes is None:
            raise InvalidParameter(
                "labelled records for a histogram must have public classes; got a numeric response. "
                "Build them with labelled(X, y, bound=..., classes=[...])."
            )

    @property
    def size(self) -> int:
        return len(self.facts.classes or ())

    @property
    def diameter(self) -> float:
        return math.sqrt(2)

    @property
    def radius(self) -> float:
        return 1.0

    def total(self, records: Any) -> Vector:
        counts = np.zeros(self.size)
        for _, codes in records.blocks(BLOCK_ROWS):
            counts += np.bincount(codes, minlength=self.size)
        return counts

    def valid_share(self, packed: Vector) -> tuple[float, float]:
        return float(packed.sum()), math.sqrt(self.size)


def sum_of_outer_products(records: Any, width: int) -> Vector:
    """Sum x x' over the clipped rows of ``records``, block by block, upper triangle only."""
    matrix = np.zeros((width, width), order="F")
    for block in records.feature_blocks(BLOCK_ROWS):
        matrix = _add_outer_products(block, matrix)
    return matrix


def _add_outer_products(block: Vector, matrix: Vector) -> Vector:
    # A C-ordered block is a Fortran-ordered transpose, so nothing is copied; lower=0 fills the upper triangle.
    result: Vector = dsyrk(1.0, block.T, beta=1.0, c=matrix, overwrite_c=1, lower=0)
    return result


def first_moments(facts: Facts) -> FirstMoments:
    """Mean of rows and of their squared entries."""
    return FirstMoments(facts)


def second_moment(facts: Facts) -> SecondMoment:
    """Mean of x x'."""
    return SecondMoment(facts)


def centred_moments(facts: Facts, *, mean_weight: float | None = None) -> CentredMoments:
    """Mean and second moment jointly; ``mean_weight`` is 0.5 unless given.

    That keeps the noise on the second moment within 13 % of that of the second moment alone, which matters
    more than the mean's as soon as there are several columns.
    """
    return CentredMoments(facts, mean_weight=0.5 if mean_weight is None else mean_weight)


def histogram(facts: Facts) -> Histogram:
    """Shares of the public classes."""
    return Histogram(facts)
