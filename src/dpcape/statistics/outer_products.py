"""Sums of rows and of their outer products, in double precision or in blocks of single precision."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk, ssyrk

from dpcape.arrays import FloatArray, column_sums
from dpcape.statistics.extent import BLOCK_ROWS, SINGLE_ROWS
from dpcape.statistics.record_blocks import ProductBlocks


def sum_of_outer_products(
    records: ProductBlocks, width: int, *, single: bool = False, sums: FloatArray | None = None
) -> FloatArray:
    """Return the sum of x x' over the clipped rows of ``records``; only the upper triangle is filled.

    Parameters
    ----------
    records : ProductBlocks
        Rows of bounded length.
    width : int
        Columns of a row.
    single : bool
        Whether blocks of 256 rows are summed in single precision, and only their sums in double precision; the
        rounding is that of :func:`~dpcape.statistics.extent.products_extent`.
    sums : FloatArray or None
        Where the rows themselves are added, if given.
    """
    if single:
        return _summed_in_single(records, width, sums)
    matrix = np.zeros((width, width), order="F")
    for block in records.feature_blocks(BLOCK_ROWS):
        # A C-ordered block is a Fortran-ordered transpose, so nothing is copied; lower=0 fills the upper triangle.
        matrix = dsyrk(1.0, block.T, beta=1.0, c=matrix, overwrite_c=1, lower=0)
        if sums is not None:
            sums += column_sums(block)
    return matrix


def _summed_in_single(records: ProductBlocks, width: int, sums: FloatArray | None) -> FloatArray:
    matrix = np.zeros((width, width), order="F")
    part = np.zeros((width, width), dtype=np.float32, order="F")
    for block in records.single_blocks(SINGLE_ROWS):
        part = ssyrk(1.0, block.T, beta=0.0, c=part, overwrite_c=1, lower=0)
        matrix += part
        if sums is not None:
            sums += block.sum(axis=0)
    return matrix
