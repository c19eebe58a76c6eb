"""Generalised linear models across sites: coefficients with intervals and p-values."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtr, softmax

from dpcape.analyses.description import Analysis
from dpcape.analyses.generalized_linear_model import (
    GAMMA,
    GAUSSIAN,
    GENERALIZED_LINEAR_MODEL,
    LOGISTIC,
    MULTINOMIAL,
    POISSON,
    offset_position,
    offset_unit,
)
from dpcape.analyses.regression import INFERENCE, PREDICTION, spread_released
from dpcape.analyses.scaling import scaling_plan
from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import UtilityWarning
from dpcape.estimators.class_labels import classes_of
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.linear.regression_base import INTERVALS, RARE, Regression
from dpcape.estimators.linear.regression_result import LINEAR, LOG_MEAN, log_odds
from dpcape.estimators.linear.regression_rounds import (
    Asked,
    Coefficients,
    FederatedRounds,
    linear_inference,
    weights_of,
)
from dpcape.estimators.linear.score_rounds import class_inference, count_inference, logistic_inference, ratio_inference
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.results import Result

# p-values are interpolated on a grid of quantiles up to the first number; below 2e-9 they are reported as 2e-9.
_FARTHEST, _POINTS = 6.0, 48
_OF_INFERENCE = (*INTERVALS, "p_values_")
_COUNTS = (
    "counts are Poisson given the features, or negative binomial with a variance that exceeds the mean by the same "
    "factor everywhere or in proportion to the mean; for rates below one half, by a factor of at most 1.2"
)
_RATIOS = "responses divided by their means are distributed alike for all features, for the intercept by a gamma law"
_REFUTED = (
    "counts vary more than a Poisson model allows, so its coefficients have no intervals. Fit family='logistic' to "
    "whether there are any, or more than a public number."
)


class GeneralizedLinearModel(Regression):
    """Generalised linear model over the records of all sites: gaussian, logistic, poisson, gamma or multinomial.

    Gaussian and logistic models are :class:`LinearRegression` and :class:`LogisticRegression` for inference under the
    name of the family. Poisson and gamma models have the logarithm of the mean as their linear predictor, multinomial
    models the log-odds of each class against the first.

    Parameters
    ----------
    family : str
        "gaussian" for a numeric response, "logistic" for two classes, "poisson" for counts and "gamma" for positive
        numbers, whose public range begins at 0, "multinomial" for three or more classes.
    epsilon : float or mapping
        Privacy parameter epsilon of the whole fit: one number for all sites, or one per site.
    delta : float or mapping
        Privacy parameter delta, for all sites or per site; far below one over the number of records.
    offset : str, int or None
        Column of the features, by name or by place from 0, that is added to the linear predictor in its original
        units, such as the logarithm of the years at risk.
    ridge : float
        Weight of half the squared coefficients in the mean loss, in units of the squared bound. Coefficients are then
        shrunken on purpose, and have neither intervals nor p-values.
    scale : str or None
        "private" finds centre, scale and radius of the features by three small releases inside the same budget; None
        reads rows as they are.
    fit_intercept : bool
        Whether to fit an intercept; poisson and gamma models always have one.
    confidence : float
        Probability with which each interval contains its coefficient.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_classes - 1, n_features)
        Coefficients of the linear predictor per unit of the prepared feature. An offset has the one it is given.
    intercept_ : float or array of shape (n_classes - 1,)
        Intercept of the linear predictor, at prepared features of 0.
    interval_ : array of shape (2, n_features) or (2, n_classes - 1, n_features)
        Lower and upper end for each coefficient; infinite where nothing can be said.
    intercept_interval_ : array of shape (2,) or (2, n_classes - 1)
        The same for the intercept.
    coef_noise_scale_ : array of the shape of ``coef_``
        Standard deviation of the noise of privacy in each coefficient, to first order; NaN where noise hides it.
    intercept_noise_scale_ : float or array of shape (n_classes - 1,)
        The same for the intercept; NaN for a gamma model, whose intercept is moved by a released spread.
    p_values_ : array of the shape of ``coef_``
        Smallest level at which the interval of a coefficient does not contain zero; NaN for an offset.
    shrunken_coef_ : array of the shape of ``coef_``
        Coefficients shrunk by a public penalty; predictions use them.
    shrunken_intercept_ : float or array of shape (n_classes - 1,)
        Intercept that goes with them.
    classes_ : array
        The classes, as the sites' labels are; empty for numeric responses.
    noise_scale_ : float
        Standard deviation of the noise on the diagonal of the last released matrix.
    assumptions_ : list of str
        What intervals assume, in words.

    Privacy
    -------
    Gaussian and logistic: as :class:`LinearRegression` and :class:`LogisticRegression`. Poisson and gamma: a moment
    with 0.1 of mu^2, then three rounds of ``count_scores`` or ``ratio_scores``, each of diameter sqrt(10) R^2, R^2 =
    B^2 + b^2, with 0.1, 0.2 and 0.6. Multinomial: four rounds of ``class_scores``, each of diameter 0.9429 R^2 for
    three classes and 1.0802 R^2 for more. Private scaling adds three releases. Offset and ridge are post-processing.

    Edge cases
    ----------
    ==============================  ==============================================================
    range of counts not from 0      refused
    responses above the range       moved to its end: choose a range that the means do not come near
    counts that vary more           intervals are wider by what was released of it, of slopes also by a part of them;
                                    infinite, with a warning, if bounded residuals vary by 15% more than a Poisson
                                    model allows
    rows longer than the bound      the whole record is weighted down: consistent if the model is right
    noise hides a direction         intervals infinite, coefficients shrunken
    interval asked of a ridge fit   AttributeError that says what to do
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
    _fitted: ClassVar[tuple[str, ...]] = (*Regression._fitted, "p_values_")
    p_values_: FloatArray

    def __init__(
        self,
        family: str,
        *,
        epsilon: float | Mapping[str, float],
        delta: float | Mapping[str, float],
        offset: str | int | None = None,
        ridge: float = 0.0,
        scale: str | None = None,
        fit_intercept: bool = True,
        confidence: float = 0.95,
    ) -> None:
        self.family = family
        self.epsilon = epsilon
        self.delta = delta
        self.offset = offset
        self.ridge = ridge
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.confidence = confidence

    def __getattr__(self, name: str) -> object:
        if name in _OF_INFERENCE and self.__dict__.get("ridge") and "coef_" in self.__dict__:
            raise AttributeError(
                f"{name} must be asked of a model with ridge=0; got ridge={self.__dict__['ridge']:g}, whose "
                "coefficients are shrunken on purpose. Fit with ridge=0."
            )
        return super().__getattr__(name)

    @property
    def purpose(self) -> str:  # type: ignore[override]  # of other regressions it is a parameter
        """What the coefficients are for: a penalty makes them useful for predictions alone."""
        return PREDICTION if self.ridge else INFERENCE

    @property
    def _rows_shortened(self) -> bool:
        return False

    @property
    def original_intercept_(self) -> float | FloatArray:  # type: ignore[override]  # one per class but the first
        """Intercept where all features are 0 in original units; ``intercept_interval_`` is not about it."""
        if self.family != MULTINOMIAL:
            return self.units_.at_zero(self.intercept_, self.coef_)
        pairs = zip(np.atleast_1d(self.intercept_), self.coef_, strict=True)
        return np.array([self.units_.at_zero(float(intercept), slopes) for intercept, slopes in pairs])

    def _fit(self, federation: Federation, private: Allowance) -> None:
        self._forget_intervals()
        self.__dict__.pop("p_values_", None)
        self.classes_ = classes_of(federation.facts)
        rounds = self._rounds_of(federation, private)
        a, b = weights_of(rounds.bound, intercept=self.fit_intercept)
        self._middle, self._half_range, unit = 0.0, 1.0, 1.0
        if self.family == GAUSSIAN:
            low, high = federation.facts.response or (0.0, 1.0)
            self._middle, self._half_range = low / 2 + high / 2, high / 2 - low / 2
            unit = self._half_range / a
        estimates = self._estimates(federation, rounds, self._request(federation, rounds, a, b, unit))
        self.noise_scale_ = private.releases[-1].scale
        if self.family == MULTINOMIAL:
            self._set_classes(estimates, federation, b)
        else:
            self._set_coefficients(estimates, unit, b)
            if not self.ridge:
                self._set_intervals(estimates, federation, unit, b)
                self.p_values_ = p_values(estimates, (1 if b else 0) + np.arange(len(self.coef_)))
        self._leave_out_offset(federation)
        if self.family == POISSON and not estimates.fits and not self.ridge:
            warnings.warn(_REFUTED, UtilityWarning, stacklevel=3)

    def _request(self, federation: Federation, rounds: FederatedRounds, a: float, b: float, unit: float) -> Asked:
        """Return intervals of the intercepts, the offset's coefficient and penalties, in the units of a release."""
        direction = self._intercept_direction(a if self.family == GAUSSIAN else 1.0, b, federation.n_features)
        penalties = np.append(np.zeros(1 if b else 0), np.full(federation.n_features, self.ridge * rounds.bound**2))
        if self.family == MULTINOMIAL:
            others = len(self.classes_) - 1
            direction = None if direction is None else np.kron(np.eye(others), direction).astype(np.float64)
            penalties = np.tile(penalties, others)
        fixed = None
        if self.offset is not None:
            position = offset_position(federation.facts, self.offset)
            size = 1.0 if self._scaling is None else float(self._scaling.units[position])
            fixed = (position + (1 if b else 0), offset_unit(federation.facts, position) * size / unit)
        return Asked(self.confidence, direction, fixed, penalties if self.ridge else None)

    def _estimates(self, federation: Federation, rounds: FederatedRounds, asked: Asked) -> Coefficients:
        """Return the coefficients of the family, with confidence sets."""
        if self.family == LOGISTIC:
            return logistic_inference(rounds, asked)
        if self.family == MULTINOMIAL:
            return class_inference(rounds, asked, n_classes=len(self.classes_))
        if self.family == GAUSSIAN:
            public = self.public(federation)
            known = bool(spread_released(public, scaling_plan(public)))
            if not known:
                self.assumptions_.append("the sampling variance of a coefficient is at most twice that of equal errors")
            elif self.scale is None:
                self.assumptions_.append(RARE)
            return linear_inference(rounds, asked, spread_released=known)
        assert federation.facts.response is not None
        most = federation.facts.response[1]
        self.assumptions_.append(_RATIOS if self.family == GAMMA else _COUNTS)
        return (ratio_inference if self.family == GAMMA else count_inference)(rounds, asked, most=most)

    def _set_classes(self, estimates: Coefficients, federation: Federation, b: float) -> None:
        """Set coefficients and intervals of every class but the first, by what sets those of one predictor."""
        others, width = len(self.classes_) - 1, len(estimates.values) // (len(self.classes_) - 1)
        by_class: dict[str, list[FloatArray | float]] = {}
        verdicts = []
        for number in range(others):
            positions = number * width + np.arange(width)
            with_intercept = np.append(positions, others * width + number) if b else positions
            low, high, noise = (
                None if figures is None else figures[with_intercept]
                for figures in (estimates.low, estimates.high, estimates.noise)
            )
            part = replace(
                estimates,
                values=estimates.values[positions],
                shrunken=estimates.shrunken[positions],
                low=low,
                high=high,
                noise=noise,
            )
            self._set_coefficients(part, 1.0, b)
            names = ["coef_", "intercept_", "shrunken_coef_", "shrunken_intercept_"]
            if not self.ridge:
                self._set_intervals(part, federation, 1.0, b)
                self.p_values_ = p_values(estimates, positions[1 if b else 0 :])
                label = self.classes_[number + 1]
                verdicts += [replace(entry, quantity=f"{entry.quantity} for {label}") for entry in self.verdicts_]
                names += [name for name in _OF_INFERENCE if name != "original_interval_"]
            for name in names:
                by_class.setdefault(name, []).append(getattr(self, name))
        for name, parts in by_class.items():
            setattr(self, name, np.stack(parts, axis=1 if "interval" in name else 0))
        self.verdicts_, self.assumptions_ = verdicts, list(dict.fromkeys(self.assumptions_))

    def _leave_out_offset(self, federation: Federation) -> None:
        """Remove test and verdict of the offset's coefficient, which is given."""
        if self.offset is None or self.ridge:
            return
        position = offset_position(federation.facts, self.offset)
        self.p_values_[position] = np.nan
        del self.verdicts_[position]

    def predict(self, X: ArrayLike) -> FloatArray:
        """Return the mean response of new rows: numbers, probabilities of the second class, or of all several."""
        require_fitted(self)
        predictor = self._predicted(X)
        if self.family == GAUSSIAN:
            return predictor
        if self.family == MULTINOMIAL:
            return np.asarray(softmax(np.column_stack([np.zeros(len(predictor)), predictor]), axis=1))
        return np.asarray(expit(predictor) if self.family == LOGISTIC else np.exp(predictor))

    def _predictor(self) -> tuple[str, str]:
        if self.family == GAUSSIAN:
            return LINEAR
        if self.family == LOGISTIC:
            return log_odds(str(self.classes_[1]), str(self.classes_[0]))
        if self.family == MULTINOMIAL:
            return log_odds("the class", str(self.classes_[0]))
        return LOG_MEAN

    def _result(self) -> Result:
        result = super()._result()
        if self.offset is None:
            return result
        (section,) = result.sections
        note = f"The coefficient of {self.offset} is given, not estimated: it is the offset."
        return replace(result, sections=(replace(section, notes=(*section.notes, note)),))


def p_values(estimates: Coefficients, positions: IntArray) -> FloatArray:
    """Return the smallest level at which the interval of each coefficient does not contain zero; 1 if there is none."""
    assert estimates.ends is not None
    grid = np.linspace(_FARTHEST / _POINTS, _FARTHEST, _POINTS)
    low, high = estimates.ends(grid)
    # How far zero is outside each interval, which grows with the quantile; negative where it is inside.
    gaps = np.maximum(low, -high)[:, positions]
    inside = np.vstack([gaps <= 0, np.ones((1, len(positions)), dtype=bool)]).argmax(axis=0)
    levels = np.ones(len(positions))
    for feature, at in enumerate(inside):
        if at > 0:
            quantile = float(grid[at - 1])
            if at < _POINTS:
                before, after = gaps[at - 1 : at + 1, feature]
                quantile += float(grid[0] * before / (before - after))
            levels[feature] = 2 * ndtr(-quantile)
    return levels
