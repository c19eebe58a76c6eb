"""Numerical search for the largest change that replacing one record can cause."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpcape.core.arrays import FloatArray


def largest_distance(contribution: Callable[[FloatArray], FloatArray], candidates: FloatArray) -> float:
    """Return the largest distance between the contributions of two candidates."""
    values = np.array([contribution(unit).ravel() for unit in candidates])
    squares = np.vecdot(values, values)
    return float(np.sqrt(np.max(squares[:, None] + squares - 2 * values @ values.T)))


def directions(width: int, n_random: int = 200) -> FloatArray:
    """Return unit vectors along the axes and in random directions, their negatives, and the zero vector."""
    random = np.random.default_rng(2).standard_normal((n_random, width))  # protects nothing
    random /= np.linalg.norm(random, axis=1, keepdims=True)
    half = np.concatenate([np.eye(width), random])
    return np.concatenate([half, -half, np.zeros((1, width))])
