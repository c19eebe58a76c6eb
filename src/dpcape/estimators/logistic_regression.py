"""Logistic regression across sites by the functional mechanism (capeFM: dissertation, section 8.2.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

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
    """Probabilities of two classes over the records of all sites, in one release.

    The logistic loss is replaced by its Taylor polynomial of degree two at zero, whose minimiser is least
    squares of the labels times four. That is too short a vector; for features spread elliptically around
    their mean the right length follows from the released numbers alone, so it is set right at no cost in
    privacy.

    Parameters
    ----------
    epsilon : float or mapping
        One number, or one per site.
    delta : float
    fit_intercept : bool
    ridge : float
        Weight of the squared norm in the least-squares problem, in units of the squared bound of a row.
    rescale : "auto", True or False
        Whether to correct the length. "auto": with an intercept, because features are then centred; not without one.
        True without an intercept states that the features have mean zero.
    confidence : float
        Probability with which each interval is meant to hold its coefficient.

    Attributes
    ----------
    coef_ : (n_features,)
        Log-odds of the second class per unit of prepared feature.
    intercept_ : float
    interval_ : (2, n_features)
    intercept_interval_ : (2,)
        As for :class:`LinearRegression`, times the length.
    classes_
        (2,) array of str.
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
    one class never occurs          probabilities kept off 0 and 1 by at least the noise of the mean label
    separable classes               length limited: probabilities stay short of 0 and 1
    uncentred, no intercept         "auto" leaves the Taylor solution as it is
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
        """Return the factor of the least-squares coefficients, and the intercept."""
        rescale = self.fit_intercept if self.rescale == "auto" else self.rescale
        if not rescale:
            # Labels are -1 and 1, half their covariance is the Taylor gradient, and 1/4 its curvature.
            return 2.0, 2.0 * fit.intercept
        # In least squares of labels 0 and 1 everything is half as long.
        length, offset = logistic_scale(fit.variance / 4, (1 + response_mean) / 2, noise=fit.response_noise / 2)
        return length / 2, offset - float(mean @ fit.coefficients) * length / 2

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the log-odds of the second class for rows prepared as the sites prepare theirs."""
        rows = self._checked_rows(X, len(self.coef_) if hasattr(self, "coef_") else 0)
        odds: FloatArray = rows @ self.coef_ + self.intercept_
        return odds

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probabilities of both classes, one row per record."""
        second = expit(self.decision_function(X))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the more probable class of each row."""
        check_is_fitted(self, "guarantee_")
        chosen: NDArray[Any] = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return chosen

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of rows whose class is predicted."""
        return accuracy_of(self.predict(X), y, self.classes_)

    def plot_coefficients(self, ax: Axes | None = None) -> Axes:
        """Draw the coefficients with their intervals."""
        from dpcape.report.coefficient_plots import coefficient_plot

        check_is_fitted(self, "guarantee_")

        return coefficient_plot(self.coef_, self.interval_, getattr(self, "feature_names_in_", None), ax)
