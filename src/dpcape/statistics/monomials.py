"""Monomials of several variables, in one fixed order: non-decreasing tuples of positions."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray


def monomials(width: int, degree: int) -> Iterator[tuple[int, ...]]:
    """Yield the monomials of a degree as non-decreasing tuples of parameter positions."""
    return combinations_with_replacement(range(width), degree)


def monomial_count(width: int, degree: int) -> int:
    """Return the number of monomials of a degree."""
    return math.comb(width + degree - 1, degree)


@lru_cache(maxsize=32)
def _positions(width: int, degree: int) -> IntArray:
    positions = np.array(list(monomials(width, degree)), dtype=np.intp)
    return positions.reshape(monomial_count(width, degree), degree)


@lru_cache(maxsize=32)
def multiplicities(width: int, degree: int) -> FloatArray:
    """Return the number of distinct orders of each monomial's factors."""
    counts = [
        math.factorial(degree) / math.prod(math.factorial(positions.count(p)) for p in set(positions))
        for positions in monomials(width, degree)
    ]
    return np.array(counts)


def powers(rows: FloatArray, degree: int) -> FloatArray:
    """Return the monomials of each row, (records, monomials)."""
    if degree == 0:
        return np.ones((len(rows), 1))
    first, *further = _positions(rows.shape[1], degree).T
    result: FloatArray = rows.take(first, axis=1)
    for factor in further:
        result *= rows.take(factor, axis=1)
    return result
