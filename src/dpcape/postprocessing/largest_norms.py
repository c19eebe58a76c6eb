"""Largest singular values of many matrices, of which tests need the few largest and comparisons with one number.

All singular values of M are below a number t exactly if t^2 I - M M' is positive definite. A Cholesky factorisation
decides that in a fraction of the time that an eigenvalue takes, so only the few that matter are computed.
"""

from __future__ import annotations

import heapq
import math
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dpotrf, spotrf

from dpcape.core.arrays import AnyArray, BoolArray, FloatArray

# Up to this size the eigenvalues of all matrices take less time than a factorisation of each.
_FEW = 16
# Up to the first size all eigenvalues of a matrix are computed, up to the second the largest alone, and above it one by
# iteration.
_SMALL, _DENSE = 48, 300


class LargestNorms:
    """Largest singular values of the matrices of a stack.

    Parameters
    ----------
    matrices : array of shape (n, Dx, Dy)
        In single or double precision, in which everything is computed.
    """

    def __init__(self, matrices: AnyArray) -> None:
        self._matrices = matrices
        self._size = min(matrices.shape[1:])

    def largest(self, count: int) -> FloatArray:
        """Return the ``count`` largest of the matrices' largest singular values, in descending order."""
        if self._norms is not None:
            return np.asarray(np.sort(self._norms)[: -count - 1 : -1])
        # The sum of the fourth powers of all singular values says which matrices are likely to be among these.
        order = np.argsort(-np.einsum("nij,nij->n", self._products, self._products))
        squares = [_largest_eigenvalue(self._products[at]) for at in order[:count]]
        heapq.heapify(squares)
        for at in order[count:]:
            if _reaches(self._products[at], squares[0]):
                heapq.heappushpop(squares, _largest_eigenvalue(self._products[at]))
        return np.array([math.sqrt(max(square, 0.0)) for square in sorted(squares, reverse=True)])

    def at_least(self, value: float) -> BoolArray:
        """Tell which matrices have a largest singular value of at least ``value``, which is not negative."""
        if self._norms is not None:
            return np.asarray(self._norms >= value)
        return np.array([_reaches(product, value**2) for product in self._products], dtype=np.bool_)

    @cached_property
    def _norms(self) -> FloatArray | None:
        """Those of all matrices, where they are not computed one by one."""
        return None if has_products(self._size) else operator_norms(self._matrices)

    @cached_property
    def _products(self) -> AnyArray:
        return _products(self._matrices)


def has_products(size: int) -> bool:
    """Tell whether products of all matrices of this size are kept, because few of their norms are computed."""
    return _FEW < size <= _DENSE


def operator_norms(matrices: AnyArray) -> FloatArray:
    """Return the largest singular value of each matrix, (n, Dx, Dy)."""
    size = min(matrices.shape[1:])
    if size > _DENSE:
        from scipy.sparse.linalg import svds  # Slow to import, and every PCA imports this module.

        start = np.ones(size, dtype=matrices.dtype)
        tops = [svds(entry, k=1, return_singular_vectors=False, v0=start)[0] for entry in matrices]
        return np.array(tops, dtype=np.float64)
    products = _products(matrices)
    if size <= _SMALL:
        squares = np.linalg.eigvalsh(products)[:, -1]
    else:
        squares = np.array([_largest_eigenvalue(product) for product in products])
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)), dtype=np.float64)


def _products(matrices: AnyArray) -> AnyArray:
    """Return M M' of each matrix, or M' M where that is smaller."""
    turned = matrices if matrices.shape[1] <= matrices.shape[2] else matrices.swapaxes(1, 2)
    return turned @ turned.swapaxes(1, 2)


def _largest_eigenvalue(product: AnyArray) -> float:
    last = (len(product) - 1, len(product) - 1)
    return float(scipy.linalg.eigh(product, eigvals_only=True, subset_by_index=last, check_finite=False)[0])


def _reaches(product: AnyArray, square: float) -> bool:
    """Tell whether the largest eigenvalue of a symmetric matrix is at least ``square``, to its precision."""
    shifted = np.negative(product.T)
    shifted.ravel(order="K")[:: len(shifted) + 1] += square
    factorise = spotrf if shifted.dtype == np.float32 else dpotrf
    return bool(factorise(shifted, clean=False, overwrite_a=True)[1] > 0)
