"""Types of NumPy arrays: one name each for arrays of real numbers, of whole numbers and of truth values."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
"""Real numbers in double precision, of any shape."""

IntArray: TypeAlias = NDArray[np.int64]
"""Whole numbers of any shape: positions, counts or class codes."""

BoolArray: TypeAlias = NDArray[np.bool_]
"""Truth values of any shape."""
