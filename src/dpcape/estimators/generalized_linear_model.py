"""Generalised linear models across sites: coefficients with intervals and p-values."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr
from sklearn.utils.validation import check_is_fitted

from dpcape.analyses.description import Analysis
from dpcape.analyses.generalized_linear_model import GAUSSIAN, GENERALIZED_LINEAR_MODEL, LOGISTIC
from dpcape.analyses.regression import INFERENCE, spread_released
from dpcape.analyses.scaling import scaling_plan
from dpcape.arrays import FloatArray
from dpcape.errors import UtilityWarning
from dpcape.estimators.regression_base import Regression
from dpcape.estimators.regression_rounds import Coefficients, FederatedRounds, linear_inference, weights_of
from dpcape.estimators.score_rounds import count_inference, logistic_inference
from dpcape.federation import Allowance, Federation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Largest quantile at which an interval is asked whether it contains zero: p-values below 2e-9 are not told apart.
_FARTHEST, _POINTS = 6.0, 48


class GeneralizedLinearModel(Regression):
    """Generalised linear model over the records of all sites, for inference: gaussian, logistic or poisson.

    Gaussian and logistic models are :class:`LinearRegression` and :class:`LogisticRegression` under the name of the
    family. A poisson model has the logarithm of the rate of a count as its linear predictor.

    Parameters
    ----------
    family : str
        "gaussian" for a numeric response, "logistic" for two classes, "poisson" for counts, whose public range begins
        at 0.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float
        Privacy parameter delta, the same at all sites; far below one over the number of records.
    scale : str or None
        "private" finds centre, scale and radius of the features by three small releases inside the same budget; None
        reads rows as they are.
    fit_intercept : bool
        Whether to fit an intercept; a poisson model always has one.
    confidence : float
        Probability with which each interval contains its coefficient.

    Attributes
    ----------
    coef_ : array of shape (n_features,)
        Coefficients of the linear predictor per unit of the prepared feature.
    intercept_ : float
        Intercept of the linear predictor.
    interval_ : array of shape (2, n_features)
        Lower and upper end for each coefficient; infinite where nothing can be said.
    intercept_interval_ : array of shape (2,)
        The same for the intercept.
    p_values_ : array of shape (n_features,)
        Smallest level at which the interval of a coefficient does not contain zero.
    shrunken_coef_ : array of shape (n_features,)
        Coefficients shrunk by a public penalty; predictions use them.
    shrunken_intercept_ : float
        Intercept that goes with them.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the last released matrix.
    assumptions_ : list of str
        What intervals assume, in words.

    Privacy
    -------
    Gaussian and logistic: as :class:`LinearRegression` and :class:`LogisticRegression`. Poisson: a moment with 0.1 of
    mu^2, then three rounds of ``count_scores``, each of diameter sqrt(10) R^2, R^2 = B^2 + b^2, with 0.1, 0.2 and 0.6.
    Private scaling adds three releases. The rest is post-processing.

    Edge cases
    ----------
    ==============================  ==============================================================
    range of counts not from 0      refused
    counts above the range          moved to its end: choose a range that the rates do not come near
    counts that vary more           intervals are wider by what was released of it; infinite, with a warning, if scores
                                    vary by 15% more than a Poisson model allows
    rows longer than the bound      the whole record is weighted down: consistent if the model is right
    noise hides a direction         intervals infinite, coefficients shrunken
    ==============================  ==============================================================

    References
    ----------
    E. Cantoni and E. Ronchetti, *Robust inference for generalized linear models*, 2001; T. Anderson and H. Rubin, 1949.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcape import Federation, GeneralizedLinearModel, Independent, in_process, labelled
    >>> source = np.random.default_rng(0)
    >>> x = source.uniform(-1, 1, (20000, 1))
    >>> visits = source.poisson(np.exp(1 + 0.8 * x[:, 0]))
    >>> fed = Federation(in_process({"lyon": labelled(x, visits, bound=1.0, response=(0, 30))}), protocol=Independent())
    >>> model = GeneralizedLinearModel("poisson", epsilon=2.0, delta=1e-6).fit(fed)
    >>> bool(abs(model.coef_[0] - 0.8) < 0.1)
    True
    """

    analysis: ClassVar[Analysis | None] = GENERALIZED_LINEAR_MODEL
    _builder: ClassVar[str] = "labelled(X, y, bound=..., response=(low, high))"
    _fitted: ClassVar[tuple[str, ...]] = (
        "coef_",
        "intercept_",
        "interval_",
        "intercept_interval_",
        "p_values_",
        "shrunken_coef_",
        "shrunken_intercept_",
        "noise_scale_",
    )
    purpose = INFERENCE
    p_values_: FloatArray

    def __init__(
        self,
        family: str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float,
        scale: str | None = None,
        fit_intercept: bool = True,
        confidence: float = 0.95,
    ) -> None:
        self.family = family
        self.epsilon = epsilon
        self.delta = delta
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.confidence = confidence

    def _fit(self, federation: Federation, private: Allowance) -> None:
        self._forget_intervals()
        rounds = self._rounds_of(federation, private)
        a, b = weights_of(rounds.bound, intercept=self.fit_intercept)
        self._middle, self._half, units = 0.0, 1.0, 1.0
        low, high = federation.facts.response or (0.0, 1.0)
        if self.family == GAUSSIAN:
            self._middle, self._half = low / 2 + high / 2, high / 2 - low / 2
            units = self._half / a
        direction = self._intercept_direction(a if self.family == GAUSSIAN else 1.0, b, federation.n_features)
        found = self._found(federation, rounds, high, direction)
        self._set_coefficients(found, units, b)
        self.noise_scale_ = private.releases[-1].scale
        self._set_intervals(found, federation, units, b)
        self.p_values_ = p_values(found, len(self.coef_))
        if not found.fits:
            warnings.warn(
                "counts vary more than a Poisson model allows, so its coefficients have no intervals. Fit "
                "family='logistic' to whether there are any, or more than a public number.",
                UtilityWarning,
                stacklevel=3,
            )

    def _found(
        self, federation: Federation, rounds: FederatedRounds, most: float, direction: FloatArray | None
    ) -> Coefficients:
        """Return the coefficients of the family, with confidence sets."""
        if self.family == LOGISTIC:
            return logistic_inference(rounds, confidence=self.confidence, direction=direction)
        if self.family == GAUSSIAN:
            public = self.public(federation)
            known = bool(spread_released(public, scaling_plan(public)))
            if not known:
                self.assumptions_.append("the sampling variance of a coefficient is at most twice that of equal errors")
            return linear_inference(rounds, confidence=self.confidence, spread_released=known, direction=direction)
        self.assumptions_.append(
            "counts are Poisson given the features, or vary a little more by the same factor everywhere"
        )
        return count_inference(rounds, most=most, confidence=self.confidence, direction=direction)

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the mean response of new rows: a number, the probability of the second class, or a rate."""
        check_is_fitted(self, "guarantee_")
        line = self._predicted(X)
        if self.family == GAUSSIAN:
            return line
        found: FloatArray = expit(line) if self.family == LOGISTIC else np.exp(line)
        return found

    def plot_coefficients(self, ax: Axes | None = None) -> Axes:
        """Draw the coefficients with their intervals."""
        from dpcape.report.coefficient_plots import coefficient_plot

        check_is_fitted(self, "guarantee_")
        return coefficient_plot(self.coef_, self._drawn_interval(), getattr(self, "feature_names_in_", None), ax)


def p_values(found: Coefficients, n_features: int) -> FloatArray:
    """Return, for every feature, the smallest level at which its interval does not contain zero; 1 if there is none."""
    assert found.ends is not None
    first = len(found.values) - n_features
    grid = np.linspace(_FARTHEST / _POINTS, _FARTHEST, _POINTS)
    ends = [found.ends(float(quantile)) for quantile in grid]
    # How far zero is outside each interval, which grows with the quantile; negative where it is inside.
    gaps = np.array([np.maximum(low, -high)[first : first + n_features] for low, high in ends])
    inside = np.vstack([gaps <= 0, np.ones((1, n_features), dtype=bool)]).argmax(axis=0)
    found_levels = np.ones(n_features)
    for feature, at in enumerate(inside):
        if at > 0:
            quantile = float(grid[at - 1])
            if at < _POINTS:
                before, after = gaps[at - 1 : at + 1, feature]
                quantile += float(grid[0] * before / (before - after))
            found_levels[feature] = 2 * ndtr(-quantile)
    return found_levels
