"""CAPE for unequal sites as published (dissertation, proposition 3.2 and section 3.3.7), and its real exposure.

Sites differ in their sensitivities, 1 / N_s for means; ``tau`` contains the papers' noise scale of each site.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from dpcape.core.arrays import FloatArray
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.calibration import worst_exposures
from dpcape.core.protocols.cape import Cape


def noise_ratio(sizes: ArrayLike) -> float:
    """Return H(n): the noise variance of CAPE divided by that of pooled data, for equally weighted means (remark 3)."""
    n = np.asarray(sizes, dtype=float)
    return float(n.sum() ** 2 / n.size**3 * np.sum(n**-2))


def largest_noise_ratio(n_records: int, n_sites: int) -> float:
    """Return the upper bound of H(n) in remark 3, reached if all sites but one have a single record."""
    return n_records**2 / n_sites**3 * ((n_records - n_sites + 1) ** -2 + n_sites - 1)


def equal_weights_mu(sizes: ArrayLike, multiplier: float, n_colluding: int) -> float:
    """Return the largest mu of the scheme of proposition 3.2: site s draws at tau_s = multiplier / N_s."""
    tau = multiplier / np.asarray(sizes, dtype=float)
    exposures = worst_exposures(Cape(n_colluding=n_colluding), tau / math.sqrt(tau.size), tau)
    return float(np.max(exposures / np.asarray(sizes, dtype=float)))


def draw_variances(weights: ArrayLike, tau: ArrayLike, pooled: float) -> FloatArray:
    """Return the variances of the draws by the system of section 3.3.7; negative if the scheme is infeasible."""
    w, t = np.asarray(weights, dtype=float), np.asarray(tau, dtype=float)
    solved: FloatArray = np.linalg.solve(draw_system(w), t**2 - pooled**2 / (w.size * w**2)).astype(np.float64)
    return solved


def draw_system(weights: FloatArray) -> FloatArray:
    """Return the matrix of the linear system of section 3.3.7."""
    matrix: FloatArray = np.outer(weights**-2, weights**2) / weights.size**2
    np.fill_diagonal(matrix, (1 - 1 / weights.size) ** 2)
    return matrix


def weighted_mu(weights: ArrayLike, sizes: ArrayLike, multiplier: float, n_colluding: int) -> float | None:
    """Return the largest mu of section 3.3.7's scheme against the worst coalition; None if it is infeasible."""
    w, n = np.asarray(weights, dtype=float), np.asarray(sizes, dtype=float)
    pooled = multiplier / n.sum()
    variances = draw_variances(w, multiplier / n, pooled)
    if np.any(variances < 0):
        return None
    own = pooled**2 / (n.size * w**2)  # eq. 3.5
    coalitions = itertools.combinations(range(n.size), n_colluding)
    return max(_seen(w, n, variances, own, coalition) for coalition in coalitions)


def _seen(
    weights: FloatArray, sizes: FloatArray, draws: FloatArray, own: FloatArray, colluding: Sequence[int]
) -> float:
    """Return the largest mu of an honest site, given all releases, the weighted sum and the coalition's draws."""
    n = sizes.size
    honest = [site for site in range(n) if site not in colluding]
    draw, noise = np.eye(n, 2 * n), np.eye(n, 2 * n, n)
    agreed = weights @ draw
    releases = [draw[site] - agreed / (weights[site] * n) + noise[site] for site in honest]
    shift = np.zeros((len(honest) + 1 + len(colluding), n))
    shift[np.arange(len(honest)), honest] = 1.0
    view = AdversaryView(
        shift=shift,
        mixing=np.vstack([*releases, agreed, draw[list(colluding)]]),
        variances=np.concatenate([draws, own]),
    )
    return float(np.max((view.exposures() / sizes)[honest]))
