"""Polynomials with packed symmetric coefficients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.statistics.monomials import monomial_count, monomials, multiplicities


class PackedPolynomial:
    """Polynomial with packed coefficients q: the sum over monomials of q sqrt(multiplicity) monomial(w).

    Parameters
    ----------
    blocks : sequence of array
        One packed tensor per degree 0..J; an empty one is zero.
    width : int
        Number of parameters.
    """

    def __init__(self, blocks: Sequence[FloatArray], width: int) -> None:
        self.width = width
        self._terms = [
            (block * np.sqrt(multiplicities(width, degree)), _exponents(width, degree))
            for degree, block in enumerate(blocks)
            if len(block)
        ]

    def value(self, w: FloatArray) -> float:
        """Return the polynomial at w."""
        return float(sum(heights @ np.prod(w**exponents, axis=1) for heights, exponents in self._terms))

    def value_and_slope(self, w: FloatArray) -> tuple[float, FloatArray]:
        """Return the polynomial and its gradient at w."""
        slope = np.zeros(self.width)
        for heights, exponents in self._terms:
            for position in range(self.width):
                lowered = exponents.copy()
                lowered[:, position] = np.maximum(lowered[:, position] - 1, 0)
                factors = heights * exponents[:, position]
                slope[position] += factors @ np.prod(w**lowered, axis=1)
        return self.value(w), slope


def _exponents(width: int, degree: int) -> IntArray:
    """Return the exponent of each parameter in each monomial, (monomials, width)."""
    exponents = np.zeros((monomial_count(width, degree), width), dtype=np.int64)
    for row, positions in enumerate(monomials(width, degree)):
        for position in positions:
            exponents[row, position] += 1
    return exponents
