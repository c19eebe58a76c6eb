"""Canonical correlations of two views spread over sites (capeCCA; with one site the DP-CCA of the poster)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpcape.analyses.cca import CCA as DESCRIPTION
from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import check_components
from dpcape.estimators.multiview import TwoViewEstimator
from dpcape.federation import Allowance, Federation
from dpcape.postprocessing.component_tests import correlation_draws, correlation_of_noise, correlation_p_values
from dpcape.postprocessing.eigen import canonical_pairs, spectra_of, whitened_cross
from dpcape.postprocessing.verdicts import LEVEL, numbered, of_tests

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class CCA(TwoViewEstimator):
    """Canonical correlation analysis of two views over the records of all sites.

    Parameters
    ----------
    n_components : int or "auto"
        Number of pairs; "auto" keeps those that are more than noise and sampling by the test, at least one.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    center : bool
        False uses second moments, as the papers do for centred data. True uses covariances: the means and the radius of
        each view around its mean are released first, then the moments of the views minus these means.
    scale : str or None
        With "private" the typical deviation of each column is released too, and columns are divided by it: recommended
        where columns have ranges of their own that are too wide. Implies ``center``. None leaves columns as they are.

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
        The 95% quantile of the first correlation that noise and sampling give if the views are unrelated.
    p_values_ : array of shape (n_components,)
        For each pair, how often unrelated views would give a correlation as large, after the pairs before it. Testing
        stops at the first value above 0.05; the rest are 1.

    Privacy
    -------
    Each view is divided by its bound, so that its units do not matter. One release of z z' with z = (x, y) stacked
    (diameter sqrt(8)). With ``center`` three: the mean (diameter sqrt(8)), histograms of the lengths of the rows of
    each view minus it (2), and jointly the mean and second moment of these rows, divided by a radius per view and
    clipped to 1 (diameter 3.18 whatever was released before). With ``scale`` absolute deviations (sqrt(D)) after the
    mean. With so few records that no radius can be found, the last release only. Eigenvalues of each view's moment are
    floored at 1.5 times the operator norm of its noise: post-processing.

    Edge cases
    ----------
    ================================  ======================================================
    indefinite noisy blocks           eigenvalues floored, never an exception
    correlations above one            set to one
    one site                          centralised private CCA (poster)
    "auto" and nothing but noise      one pair
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
        "p_values_",
    )

    def __init__(
        self,
        n_components: int | str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float,
        center: bool = False,
        scale: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.center = center
        self.scale = scale

    def _fit(self, federation: Federation, private: Allowance) -> None:
        facts = federation.facts
        widths = (facts.widths[0], facts.widths[1])
        scaling, mean, moment = self._moments(federation, private)
        noise = self._noise(federation, private, mean)
        self.noise_scale_ = noise.scale
        spectra = spectra_of(moment - np.outer(mean, mean), widths, self.noise_scale_)
        whitened = whitened_cross(moment - np.outer(mean, mean), spectra)
        unrelated = correlation_draws(spectra, noise)
        self.noise_level_ = correlation_of_noise(unrelated)
        wanted = check_components(self.n_components, min(widths))
        found = correlation_p_values(whitened, unrelated, wanted or min(widths))
        if wanted is None:
            wanted = max(1, int(np.sum(found <= LEVEL)))
        x_weights, y_weights, correlations = canonical_pairs(whitened, spectra)
        units_x, units_y = np.split(scaling.units, [widths[0]])
        self.x_weights_ = x_weights[:, :wanted] / units_x[:, np.newaxis]
        self.y_weights_ = y_weights[:, :wanted] / units_y[:, np.newaxis]
        self.correlations_, self.p_values_ = correlations[:wanted], found[:wanted]
        self.x_mean_, self.y_mean_ = np.split(scaling.rows(mean), [widths[0]])
        self.verdicts_ = of_tests(numbered("pair", wanted), self.p_values_)

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the canonical variates."""
        check_is_fitted(self, "guarantee_")
        return np.array([f"cca{index}" for index in range(len(self.correlations_))], dtype=object)

    def plot_correlations(self, ax: Axes | None = None) -> Axes:
        """Draw the canonical correlations and the noise level."""
        from dpcape.report.plots import bars

        check_is_fitted(self, "guarantee_")

        return bars(self.correlations_, "canonical correlation", ax, noise_level=self.noise_level_)
