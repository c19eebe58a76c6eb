"""Linear regression across sites: intervals that cover, or predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.description import Analysis
from dpcape.analyses.regression import LINEAR_REGRESSION, PREDICTION, spread_released
from dpcape.analyses.scaling import scaling_plan
from dpcape.core.arrays import FloatArray
from dpcape.estimators.class_labels import checked_responses
from dpcape.estimators.linear.least_squares import released_fit
from dpcape.estimators.linear.regression_base import RARE, Regression
from dpcape.estimators.linear.regression_result import LINEAR
from dpcape.estimators.linear.regression_rounds import Asked, linear_inference, linear_prediction, weights_of
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.metrics import explained_share


class LinearRegression(Regression):
    """Least-squares regression over the records of all sites.

    For *inference* the moment of all records is released once. Intervals are confidence sets of the coefficients
    (Anderson and Rubin) that cover whatever the noise is: where it hides too much, they are infinite. For *prediction*
    30% of mu^2 goes to the moment, the rest to gradients that start from it; coefficients are shrunken, and have no
    intervals.

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
        Whether to fit an intercept; without one, the prediction at x = 0 is the middle of the public response range.
    ridge : float
        For a prediction, weight of the squared norm of the coefficients, in units of the squared bound.
    confidence : float
        Probability with which each interval contains its coefficient.
    effect_bound : float or None
        With private scaling, assumed largest length of all coefficients together, in half ranges of the response per
        standard deviation of a feature; the assumption is printed. None assumes nothing.
    n_iter : int
        Rounds of a prediction. With 0 the whole budget goes to the moment.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients, in response units per unit of the prepared feature. Not shrunken for inference, unless the
        interval is infinite.
    intercept_ : float
        Intercept, in response units.
    interval_ : array of shape (2, n_features)
        For inference, lower and upper end for each coefficient; they cover sampling and privacy noise, and are infinite
        where nothing can be said.
    intercept_interval_ : array of shape (2,)
        The same for the intercept.
    coef_noise_scale_ : array of shape (n_features,)
        For inference, standard deviation of the noise of privacy in each coefficient, to first order; NaN where noise
        hides it.
    intercept_noise_scale_ : float
        The same for the intercept.
    shrunken_coef_ : array of shape (n_features,)
        Coefficients of predictions: for inference, shrunken towards the constant model as far as noise hides them, by a
        prior whose variance follows from the release. ``interval_`` is not about them.
    shrunken_intercept_ : float
        Their intercept.
    residual_scale_ : float
        Standard deviation of the residuals, in response units.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the released moment.
    assumptions_ : list of str
        What intervals assume, in words.

    Privacy
    -------
    Inference: one release of u u', u = w (b, x, a y), w the factor by which a row was shortened; diameter sqrt(2) (B^2
    + a^2 + b^2) (``WeightedRegressionMoment``); where its noise is small, 10%
    of mu^2 on the spread of residuals. Prediction: the moment, then gradients clipped to a public length. Private
    scaling adds three releases; records are then clipped after they are scaled, so diameters are public constants.
    Everything else is post-processing.

    Edge cases
    ----------
    =====================================  =========================================================
    responses outside the public range     clipped at the site, or refused: ``labelled(..., outside=)``
    rows longer than the bound             the whole record is weighted down: consistent if the model is linear; a
                                           prediction without scaling shortens the row alone, also in ``predict``
    constant feature                       interval infinite
    noise above every signal               intervals infinite, ``shrunken_coef_`` near zero, UtilityWarning
    interval asked of a prediction         AttributeError that says what to do
    =====================================  =========================================================

    References
    ----------
    T. Anderson and H. Rubin, 1949; C. Mallows, *On some topics in robustness*, 1975; H. Imtiaz, dissertation,
    algorithm 8.2 (``purpose="prediction", n_iter=0``).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, Independent, LinearRegression, in_process, labelled
    >>> x = np.linspace(-1, 1, 4000)[:, None]
    >>> records = labelled(x, 50 + 20 * x[:, 0], bound=1.0, response=(0, 100))
    >>> fed = Federation(in_process({"lyon": records}), protocol=Independent())
    >>> model = LinearRegression(epsilon=10.0, delta=1e-6).fit(fed)
    >>> bool(model.interval_[0, 0] < 20 < model.interval_[1, 0])
    True
    """

    analysis: ClassVar[Analysis | None] = LINEAR_REGRESSION
    _builder: ClassVar[str] = "labelled(X, y, bound=..., response=(low, high))"
    _fitted: ClassVar[tuple[str, ...]] = (*Regression._fitted, "residual_scale_")

    def __init__(
        self,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        purpose: str = "inference",
        scale: str | None = None,
        fit_intercept: bool = True,
        ridge: float = 0.0,
        confidence: float = 0.95,
        effect_bound: float | None = 3.0,
        n_iter: int = 24,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.purpose = purpose
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.ridge = ridge
        self.confidence = confidence
        self.effect_bound = effect_bound
        self.n_iter = n_iter

    def _fit(self, federation: Federation, private: Allowance) -> None:
        self._forget_intervals()
        low, high = federation.facts.response or (-1.0, 1.0)
        self._middle, self._half_range = low / 2 + high / 2, high / 2 - low / 2
        if self.purpose == PREDICTION and self.n_iter == 0 and self.scale is None:
            self._fit_one_release(federation, private)
            return
        rounds = self._rounds_of(federation, private)
        a, b = weights_of(rounds.bound, intercept=self.fit_intercept)
        units = self._half_range / a
        if self.purpose == PREDICTION:
            ridge = self.ridge * rounds.bound**2
            estimates = linear_prediction(rounds, n_iter=self.n_iter, ridge=ridge)
        else:
            public = self.public(federation)
            has_spread = bool(spread_released(public, scaling_plan(public)))
            asked = Asked(self.confidence, self._intercept_direction(a, b, federation.n_features))
            estimates = linear_inference(rounds, asked, spread_released=has_spread, largest=self._largest(a, b))
        self._set_coefficients(estimates, units, b)
        # The moment is the first release after those of scaling.
        self.noise_scale_ = private.releases[0 if rounds.scaling is None else 3].scale
        self.residual_scale_ = units * math.sqrt(estimates.square)
        if self.purpose != PREDICTION:
            self._set_intervals(estimates, federation, units, b, largest=self._largest(a, b))
            if not has_spread:
                self.assumptions_.append("the sampling variance of a coefficient is at most twice that of equal errors")
            elif self.scale is None:
                self.assumptions_.append(RARE)

    def _fit_one_release(self, federation: Federation, private: Allowance) -> None:
        """Fit by the functional mechanism: one release of the unweighted moment, shrunk."""
        ridge = self.ridge * federation.facts.bounds[0] ** 2
        fit, _ = released_fit(federation, private, intercept=self.fit_intercept, ridge=ridge)
        self.coef_ = self._half_range * fit.coefficients
        self.intercept_ = self._middle + self._half_range * fit.intercept
        self.shrunken_coef_, self.shrunken_intercept_ = self.coef_, self.intercept_
        self.residual_scale_ = self._half_range * float(np.sqrt(fit.residual))
        self.noise_scale_ = private.releases[-1].scale

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return predicted responses of new rows, prepared as the sites prepare theirs, by ``shrunken_coef_``.

        A model with ``purpose="prediction"`` and without private scaling was fitted to rows clipped to the bound, and
        clips new rows alike.
        """
        return self._predicted(X)

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """Return R squared, the share of the variance of y that the model explains."""
        predicted = self.predict(X)
        return explained_share(checked_responses(y, len(predicted)), predicted)

    def _predictor(self) -> tuple[str, str]:
        return LINEAR
