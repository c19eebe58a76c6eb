"""What linear and logistic regression have in common: purposes, private scaling, units and intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dpcape.analyses.regression import PREDICTION
from dpcape.core.arrays import AnyArray, BoolArray, FloatArray
from dpcape.estimators.estimator import FederatedEstimator
from dpcape.estimators.fitted import require_fitted
from dpcape.estimators.linear.regression_result import forest_of, regression_result
from dpcape.estimators.linear.regression_rounds import Coefficients, FederatedRounds
from dpcape.estimators.scaling import private_scaling, used_or_warned
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.scaling import Scaling
from dpcape.postprocessing.verdicts import Verdict, of_coefficients
from dpcape.results import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Share of records that should be within the radius: the others are weighted down.
_QUANTILE = 0.8
INTERVALS = ("interval_", "intercept_interval_", "original_interval_", "coef_noise_scale_", "intercept_noise_scale_")
RARE = "errors of rare rows, such as those of a level of 1%, are at most about twice as large as others"
"""Assumption behind clipping the released spread of residuals; private scaling, which standardises rows, needs none."""
WEIGHTED = "a linear model holds for all records: those longer than the bound or radius are weighted down"


class Regression(FederatedEstimator):
    """Base class of regressions for inference or prediction."""

    purpose: str
    scale: str | None
    fit_intercept: bool
    confidence: float
    coef_: FloatArray
    intercept_: float
    interval_: FloatArray
    intercept_interval_: FloatArray
    coef_noise_scale_: FloatArray
    intercept_noise_scale_: float
    shrunken_coef_: FloatArray
    shrunken_intercept_: float
    noise_scale_: float
    classes_: AnyArray
    effect_bound: float | None = None
    _scaling: Scaling | None = None
    _middle: float = 0.0
    _half_range: float = 1.0

    def __getattr__(self, name: str) -> object:
        if name in INTERVALS and self.__dict__.get("purpose") == PREDICTION and "coef_" in self.__dict__:
            raise AttributeError(
                f"{name} must be asked of a model for inference; got purpose='prediction', whose coefficients are "
                "shrunken. Fit with purpose='inference'."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def original_coef_(self) -> FloatArray:
        """Coefficients per original unit of the features (a level: per record at that level)."""
        return self.units_.slopes(self.coef_)

    @property
    def original_interval_(self) -> FloatArray:
        """Their intervals, for inference."""
        return self.units_.slopes(self.interval_)

    @property
    def original_intercept_(self) -> float:
        """Intercept where all features are 0 in original units; ``intercept_interval_`` is not about it."""
        return self.units_.at_zero(self.intercept_, self.coef_)

    def _forget_intervals(self) -> None:
        for name in INTERVALS:
            self.__dict__.pop(name, None)

    @property
    def _rows_shortened(self) -> bool:
        """Whether the model is one of rows as they are clipped: new rows are then clipped too."""
        return self.purpose == PREDICTION and self.scale is None

    def _prepared(self, X: ArrayLike) -> FloatArray:
        """Return new rows as the model takes them.

        A model with ``purpose="prediction"`` and without private scaling was fitted to rows clipped to the bound, and
        clips new rows alike.
        """
        rows = self._checked_rows(X, self.coef_.shape[-1] if hasattr(self, "coef_") else 0)
        if self._rows_shortened and self.bounds_in_:
            bound = self.bounds_in_[0]
            rows = rows * (bound / np.maximum(np.linalg.norm(rows, axis=1), bound))[:, np.newaxis]
        return rows

    def _predicted(self, X: ArrayLike) -> FloatArray:
        """Return the linear predictor of new rows, by shrunken coefficients: a model for inference has others too."""
        return self._prepared(X) @ self.shrunken_coef_.T + self.shrunken_intercept_

    def _rounds_of(self, federation: Federation, private: Allowance) -> FederatedRounds:
        """Scale the records if that is asked for, and return what solvers need."""
        used = used_or_warned(self.public(federation))
        self._scaling = private_scaling(federation, private, quantile=_QUANTILE) if used else None
        return FederatedRounds(federation, private, self._scaling, self.fit_intercept, not self._rows_shortened)

    def _largest(self, a: float, b: float) -> float:
        """Return the assumed largest length of all coefficients in the units of a release; infinite if none.

        In units of the scales the features' coefficients are at most ``effect_bound`` long. The intercept, at the
        centre of the records, is within twice the half range of the response.
        """
        if self._scaling is None or self.effect_bound is None:
            return math.inf
        constant = 2 / b if b else 0.0
        return a * math.hypot(self.effect_bound * float(self._scaling.radius[0]), constant)

    def _intercept_direction(self, a: float, b: float, n_features: int) -> FloatArray | None:
        """Return the combination of coefficients that is the intercept at x = 0, in units of the response."""
        if not self.fit_intercept:
            return None
        if self._scaling is None:
            return np.append(b / a, np.zeros(n_features))
        return np.append(b, -self._scaling.centre / self._scaling.units) / a

    def _set_coefficients(self, estimates: Coefficients, unit: float, b: float) -> None:
        """Set coefficients and intercept in the units of the response and of the prepared features."""
        first = 1 if b else 0
        self.coef_, self.shrunken_coef_ = (
            self._in_records_units(unit * values[first:]) for values in (estimates.values, estimates.shrunken)
        )
        centre = np.zeros(len(self.coef_)) if self._scaling is None else self._scaling.centre
        self.intercept_, self.shrunken_intercept_ = (
            self._middle + (unit * b * float(values[0]) if b else 0.0) - float(centre @ slopes)
            for values, slopes in ((estimates.values, self.coef_), (estimates.shrunken, self.shrunken_coef_))
        )

    def _in_records_units(self, values: FloatArray) -> FloatArray:
        return values if self._scaling is None else self._scaling.coefficients(values)

    def _set_intervals(
        self, estimates: Coefficients, federation: Federation, unit: float, b: float, *, largest: float = math.inf
    ) -> None:
        """Set intervals, verdicts and assumptions."""
        assert estimates.low is not None
        assert estimates.high is not None
        first, p = (1 if b else 0), len(estimates.values)
        low, high = (self._in_records_units(unit * ends[first:p]) for ends in (estimates.low, estimates.high))
        self.interval_ = np.stack([low, high])
        middle = np.array([self._middle, self._middle])
        self.intercept_interval_ = middle
        if b:
            # The direction is in units of the mapped response.
            self.intercept_interval_ = middle + self._half_range * np.array([estimates.low[p], estimates.high[p]])
        self.verdicts_ = self._judged(federation, low, high, self._in_records_units(np.full(p - first, unit * largest)))
        self.assumptions_.append(WEIGHTED)
        if math.isfinite(largest):
            self.assumptions_.append(
                f"the coefficients together are at most {self.effect_bound:g} half ranges of the response per standard "
                "deviation of the features (effect_bound)"
            )
        unknown = ~(np.isfinite(low) & np.isfinite(high))
        self.coef_ = np.where(unknown, self.shrunken_coef_, self.coef_)
        self._set_noise(estimates, unit, unknown, first)

    def _set_noise(self, estimates: Coefficients, unit: float, unknown: BoolArray, first: int) -> None:
        """Set the standard deviations of the noise in coefficients and intercept; NaN where none is known."""
        assert estimates.noise is not None
        p = len(estimates.values)
        of_slopes = np.abs(self._in_records_units(unit * estimates.noise[first:p]))
        self.coef_noise_scale_ = np.where(unknown, np.nan, of_slopes)
        self.intercept_noise_scale_ = self._half_range * float(estimates.noise[p]) if first else 0.0
        if not np.isfinite(self.intercept_interval_).all():
            self.intercept_noise_scale_ = math.nan

    def _judged(self, federation: Federation, low: FloatArray, high: FloatArray, bounds: FloatArray) -> list[Verdict]:
        """Return the verdict on each coefficient; one that may be anything up to its bound is not determined."""
        names = federation.facts.feature_names or tuple(str(number) for number in range(1, len(low) + 1))
        verdicts = []
        for name, lower, upper, bound in zip(names, low, high, np.abs(bounds), strict=True):
            # Ends of a search on a grid: within 2% of the bound is at the bound.
            label, most = f"coefficient of {name}", 0.98 * float(bound)
            verdicts += of_coefficients([label], np.array([lower]), np.array([upper]), effect_bound=most)
        return verdicts

    def _predictor(self) -> tuple[str, str]:
        """Return the estimands of coefficients and intercepts."""
        raise NotImplementedError

    def _result(self) -> Result:
        return regression_result(self, *self._predictor())

    def plot_coefficients(self, ax: Axes | None = None) -> Axes:
        """Draw the coefficients with their intervals."""
        from dpcape.report.drawing import draw

        require_fitted(self)
        return draw(forest_of(self), ax)
