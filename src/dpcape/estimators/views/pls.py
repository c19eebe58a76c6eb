"""Partial least squares of two views spread over sites: directions of greatest covariance (PLS-SVD)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcape.analyses.description import Analysis
from dpcape.analyses.parameters import check_components
from dpcape.analyses.pls import PLS as DESCRIPTION
from dpcape.charts import Bars
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.views.multiview import PAIR_TESTS, TwoViewEstimator, noise_level
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.component_tests import correlation_draws, correlation_of_noise, correlation_p_values
from dpcape.postprocessing.eigen import PlainSpectrum, canonical_pairs, spectra_of, whitened_cross
from dpcape.postprocessing.verdicts import LEVEL, numbered, of_tests
from dpcape.results import Estimates, Result, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PLS(TwoViewEstimator):
    """Partial least squares of two views over the records of all sites (PLS-SVD, also called PLS correlation).

    Pairs of directions, one in each view, along which the views have the greatest covariance: the singular vectors of
    the cross-covariance. Unlike CCA it does not divide by the variance within the views, so that it needs fewer records
    per column; directions of great variance count for more. It is not PLS regression.

    Parameters
    ----------
    n_components : int or "auto"
        Number of pairs; "auto" keeps those that are more than noise and sampling by the test, at least one.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    center : bool or None
        True, and None, use covariances: the means and the radius of each view around its mean are released first, then
        the moments of the views minus these means. False uses second moments, for views with mean zero by construction.
    scale : str or None
        With "private" the typical deviation of each column is released too, and columns are divided by it: recommended
        where columns have units of their own. Implies ``center``. None leaves columns as they are.

    Attributes
    ----------
    x_weights_ : array of shape (x columns, n_components)
        Directions in the first view, one per column: orthonormal for columns as they are; with ``scale`` for columns
        divided by their scale, and here per unit of the records.
    y_weights_ : array of shape (y columns, n_components)
        Directions in the second view, one per column.
    covariances_ : array of shape (n_components,)
        Covariance of the scores of each pair, descending.
    x_mean_ : array of shape (x columns,)
        Private mean of the first view; zeros without centring.
    y_mean_ : array of shape (y columns,)
        Private mean of the second view; zeros without centring.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the released moment, in units of the bounds or radii.
    noise_level_ : float
        The 95% quantile of the first covariance that noise and sampling give if the views are unrelated.
    p_values_ : array of shape (n_components,)
        For each pair, how often unrelated views would give a covariance as large, after the pairs before it. Testing
        stops at the first value above 0.05; the rest are 1.

    Privacy
    -------
    The releases of :class:`CCA`: each view is divided by its bound; centred three, of diameter sqrt(8), 2 and
    3.18 (the mean, histograms of lengths, and the joint moments of rows clipped to 1); with ``scale`` absolute
    deviations (sqrt(D)) after the mean; without centring one of diameter sqrt(8). Everything else is post-processing.

    Notes
    -----
    Covariances are of the rows as they were clipped: about 10% are shortened to the radius of their view.

    Edge cases
    ----------
    ================================  ======================================================
    noise above every covariance      pairs are returned, and judged "not determined"
    one column in a view              one pair
    "auto" and nothing but noise      one pair
    ================================  ======================================================

    References
    ----------
    A. R. McIntosh et al., *Spatial pattern analysis of functional brain images using partial least squares*, 1996; the
    same as ``sklearn.cross_decomposition.PLSSVD``.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import PLS, Federation, Independent, in_process, views
    >>> t = np.random.default_rng(0).uniform(-1, 1, size=(8000, 1))
    >>> fed = Federation(in_process({"lyon": views(t, -t, bounds=(1.0, 1.0))}), protocol=Independent())
    >>> model = PLS(n_components=1, epsilon=5.0, delta=1e-6).fit(fed)
    >>> model.x_weights_, model.y_weights_, model.covariances_.round(1)
    (array([[1.]]), array([[-1.]]), array([0.3]))
    """

    analysis: ClassVar[Analysis | None] = DESCRIPTION
    _score, _per_score = "pls", "covariances_"
    _builder: ClassVar[str] = "views(X, Y, bounds=...)"
    _fitted: ClassVar[tuple[str, ...]] = (
        "x_weights_",
        "y_weights_",
        "covariances_",
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
        delta: float | Mapping[str, float],
        center: bool | None = None,
        scale: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.center = center
        self.scale = scale

    def _fit(self, federation: Federation, private: Allowance) -> None:
        widths = (federation.facts.widths[0], federation.facts.widths[1])
        scaling, mean, moment = self._moments(federation, private)
        noise = self._noise(federation, private, mean)
        covariance = moment - np.outer(mean, mean)
        first, second = (PlainSpectrum.of(entry) for entry in spectra_of(covariance, widths, noise.scale))
        cross = whitened_cross(covariance, (first, second))
        unrelated = correlation_draws((first, second), noise)
        wanted = check_components(self.n_components, min(widths))
        p_values = correlation_p_values(cross, unrelated, wanted or min(widths))
        if wanted is None:
            wanted = max(1, int(np.sum(p_values <= LEVEL)))
        x_weights, y_weights, values = canonical_pairs(cross, (first, second))
        # Views were divided by their radii as a whole, which leaves directions as they are.
        unit = float(np.prod(scaling.radius))
        scale_x, scale_y = np.split(scaling.scale[:, np.newaxis], [widths[0]])
        self.x_weights_, self.y_weights_ = x_weights[:, :wanted] / scale_x, y_weights[:, :wanted] / scale_y
        self.covariances_, self.p_values_ = unit * values[:wanted], p_values[:wanted]
        self.x_mean_, self.y_mean_ = np.split(scaling.rows(mean), [widths[0]])
        self.noise_scale_, self.noise_level_ = noise.scale, unit * correlation_of_noise(unrelated)
        self.verdicts_ = of_tests(numbered("pair", wanted), self.p_values_)
        self._state_centring(moment, math.sqrt(len(widths)))

    def _result(self) -> Result:
        values = Estimates(
            quantity="covariance of the scores",
            estimand="covariance of the scores of the pair, of rows as they were clipped: those longer than the bound "
            "or the released radius of their view are shortened",
            names=numbered("pair", len(self.covariances_)),
            value=self.covariances_,
            p_value=self.p_values_,
        )
        level = noise_level("covariance of the scores", "views", self.noise_level_)
        title = "Covariances of the scores"
        strength = Section(title=title, estimates=(values, level), charts=(self._bars(),), notes=(PAIR_TESTS,))
        estimand = "weight of the column in the score of its view"
        return Result(
            (
                strength,
                self._weights_of(self.x_weights_, self.original_x_weights_, second=False, estimand=estimand),
                self._weights_of(self.y_weights_, self.original_y_weights_, second=True, estimand=estimand),
            )
        )

    def _bars(self) -> Bars:
        listed = ", ".join(f"{value:.3g}" for value in self.covariances_)
        return Bars(
            values=self.covariances_,
            label="covariance",
            row="pair",
            level=self.noise_level_,
            alt=f"Bars of the covariances: {listed}; noise alone reaches {self.noise_level_:.3g}.",
            caption="Of unrelated views, the first covariance is above the dashed line in 5% of studies.",
        )

    def plot_covariances(self, ax: Axes | None = None) -> Axes:
        """Draw the covariances and the noise level."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(self._bars(), ax)
