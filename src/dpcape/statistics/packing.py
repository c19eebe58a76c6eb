"""Symmetric matrices as vectors of the same Euclidean length.

Off-diagonal entries are counted twice in a Frobenius norm, so they are weighted by sqrt(2) here. Equal noise on the
packed vector is then isotropic symmetric noise: sd sigma on the diagonal, sigma/sqrt(2) off
it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def packed_size(n: int) -> int:
    """Length of a packed symmetric n x n matrix."""
    return n * (n + 1) // 2


def pack(matrix: Vector) -> Vector:
    """Pack the upper triangle (row by row) of a symmetric matrix, off-diagonals times sqrt(2)."""
    rows, columns = np.triu_indices(matrix.shape[0])
    packed: Vector = matrix[rows, columns] * math.sqrt(2)
    packed[rows == columns] = np.diagonal(matrix)
    return packed


def unpack(packed: Vector, n: int) -> Vector:
    """Invert :func:`pack`."""
    matrix = np.zeros((n, n))
    rows, columns = np.triu_indices(n)
    matrix[rows, columns] = packed / math.sqrt(2)
    matrix += np.triu(matrix, 1).T
    np.fill_diagonal(matrix, packed[rows == columns])
    return matrix
