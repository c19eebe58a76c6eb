"""Logistic regression across sites: intervals by scores and curvature, or predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from dpcape.analyses.description import Analysis
from dpcape.analyses.regression import LOGISTIC_REGRESSION, PREDICTION
from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.estimators.class_labels import accuracy_of, classes_of
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.linear.least_squares import LeastSquares, released_fit
from dpcape.estimators.linear.logistic_scale import logistic_scale
from dpcape.estimators.linear.regression_base import Regression
from dpcape.estimators.linear.regression_result import log_odds
from dpcape.estimators.linear.regression_rounds import Asked, logistic_prediction, weights_of
from dpcape.estimators.linear.score_rounds import logistic_inference
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation


class LogisticRegression(Regression):
    """Logistic regression for two classes over the records of all sites.

    For *inference* the score and the curvature of the loss are released in four rounds, each at the coefficients found
    so far; the last gives intervals. For *prediction* a moment is released, from which preconditioned gradient steps
    start; coefficients are shrunken, and have no intervals.

    Parameters
    ----------
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    purpose : str
        "inference" for coefficients with intervals, "prediction" for the smallest expected error of predictions.
    scale : str or None
        "private" finds centre, scale and radius of the features by three small releases inside the same budget; None
        reads rows as they are.
    fit_intercept : bool
        Whether to fit an intercept.
    ridge : float
        For a prediction, weight of the squared norm of the coefficients, in units of the squared bound.
    rescale : bool or "auto"
        For a prediction with ``n_iter=0``: whether to correct the norm of the least-squares solution, as is right for
        elliptically distributed features. "auto" corrects it with an intercept, because features are then centred.
    confidence : float
        Probability with which each interval contains its coefficient.
    n_iter : int
        Rounds of a prediction; with 0 the whole budget goes to one moment (the functional mechanism).

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients: log-odds of the second class per unit of the prepared feature.
    intercept_ : float
        Intercept, in log-odds.
    interval_ : array of shape (2, n_features)
        For inference, lower and upper end for each coefficient, as for :class:`LinearRegression`.
    intercept_interval_ : array of shape (2,)
        The same for the intercept.
    coef_noise_scale_ : array of shape (n_features,)
        For inference, standard deviation of the noise of privacy in each coefficient, to first order; NaN where noise
        hides it.
    intercept_noise_scale_ : float
        The same for the intercept.
    shrunken_coef_ : array of shape (n_features,)
        Coefficients of predictions: for inference, the last step is shrunk by a public penalty.
    shrunken_intercept_ : float
        Their intercept.
    classes_ : array
        The two classes, as the sites' labels are: text, integers, numbers or Booleans.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the last released matrix.
    assumptions_ : list of str
        What intervals assume, in words.

    Privacy
    -------
    Inference: four releases of (R/4 score, curvature), each of diameter R^2/2, R^2 = B^2 + b^2
    (``LogisticScores``), with .1, .15, .2 and .55 of mu^2. Prediction: one
    moment, then gradients clipped to a public length. Private scaling adds three releases. The rest is post-processing.

    Edge cases
    ----------
    ==============================  ==============================================================
    more or fewer than two classes  refused
    one class never occurs          intervals infinite or wide; rounds limit how far coefficients go
    separable classes               coefficients limited by the rounds
    a group with hardly any events  its interval covers in 83 to 97% of studies, not 95%: leave its column out
    rows longer than the bound      the whole record is weighted down: consistent if the model is logistic; a
                                    prediction without scaling shortens the row alone, also for new rows
    interval asked of a prediction  AttributeError that says what to do
    ==============================  ==============================================================

    References
    ----------
    T. Anderson and H. Rubin, 1949; H. Imtiaz, dissertation, section 8.2.2, and M. Erdogdu, *Scaled least squares*, 2016
    (``purpose="prediction", n_iter=0``).

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

    def __init__(
        self,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        purpose: str = "inference",
        scale: str | None = None,
        fit_intercept: bool = True,
        ridge: float = 0.0,
        rescale: bool | str = "auto",
        confidence: float = 0.95,
        n_iter: int = 24,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.purpose = purpose
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.ridge = ridge
        self.rescale = rescale
        self.confidence = confidence
        self.n_iter = n_iter

    def _fit(self, federation: Federation, private: Allowance) -> None:
        self._forget_intervals()
        self.classes_ = classes_of(federation.facts)
        if self.purpose == PREDICTION and self.n_iter == 0 and self.scale is None:
            self._fit_one_release(federation, private)
            return
        rounds = self._rounds_of(federation, private)
        _, b = weights_of(rounds.bound, intercept=self.fit_intercept)
        if self.purpose == PREDICTION:
            estimates = logistic_prediction(rounds, n_iter=self.n_iter, ridge=self.ridge * rounds.bound**2)
        else:
            direction = self._intercept_direction(1.0, b, federation.n_features)
            estimates = logistic_inference(rounds, Asked(self.confidence, direction))
        self._set_coefficients(estimates, 1.0, b)
        self.noise_scale_ = private.releases[-1].scale
        if self.purpose != PREDICTION:
            self._set_intervals(estimates, federation, 1.0, b)

    def _fit_one_release(self, federation: Federation, private: Allowance) -> None:
        """Fit by the functional mechanism: one release of the unweighted moment, shrunk and corrected in length."""
        ridge = self.ridge * federation.facts.bounds[0] ** 2
        fit, blocks = released_fit(federation, private, intercept=self.fit_intercept, ridge=ridge)
        length, self.intercept_ = self._length(fit, blocks.mean, blocks.response_mean)
        self.coef_ = length * fit.coefficients
        self.shrunken_coef_, self.shrunken_intercept_ = self.coef_, self.intercept_
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
        """Return the log-odds of the second class for new rows, prepared as the sites prepare theirs.

        A model with ``purpose="prediction"`` and without private scaling was fitted to rows clipped to the bound, and
        clips new rows alike.
        """
        return self._predicted(X)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Return the probabilities of both classes, one row per record."""
        second = expit(self.decision_function(X))
        return np.stack([1 - second, second], axis=1)

    def predict(self, X: ArrayLike) -> AnyArray:
        """Return the more probable class of each row."""
        require_fitted(self)
        chosen: AnyArray = self.classes_[(self.decision_function(X) > 0).astype(int)]
        return chosen

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return the share of rows whose class is predicted correctly."""
        return accuracy_of(self.predict(X), y, self.classes_)

    def _predictor(self) -> tuple[str, str]:
        return log_odds(str(self.classes_[1]), str(self.classes_[0]))
