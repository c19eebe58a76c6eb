"""Symmetric matrices and tensors packed into vectors of the same Euclidean norm.

An entry with indices i <= j (<= k <= l) represents all its permutations. It is kept once and weighted by the square
root of their number, so that the length of the packed vector is the Frobenius norm and equal noise on it is isotropic
symmetric noise, of standard deviation sigma / sqrt(permutations) on an entry: for a matrix sigma on the diagonal and
sigma / sqrt(2) off it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import overload

import numpy as np
from scipy.linalg.lapack import dtrttp

from dpcape.core.arrays import FloatArray, IntArray

# Matrices -------------------------------------------------------------------------------------------------------------


@overload
def packed_size(n: int) -> int: ...


@overload
def packed_size(n: float) -> float: ...


def packed_size(n: float) -> float:
    """Return the length of a packed symmetric n x n matrix."""
    return n * (n + 1) // 2


def pack(matrix: FloatArray) -> FloatArray:
    """Pack the upper triangle (row by row) of a symmetric matrix, off-diagonals times sqrt(2)."""
    # Rows of the upper triangle are columns of the lower one of the transpose, which LAPACK packs.
    packed: FloatArray = dtrttp(matrix.T, uplo="L")[0]
    packed *= math.sqrt(2)
    at = np.arange(len(matrix))
    packed[at * len(matrix) - at * (at - 1) // 2] = np.diagonal(matrix)
    return packed


def unpack(packed: FloatArray, n: int) -> FloatArray:
    """Invert :func:`pack`."""
    matrix, start = np.empty((n, n)), 0
    for i in range(n):
        end = start + n - i
        row = np.divide(packed[start:end], math.sqrt(2), out=matrix[i, i:])
        row[0] = packed[start]
        matrix[i:, i] = row
        start = end
    return matrix


# Tensors of order three -----------------------------------------------------------------------------------------------

# Entries with i <= j <= k are ordered by the middle index j, then i, then k: for one j they are an outer product of the
# coordinates up to j with those from j on, which is one matrix product over records. Neighbouring j share a product,
# still for less than a third of the work of all entries.

# Middle indices handled in one matrix product: wide enough for a fast product, at little waste.
_GROUP = 4
# Up to this width all middle indices make one group.
_NARROW = 20


@overload
def packed_tensor_size(n: int) -> int: ...


@overload
def packed_tensor_size(n: float) -> float: ...


def packed_tensor_size(n: float) -> float:
    """Return the length of a packed symmetric n x n x n tensor."""
    return n * (n + 1) * (n + 2) // 6


@lru_cache(maxsize=8)
def triples(n: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the indices (i, j, k) with i <= j <= k, in packed order."""
    middle = np.repeat(np.arange(n), [(j + 1) * (n - j) for j in range(n)])
    first = np.concatenate([np.repeat(np.arange(j + 1), n - j) for j in range(n)])
    last = np.concatenate([np.tile(np.arange(j, n), j + 1) for j in range(n)])
    for index in (first, middle, last):
        index.setflags(write=False)
    return first, middle, last


@lru_cache(maxsize=8)
def root_multiplicities(n: int) -> FloatArray:
    """Return the square roots of the numbers of permutations of the packed entries."""
    i, j, k = triples(n)
    different = (i != j).astype(int) + (j != k)
    roots: FloatArray = np.sqrt(np.array([1.0, 3.0, 6.0])[different])
    roots.setflags(write=False)
    return roots


def pack_tensor(tensor: FloatArray) -> FloatArray:
    """Pack a symmetric tensor."""
    n = tensor.shape[0]
    packed: FloatArray = tensor[triples(n)] * root_multiplicities(n)
    return packed


def unpack_tensor(packed: FloatArray, n: int) -> FloatArray:
    """Invert :func:`pack_tensor`."""
    i, j, k = triples(n)
    entries = packed / root_multiplicities(n)
    tensor = np.empty((n, n, n))
    for order in ((i, j, k), (i, k, j), (j, i, k), (j, k, i), (k, i, j), (k, j, i)):
        tensor[order] = entries
    return tensor


def middle_groups(n: int) -> list[range]:
    """Return the middle indices that share a product."""
    group = n if n <= _NARROW else _GROUP
    return [range(start, min(start + group, n)) for start in range(0, n, group)]


# Tensors of order four ------------------------------------------------------------------------------------------------

# *Pairs* are the products x_i x_j, i <= j: a tensor of order four is built from, and read as, a matrix over pairs.


@overload
def packed_size4(n: int) -> int: ...


@overload
def packed_size4(n: float) -> float: ...


def packed_size4(n: float) -> float:
    """Return the length of a packed symmetric n x n x n x n tensor."""
    return n * (n + 1) * (n + 2) * (n + 3) // 24


@dataclass(frozen=True, eq=False)
class Layout:
    """Positions of the entries of a packed tensor of order four.

    Attributes
    ----------
    n : int
        Dimensions.
    entries : (size, 4) array
        Indices i <= j <= k <= l.
    weights : (size,) array
        Square roots of the number of permutations of an entry.
    pairings : (3, 2, size) array
        The three ways to split an entry into two pairs, given as positions of pairs.
    pair_rows, pair_columns : (n_pairs,) array
        The indices of each pair.
    diagonal : (n,) array
        Positions of the pairs (i, i).
    of_pairs : (n_pairs, n_pairs) array
        Position of the entry that two pairs form.
    """

    n: int
    entries: IntArray
    weights: FloatArray
    pairings: IntArray
    pair_rows: IntArray
    pair_columns: IntArray
    diagonal: IntArray
    of_pairs: IntArray


@lru_cache(maxsize=8)
def layout(n: int) -> Layout:
    """Return the layout of tensors over n dimensions."""
    entries = np.array(
        [(i, j, k, m) for i in range(n) for j in range(i, n) for k in range(j, n) for m in range(k, n)], dtype=np.intp
    ).reshape(-1, 4)
    rows, columns = np.triu_indices(n)
    position = np.empty((n, n), dtype=np.intp)
    position[rows, columns] = position[columns, rows] = np.arange(rows.size)
    i, j, k, m = entries.T
    pairings = np.array(
        [[position[i, j], position[k, m]], [position[i, k], position[j, m]], [position[i, m], position[j, k]]]
    )
    of_pairs = np.empty((rows.size, rows.size), dtype=np.intp)
    for first, second in pairings:
        of_pairs[first, second] = of_pairs[second, first] = np.arange(len(entries))
    return Layout(
        n=n,
        entries=entries,
        weights=np.sqrt(_permutations(entries)),
        pairings=pairings,
        pair_rows=rows,
        pair_columns=columns,
        diagonal=position[np.arange(n), np.arange(n)],
        of_pairs=of_pairs,
    )


def _permutations(entries: IntArray) -> FloatArray:
    """Return the number of distinct permutations of each sorted entry."""
    equal = entries[:, 1:] == entries[:, :-1]
    # Runs of equal indices: 24 divided by the factorials of their lengths.
    run, repeats = np.ones(len(entries)), np.ones(len(entries))
    for step in range(3):
        run = np.where(equal[:, step], run + 1, 1.0)
        repeats *= run
    return 24.0 / repeats


def pair_products(rows: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return all products x_i x_j, i <= j, of each row, one product per row of the result: (n_pairs, n_rows)."""
    n_rows, n = rows.shape
    columns = np.ascontiguousarray(rows.T)
    products = np.empty((n * (n + 1) // 2, n_rows)) if out is None else out[:, :n_rows]
    start = 0
    for i in range(n):
        np.multiply(columns[i], columns[i:], out=products[start : start + n - i])
        start += n - i
    return products


def pack4(pair_matrix: FloatArray, n: int) -> FloatArray:
    """Pack the symmetric part, over all permutations of four indices, of a matrix over pairs."""
    indices = layout(n)
    total = np.zeros(len(indices.entries))
    for first, second in indices.pairings:
        total += pair_matrix[first, second]
        total += pair_matrix[second, first]
    total *= indices.weights / 6
    return total


def unpack4(packed: FloatArray, n: int) -> FloatArray:
    """Return a packed tensor as a matrix over pairs: entry (ij, kl) is Q_ijkl."""
    indices = layout(n)
    matrix: FloatArray = (packed / indices.weights)[indices.of_pairs]
    return matrix


def traceless4(packed: FloatArray, n: int) -> FloatArray:
    """Return the traceless part of a packed tensor, which no Gaussian component or covariance contributes to.

    ``Q - 6/(n+4) Sym(I x Q2) + 3/((n+2)(n+4)) tr(Q2) Sym(I x I)`` with Q2_kl = sum_i Q_iikl; an orthogonal projection.
    """
    indices = layout(n)
    # Q2_kl over pairs (k, l).
    trace: FloatArray = (packed / indices.weights)[indices.of_pairs[indices.diagonal]].sum(axis=0)
    spread = np.zeros_like(packed)
    isotropic = np.zeros_like(packed)
    is_diagonal = np.zeros(indices.pair_rows.size)
    is_diagonal[indices.diagonal] = 1.0
    for first, second in indices.pairings:
        spread += is_diagonal[first] * trace[second] + is_diagonal[second] * trace[first]
        isotropic += is_diagonal[first] * is_diagonal[second]
    full_trace = float(trace[indices.diagonal].sum())
    # Sym(I x Q2) averages six terms, Sym(I x I) three.
    correction = -spread / (n + 4) + isotropic * (full_trace / ((n + 2) * (n + 4)))
    result: FloatArray = packed + indices.weights * correction
    return result
