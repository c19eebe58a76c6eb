"""Canonical correlations of two views spread over sites (capeCCA; with one site the DP-CCA of the poster)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dpcape.analyses.cca import CCA as DESCRIPTION
from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import check_components
from dpcape.arrays import FloatArray
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.federation import Allowance, Federation
from dpcape.postprocessing.eigen import canonical, cross_noise_norm
from dpcape.statistics import centred_moments, second_moment

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CCA(FederatedEstimator):
    """Canonical correlation analysis of two views over the records of all sites.

    Parameters
    ----------
    n_components : int or "auto"
        Number of pairs; "auto" keeps the correlations above the noise level, at least one.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    center : bool
        False uses second moments, as the papers do for centred data. True also releases the means, in the same
        release, and uses covariances.

    Attributes
    ----------
    x_weights_ : array of shape (x columns, n_components)
        Directions in the first view, one per column.
    y_weights_ : array of shape (y columns, n_components)
        Directions in the second view, one per column.
    correlations_ : array of shape (n_components,)
        Canonical correlations, in [0, 1], descending.
    x_mean_ : array of shape (x columns,)
        Private mean of the first view; zeros without centring.
    y_mean_ : array of shape (y columns,)
        Private mean of the second view; zeros without centring.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the released moment.
    noise_level_ : float
        Approximately the largest correlation that noise produces if the views are uncorrelated.

    Privacy
    -------
    One release of z z' with z = (x, y) stacked (diameter sqrt(2) (Bx^2 + By^2)), or with ``center`` jointly with the
    mean. Eigenvalues of each view's moment are floored at 1.5 times the operator norm of its noise: post-processing.

    Edge cases
    ----------
    ================================  ======================================================
    indefinite noisy blocks           eigenvalues floored, never an exception
    correlations above one            set to one
    one site                          centralised private CCA (poster)
    ================================  ======================================================

    References
    ----------
    H. Imtiaz and A. D. Sarwate, *Distributed differentially private CCA*, algorithm 1; dissertation, chapter 7.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import CCA, Federation, Independent, in_process, views
    >>> t = np.linspace(-1, 1, 4000)[:, None]
    >>> fed = Federation(in_process({"lyon": views(t, -t, bounds=(1.0, 1.0))}), protocol=Independent())
    >>> CCA(n_components=1, epsilon=5.0, delta=1e-6).fit(fed).correlations_.round(1)
    array([1.])
    """

    analysis: ClassVar[Analysis | None] = DESCRIPTION
    _builder: ClassVar[str] = "views(X, Y, bounds=...)"
    _fitted: ClassVar[tuple[str, ...]] = (
        "x_weights_",
        "y_weights_",
        "correlations_",
        "x_mean_",
        "y_mean_",
        "noise_scale_",
        "noise_level_",
    )

    def __init__(
        self,
        n_components: int | str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float,
        center: bool = False,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.center = center

    def _fit(self, federation: Federation, private: Allowance) -> None:
        widths = (federation.facts.widths[0], federation.facts.widths[1])
        if self.center:
            mean, moment = private.mean(centred_moments(federation.facts))
            moment = moment - np.outer(mean, mean)
        else:
            mean, moment = np.zeros(sum(widths)), private.mean(second_moment(federation.facts))
        self.noise_scale_ = private.releases[-1].scale
        x_weights, y_weights, correlations = canonical(moment, widths, self.noise_scale_)
        wanted = check_components(self.n_components, min(widths))
        self.noise_level_ = min(1.0, cross_noise_norm(x_weights, y_weights, self.noise_scale_))
        if wanted is None:
            wanted = max(1, int(np.sum(correlations > self.noise_level_)))
        self.x_weights_, self.y_weights_ = x_weights[:, :wanted], y_weights[:, :wanted]
        self.correlations_ = correlations[:wanted]
        self.x_mean_, self.y_mean_ = mean[: widths[0]], mean[widths[0] :]

    @overload
    def transform(self, X: ArrayLike, Y: None = None) -> FloatArray: ...

    @overload
    def transform(self, X: ArrayLike, Y: ArrayLike) -> tuple[FloatArray, FloatArray]: ...

    def transform(self, X: ArrayLike, Y: ArrayLike | None = None) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Return the canonical variates of X; with Y, those of both views as a pair."""
        check_is_fitted(self, "guarantee_")
        x_rows = self._checked_rows(X, len(self.x_weights_))
        x_scores: FloatArray = (x_rows - self.x_mean_) @ self.x_weights_
        if Y is None:
            return x_scores
        y_rows = self._checked_rows(Y, len(self.y_weights_), first=len(self.x_weights_))
        y_scores: FloatArray = (y_rows - self.y_mean_) @ self.y_weights_
        return x_scores, y_scores

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the canonical variates."""
        check_is_fitted(self, "guarantee_")
        return np.array([f"cca{index}" for index in range(len(self.correlations_))], dtype=object)

    def plot_correlations(self, ax: Axes | None = None) -> Axes:
        """Draw the canonical correlations and the noise level."""
        from dpcape.report.plots import bars

        check_is_fitted(self, "guarantee_")

        return bars(self.correlations_, "canonical correlation", ax, noise_level=self.noise_level_)
