"""Intervals of ratios whose denominators have noise (E. Fieller, 1954; G. Zou and A. Donner, 2008)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray


@dataclass(frozen=True)
class Reach:
    """How far the interval of a divisor reaches, as parts of it.

    Attributes
    ----------
    shorter, longer : (V,) array
        Towards zero and away from it.
    """

    shorter: FloatArray
    longer: FloatArray

    def __and__(self, other: Reach) -> Reach:
        """Return the reach of the product with another divisor, whose noise is independent."""
        return Reach(np.hypot(self.shorter, other.shorter), np.hypot(self.longer, other.longer))


def of_divisor(relative: FloatArray) -> Reach:
    """Return the reach of a divisor whose noise is symmetric."""
    return Reach(relative, relative)


def of_deviation(relative: FloatArray) -> Reach:
    """Return the reach of a standard deviation, the noise of whose square is symmetric.

    Parameters
    ----------
    relative : (V,) array
        How far its interval would reach, as a part of it, to first order.
    """
    # The variance is in proportion to 1 + 2 t, for t between -relative and relative.
    return Reach(1 - np.sqrt(np.maximum(1 - 2 * relative, 0.0)), np.sqrt(1 + 2 * relative) - 1)


def of_inverse_deviation(relative: FloatArray) -> Reach:
    """Return the reach of the inverse of a standard deviation, for ratios that are multiplied by it."""
    with np.errstate(divide="ignore"):
        longer = 1 / np.sqrt(np.maximum(1 - 2 * relative, 0.0)) - 1
    return Reach(1 - 1 / np.sqrt(1 + 2 * relative), longer)


def ratio_interval(ratio: FloatArray, half_width: FloatArray, divisor: Reach) -> FloatArray:
    """Return intervals of ratios from those of numerator and divisor.

    The interval is longer away from zero, and open if the divisor may be zero.

    Parameters
    ----------
    ratio : (V,) array
        Ratios.
    half_width : (V,) array
        How far the interval would reach to either side if the divisor were known; infinite where nothing is known.
    divisor : Reach
        How far the interval of the divisor reaches.
    """
    size = np.abs(ratio)
    ends: FloatArray = np.array([_root(size, half_width, divisor, -1), _root(size, half_width, divisor, 1)])
    return np.where(ratio < 0, -ends[::-1], ends)


def _root(size: FloatArray, half_width: FloatArray, divisor: Reach, side: int) -> FloatArray:
    """Return the ratio x, below or above a size, with (size - x)^2 = half^2 + (x error)^2 of the divisor there."""
    if side < 0:
        # A smaller divisor moves an end below zero outwards, like an end above the size.
        error, above = np.where(half_width > size, divisor.shorter, divisor.longer), half_width <= size
    else:
        error, above = divisor.shorter, np.zeros(len(size), dtype=bool)
    known = np.isfinite(half_width) & np.isfinite(error) & (above | (error < 1))
    own, square = np.where(known, half_width, 0.0), 1 - np.where(known, error, 0.0) ** 2
    root = np.sqrt(np.maximum(size**2 - square * (size**2 - own**2), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = np.where(above, (size**2 - own**2) / np.maximum(size + root, 1e-300), (size + side * root) / square)
    return np.where(known, ends, side * np.inf)
