"""Type aliases for NumPy arrays of real numbers, of integers, of Booleans and of anything."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
"""Real numbers in double precision, of any shape."""

SingleArray: TypeAlias = NDArray[np.float32]
"""Real numbers in single precision, of any shape."""

IntArray: TypeAlias = NDArray[np.int64]
"""Integers, of any shape: positions, counts or class codes."""

BoolArray: TypeAlias = NDArray[np.bool_]
"""Booleans, of any shape."""

AnyArray: TypeAlias = NDArray[Any]  # type: ignore[explicit-any]  # raw columns are checked where they are read
"""Values of any type and shape, such as raw columns of a file."""
