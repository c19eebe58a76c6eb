"""The exponential function from operations that every processor rounds alike.

Libraries round ``exp`` differently from one another. Where a contribution jumps with it, the same record would jump at
one machine of a site and not at another.
"""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import FloatArray

# The logarithm of 2 in two parts, the first with so few digits that its multiples up to 2^11 are exact.
_LOG2_UPPER = math.floor(math.log(2) * 2.0**40) * 2.0**-40
_LOG2_LOWER = 7.371002565167799e-13
_SQUARINGS = 4
_DEGREE = 7


def exponential(values: FloatArray) -> FloatArray:
    """Return e^x to about 14 digits, for numbers from -700 to 700.

    With n the nearest whole number to x / log 2, r = (x - n log 2) / 16 is at most 0.022 from zero, where eight terms
    of the series suffice; their sum is squared four times.
    """
    powers = np.rint(values * (1 / math.log(2)))
    rest = values - powers * _LOG2_UPPER
    rest -= powers * _LOG2_LOWER
    rest *= 2.0**-_SQUARINGS
    result = np.full(values.shape, 1.0)
    for term in range(_DEGREE, 0, -1):
        result *= rest
        result *= 1 / term
        result += 1.0
    for _ in range(_SQUARINGS):
        result *= result
    scaled: FloatArray = np.ldexp(result, np.where(np.isfinite(powers), powers, 0.0).astype(np.intp))
    return scaled
