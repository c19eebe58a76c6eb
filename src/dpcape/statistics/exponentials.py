"""The exponential function from additions and products, which every machine rounds alike."""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import FloatArray

# The logarithm of 2 in two parts; the first has 32 bits, so that its small multiples are exact.
_LOG_2, _REST = 0.6931471803691238, 1.9082149292705877e-10
_TERMS = [1 / math.factorial(power) for power in range(14)]


def exponentials(exponents: FloatArray) -> FloatArray:
    """Return e to the power of numbers from -500 to 500, within 4 units in the last place.

    What a library's function gives may depend on where in an array a number stands. This is for numbers that decide
    something, such as whether an event was seen: a decision must depend on its record alone.
    """
    doublings = np.rint(exponents * (1 / math.log(2)))
    # At most half of log 2, for which 14 terms of the series suffice.
    rest = exponents - doublings * _LOG_2
    rest -= doublings * _REST
    result = np.full(rest.shape, _TERMS[-1])
    for term in _TERMS[-2::-1]:
        result *= rest
        result += term
    powers: FloatArray = np.ldexp(result, np.where(np.isfinite(doublings), doublings, 0.0).astype(np.intc))
    return powers
