"""Rotation to the most non-Gaussian directions, by pairwise Jacobi steps on a symmetric tensor of order four.

All starts and all disjoint pairs of a round are rotated together, so a sweep is a few small matrix products.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.packing import layout, traceless4, unpack4

Indices = NDArray[np.intp]

CONTRASTS = ("positive", "negative", "mixed")
_MOST_SWEEPS = 100
_SETTLED = 1e-6
_GRID = np.linspace(-np.pi / 4, np.pi / 4, 65)


def rotate(tensor: FloatArray, n: int, *, kurtosis: str = "positive", n_starts: int = 8) -> FloatArray:
    """Return the orthogonal matrix whose rows are the most non-Gaussian directions of a packed tensor.

    Parameters
    ----------
    tensor : array
        Packed symmetric tensor of order four over n dimensions, with or without noise; its trace parts (the Gaussian
        part and the remaining covariance) are removed first.
    n : int
        Number of dimensions.
    kurtosis : str
        "positive" or "negative" maximises the summed kurtosis of that sign (Comon 1994); "mixed" maximises the part of
        the tensor that n independent sources of any sign explain, which is the likelihood under isotropic noise.
    n_starts : int
        Number of starting rotations, which are fixed, not random; the best result is returned.
    """
    if kurtosis not in CONTRASTS:
        raise InvalidParameter("kurtosis", f"be one of {', '.join(CONTRASTS)}", repr(kurtosis))
    sign = -1.0 if kurtosis == "negative" else 1.0
    pairs = unpack4(sign * traceless4(tensor, n), n)
    share = _mean_share(n) if kurtosis == "mixed" else None
    turns = _starts(n, n_starts)
    for _ in range(_MOST_SWEEPS):
        if _sweep(turns, pairs, share) < _SETTLED:
            break
    values = _values(turns, pairs)
    # Of sources of both signs, the part of the tensor that they explain.
    scores = values.sum(axis=1) if share is None else (values**2).sum(axis=-1) - share * values.sum(axis=-1) ** 2
    best: FloatArray = turns[int(np.argmax(scores))]
    return _ordered(best, pairs)


def tensor_values(tensor: FloatArray, rotation: FloatArray) -> FloatArray:
    """Return H(w, w, w, w) of the traceless part of a packed tensor, for each row w of ``rotation``."""
    n = len(rotation)
    values: FloatArray = _values(rotation[np.newaxis], unpack4(traceless4(tensor, n), n))[0]
    return values


def _mean_share(n: int) -> float:
    """Return the weight of (sum d)^2 in the part of a traceless tensor that n orthogonal sources explain.

    The traceless parts of w_i^4 have inner products a on and b off the diagonal, b = 3/((n+2)(n+4)) and
    a = 1 - 6/(n+4) + b; projecting on their span gives (|d|^2 - share (sum d)^2)/(a - b).
    """
    b = 3 / ((n + 2) * (n + 4))
    return b / (1 - 6 / (n + 4) + n * b)


def _contracted(turns: FloatArray, pairs: FloatArray) -> FloatArray:
    """Return Q(w, w, ., .) for every row w of every start: (starts, n, n, n)."""
    pair_layout = layout(turns.shape[2])
    first, second = pair_layout.pair_rows, pair_layout.pair_columns
    products = turns[:, :, first] * turns[:, :, second] * np.where(first == second, 1.0, 2.0)
    reduced = products @ pairs
    full = np.empty((*turns.shape, turns.shape[2]))
    full[:, :, first, second] = reduced
    full[:, :, second, first] = reduced
    return full


def _values(turns: FloatArray, pairs: FloatArray) -> FloatArray:
    full = _contracted(turns, pairs)
    values: FloatArray = np.einsum("sijk,sij,sik->si", full, turns, turns, optimize=True)
    return values


def _sweep(turns: FloatArray, pairs: FloatArray, share: float | None) -> float:
    """Rotate every pair of rows once, in place; return the largest angle."""
    largest = 0.0
    for first, second in _rounds(turns.shape[2]):
        entries = _pair_entries(turns, pairs, first, second)
        if share is None:
            angles = _linear_angles(entries)
        else:
            angles = _mixed_angles(entries, _values(turns, pairs).sum(axis=1), share)
        cosines, sines = np.cos(angles)[..., np.newaxis], np.sin(angles)[..., np.newaxis]
        p, q = turns[:, first], turns[:, second]
        turns[:, first], turns[:, second] = cosines * p + sines * q, cosines * q - sines * p
        largest = max(largest, float(np.abs(angles).max(initial=0.0)))
    return largest


def _pair_entries(turns: FloatArray, pairs: FloatArray, first: Indices, second: Indices) -> FloatArray:
    """Return Q_pppp, Q_pppq, Q_ppqq, Q_pqqq, Q_qqqq for the pairs of a round: (5, starts, n_pairs)."""
    full = _contracted(turns, pairs)
    p, q = turns[:, first], turns[:, second]
    at_p = np.matmul(full[:, first], p[..., np.newaxis])[..., 0]
    at_q = np.matmul(full[:, second], q[..., np.newaxis])[..., 0]
    crossed = np.matmul(full[:, first], q[..., np.newaxis])[..., 0]
    return np.stack(
        [np.vecdot(at_p, p), np.vecdot(at_p, q), np.vecdot(crossed, q), np.vecdot(at_q, p), np.vecdot(at_q, q)]
    )


def _linear_angles(entries: FloatArray) -> FloatArray:
    """Return the angles that maximise d_p + d_q = const + b cos 4t + c sin 4t."""
    pppp, pppq, ppqq, pqqq, qqqq = entries
    angles: FloatArray = np.arctan2(pppq - pqqq, (pppp + qqqq - 6 * ppqq) / 4) / 4
    return angles


def _mixed_angles(entries: FloatArray, sums: FloatArray, share: float) -> FloatArray:
    """Return the angles that maximise the explained part: the best of a grid, refined by parabolas.

    ``sums`` are the sums of values per start; the pairs of a round rotate together, each as if the others were fixed.
    """
    others = (sums[:, np.newaxis] - entries[0] - entries[4])[..., np.newaxis]

    def explained(angles: FloatArray) -> FloatArray:
        d_p, d_q = _turned(entries, angles)
        values: FloatArray = d_p**2 + d_q**2 - share * (others + d_p + d_q) ** 2
        return values

    angles: FloatArray = _GRID[np.argmax(explained(_GRID), axis=-1)]
    for step in (_GRID[1] - _GRID[0]) * np.array([1.0, 1 / 16, 1 / 256]):
        around = angles[..., np.newaxis] + step * np.array([-1.0, 0.0, 1.0])
        left, middle, right = np.moveaxis(explained(around), -1, 0)
        bend = np.minimum(left - 2 * middle + right, -1e-300)
        angles = angles + step * np.clip(0.5 * (left - right) / bend, -1.0, 1.0)
    return angles


def _turned(entries: FloatArray, angles: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return d_p and d_q after rotation by each angle."""
    pppp, pppq, ppqq, pqqq, qqqq = (entry[..., np.newaxis] for entry in entries)
    c, s = np.cos(angles), np.sin(angles)
    d_p = pppp * c**4 + 4 * pppq * c**3 * s + 6 * ppqq * c**2 * s**2 + 4 * pqqq * c * s**3 + qqqq * s**4
    d_q = pppp * s**4 - 4 * pppq * s**3 * c + 6 * ppqq * c**2 * s**2 - 4 * pqqq * s * c**3 + qqqq * c**4
    return d_p, d_q


@lru_cache(maxsize=8)
def _rounds(n: int) -> tuple[tuple[Indices, Indices], ...]:
    """Return rounds of disjoint pairs that contain every pair once (circle method of round-robin tournaments)."""
    seats = list(range(n + n % 2))
    rounds = []
    for _ in range(len(seats) - 1):
        middle = len(seats) // 2
        met = [
            (min(a, b), max(a, b))
            for a, b in zip(seats[:middle], reversed(seats[middle:]), strict=True)
            if max(a, b) < n
        ]
        rounds.append((np.array([a for a, _ in met], np.intp), np.array([b for _, b in met], np.intp)))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return tuple(rounds)


def _starts(n: int, n_starts: int) -> FloatArray:
    """Return fixed rotations: the identity, then orthonormalised normal scores of a Weyl sequence."""
    steps = np.arange(1, (n_starts - 1) * n * n + 1) * np.sqrt(2.0)
    normals = ndtri(np.clip(steps % 1.0, 1e-12, 1 - 1e-12)).reshape(-1, n, n)
    others = [np.linalg.qr(matrix)[0] for matrix in normals]
    return np.stack([np.eye(n), *others])


def _ordered(turn: FloatArray, pairs: FloatArray) -> FloatArray:
    """Return rows ordered by their value, largest first, with signs such that the largest entry is positive."""
    values = _values(turn[np.newaxis], pairs)[0]
    turn = turn[np.argsort(-np.abs(values), kind="stable")]
    signs = np.sign(turn[np.arange(len(turn)), np.argmax(np.abs(turn), axis=1)])
    return turn * np.where(signs == 0, 1.0, signs)[:, np.newaxis]
