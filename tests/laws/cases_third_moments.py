"""Cases of third moments of rows and of moments of documents."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpcape import documents, rows
from dpcape.statistics.third_moments import whitened_radius

from .statistic_case import Case

Vector = NDArray[np.float64]

WHITENER = np.array([[1.0, 0.3], [-0.4, 2.0], [0.6, -0.5]])
WORDS = np.arange(3, dtype=np.int64)


def _rows(bound: float) -> Any:
    return lambda parameters: rows(parameters, bound=bound)


def _clipped(x: Vector, bound: float) -> Vector:
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return x * np.minimum(1.0, bound / np.maximum(norms, 1e-300))


def _corrected(z: Vector, gram: Vector, variance: float) -> Vector:
    """Return the mean of z z z - v (z G + permutations), entry by entry."""
    cubes = np.einsum("ni,nj,nk->ijk", z, z, z) / len(z)
    mean = z.mean(axis=0)
    parts = (np.einsum(f"i,jk->{order}", mean, gram) for order in ("ijk", "jik", "jki"))
    return (cubes - variance * sum(parts)).ravel()


def _third(bound: float, variance: float) -> Any:
    def expected(parameters: Vector) -> Vector:
        x = _clipped(parameters, bound)
        return _corrected(x, np.eye(x.shape[1]), variance)

    return expected


def _whitened(clip: float, variance: float) -> Any:
    def expected(parameters: Vector) -> Vector:
        z = _clipped(_clipped(parameters, 1.0) @ WHITENER, clip)
        return _corrected(z, WHITENER.T @ WHITENER, variance)

    return expected


def _radius(clip: float, variance: float) -> float:
    return whitened_radius(WHITENER, clip=clip, noise_variance=variance)


def counts_of(parameters: Vector) -> NDArray[np.int64]:
    """Return whole numbers: up to 8 for ordinary parameters, long documents for extreme ones."""
    return np.floor(3 * np.abs(parameters)).astype(np.int64)


def _documents(parameters: Vector) -> Any:
    return documents(csr_array(counts_of(parameters)))


def _shares(clip: float) -> Any:
    def expected(parameters: Vector) -> Vector:
        counts = counts_of(parameters)
        counts = counts * (counts.sum(axis=1, keepdims=True) >= 3)
        shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return _clipped(shares, clip).mean(axis=0)

    return expected


_SOME = np.array([0, 2], dtype=np.int64)
_LONGEST = float(np.linalg.norm(WHITENER, axis=1).max() ** 3)

CASES = [
    Case("third_moment", "plain", 3, _rows(1.0), {"noise_variance": 0.0}, expected=_third(1.0, 0.0)),
    Case("third_moment", "corrected", 3, _rows(1.0), {"noise_variance": 0.1}, expected=_third(1.0, 0.1)),
    Case("third_moment", "one-column", 1, _rows(1.0), {"noise_variance": 0.2}, expected=_third(1.0, 0.2)),
    Case("third_moment", "strong-noise", 2, _rows(2.0), {"noise_variance": 1.5}, expected=_third(2.0, 1.5)),
    *(
        Case(
            "whitened_third_moment",
            f"clip{clip:g}-variance{variance:g}",
            3,
            _rows(1.0),
            {"whitener": WHITENER, "clip": clip, "noise_variance": variance, "radius": _radius(clip, variance)},
            expected=_whitened(clip, variance),
        )
        for clip, variance in ((0.5, 0.0), (0.8, 0.05), (0.5, 0.2))
    ),
    Case("word_shares", "unclipped", 3, _documents, {"clip": 1.0}, expected=_shares(1.0)),
    Case("word_shares", "clipped", 3, _documents, {"clip": 0.5}, expected=_shares(0.5)),
    Case("word_pairs", "unclipped", 3, _documents, {"clip": 1.0, "words": WORDS}),
    Case("word_pairs", "clipped", 3, _documents, {"clip": 0.3, "words": WORDS}),
    Case("word_pairs", "two-of-three-words", 3, _documents, {"clip": 1.0, "words": _SOME}),
    Case("word_triples", "unclipped", 3, _documents, {"clip": 1.0, "words": WORDS}),
    Case("word_triples", "clipped", 3, _documents, {"clip": 0.2, "words": WORDS}),
    # No two of these words point in opposite directions, so nothing attains twice the clip.
    Case(
        "whitened_word_triples",
        "unclipped",
        3,
        _documents,
        {"clip": _LONGEST, "words": WORDS, "whitener": WHITENER},
        reaches=0.5,
    ),
    Case(
        "whitened_word_triples",
        "opposite-words",
        3,
        _documents,
        {"clip": 0.7, "words": WORDS, "whitener": np.array([[1.0], [-1.0], [0.5]])},
    ),
    Case(
        "whitened_word_triples",
        "two-of-three-words",
        3,
        _documents,
        {"clip": 0.7, "words": _SOME, "whitener": np.array([[1.0], [-1.0]])},
    ),
]
