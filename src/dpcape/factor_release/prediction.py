"""Predictions of test subjects with intervals over the posterior draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpcape.core.arrays import FloatArray
from dpcape.factor_release.recommended import RecommendedModel, fit_at, guide_coefficients, penalty_root


@dataclass(frozen=True)
class Interval:
    """Point predictions and interval ends, one entry per subject."""

    prediction: FloatArray
    low: FloatArray
    high: FloatArray
    level: float
    kind: str


@dataclass(frozen=True)
class TestError:
    """Mean squared error on the test part: of the prediction, and its interval over the draws."""

    __test__ = False  # pytest must not collect it, despite its name

    mse: float
    low: float
    high: float
    level: float


def draw_predictions(
    draws: FloatArray,
    response: FloatArray,
    *,
    gram: FloatArray,
    fitted: FloatArray,
    model: RecommendedModel,
    covariates: FloatArray | None,
    covariates_test: FloatArray | None,
) -> FloatArray:
    """Refit the recommended model to every draw of the factors and predict (section IV.D); n_draws x n_test.

    ``draws`` (n_draws x n x K), ``gram`` = X X' and ``fitted`` = X beta_hat cover all subjects, training
    ones first. The weights stay at those chosen for the mean factors.
    """
    n_train = len(response)
    rows = []
    for factors in draws:
        refitted = fit_at(
            factors[:n_train],
            response,
            covariates=covariates,
            root=penalty_root(factors, gram),
            guide=guide_coefficients(factors, fitted),
            ridge=model.ridge,
            lasso_fraction=model.lasso_fraction,
        )
        rows.append(refitted.predict(factors[n_train:], covariates_test))
    return np.asarray(rows)


def credible_interval(prediction: FloatArray, by_draw: FloatArray, level: float) -> Interval:
    """Return the interval of the *predicted value* over the draws, as the paper reports it.

    It shows how well the factors are known. It is not an interval for a new response.
    """
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(by_draw, [tail, 1.0 - tail], axis=0)
    return Interval(prediction, low, high, level, "credible")


def predictive_interval(
    prediction: FloatArray, by_draw: FloatArray, level: float, *, error_variance: float
) -> Interval:
    """Return the interval of a new *response*: the draws' predictions plus error of the held-out variance.

    The mixture over draws is laid out on normal quantiles, so the result is free of simulation noise.
    """
    steps = ndtri((np.arange(200) + 0.5) / 200) * np.sqrt(error_variance)
    mixture = (by_draw[:, None, :] + steps[None, :, None]).reshape(-1, by_draw.shape[1])
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(mixture, [tail, 1.0 - tail], axis=0)
    return Interval(prediction, low, high, level, "predictive")


def error_interval(prediction: FloatArray, by_draw: FloatArray, truth: FloatArray, level: float) -> TestError:
    """Return the test error of the prediction and the interval of the test error over draws (section V.B)."""
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(np.mean((by_draw - truth) ** 2, axis=1), [tail, 1.0 - tail])
    return TestError(float(np.mean((prediction - truth) ** 2)), float(low), float(high), level)
