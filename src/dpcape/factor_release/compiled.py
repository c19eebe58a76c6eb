"""The pass over features of one Gibbs sweep, compiled with numba (extra ``fast``).

Sixty-four features are handled at a time, with the features innermost in memory, so that the K x K Cholesky
factorisations of a block run side by side in vector registers. The block width is a run-time value on
purpose: a compile-time constant makes LLVM unroll the short loops fully, after which it no longer
vectorises them (measured: a factor of three).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dpcape.core.arrays import FloatArray

BLOCK = 64

# Contraction and re-association only: NaN and infinity keep their meaning.
_compile: Any = njit(nogil=True, cache=True, error_model="numpy", fastmath={"contract", "reassoc"})


@_compile
def _fill(Q, v, gram, cross, precision, local, column_precision, start, width, block):  # type: ignore[no-untyped-def]  # numba infers
    """Write each feature's conditional precision into Q and its right-hand side into v."""
    n_factors = gram.shape[0]
    for c in range(n_factors):
        for w in range(width):
            v[c, w] = cross[c, start + w] * precision[w]
            Q[c, c, w] = gram[c, c] * precision[w] + column_precision[c] * local[c, start + w]
        for w in range(width, block):  # lanes past the last feature solve the identity
            v[c, w] = 0.0
            Q[c, c, w] = 1.0
        for r in range(c + 1, n_factors):
            entry = gram[r, c]
            for w in range(block):
                Q[r, c, w] = entry * precision[w]


@_compile
def _factorise(Q, v, inverse, block):  # type: ignore[no-untyped-def]  # numba infers
    """Cholesky of every lane in place, and the forward substitution of v along with it."""
    n_factors = Q.shape[0]
    for c in range(n_factors):
        for k in range(c):
            for r in range(c, n_factors):
                for w in range(block):
                    Q[r, c, w] -= Q[r, k, w] * Q[c, k, w]
        for w in range(block):
            inverse[c, w] = 1.0 / np.sqrt(Q[c, c, w])
            v[c, w] *= inverse[c, w]
        for r in range(c + 1, n_factors):
            for w in range(block):
                Q[r, c, w] *= inverse[c, w]
        for r in range(c + 1, n_factors):
            for w in range(block):
                v[r, w] -= Q[r, c, w] * v[c, w]


@_compile
def _back_substitute(Q, v, inverse, normals, start, width, block):  # type: ignore[no-untyped-def]  # numba infers
    """Turn v into a draw: solve L' lambda = v + z."""
    n_factors = Q.shape[0]
    for c in range(n_factors):
        for w in range(width):
            v[c, w] += normals[c, start + w]
    for c in range(n_factors - 1, -1, -1):
        for r in range(c + 1, n_factors):
            for w in range(block):
                v[c, w] -= Q[r, c, w] * v[r, w]
        for w in range(block):
            v[c, w] *= inverse[c, w]


@_compile
def _residual(rss, work, v, gram, cross, start, width, block):  # type: ignore[no-untyped-def]  # numba infers
    """Residual sum of squares less x'x, from sufficient statistics: lambda'G lambda - 2 lambda'b."""
    n_factors = gram.shape[0]
    for w in range(block):
        rss[w] = 0.0
    for c in range(n_factors):
        for w in range(width):
            work[w] = -2.0 * cross[c, start + w]
        for r in range(n_factors):
            entry = gram[r, c]
            for w in range(block):
                work[w] += entry * v[r, w]
        for w in range(block):
            rss[w] += work[w] * v[c, w]


@_compile
def _store(loadings, local, column_sums, v, column_precision, exponentials, start, width):  # type: ignore[no-untyped-def]  # numba infers
    """Write loadings, draw the local precisions (Gamma(2) as two exponentials) and add up phi lambda^2."""
    for c in range(v.shape[0]):
        total = 0.0
        for w in range(width):
            loading = v[c, w]
            square = loading * loading
            rate = 1.5 + 0.5 * column_precision[c] * square
            phi = (exponentials[0, c, start + w] + exponentials[1, c, start + w]) / rate
            loadings[c, start + w] = loading
            local[c, start + w] = phi
            total += phi * square
        column_sums[c] += total


@_compile
def _all_blocks(  # type: ignore[no-untyped-def]  # numba infers
    gram, cross, squares, precision, local, column_precision, normals, exponentials, gammas, rate, loadings, rss, block
):
    n_factors, n_features = cross.shape
    Q = np.zeros((n_factors, n_factors, block))
    v = np.zeros((n_factors, block))
    inverse = np.zeros((n_factors, block))
    lanes, work, cross_term = np.zeros(block), np.zeros(block), np.zeros(block)
    column_sums = np.zeros(n_factors)
    for start in range(0, n_features, block):
        width = min(block, n_features - start)
        for w in range(width):
            lanes[w] = precision[start + w]
        _fill(Q, v, gram, cross, lanes, local, column_precision, start, width, block)
        _factorise(Q, v, inverse, block)
        _back_substitute(Q, v, inverse, normals, start, width, block)
        _residual(cross_term, work, v, gram, cross, start, width, block)
        for w in range(width):
            rss[start + w] = max(cross_term[w] + squares[start + w], 0.0)
            precision[start + w] = gammas[start + w] / (rate + 0.5 * rss[start + w])
        _store(loadings, local, column_sums, v, column_precision, exponentials, start, width)
    return column_sums


def feature_pass(*arguments: FloatArray | float) -> FloatArray:
    """Run :func:`dpcape.factor_release.kernels.feature_pass` compiled; same arguments, same draws up to rounding."""
    sums: FloatArray = _all_blocks(*arguments, BLOCK)
    return sums
