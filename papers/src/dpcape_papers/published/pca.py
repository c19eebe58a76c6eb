"""capePCA and DPdisPCA as published, and the epsilon their noise really provides. For comparison only.

The noise follows the classical formula for a sensitivity of 1/n (dissertation, section 4.2). That is the distance
between two second moments if a record is set to zero; if it is replaced, the distance is up to sqrt(2)/n. Nothing here
is used to protect records. The caller supplies the generators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator  # published algorithms for comparison: nothing is protected by it

from dpcape.core.arrays import FloatArray
from dpcape.core.privacy.gaussian import epsilon_of
from dpcape_papers.published.regression import classical_multiplier

# Times n, divided by the squared bound: as printed (one record set to zero), and for the papers' neighbours (one
# record replaced).
PRINTED_SENSITIVITY = 1.0
REPLACE_ONE_SENSITIVITY = math.sqrt(2)


def moment_scale(n_records: int, *, epsilon: float, delta: float, sensitivity: float = PRINTED_SENSITIVITY) -> float:
    """Return the standard deviation the papers add to each entry of a second moment of ``n_records`` records."""
    return sensitivity * classical_multiplier(epsilon, delta) / n_records


def verified_epsilon(
    *,
    epsilon: float,
    delta: float,
    exposure: float = 1.0,
    copies: int = 1,
    sensitivity: float = PRINTED_SENSITIVITY,
) -> float:
    """Return the epsilon, at the same delta, of a second moment released with the papers' noise.

    Parameters
    ----------
    epsilon, delta : float
        As claimed.
    exposure : float
        Ratio of mu to that of a single release, see `cape_exposure`; 1 if each site adds independent noise.
    copies : int
        How often each record was repeated; a person then has that many records.
    sensitivity : float
        Sensitivity for which the noise was sized, times the number of records.
    """
    mu = REPLACE_ONE_SENSITIVITY / sensitivity * exposure * copies / classical_multiplier(epsilon, delta)
    return epsilon_of(delta, mu)


def symmetric_noise(rng: Generator, size: int, scale: float) -> FloatArray:
    """Return a symmetric matrix whose upper triangle, diagonal included, is independent with one scale (AG)."""
    upper = np.triu(rng.normal(scale=scale, size=(size, size)))
    result: FloatArray = upper + np.triu(upper, 1).T
    return result


def cape_moment(moments: Sequence[FloatArray], *, scale: float, rng: Generator) -> FloatArray:
    """Return the aggregate of algorithm 4.1 for sites with noise of this scale.

    The terms E_s cancel, and the mean of S symmetric matrices of scale tau/sqrt(S) has scale tau/S, so one matrix of
    that scale is drawn.
    """
    mean: FloatArray = np.mean(moments, axis=0)
    return mean + symmetric_noise(rng, len(mean), scale / len(moments))


def conventional_moments(moments: Sequence[FloatArray], *, scale: float, rng: Generator) -> list[FloatArray]:
    """Return the messages of sites without correlated noise: each site's moment with noise of this scale."""
    return [moment + symmetric_noise(rng, len(moment), scale) for moment in moments]


def leading_directions(matrix: FloatArray, n_components: int) -> FloatArray:
    """Return as rows the directions of the largest *singular* values (algorithm 4.1, step 8).

    A noisy moment is indefinite, so this may pick directions whose eigenvalue is large and negative.
    """
    values, vectors = np.linalg.eigh(matrix)
    order = np.argsort(-np.abs(values))[:n_components]
    rows: FloatArray = vectors[:, order].T
    return rows


def partial_square_root(matrix: FloatArray, rank: int) -> FloatArray:
    """Return the message of a DPdisPCA site: leading directions (columns) times the roots of their singular values."""
    values, vectors = np.linalg.eigh(matrix)
    order = np.argsort(-np.abs(values))[:rank]
    root: FloatArray = vectors[:, order] * np.sqrt(np.abs(values[order]))
    return root


def dpdis_pca(noisy_moments: Sequence[FloatArray], n_components: int, *, rank: int | None = None) -> FloatArray:
    """Return the directions (rows) of DPdisPCA, computed from the sites' noisy moments.

    Each site sends a partial square root of rank ``rank`` (default: twice the number of directions), and the aggregator
    sums their products. This is post-processing.

    References
    ----------
    H. Imtiaz and A. D. Sarwate, *Differentially private distributed principal component analysis*, ICASSP 2018.
    """
    rank = min(len(noisy_moments[0]), 2 * n_components if rank is None else rank)
    stacked = np.hstack([partial_square_root(matrix, rank) for matrix in noisy_moments])
    return leading_directions(stacked @ stacked.T, n_components)
