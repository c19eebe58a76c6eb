"""What a regression found: coefficients per original and per prepared unit, and intercepts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dpcape.analyses.regression import PREDICTION
from dpcape.charts import Chart, Forest, Weights, drawn_caption
from dpcape.core.arrays import FloatArray
from dpcape.estimators.reported import THESE_SITES
from dpcape.estimators.units import Units
from dpcape.results import Estimates, Result, Section, table_of

if TYPE_CHECKING:
    from dpcape.estimators.linear.regression_base import Regression

PREPARED = "coefficient of the prepared column"
_SHRUNKEN = "shrunken on purpose, for predictions; it estimates no effect"
_FIXED = "per {unit}, other columns held fixed"
LINEAR = (
    f"change of the mean of the response, moved into its public range, {_FIXED}",
    "mean of the response, moved into its public range,",
)
LOG_MEAN = (
    f"change of the logarithm of the mean of the response, moved into its public range, {_FIXED}",
    "logarithm of the mean of the response, moved into its public range,",
)
"""Estimands of coefficients and intercepts, for linear models and for models of the logarithm of a mean."""
_NOT_ESTIMABLE = "Where an interval is not estimable, the coefficient is the shrunken one that predictions use."


def log_odds(label: str, against: str) -> tuple[str, str]:
    """Return the estimands of coefficients and intercepts of models of classes."""
    odds = f"log-odds of {label} against {against}".replace("{", "{{").replace("}", "}}")
    return f"change of the {odds} {_FIXED}", odds


def regression_result(model: Regression, of_slope: str, of_intercept: str) -> Result:
    """Return the result of a regression.

    Parameters
    ----------
    model : Regression
        Fitted regression.
    of_slope, of_intercept : str
        What a coefficient is a change of, and what an intercept is.
    """
    is_inference = model.purpose != PREDICTION
    slopes, prepared = [], []
    for at, group in enumerate(_groups(model)):
        parts = list(_slopes(model, at, group, of_slope))
        slopes.append(parts[0])
        prepared += parts[1:]
    constants = list(_intercepts(model, of_intercept))
    in_order = [part for pair in zip(slopes, prepared, strict=True) for part in pair] if prepared else slopes
    main = [row for part in (*constants[:: 2 if prepared else 1], *slopes) for row in part.rows()]
    tables = [table_of(main)]
    if prepared:
        tables.append(table_of([row for part in prepared for row in part.rows()]))
    chart: Chart = forest_of(model)
    if not is_inference and np.ndim(model.coef_) == 2:
        chart = Weights(values=model.coef_, names=model._names(model.coef_.shape[-1]), row="class")
    notes: list[str] = []
    if is_inference:
        notes = [THESE_SITES]
        if not np.isfinite(model.interval_).all():
            notes.append(_NOT_ESTIMABLE)
    section = Section(
        title="Coefficients",
        estimates=(*in_order, *constants),
        tables=tuple(tables),
        charts=(chart,),
        notes=tuple(notes),
    )
    return Result((section,))


def forest_of(model: Regression) -> Forest:
    """Return the forest plot of the coefficients, per unit of the prepared columns."""
    is_inference = model.purpose != PREDICTION
    width = np.shape(model.coef_)[-1]
    names = [": ".join(filter(None, (group, name))) for group in _groups(model) for name in model._names(width)]
    label = f"coefficient, with {100 * model.confidence:g}% interval" if is_inference else "coefficient"
    return Forest(
        values=np.ravel(model.coef_),
        interval=np.reshape(model.interval_, (2, -1)) if is_inference else None,
        names=names,
        label=label,
        alt=f"Coefficients of {width} features.",
        caption=drawn_caption(np.size(model.coef_)),
    )


def _groups(model: Regression) -> list[str]:
    """Return what linear predictors are of: one without a name, or one for each class but the first."""
    return [""] if np.ndim(model.coef_) == 1 else [str(label) for label in model.classes_][1:]


def _slopes(model: Regression, at: int, group: str, of_slope: str) -> Iterator[Estimates]:
    """Yield the coefficients of one linear predictor, per original unit and, if that differs, per prepared one."""
    units, values = model.units_, np.atleast_2d(model.coef_)[at]
    names, shape = model._names(len(values)), (2, -1, len(values))
    low, high, noise, p_values = (None,) * 4
    meaning = f"{of_slope}, {_SHRUNKEN}"
    if model.purpose != PREDICTION:
        (low, high), meaning = np.reshape(model.interval_, shape)[:, at], of_slope
        noise = np.atleast_2d(model.coef_noise_scale_)[at]
        p_values = np.atleast_2d(vars(model)["p_values_"])[at] if "p_values_" in vars(model) else None
    per = "original unit of the column" if units.known else "unit of the prepared column"
    yield Estimates(
        quantity="coefficient",
        estimand=meaning.format(unit=per),
        names=names,
        groups=group,
        value=units.slopes(values),
        low=_slope(units, low),
        high=_slope(units, high),
        noise=_slope(units, noise),
        p_value=p_values,
        unit=[f"per {unit}" if unit else "" for unit in units.names],
        confidence=model.confidence,
    )
    if units.known:
        yield Estimates(
            quantity=PREPARED,
            estimand=meaning.format(unit="half of the public range of the column, or per level"),
            names=names,
            groups=group,
            value=values,
            low=low,
            high=high,
            noise=noise,
            confidence=model.confidence,
        )


def _intercepts(model: Regression, of_intercept: str) -> Iterator[Estimates]:
    """Yield the intercepts at the middle of the ranges, with their intervals, and those at zero."""
    known, groups = model.units_.known, _groups(model)
    values = np.ravel(model.intercept_)
    ends, noises = None, None
    if model.purpose != PREDICTION:
        ends = np.reshape(model.intercept_interval_, (2, len(groups)))
        noises = np.ravel(model.intercept_noise_scale_)
    if not model.fit_intercept:
        of_intercept = "given and not estimated, because the model has no intercept: the linear predictor"
    origin = (
        "numbers are in the middle of their public ranges and no level applies" if known else "prepared columns are 0"
    )
    for at, group in enumerate(groups):
        yield Estimates(
            quantity="intercept",
            estimand=f"{of_intercept} where all {origin}",
            parts="middle of the ranges" if known else "",
            groups=group,
            value=values[at],
            low=None if ends is None else ends[0, at],
            high=None if ends is None else ends[1, at],
            noise=None if noises is None else noises[at],
            confidence=model.confidence,
        )
        if known:
            yield Estimates(
                quantity="intercept",
                estimand=f"{of_intercept} where all columns are 0 in original units, often far outside their ranges",
                parts="all at 0",
                groups=group,
                value=np.ravel(model.original_intercept_)[at],
            )


def _slope(units: Units, values: FloatArray | None) -> FloatArray | None:
    return None if values is None else units.slopes(values)
