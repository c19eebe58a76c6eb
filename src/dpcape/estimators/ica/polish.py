"""Refinement of a rotation from released scores, with shrinkage (ICA at the subject unit)."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import expm

from dpcape.core.arrays import FloatArray

_LEAST_WIDTH, _MOST_WIDTH = 0.02, 0.3
_LARGEST_ANGLE = 0.5


def first_widths(values: FloatArray, noise_scale: float) -> FloatArray:
    """Return the prior width of each pair's angular error: twice the tensor's noise over its curvature."""
    curvature = np.maximum(values[:, np.newaxis] + values, 1e-300)
    return np.clip(2 * noise_scale / (math.sqrt(2) * curvature), _LEAST_WIDTH, _MOST_WIDTH)


def polished(
    rotation: FloatArray, scores: FloatArray, slopes: FloatArray, widths: FloatArray, noise_scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return the rotation after one round, and the remaining widths.

    The score of pair (i, j) is the angle times the slope c_i + c_j plus noise. With a normal prior of these ``widths``,
    the posterior mean is the step and the posterior deviation the next width.
    """
    slope = slopes[:, np.newaxis] + slopes
    precision = slope**2 * widths**2 + noise_scale**2
    angles = np.clip(-scores * slope * widths**2 / precision, -_LARGEST_ANGLE, _LARGEST_ANGLE)
    remaining = np.maximum(widths * noise_scale / np.sqrt(precision), _LEAST_WIDTH)
    turned: FloatArray = expm((angles - angles.T) / 2) @ rotation
    return turned, remaining
