"""Description of generalised linear models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dpcape.analyses.description import LAW, REGRESSIONS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import CHOICE, OTHER, WHOLE, Parameter, check_number, check_whole, shown
from dpcape.analyses.regression import (
    INTERCEPT,
    class_rounds,
    count_rounds,
    linear_rounds,
    logistic_rounds,
    ratio_rounds,
    wrong_labels,
)
from dpcape.analyses.release import Refusal, Steps
from dpcape.analyses.scaling import SCALE
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts

FAMILIES = GAUSSIAN, LOGISTIC, POISSON, GAMMA, MULTINOMIAL = ("gaussian", "logistic", "poisson", "gamma", "multinomial")
LOGARITHMIC = (POISSON, GAMMA)
"""Families whose linear predictor is the logarithm of a mean."""
OF_CLASSES = (LOGISTIC, MULTINOMIAL)
"""Families of classes."""
_ROUNDS: dict[str, Callable[[Public], Steps]] = {
    GAUSSIAN: linear_rounds,
    LOGISTIC: logistic_rounds,
    POISSON: count_rounds,
    GAMMA: ratio_rounds,
    MULTINOMIAL: class_rounds,
}


def _schedule(p: Public) -> Steps:
    yield wrong_labels(p, classes=p.family in OF_CLASSES, several=p.family == MULTINOMIAL)
    many = "Labels for family='logistic' must have two classes; got {n_classes}. Write family='multinomial'."
    known = p.n_classes is not None
    yield Refusal(known and p.family == LOGISTIC and p.n_classes != 2, many, {"n_classes": p.n_classes})
    few = "Labels for family='multinomial' must have three or more classes; got {n_classes}. Write family='logistic'."
    yield Refusal(known and p.family == MULTINOMIAL and p.n_classes < 3, few, {"n_classes": p.n_classes})
    counts = f"The response of family={p.family!r} must have a public range that begins at 0; got {{low}}. "
    counts += "Build records with labelled(X, y, bound=..., response=(0, most))."
    low = 0.0 if p.facts is None or p.facts.response is None else p.facts.response[0]
    yield Refusal(p.family in LOGARITHMIC and low != 0, counts, {"low": low})
    level = f"fit_intercept must be True for family={p.family!r}, whose intercept is the level of the means; got False."
    yield Refusal(p.family in LOGARITHMIC and not p.fit_intercept, level)
    yield from _ROUNDS[p.family](p)


def _noise(p: Public, scales: Sequence[float]) -> float:
    # Rows with a constant of half the bound are at most sqrt(1.25) bounds long.
    square: float = 1.25 * p.bound**2
    return scales[-1] / square


def offset_place(facts: PublicFacts, offset: str | int) -> int:
    """Return the place of the column that is the offset, counted from 0."""
    if not isinstance(offset, str):
        return check_whole("offset", offset, 0, facts.n_features - 1)
    if offset not in facts.feature_names:
        names = ", ".join(facts.feature_names[:12]) or "no names: write the place of the column, counted from 0"
        raise InvalidParameter(f"offset must be a column of the features; got {shown(offset)}. There are {names}.")
    return facts.feature_names.index(offset)


def offset_unit(facts: PublicFacts, place: int) -> float:
    """Return the coefficient of the prepared column with which its original values enter the linear predictor."""
    if not facts.ranges:
        return 1.0
    found = facts.ranges[place]
    return (found.high - found.low) / (found.most - found.least)


def _refuse_offset(value: object, p: Public) -> None:
    if value is None:
        return
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise InvalidParameter(
            f"offset must be None, or name or place of a column of the features; got {shown(value)}. "
            "Write for example offset='log_years'."
        )
    if p.family == MULTINOMIAL:
        raise InvalidParameter(
            f"offset must be None for family='multinomial', whose classes would share it; got {shown(value)}."
        )
    offset_place(p.facts, value)
    if p.facts.n_features < 2:
        raise InvalidParameter("offset must leave at least one feature; got the only column. Add a feature.")
    if p.facts.preparation and not p.facts.ranges:
        raise InvalidParameter(
            f"offset must be one of columns that all have public ranges, or of columns that are read as they are; got "
            f"{shown(value)}. Give ranges for all columns."
        )


OFFSET = Parameter("offset", OTHER, None, optional=True, refuse=_refuse_offset)


def _refuse_ridge(value: object, p: Public) -> None:
    check_number("ridge", value, 0, math.inf)


RIDGE = Parameter("ridge", OTHER, 0.0, refuse=_refuse_ridge)


def _variant(family: str, labels: str, classes: int | None = None, options: tuple[str, ...] = ()) -> Variant:
    title = f"Generalised linear model, {family}"
    return Variant(f"{family}-model", title, options, {"family": family}, classes=classes, labels=labels)


GENERALIZED_LINEAR_MODEL = Analysis(
    name="generalized_linear_model",
    estimator="dpcape.estimators.generalized_linear_model:GeneralizedLinearModel",
    group=REGRESSIONS,
    place=3,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="response",
    parameters=(Parameter("family", CHOICE, words=FAMILIES), OFFSET, RIDGE, SCALE, INTERCEPT, CONFIDENCE),
    facts=(Parameter("n_classes", WHOLE, 3, 2, 1000, optional=True, title="Classes"),),
    schedule=_schedule,
    variants=(
        _variant(GAUSSIAN, "response"),
        _variant(LOGISTIC, "classes", 2),
        _variant(POISSON, "counts"),
        _variant(GAMMA, "counts"),
        _variant(MULTINOMIAL, "classes", 3, ("n_classes",)),
    ),
    measure=Noise("noise of the last release, against the largest squared length of a row", _noise),
    audit=(
        AuditCase("gaussian-model", {"family": GAUSSIAN}, "response", 3),
        AuditCase("logistic-model", {"family": LOGISTIC}, "two_classes", 3),
        AuditCase("poisson-model", {"family": POISSON}, "counts", 3),
        AuditCase("gamma-model", {"family": GAMMA}, "positive", 3),
        AuditCase("multinomial-model", {"family": MULTINOMIAL}, "three_classes", 3),
    ),
    law=LAW,
    reason="diameters of moments and of bounded scores with curvature are proved at the statistics",
    reference="docs/analyses/generalized_linear_model.md#privacy",
)
