"""Sums of outer products of rows."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsyrk

from dpcape.core.arrays import FloatArray


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
