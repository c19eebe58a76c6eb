"""What noise does to eigenvalues and eigenvectors of a released moment, to first order.

With E the noise, an eigenvalue moves by v' E v, and its eigenvector by the sum over the other ones u of
u (u' E v) / (l - l_u). E is symmetric noise of standard deviation s along any direction and s / sqrt(2) across two; if
a mean m was subtracted whose noise is d, also -(m d' + d m'); if means of sites were, such a term for each of them.
"""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.postprocessing.component_tests import MomentNoise
from dpcape.postprocessing.eigen import noise_norm

# Minimum gap between eigenvalues, in norms of the noise, for first-order perturbation theory to hold.
_CLEAR = 4.0


def eigen_noise(
    values: FloatArray, vectors: FloatArray, noise: MomentNoise, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """Return the standard deviations of the noise of eigenvalues, (K,), and of entries of eigenvectors, (K, D).

    The latter are NaN where another eigenvalue is near.

    Parameters
    ----------
    values, vectors : array
        All eigenvalues of the released matrix in descending order, and its eigenvectors as columns.
    noise : MomentNoise
        Its noise.
    n_components : int
        K, the number of components.
    """
    along = vectors.T @ noise.mean
    # Along each eigenvector, one row per site: means, times the noise of their entries.
    sites = np.zeros((0, len(values)))
    fourth = 0.0
    if noise.sites is not None:
        sites = noise.sites.scales[:, np.newaxis] * noise.sites.towards(vectors).rows
        fourth = float((noise.sites.scales**4).sum())
    of_sites = (sites**2).sum(axis=0)
    mean_part = (noise.mean_scale * along) ** 2 + of_sites
    of_values = np.sqrt(noise.scale**2 + 4 * mean_part[:n_components] + 2 * fourth)
    least = _CLEAR * noise_norm(noise.total_scale, len(values))
    of_vectors = np.full((n_components, len(vectors)), math.nan)
    for at in range(n_components):
        gaps = np.delete(values[at] - values, at)
        if not np.abs(gaps).min(initial=math.inf) > least:
            continue
        steps = np.delete(vectors, at, axis=1) / gaps
        # The noise of the mean along the component is the same for all other directions.
        own = noise.scale**2 / 2 + mean_part[at] + fourth
        common = noise.mean_scale * (steps @ np.delete(along, at))
        of_each = steps @ np.delete(sites, at, axis=1).T
        of_vectors[at] = np.sqrt(own * (steps**2).sum(axis=1) + common**2 + (of_each**2).sum(axis=1))
    return of_values, of_vectors
