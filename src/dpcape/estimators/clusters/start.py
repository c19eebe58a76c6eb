"""Start of k-means in many columns: few coordinates from private moments, and centres joined from many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.analyses.kmeans import MANY, N_COORDINATES
from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.postprocessing.eigen import noise_norm, top_eigen
from dpcape.statistics.clusters import ClusterMeans

# Rows are shortened to these multiples of their root mean square length: a Gaussian's are rarely longer.
_FEW_LENGTH, _WHOLE_LENGTH = 1.5, 1.3
_N_SAMPLED = 2000


@dataclass(frozen=True)
class ClusterSpace:
    """Coordinates in which clusters are sought: the strongest directions around the mean.

    Attributes
    ----------
    centre : array of shape (n_features,)
        Released mean.
    projection : array of shape (n_features, n_coordinates)
        Orthonormal directions.
    variances : array of shape (n_coordinates,)
        Variances along them, corrected for noise.
    radius : float
        Length to which rows are shortened in these coordinates.
    whole_radius : float
        Length to which rows are shortened in all columns.
    """

    centre: FloatArray
    projection: FloatArray
    variances: FloatArray
    radius: float
    whole_radius: float


def cluster_space(mean: FloatArray, moment: FloatArray, *, scale: float, bound: float) -> ClusterSpace:
    """Return the coordinates that released moments with noise of this scale suggest."""
    covariance = moment - np.outer(mean, mean)
    values, directions = top_eigen(covariance, N_COORDINATES)
    edge = noise_norm(scale, len(mean))
    # Noise moves an eigenvalue l above its edge to l + edge^2 / (4 l); below the edge, use half the edge.
    root = np.sqrt(np.maximum(values**2 - edge**2, 0.0))
    least = max(edge / 2, (1e-6 * bound) ** 2)
    variances = np.maximum(np.where(values > edge, (values + root) / 2, least), least)
    inside = float(variances.sum())
    everything = max(float(np.trace(covariance)), inside)
    radius, whole_radius = _FEW_LENGTH * np.sqrt(inside), _WHOLE_LENGTH * np.sqrt(everything)
    # No two rows are farther apart than twice the bound.
    return ClusterSpace(mean, directions, variances, min(float(radius), 2 * bound), min(float(whole_radius), 2 * bound))


def first_points(space: ClusterSpace, n_clusters: int, random_state: int | None) -> FloatArray:
    """Return more centres than clusters: those of synthetic Gaussian rows with the released variances."""
    # Loaded when it is used: scikit-learn takes most of a second.
    from sklearn.utils import check_random_state

    source = check_random_state(random_state)
    n_points = MANY * n_clusters
    sampled = source.standard_normal((max(_N_SAMPLED, 20 * n_points), len(space.variances))) * np.sqrt(space.variances)
    return _centres_of(sampled, np.ones(len(sampled)), n_points, random_state, n_init=1)


def fewer(points: FloatArray, weights: FloatArray, n_clusters: int, random_state: int | None) -> FloatArray:
    """Return ``n_clusters`` centres of released ones, weighted by their shares; post-processing."""
    if np.count_nonzero(weights > 0) < n_clusters:
        order = np.argsort(-weights, kind="stable")
        return points[order[:n_clusters]]
    kept = weights > 0
    return _centres_of(points[kept], weights[kept], n_clusters, random_state, n_init=10)


def last_centres(
    space: ClusterSpace, centres: FloatArray, means: ClusterMeans, empty: BoolArray, *, before: float, scale: float
) -> FloatArray:
    """Return centres in all columns from those in few coordinates and a last round in all columns.

    Along the coordinates both are averaged by their noise. Across them the last round is shrunk by the share of its
    squared length that noise explains (James and Stein 1961). An empty cluster keeps its place in the coordinates.

    Parameters
    ----------
    space : ClusterSpace
        The coordinates.
    centres : array of shape (n_clusters, n_coordinates)
        Centres before the last round.
    means : ClusterMeans
        Result of the last round, relative to the centre of the space.
    empty : array of shape (n_clusters,)
        Which clusters are empty.
    before, scale : float
        Noise of the round before the last, and of the last.
    """
    shares = np.where(empty, 1.0, means.shares)[:, np.newaxis]
    cluster_means = means.sums / shares
    inside = cluster_means @ space.projection
    across = cluster_means - inside @ space.projection.T
    n_across = across.shape[1] - inside.shape[1]
    noise = (scale / shares[:, 0]) ** 2 * n_across
    lengths = np.sum(across**2, axis=1)
    shrinkage = np.maximum(0.0, 1 - noise / np.maximum(lengths, 1e-300))
    trust = 1.0 if before == 0 else before**2 / (before**2 + scale**2)
    inside = np.where(empty[:, np.newaxis], centres, trust * inside + (1 - trust) * centres)
    shrinkage = np.where(empty, 0.0, shrinkage)
    return space.centre + inside @ space.projection.T + shrinkage[:, np.newaxis] * across


def _centres_of(
    points: FloatArray, weights: FloatArray, n_clusters: int, random_state: int | None, *, n_init: int
) -> FloatArray:
    from sklearn.cluster import KMeans

    model = KMeans(n_clusters, n_init=n_init, random_state=random_state).fit(points, sample_weight=weights)
    return np.asarray(model.cluster_centers_, dtype=np.float64)
