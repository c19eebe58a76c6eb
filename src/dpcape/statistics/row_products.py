"""Products of rows with a public matrix, each rounded as if its row were alone.

A matrix product rounds a row differently at the edge of a block than in its middle. Where a contribution jumps with its
row (the nearest of two centres at equal distance, the direction of a difference that cancels), the rounding of one row
must not depend on how many rows stand before it; otherwise a record that becomes invalid would move the contributions
of others. All products here have the same shape, so that a row's result depends on the row alone.
"""

from __future__ import annotations

import numpy as np

from dpcape.core.arrays import FloatArray

CHUNK_ROWS = 8
"""Rows of each product: whole tiles of the kernels of linear-algebra libraries, too few to be split among threads."""


def row_products(rows: FloatArray, matrix: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return ``rows @ matrix`` for a matrix or a vector, each row rounded independently of the others.

    Parameters
    ----------
    rows : (N, D) array
        Rows.
    matrix : (D, K) or (D,) array
        Public matrix or vector.
    out : (N, K) or (N,) array, optional
        Where to write the result.
    """
    n_rows = len(rows)
    n_whole = n_rows - n_rows % CHUNK_ROWS
    result = np.empty((n_rows, *matrix.shape[1:])) if out is None else out
    matrix = np.ascontiguousarray(matrix)
    if n_whole:
        chunks = np.ascontiguousarray(rows[:n_whole]).reshape(-1, CHUNK_ROWS, rows.shape[1])
        np.matmul(chunks, matrix, out=result[:n_whole].reshape(-1, CHUNK_ROWS, *matrix.shape[1:]))
    if n_whole < n_rows:
        padded = np.zeros((CHUNK_ROWS, rows.shape[1]))
        padded[: n_rows - n_whole] = rows[n_whole:]
        result[n_whole:] = np.matmul(padded, matrix)[: n_rows - n_whole]
    return result
