"""Symmetric third-order tensors as vectors of the same Euclidean length.

An entry (i, j, k) stands for all its permutations: 1, 3 or 6 of them. It is kept once and weighted by the
square root of that number, so equal noise on the packed vector is isotropic symmetric noise, of standard
deviation sigma / sqrt(multiplicity) on an entry.

Entries with i <= j <= k are ordered by the middle index j, then i, then k: for one j they are an outer
product of the coordinates up to j with those from j on, which is one matrix product over records.
Neighbouring j share a product, still for less than a third of the work of all entries.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

# Middle indices handled in one matrix product: wide enough for a fast product, at little waste.
_GROUP = 4
# Up to this width all middle indices make one group.
_NARROW = 20
# Rows whose distance in memory is a power of two fall onto the same cache lines; this much more avoids it.
_PADDING = 8


def packed_tensor_size(n: int) -> int:
    """Length of a packed symmetric n x n x n tensor."""
    return n * (n + 1) * (n + 2) // 6


@lru_cache(maxsize=8)
def triples(n: int) -> tuple[Indices, Indices, Indices]:
    """Return the indices (i, j, k) with i <= j <= k, in packed order."""
    middle = np.repeat(np.arange(n), [(j + 1) * (n - j) for j in range(n)])
    first = np.concatenate([np.repeat(np.arange(j + 1), n - j) for j in range(n)])
    last = np.concatenate([np.tile(np.arange(j, n), j + 1) for j in range(n)])
    for index in (first, middle, last):
        index.setflags(write=False)
    return first, middle, last


@lru_cache(maxsize=8)
def root_multiplicities(n: int) -> Array:
    """Return the square roots of the numbers of permutations of the packed entries."""
    i, j, k = triples(n)
    different = (i != j).astype(int) + (j != k)
    roots: Array = np.sqrt(np.array([1.0, 3.0, 6.0])[different])
    roots.setflags(write=False)
    return roots


def pack_tensor(tensor: Array) -> Array:
    """Pack a symmetric tensor."""
    n = tensor.shape[0]
    packed: Array = tensor[triples(n)] * root_multiplicities(n)
    return packed


def unpack_tensor(packed: Array, n: int) -> Array:
    """Invert :func:`pack_tensor`."""
    i, j, k = triples(n)
    entries = packed / root_multiplicities(n)
    tensor = np.empty((n, n, n))
    for order in ((i, j, k), (i, k, j), (j, i, k), (j, k, i), (k, i, j), (k, j, i)):
        tensor[order] = entries
    return tensor


class CubeSum:
    """The sum over records of w x (x) x (x) x, block by block, in buffers that are used again.

    Parameters
    ----------
    n : coordinates of a record.
    capacity : most records in one block.
    """

    def __init__(self, n: int, capacity: int) -> None:
        self._n = n
        group = n if n <= _NARROW else _GROUP
        self._groups = [range(start, min(start + group, n)) for start in range(0, n, group)]
        self._sums = [np.zeros((_n_pairs(middles), n - middles[0])) for middles in self._groups]
        self._products = [np.empty_like(total) for total in self._sums]
        self._length = capacity if n <= _NARROW else capacity + _PADDING
        self._pairs = np.empty((max(total.shape[0] for total in self._sums), self._length))

    def buffer(self) -> Array:
        """Return an uninitialised block to fill and add: (n, at least ``capacity``)."""
        return np.empty((self._n, self._length))

    def add(self, columns: Array, weighted: Array | None = None) -> None:
        """Add a block.

        Parameters
        ----------
        columns : (n, records) — coordinates in rows, so that one coordinate of all records is contiguous.
        weighted : the same with each record multiplied by its weight w; None for weights of one.
        """
        factors = columns if weighted is None else weighted
        pairs = self._pairs[:, : columns.shape[1]]
        for middles, total, product in zip(self._groups, self._sums, self._products, strict=True):
            start = 0
            for j in middles:
                np.multiply(columns[: j + 1], columns[j], out=pairs[start : start + j + 1])
                start += j + 1
            np.matmul(pairs[:start], factors[middles[0] :].T, out=product)
            total += product

    def entries(self) -> Array:
        """Return the sum in packed order, without the weights of multiplicity."""
        parts = []
        for middles, total in zip(self._groups, self._sums, strict=True):
            start = 0
            for j in middles:
                parts.append(total[start : start + j + 1, j - middles[0] :].ravel())
                start += j + 1
        return np.concatenate(parts)


def _n_pairs(middles: range) -> int:
    """Count pairs (i, j) with i <= j for j in a group."""
    return sum(j + 1 for j in middles)
