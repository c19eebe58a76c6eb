"""Linear regression across sites by the functional mechanism (capeFM: dissertation, chapter 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from dpcape.analyses.description import Analysis
from dpcape.analyses.regression import LINEAR_REGRESSION
from dpcape.arrays import FloatArray
from dpcape.estimators.class_labels import checked_responses
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.least_squares import interval, released_fit
from dpcape.federation import Allowance, Federation
from dpcape.metrics import explained_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LinearRegression(FederatedEstimator):
    """Least-squares regression over the records of all sites, from one release.

    The squared loss is a quadratic polynomial in the regression coefficients. The coefficients of that polynomial are
    released once, with noise, and the result is minimised. Where noise hides a direction of the features, the fit is
    shrunk towards the constant model.

    Parameters
    ----------
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    fit_intercept : bool
        Whether to fit an intercept; without one, the prediction at x = 0 is the middle of the public response range.
    ridge : float
        Weight of the squared norm of the coefficients, in units of the squared bound; 0 for no penalty.
    confidence : float
        Nominal probability with which each interval contains its coefficient.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients, in response units per unit of the prepared feature.
    intercept_ : float
        Intercept, in response units.
    interval_ : array of shape (2, n_features)
        Lower and upper end for each coefficient; covers sampling, privacy noise and shrinkage.
    intercept_interval_ : array of shape (2,)
        The same for the intercept.
    residual_scale_ : float
        Standard deviation of the residuals, in response units.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the released matrix.

    Privacy
    -------
    One release of u u', u = (b, x, a y) (:func:`~dpcape.statistics.regression_moment`), with its joint diameter
    sqrt(2) (B^2 + a^2 + b^2). Theorem 8.1 of the dissertation instead gives each degree the whole budget; see
    ``dpcape_papers.published.regression``. Everything after the release is post-processing.

    Edge cases
    ----------
    =====================================  =========================================================
    responses outside the public range     clipped at the site, or refused: ``labelled(..., outside=)``
    constant feature                       coefficient 0 without noise; shrunk towards 0 with noise
    more features than records             least-norm solution without noise
    indefinite noisy matrix                eigenvalues cleaned and floored, never an exception
    noise above every signal               constant model, UtilityWarning, wide intervals
    =====================================  =========================================================

    References
    ----------
    H. Imtiaz, dissertation, algorithm 8.2; J. Zhang et al., *Functional mechanism*, VLDB 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, LinearRegression, in_process, labelled
    >>> x = np.linspace(-1, 1, 4000)[:, None]
    >>> records = labelled(x, 50 + 20 * x[:, 0], bound=1.0, response=(0, 100))
    >>> fed = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> model = LinearRegression(epsilon=10.0, delta=1e-6).fit(fed)
    >>> bool(abs(model.coef_[0] - 20) < 2)
    True
    """

    analysis: ClassVar[Analysis | None] = LINEAR_REGRESSION
    _builder: ClassVar[str] = "labelled(X, y, bound=..., response=(low, high))"
    _fitted: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "interval_",
        "intercept_interval_",
        "residual_scale_",
        "noise_scale_",
    )

    def __init__(
        self,
        *,
        epsilon: float | Mapping[str, float],
        delta: float,
        fit_intercept: bool = True,
        ridge: float = 0.0,
        confidence: float = 0.95,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.ridge = ridge
        self.confidence = confidence

    def _fit(self, federation: Federation, private: Allowance) -> None:
        ridge = self.ridge * federation.facts.bounds[0] ** 2
        fit, _ = released_fit(federation, private, intercept=self.fit_intercept, ridge=ridge)
        low, high = federation.facts.response or (-1.0, 1.0)
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        self.coef_ = half * fit.coefficients
        self.intercept_ = middle + half * fit.intercept
        self.interval_ = interval(self.coef_, half**2 * np.diagonal(fit.covariance), self.confidence)
        self.intercept_interval_ = interval(
            np.array(self.intercept_), np.array(half**2 * fit.intercept_variance), self.confidence
        )
        self.residual_scale_ = half * float(np.sqrt(fit.residual))
        self.noise_scale_ = private.releases[-1].scale

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return predicted responses of new rows, prepared as the sites prepare theirs."""
        rows = self._checked_rows(X, len(self.coef_) if hasattr(self, "coef_") else 0)
        predicted: FloatArray = rows @ self.coef_ + self.intercept_
        return predicted

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return R squared, the share of the variance of y that the model explains."""
        predicted = self.predict(X)
        return explained_share(checked_responses(y, len(predicted)), predicted)

    def plot_coefficients(self, ax: Axes | None = None) -> Axes:
        """Draw the coefficients with their intervals."""
        from dpcape.report.coefficient_plots import coefficient_plot

        check_is_fitted(self, "guarantee_")

        return coefficient_plot(self.coef_, self.interval_, getattr(self, "feature_names_in_", None), ax)
