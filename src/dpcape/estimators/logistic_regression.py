"""Logistic regression across sites by the functional mechanism (capeFM: dissertation, section 8.2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils.validation import check_is_fitted

from dpcape.analyses.description import Analysis
from dpcape.analyses.regression import LOGISTIC_REGRESSION
from dpcape.arrays import FloatArray
from dpcape.estimators.class_labels import accuracy_of
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.least_squares import LeastSquares, interval, released_fit
from dpcape.federation import Allowance, Federation
from dpcape.postprocessing.logistic_scale import logistic_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LogisticRegression(FederatedEstimator):
    """Logistic regression for two classes over the records of all sites, from one release.

    The logistic loss is replaced by its second-order Taylor polynomial at zero, whose minimiser is four times the
    least-squares solution for the labels. The norm of that vector is too small. For elliptically distributed features
    the correct norm follows from the released numbers alone, so the correction costs no privacy.

    Parameters
    ----------
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    fit_intercept : bool
        Whether to fit an intercept.
    ridge : float
        Weight of the squared norm in the least-squares problem, in units of the squared bound; 0 for no penalty.
    rescale : bool or "auto"
        Whether to correct the norm of the coefficients. "auto" corrects it with an intercept, because features are then
        centred, and not without one. True without an intercept assumes that the features have mean zero.
    confidence : float
        Nominal probability with which each interval contains its coefficient.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients: log-odds of the second class per unit of the prepared feature.
    intercept_ : float
        Intercept, in log-odds.
    interval_ : array of shape (2, n_features)
        Lower and upper end for each coefficient, as for :class:`LinearRegression`.
    intercept_interval_ : array of shape (2,)
        The same for the intercept.
    classes_ : array of str
        Names of the two classes.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the released matrix.

    Privacy
    -------
    One release of u u', u = (b, x, a y), y = -1 or 1, diameter sqrt(2) (B^2 + a^2 + b^2). The rest is
    post-processing.

    Edge cases
    ----------
    ==============================  ==============================================================
    more or fewer than two classes  refused
    one class never occurs          probabilities kept away from 0 and 1 by the noise on the mean label
    separable classes               norm limited: probabilities stay away from 0 and 1
    uncentred, no intercept         "auto" returns the Taylor solution uncorrected
    indefinite noisy matrix         eigenvalues cleaned and floored
    ==============================  ==============================================================

    References
    ----------
    H. Imtiaz, dissertation, section 8.2.2; M. Erdogdu, *Scaled least squares*, 2016 (correction of the length).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, LogisticRegression, in_process, labelled
    >>> x = np.linspace(-1, 1, 4000)[:, None]
    >>> records = labelled(x, np.where(x[:, 0] > 0, "ill", "well"), bound=1.0, classes=["well", "ill"])
    >>> fed = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> LogisticRegression(epsilon=5.0, delta=1e-6).fit(fed).predict([[-0.9], [0.9]]).tolist()
    ['well', 'ill']
    """

    analysis: ClassVar[Analysis | None] = LOGISTIC_REGRESSION
    _builder: ClassVar[str] = "labelled(X, y, bound=..., classes=[first, second])"
    _fitted: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "interval_",
        "intercept_interval_",
        "classes_",
        "noise_scale_",
    )

    def __init__(
        self,
        *,
        epsilon: float | Mapping[str, float],
        delta: float,
        fit_intercept: bool = True,
        ridge: float = 0.0,
        rescale: bool | str = "auto",
        confidence: float = 0.95,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.fit_intercept = fit_intercept
        self.ridge = ridge
        self.rescale = rescale
        self.confidence = confidence

    def _fit(self, federation: Federation, private: Allowance) -> None:
        ridge = self.ridge * federation.facts.bounds[0] ** 2
        fit, blocks = released_fit(federation, private, intercept=self.fit_intercept, ridge=ridge)
        length, self.intercept_ = self._length(fit, blocks.mean, blocks.response_mean)
        self.coef_ = length * fit.coefficients
        self.interval_ = interval(self.coef_, length**2 * np.diagonal(fit.covariance), self.confidence)
        self.intercept_interval_ = interval(
            np.array(self.intercept_), np.array(length**2 * fit.intercept_variance), self.confidence
        )
        self.classes_ = np.array(federation.facts.classes)
        self.noise_scale_ = private.releases[-1].scale

    def _length(self, fit: LeastSquares, mean: FloatArray, response_mean: float) -> tuple[float, float]:
        """Return the factor that corrects the least-squares coefficients, and the intercept."""
        rescale = self.fit_intercept if self.rescale == "auto" else self.rescale
        if not rescale:
            # Labels are -1 and 1, half their covariance is the Taylor gradient, and 1/4 its curvature.
            return 2.0, 2.0 * fit.intercept
        # For labels 0 and 1 the least-squares coefficients are half as large.
        length, offset = logistic_scale(fit.variance / 4, (1 + response_mean) / 2, noise=fit.response_noise / 2)
        return length / 2, offset - float(mean @ fit.coefficients) * length / 2

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the log-odds of the second class for new rows, prepared as the sites prepare theirs."""
        rows = self._checked_rows(X, len(self.coef_) if hasattr(self, "coef_") else 0)
        odds: FloatArray = rows @ self.coef_ + self.intercept_
        return odds

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probabilities of both classes, one row per record."""
        second = expit(self.decision_function(X))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[np.str_]:
        """Return the more probable class of each row."""
        check_is_fitted(self, "guarantee_")
        chosen: NDArray[np.str_] = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return chosen

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of rows whose class is predicted correctly."""
        return accuracy_of(self.predict(X), y, self.classes_)

    def plot_coefficients(self, ax: Axes | None = None) -> Axes:
        """Draw the coefficients with their intervals."""
        from dpcape.report.coefficient_plots import coefficient_plot

        check_is_fitted(self, "guarantee_")

        return coefficient_plot(self.coef_, self.interval_, getattr(self, "feature_names_in_", None), ax)
