"""Sums of rows and of their outer products, in double precision or in blocks of single precision."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk, ssyrk

from dpcape.core.arrays import FloatArray, column_sums
from dpcape.core.extent import BLOCK_ROWS, SINGLE_BLOCKS, SINGLE_ROWS
from dpcape.core.record_blocks import ProductBlocks


class OuterProducts:
    """Sum of x x' over rows x that are added block by block.

    The products of a block are summed by themselves, and then added to those of the other blocks, which is what
    :func:`~dpcape.core.extent.rounding_in_blocks` counts. A linear algebra library that is given the sum so far
    may add the rows to it one by one, with as many roundings as there are rows in all blocks.

    Parameters
    ----------
    width : int
        Columns of a row.
    """

    def __init__(self, width: int) -> None:
        self._sum, self._block = (np.zeros((width, width), order="F") for _ in range(2))

    def add(self, rows: FloatArray) -> None:
        """Add a block of rows, (n, width)."""
        # A C-ordered block is a Fortran-ordered transpose, so nothing is copied. The lower triangle is filled, whose
        # transpose is in the order in which it is packed.
        by_rows = rows.flags.c_contiguous
        columns = rows.T if by_rows else rows
        self._block = dsyrk(1.0, columns, beta=0.0, c=self._block, trans=not by_rows, overwrite_c=1, lower=1)
        self._sum += self._block

    @property
    def upper(self) -> FloatArray:
        """The sum; only the upper triangle is filled."""
        return self._sum.T


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
        Whether blocks of 256 rows, and three such blocks, are summed in single precision, and only these sums in double
        precision; the rounding is that of :func:`~dpcape.core.extent.products_extent`.
    sums : FloatArray or None
        Where the rows themselves are added, if given.
    """
    if single:
        return _summed_in_single(records, width, sums)
    products = OuterProducts(width)
    for block in records.feature_blocks(BLOCK_ROWS):
        products.add(block)
        if sums is not None:
            sums += column_sums(block)
    return products.upper


def _summed_in_single(records: ProductBlocks, width: int, sums: FloatArray | None) -> FloatArray:
    matrix = np.zeros((width, width), order="F")
    group, products = (np.zeros((width, width), dtype=np.float32, order="F") for _ in range(2))
    n_added = 0
    for number, block in enumerate(records.single_blocks(SINGLE_ROWS)):
        # A block without valid rows adds nothing, but still counts towards its group.
        if len(block):
            if n_added:
                products = ssyrk(1.0, block.T, beta=0.0, c=products, overwrite_c=1, lower=1)
                group += products
            else:
                group = ssyrk(1.0, block.T, beta=0.0, c=group, overwrite_c=1, lower=1)
            n_added += 1
            if sums is not None:
                sums += block.sum(axis=0)
        if n_added and (number + 1) % SINGLE_BLOCKS == 0:
            matrix += group
            n_added = 0
    if n_added:
        matrix += group
    return matrix.T
