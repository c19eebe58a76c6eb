"""Cluster centres of rows spread over sites: Lloyd's algorithm with private rounds (dissertation, section 3.3.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtri, ndtri

from dpcape.analyses.description import Analysis
from dpcape.analyses.kmeans import KMEANS, SPREAD, n_first_rounds, reduces
from dpcape.analyses.scaling import Quantile, clip_used, scaling_used
from dpcape.charts import Bars
from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.statistic import AnyStatistic
from dpcape.estimators.clusters.start import ClusterSpace, cluster_space, fewer, first_points, last_centres
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.reported import weights_section
from dpcape.estimators.scaling import clipped_or_warned, private_scaling, scaled, used_or_warned
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.scaling import Scaling
from dpcape.postprocessing.verdicts import numbered, of_centres
from dpcape.results import Estimates, Result, Section
from dpcape.statistics.clusters import ClusterMeans, recentred_cluster_sums, reduced_cluster_sums
from dpcape.statistics.moments import MEAN_WEIGHT, row_bound

# A cluster whose share is within this many standard deviations of zero is taken to be empty.
_EMPTY_LEVEL = 3.0
# Probability that noise moves some centre farther than stated.
_ERROR = 0.05
# Share of standardised rows that should not be clipped.
_QUANTILE = 0.95
_CENTRE = "mean of clipped rows nearest to the centre in the last round; if there are none, a place beside the largest"


class _Draws(Protocol):
    """Source of public random numbers; they protect nothing."""

    def standard_normal(self, size: tuple[int, ...]) -> FloatArray: ...

    def uniform(self, *, size: int) -> FloatArray: ...


class KMeans(FederatedEstimator):
    """Clusters of the rows of all sites: k-means by a fixed number of private Lloyd rounds.

    In more than ten columns, unless a start is given, a private mean and second moment come first. Rounds then run
    along the ten strongest directions around the mean: the first ones with three times as many centres, which are
    joined to ``n_clusters`` without asking the sites, so that a poor start matters less. One round in all columns ends
    it.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    epsilon : float or mapping
        Privacy parameter epsilon of all rounds together: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    n_iter : int
        Number of rounds, fixed in advance; the budget is divided among them.
    init : array_like, "spread" or None
        Public initial centres, of shape (n_clusters, n_features). "spread" spreads points over the ball of the bound,
        and None does so in up to ten columns.
    scale : str or None
        "private" finds centre, scale and radius of the columns by three small releases inside the same allowance:
        clusters are then those of standardised rows, so that no column counts for more because of its units. None
        reads rows as they are.
    clip : Quantile or None
        Rows are clipped to this quantile of their lengths, which is found by a release of its own inside the same
        allowance; None clips them to their bound alone.
    random_state : int or None
        Public seed of the initial centres and of the positions of empty clusters; None uses a new one each time.

    Attributes
    ----------
    cluster_centers_ : array of shape (n_clusters, n_features)
        Private centres.
    shares_ : array of shape (n_clusters,)
        Private share of the records in each cluster; they add up to one.
    noise_scale_ : float
        Standard deviation of the noise on each entry of the last round's sums, which are of standardised rows if they
        are standardised.
    scale_ : array of shape (n_features,)
        Size of each column's unit of distance; ones unless rows are standardised.

    Privacy
    -------
    ``n_iter`` releases of ``cluster_sums``: sums and sizes of all clusters jointly, diameter 2
    B, which is the diameter of the sums alone. In many columns mean and second moment (35% of mu^2), ``n_iter``
    rounds in few coordinates (45%) and one in all columns (20%): rows are recentred and then shortened to a length
    that follows from the first release, r, and the diameter is 2 r. With ``clip`` a histogram of the lengths of the
    rows comes first (sqrt(2)); rows are then divided by the length found and clipped to 1, so B is 1 whatever was
    found. With ``scale`` a mean (2 B), absolute deviations (sqrt(D)) and a histogram of lengths (sqrt(2)) come first,
    and rows are clipped to 1 after they are standardised. Everything else is post-processing.

    Edge cases
    ----------
    ===========================  ====================================================================
    empty cluster                moved next to the largest one
    centre outside the bound     projected onto the ball
    more clusters than records   refused
    ===========================  ====================================================================

    Notes
    -----
    A centre is judged by how far the noise of the last round may have moved it, against the way to the next one.
    Whether the records form clusters is another question: any records can be divided.

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
    _fitted: ClassVar[tuple[str, ...]] = ("cluster_centers_", "shares_", "noise_scale_", "scale_")

    def __init__(
        self,
        n_clusters: int,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        n_iter: int = 8,
        init: ArrayLike | str | None = None,
        scale: str | None = None,
        clip: Quantile | None = None,
        random_state: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.n_iter = n_iter
        self.init = init
        self.scale = scale
        self.clip = clip
        self.random_state = random_state

    def _rounds(self, federation: Federation) -> range:
        public = self.public(federation)
        before = 3 if scaling_used(public) else int(bool(clip_used(public)))
        if self._reduces(federation):
            return range(before + 1 + int(n_first_rounds(self.n_iter)), before + 1 + self.n_iter)
        return range(before, before + self.n_iter)

    def _reduces(self, federation: Federation) -> bool:
        return bool(reduces(federation.n_features, self.init))

    def _fit(self, federation: Federation, private: Allowance) -> None:
        # Loaded when it is used: scikit-learn takes most of a second.
        from sklearn.utils import check_random_state

        source = check_random_state(self.random_state)
        frame = self._frame(federation, private)
        if self._reduces(federation):
            centres, means, length = self._fit_in_few_coordinates(federation, private, frame, source)
        else:
            centres, means, length = self._fit_in_all_columns(federation, private, frame, source)
        positive = np.maximum(means.shares, 0.0)
        n_clusters = len(means.shares)
        self.shares_ = positive / positive.sum() if positive.any() else np.full(n_clusters, 1 / n_clusters)
        self.cluster_centers_ = frame.in_units_of_records(centres)
        self.scale_ = frame.scale
        # Sums of rows that were divided by a length are in units of that length.
        self.noise_scale_ = private.releases[-1].scale * (1.0 if self._reduces(federation) else frame.length)
        errors = centre_errors(means, scale=self.noise_scale_ / private.valid, length=length)
        self.verdicts_ = of_centres(numbered("centre", n_clusters), centres, errors, farthest=length)

    def _frame(self, federation: Federation, private: Allowance) -> _Frame:
        """Release what standardising or clipping needs, and return how rows are read."""
        public, width = self.public(federation), federation.n_features
        if self.scale is None:
            scaling = clipped_or_warned(federation, private, public)
        else:
            scaling = private_scaling(federation, private, quantile=_QUANTILE) if used_or_warned(public) else None
        bound = row_bound(federation.facts)
        if scaling is None:
            return _Frame(None, np.zeros(width), np.ones(width), bound, 1.0)
        # Standardised rows are clipped to the radius; rows that keep their place are no longer than the bound.
        farthest = bound if self.scale is None else float(scaling.radius[0])
        return _Frame(scaling, scaling.centre, scaling.scale, farthest, float(scaling.radius[0]))

    def _fit_in_all_columns(
        self, federation: Federation, private: Allowance, frame: _Frame, source: _Draws
    ) -> tuple[FloatArray, ClusterMeans, float]:
        """Return centres in units of the frame, the last means, and the largest length of a row in them."""
        unit = frame.length
        bound = (frame.bound if frame.scaling is None else frame.length) / unit
        if self.init is None or isinstance(self.init, str):
            assert self.init in (None, SPREAD)
            centres = spread_points(self.n_clusters, federation.n_features, bound=bound, source=source)
        else:
            centres = frame.standardised(np.array(self.init, dtype=np.float64)) / unit
        for _ in range(private.left):
            means: ClusterMeans = private.mean(scaled(federation.facts, frame.scaling, "cluster_sums", centres=centres))
            centres = _moved(centres, means, scale=private.releases[-1].scale, bound=bound, source=source)
        return centres * unit, ClusterMeans(means.shares, means.sums * unit), bound * unit

    def _fit_in_few_coordinates(
        self, federation: Federation, private: Allowance, frame: _Frame, source: _Draws
    ) -> tuple[FloatArray, ClusterMeans, float]:
        """Return centres in units of the frame, the last means, and the largest length of a row in them."""
        moments = scaled(federation.facts, frame.scaling, "centred_moments", mean_weight=MEAN_WEIGHT)
        mean, moment = private.mean(moments)
        unit = frame.length
        noise = private.releases[-1].scale * unit**2
        space = cluster_space(mean * unit, moment * unit**2, scale=noise, bound=frame.bound)
        centres, weights = first_points(space, self.n_clusters, self.random_state), np.empty(0)
        for _ in range(int(n_first_rounds(self.n_iter))):
            centres, weights = self._round(federation, private, frame, space, centres, source)
        centres = fewer(centres, weights, self.n_clusters, self.random_state)
        for _ in range(private.left - 1):
            centres, _ = self._round(federation, private, frame, space, centres, source)
        before = private.releases[-1].scale
        in_all_columns = centres @ space.projection.T
        means: ClusterMeans = private.mean(self._last_sums(federation, frame, space, in_all_columns))
        scale = private.releases[-1].scale
        empty = means.shares <= _EMPTY_LEVEL * scale / space.whole_radius
        final = last_centres(space, centres, means, empty, before=before, scale=scale)
        return _within(final, frame.bound), means, space.whole_radius

    def _last_sums(
        self, federation: Federation, frame: _Frame, space: ClusterSpace, centres: FloatArray
    ) -> AnyStatistic:
        """Return the statistic of the round in all columns."""
        centre, clip = frame.in_units_of_records(space.centre), space.whole_radius
        if self.scale is None or frame.scaling is None:
            return recentred_cluster_sums(federation.facts, centre=centre, centres=centres, clip=clip)
        each = np.diag(1 / frame.scale)
        return reduced_cluster_sums(federation.facts, centre=centre, projection=each, centres=centres, clip=clip)

    def _round(
        self,
        federation: Federation,
        private: Allowance,
        frame: _Frame,
        space: ClusterSpace,
        centres: FloatArray,
        source: _Draws,
    ) -> tuple[FloatArray, FloatArray]:
        """Return the centres after a round in few coordinates, and their shares (zero where they are empty)."""
        radius = space.radius
        statistic = reduced_cluster_sums(
            federation.facts,
            centre=frame.in_units_of_records(space.centre),
            projection=space.projection / frame.scale[:, np.newaxis],
            centres=centres,
            clip=radius,
        )
        means: ClusterMeans = private.mean(statistic)
        scale = private.releases[-1].scale
        moved = _moved(centres, means, scale=scale, bound=radius, source=source)
        return moved, np.where(means.shares <= _EMPTY_LEVEL * scale / radius, 0.0, means.shares)

    @property
    def original_cluster_centers_(self) -> FloatArray:
        """The centres in original units."""
        return self.units_.points(self.cluster_centers_)

    def predict(self, X: ArrayLike) -> NDArray[np.intp]:
        """Return the index of the nearest centre for each row."""
        width = self.cluster_centers_.shape[1] if hasattr(self, "cluster_centers_") else 0
        rows = self._checked_rows(X, width)
        rows, centres = rows / self.scale_, self.cluster_centers_ / self.scale_
        # |x - c|^2 without |x|^2, which is the same for all centres.
        chosen: IntArray = np.argmin(np.vecdot(centres, centres) - 2 * rows @ centres.T, axis=1)
        return chosen

    def _result(self) -> Result:
        shares = Estimates(
            quantity="share of records",
            estimand="share of these records that are nearest to the centre, in the last round, with noise",
            names=numbered("cluster", len(self.shares_)),
            value=self.shares_,
        )
        listed = ", ".join(f"{100 * share:.1f}%" for share in self.shares_)
        caption = "Share of the records in each cluster, with noise."
        bars = Bars(
            values=self.shares_, label="share of records", row="cluster", alt=f"Bars: {listed}.", caption=caption
        )
        centres = self.cluster_centers_
        estimands = (f"{_CENTRE}, in units of the prepared column", f"{_CENTRE}, in original units")
        names, parts = self._grids("centre", estimands, (centres, self.original_cluster_centers_), "cluster")
        return Result(
            (
                Section(title="Sizes of the clusters", estimates=(shares,), charts=(bars,)),
                weights_section("Centres of the clusters", parts, centres, names, "cluster", may_be_image=True),
            )
        )


@dataclass(frozen=True)
class _Frame:
    """How rows are read: (x - centre) / scale, in which clusters are sought.

    Attributes
    ----------
    scaling : Scaling or None
        What was released, if anything: statistics of scaled rows divide by ``length`` as well.
    centre, scale : array of shape (n_features,)
        Zeros and ones unless rows are standardised.
    bound : float
        Largest length of a row that is read so.
    length : float
        Unit of the lengths of scaled rows; 1 if nothing was released.
    """

    scaling: Scaling | None
    centre: FloatArray
    scale: FloatArray
    bound: float
    length: float

    def standardised(self, rows: FloatArray) -> FloatArray:
        """Return rows as they are read, not clipped."""
        return (rows - self.centre) / self.scale

    def in_units_of_records(self, rows: FloatArray) -> FloatArray:
        """Return rows in the units of the records."""
        return self.centre + rows * self.scale


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
    return candidates[chosen]


def centre_errors(means: ClusterMeans, *, scale: float, length: float) -> FloatArray:
    """Return how far noise may have moved each centre, at 95% for all together; infinite for an empty cluster.

    A centre is (n m + e) / (n + e') for a share n of records with mean m; it is off by (e - e' m) / (n + e'), where the
    divisor is the released share, e has D entries of this scale, and e' times m, which is at most ``length`` long, has
    at most the same scale.

    Parameters
    ----------
    means : ClusterMeans
        Result of the last round.
    scale : float
        Standard deviation of the noise of each sum.
    length : float
        Largest length of a row in that round.
    """
    n_clusters, n_features = means.sums.shape
    level = _ERROR / n_clusters / 2
    reach = math.sqrt(float(chdtri(n_features, level))) + float(ndtri(1 - level / 2))
    empty = means.shares <= _EMPTY_LEVEL * scale / length
    return np.where(empty, np.inf, scale * reach / np.where(empty, 1.0, means.shares))


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
    return _within(moved, bound)


def _within(centres: FloatArray, bound: float) -> FloatArray:
    """Return centres shortened to a bound."""
    lengths = np.linalg.norm(centres, axis=1)
    pulled: FloatArray = centres * (bound / np.maximum(lengths, bound))[:, np.newaxis]
    return pulled
