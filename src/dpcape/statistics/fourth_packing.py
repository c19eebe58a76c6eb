"""Symmetric tensors of order four as vectors of the same Euclidean length.

Entry (i, j, k, l), i <= j <= k <= l, stands for all its permutations and is weighted by the square root of their
number, so that equal noise on the packed vector is isotropic symmetric noise. *Pairs* are
the products x_i x_j, i <= j: a tensor is built from, and read as, a matrix over pairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Indices = NDArray[np.intp]


def packed_size4(n: int) -> int:
    """Length of a packed symmetric n x n x n x n tensor."""
    return math.comb(n + 3, 4)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the entries of a packed tensor live.

    Attributes
    ----------
    entries : (size, 4) — indices i <= j <= k <= l.
    weights : (size,) — square roots of the number of permutations of an entry.
    pairings : (3, 2, size) — the three ways to split an entry into two pairs, as positions of pairs.
    pair_rows, pair_columns : (n_pairs,) — the indices of each pair.
    diagonal : (n,) — positions of the pairs (i, i).
    of_pairs : (n_pairs, n_pairs) — position of the entry that two pairs make up.
    """

    n: int
    entries: Indices
    weights: Vector
    pairings: Indices
    pair_rows: Indices
    pair_columns: Indices
    diagonal: Indices
    of_pairs: Indices


@lru_cache(maxsize=8)
def layout(n: int) -> Layout:
    """Return the layout of tensors over n dimensions."""
    entries = np.array(
        [(i, j, k, m) for i in range(n) for j in range(i, n) for k in range(j, n) for m in range(k, n)],
        dtype=np.intp,
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


def _permutations(entries: Indices) -> Vector:
    """Return the number of distinct permutations of each sorted entry."""
    equal = entries[:, 1:] == entries[:, :-1]
    # Runs of equal indices: 24 divided by the factorials of their lengths.
    run, repeats = np.ones(len(entries)), np.ones(len(entries))
    for step in range(3):
        run = np.where(equal[:, step], run + 1, 1.0)
        repeats *= run
    return 24.0 / repeats


def pair_products(rows: Vector, out: Vector | None = None) -> Vector:
    """Return all products x_i x_j, i <= j, of each row, one product per row of the result: (n_pairs, n_rows)."""
    n_rows, n = rows.shape
    columns = np.ascontiguousarray(rows.T)
    products = np.empty((n * (n + 1) // 2, n_rows)) if out is None else out[:, :n_rows]
    start = 0
    for i in range(n):
        np.multiply(columns[i], columns[i:], out=products[start : start + n - i])
        start += n - i
    return products


def pack4(pair_matrix: Vector, n: int) -> Vector:
    """Pack the symmetric part, over all permutations of four indices, of a matrix over pairs."""
    where = layout(n)
    total = np.zeros(len(where.entries))
    for first, second in where.pairings:
        total += pair_matrix[first, second]
        total += pair_matrix[second, first]
    total *= where.weights / 6
    return total


def unpack4(packed: Vector, n: int) -> Vector:
    """Return a packed tensor as a matrix over pairs: entry (ij, kl) is Q_ijkl."""
    where = layout(n)
    matrix: Vector = (packed / where.weights)[where.of_pairs]
    return matrix


def traceless4(packed: Vector, n: int) -> Vector:
    """Return the traceless part of a packed tensor: what no Gaussian part and no covariance reaches.

    ``Q - 6/(n+4) Sym(I x Q2) + 3/((n+2)(n+4)) tr(Q2) Sym(I x I)`` with Q2_kl = sum_i Q_iikl; an orthogonal projection.
    """
    trace = _trace(packed, n)
    where = layout(n)
    spread = np.zeros_like(packed)
    isotropic = np.zeros_like(packed)
    is_diagonal = np.zeros(where.pair_rows.size)
    is_diagonal[where.diagonal] = 1.0
    for first, second in where.pairings:
        spread += is_diagonal[first] * trace[second] + is_diagonal[second] * trace[first]
        isotropic += is_diagonal[first] * is_diagonal[second]
    full_trace = float(trace[where.diagonal].sum())
    # Sym(I x Q2) averages six terms, Sym(I x I) three.
    correction = -spread / (n + 4) + isotropic * (full_trace / ((n + 2) * (n + 4)))
    result: Vector = packed + where.weights * correction
    return result


def _trace(packed: Vector, n: int) -> Vector:
    """Return Q2_kl = sum_i Q_iikl over pairs (k, l)."""
    where = layout(n)
    trace: Vector = (packed / where.weights)[where.of_pairs[where.diagonal]].sum(axis=0)
    return trace
