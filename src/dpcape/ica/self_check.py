"""Does a released tensor hold more than noise? A check that costs nothing, because it looks at the release alone.

Maximising over rotations finds directions with large values in pure noise too. How large, in standard deviations of the
noise, depends on the dimension only; a result near that value says nothing about the records.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

# Mean of max-rotation values of pure isotropic traceless noise of standard deviation one, 8 starts, 24 draws each
# (experiments/ica/self_check.py writes this table).
_DIMENSIONS = (2, 3, 4, 5, 7, 10, 15, 20, 30, 40)
_OF_NOISE = (0.44, 0.84, 1.22, 1.58, 2.14, 2.89, 3.98, 4.93, 6.6, 8.0)

# Runs that found nothing stay within 1 % of the value of noise; useful ones start about a third above it.
CLEAR = 1.3


def value_of_noise(n: int) -> float:
    """Return the mean value per direction that a rotation finds in pure noise, in standard deviations."""
    return float(np.exp(np.interp(np.log(n), np.log(_DIMENSIONS), np.log(_OF_NOISE))))


def clearance(values: Matrix, noise_scale: float) -> float:
    """Return mean(values)/noise_scale relative to its value in pure noise; near one means noise."""
    if noise_scale == 0:
        return float("inf")
    return float(np.abs(values).mean()) / noise_scale / value_of_noise(len(values))
