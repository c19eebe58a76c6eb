"""Type aliases for NumPy arrays of real numbers, of integers and of Booleans."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
"""Real numbers in double precision, of any shape."""

IntArray: TypeAlias = NDArray[np.int64]
"""Integers, of any shape: positions, counts or class codes."""

BoolArray: TypeAlias = NDArray[np.bool_]
"""Booleans, of any shape."""
