"""Check whether a released tensor contains more than noise. It costs no budget: it uses only the release.

Maximising over rotations finds directions with large values in pure noise too. Their size, in standard deviations of
the noise, depends only on the dimension; a result near that size says nothing about the records.
"""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import FloatArray

# Values that a rotation finds in pure isotropic noise of standard deviation one: mean per direction, and its deviation
# between draws (experiments/ica/self_check.py writes this table; with mixed signs the values are slightly smaller, so
# the check errs on the side of warning).
_DIMENSIONS = (2, 3, 4, 5, 7, 10, 15, 20, 30)
_MEAN = (0.470, 0.805, 1.141, 1.524, 2.148, 2.881, 3.971, 4.886, 6.388)
_DEVIATION = (0.212, 0.195, 0.178, 0.141, 0.123, 0.088, 0.088, 0.078, 0.048)
_DEVIATIONS_TO_BE_CLEAR = 5.0

ALL_CLEAR = 1.34
"""Clearance above which all simulated runs were good; below it, weak components may be noise (ABIDE: 1.3, q 0.19)."""

# Strength below which, at 20 components, runs at the subject unit failed (docs/analyses/joint_ica.md).
_LEAST_STRENGTH = 250.0


def value_of_noise(n: int) -> float:
    """Return the mean value per direction that a rotation finds in pure noise, in standard deviations of the noise.

    Beyond the table it grows as sqrt(n), as an extreme of n^4/24 values over n(n-1)/2 angles does.
    """
    if n > _DIMENSIONS[-1]:
        return _MEAN[-1] * float(np.sqrt(n / _DIMENSIONS[-1]))
    return float(np.exp(np.interp(np.log(n), np.log(_DIMENSIONS), np.log(_MEAN))))


def clearance(values: FloatArray, noise_scale: float) -> float:
    """Return mean(|values|)/noise_scale divided by its mean in pure noise; a value near one indicates noise."""
    if noise_scale == 0:
        return float("inf")
    return float(np.abs(values).mean()) / noise_scale / value_of_noise(len(values))


def least_clearance(n: int) -> float:
    """Return the clearance that pure noise practically never reaches: five deviations above its mean."""
    deviation = float(np.interp(n, _DIMENSIONS, _DEVIATION))
    return 1 + _DEVIATIONS_TO_BE_CLEAR * deviation / value_of_noise(n)


def tensor_dimensions(n_components: int) -> int:
    """Return the number of free entries of a traceless symmetric tensor of order four."""
    n = n_components
    return math.comb(n + 3, 4) - n * (n + 1) // 2


def too_noisy(noise_scale: float, share: float, n_components: int) -> bool:
    """Return whether noise must dominate at the subject unit, from the tensor's noise and its share after the PCA.

    The ratio of privacy noise to sampling noise of a d-dimensional mean grows as sqrt(d)/(M mu). The threshold was
    measured at 20 components, with one of four sites colluding, and is scaled to other sizes by that rule.
    """
    strength = 2 * math.sqrt(4 / 3) * math.sqrt(1 / share) / noise_scale
    return strength < _LEAST_STRENGTH * math.sqrt(tensor_dimensions(n_components) / tensor_dimensions(20))
