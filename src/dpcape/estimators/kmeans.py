"""Cluster centres of rows spread over sites: Lloyd's algorithm with private rounds (dissertation, section 3.3.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from dpcape.analyses.description import Analysis
from dpcape.analyses.kmeans import KMEANS
from dpcape.arrays import FloatArray
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.federation import Allowance, Federation
from dpcape.statistics.clusters import ClusterMeans, cluster_sums, nearest

# A cluster whose share is within this many standard deviations of zero is taken to be empty.
_EMPTY_LEVEL = 3.0


class _Draws(Protocol):
    """Source of public random numbers; they protect nothing."""

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray: ...

    def uniform(self, *, size: int) -> FloatArray: ...


class KMeans(FederatedEstimator):
    """k-means clustering of the rows of all sites by a fixed number of private Lloyd rounds.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    epsilon : float or mapping
        Privacy parameter epsilon of all rounds together: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    n_iter : int
        Number of rounds, fixed in advance; the budget is divided among them.
    init : array_like or None
        Public initial centres, of shape (n_clusters, n_features); None spreads points over the ball of the bound.
    random_state : int or None
        Public seed of the initial centres and of the positions of empty clusters; None uses a new one each time.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Private centres.
    shares_ : array of shape (n_clusters,)
        Private share of the records in each cluster; they add up to one.
    noise_scale_ : float
        Standard deviation of the noise on each entry of the last round's sums.

    Privacy
    -------
    ``n_iter`` releases of :func:`~dpcape.statistics.cluster_sums`: sums and sizes of all clusters jointly, diameter 2
    B, which is the diameter of the sums alone. Everything else is post-processing.

    Edge cases
    ----------
    ===========================  ====================================================================
    empty cluster                moved next to the largest one
    centre outside the bound     projected onto the ball
    more clusters than records   refused
    ===========================  ====================================================================

    References
    ----------
    A. Blum et al., *Practical privacy: the SuLQ framework*, 2005 (private Lloyd rounds).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, KMeans, in_process, rows
    >>> X = np.repeat([[0.8, 0.0], [-0.8, 0.0]], 2000, axis=0)
    >>> fed = Federation(in_process({"lyon": rows(X, bound=1.0)}), protocol=Independent())
    >>> model = KMeans(2, epsilon=5.0, delta=1e-6, init=np.array([[0.1, 0.0], [-0.1, 0.0]])).fit(fed)
    >>> model.cluster_centers_.round(1) + 0.0
    array([[ 0.8,  0. ],
           [-0.8,  0. ]])
    """

    analysis: ClassVar[Analysis | None] = KMEANS
    _fitted: ClassVar[tuple[str, ...]] = ("cluster_centers_", "shares_", "noise_scale_")

    def __init__(
        self,
        n_clusters: int,
        *,
        epsilon: float | Mapping[str, float],
        delta: float,
        n_iter: int = 8,
        init: ArrayLike | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.n_iter = n_iter
        self.init = init
        self.random_state = random_state

    def _rounds(self, federation: Federation) -> range:
        return range(self.n_iter)

    def _fit(self, federation: Federation, private: Allowance) -> None:
        bound = math.hypot(*federation.facts.bounds)
        source = check_random_state(self.random_state)
        if self.init is None:
            centres = spread_points(self.n_clusters, federation.n_features, bound=bound, source=source)
        else:
            centres = np.array(self.init, dtype=np.float64)
        for _ in range(private.left):
            means: ClusterMeans = private.mean(cluster_sums(federation.facts, centres=centres))
            scale = private.releases[-1].scale
            centres = _moved(centres, means, scale=scale, bound=bound, source=source)
        self.cluster_centers_ = centres
        positive = np.maximum(means.shares, 0.0)
        self.shares_ = positive / positive.sum() if positive.any() else np.full(len(centres), 1 / len(centres))
        self.noise_scale_ = scale

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Return the index of the nearest centre for each row."""
        width = self.cluster_centers_.shape[1] if hasattr(self, "cluster_centers_") else 0
        return nearest(self._checked_rows(X, width), self.cluster_centers_)


def spread_points(n_points: int, n_features: int, *, bound: float, source: _Draws) -> FloatArray:
    """Return points far from each other in the ball of this bound, by greedy farthest-point selection."""
    candidates = source.standard_normal((200 * n_points, n_features))
    lengths = source.uniform(size=len(candidates)) ** (1 / n_features)
    candidates *= (0.7 * bound * lengths / np.linalg.norm(candidates, axis=1))[:, np.newaxis]
    chosen = [0]
    distances = np.linalg.norm(candidates - candidates[0], axis=1)
    while len(chosen) < n_points:
        chosen.append(int(np.argmax(distances)))
        distances = np.minimum(distances, np.linalg.norm(candidates - candidates[chosen[-1]], axis=1))
    points: FloatArray = candidates[chosen]
    return points


def _moved(centres: FloatArray, means: ClusterMeans, *, scale: float, bound: float, source: _Draws) -> FloatArray:
    """Return the centres of one noisy Lloyd step."""
    # Shares are released times the bound, so their noise is that much smaller.
    level = _EMPTY_LEVEL * scale / bound
    empty = means.shares <= level
    if empty.all():
        return centres
    moved = means.sums / np.where(empty, 1.0, means.shares)[:, np.newaxis]
    largest = moved[int(np.argmax(means.shares))]
    jitter = source.standard_normal(centres.shape) * (0.1 * bound / math.sqrt(centres.shape[1]))
    moved = np.where(empty[:, np.newaxis], largest + jitter, moved)
    lengths = np.linalg.norm(moved, axis=1)
    pulled: FloatArray = moved * (bound / np.maximum(lengths, bound))[:, np.newaxis]
    return pulled
