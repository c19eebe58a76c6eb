"""Description of generalised linear models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from dpcape.analyses.description import LAW, REGRESSIONS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.footprint import directions_of_rounds
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import CHOICE, OTHER, WHOLE, Parameter, check_number, check_whole, shown
from dpcape.analyses.regression import (
    INTERCEPT,
    class_rounds,
    linear_rounds,
    logistic_rounds,
    rate_rounds,
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
    POISSON: partial(rate_rounds, statistic="count_scores"),
    GAMMA: partial(rate_rounds, statistic="ratio_scores"),
    MULTINOMIAL: class_rounds,
}


def _schedule(p: Public) -> Steps:
    yield wrong_labels(p, classes=p.family in OF_CLASSES, several=p.family == MULTINOMIAL)
    subject = "Labels for family='logistic'"
    many = InvalidParameter(subject, "have two classes", "{n_classes}", "Write family='multinomial'.")
    known = p.n_classes is not None
    yield Refusal(known and p.family == LOGISTIC and p.n_classes != 2, many, {"n_classes": p.n_classes})
    subject = "Labels for family='multinomial'"
    few = InvalidParameter(subject, "have three or more classes", "{n_classes}", "Write family='logistic'.")
    yield Refusal(known and p.family == MULTINOMIAL and p.n_classes < 3, few, {"n_classes": p.n_classes})
    must = "have a public range that begins at 0"
    remedy = "Build records with labelled(X, y, bound=..., response=(0, most))."
    counts = InvalidParameter(f"The response of family={p.family!r}", must, "{low}", remedy)
    low = 0.0 if p.facts is None or p.facts.response is None else p.facts.response[0]
    yield Refusal(p.family in LOGARITHMIC and low != 0, counts, {"low": low})
    level = InvalidParameter(
        "fit_intercept", f"be True for family={p.family!r}, whose intercept is the level of the means", "False"
    )
    yield Refusal(p.family in LOGARITHMIC and not p.fit_intercept, level)
    yield from _ROUNDS[p.family](p)


def _noise(p: Public, scales: Sequence[float]) -> float:
    # Rows with a constant of half the bound are at most sqrt(1.25) bounds long.
    square: float = 1.25 * p.bound**2
    return scales[-1] / square


def offset_position(facts: PublicFacts, offset: str | int) -> int:
    """Return the position of the column that is the offset, counted from 0."""
    if not isinstance(offset, str):
        return check_whole("offset", offset, 0, facts.n_features - 1)
    if offset not in facts.feature_names:
        names = ", ".join(facts.feature_names[:12]) or "no names: write the place of the column, counted from 0"
        raise InvalidParameter("offset", "be a column of the features", shown(offset), f"There are {names}.")
    return facts.feature_names.index(offset)


def offset_unit(facts: PublicFacts, position: int) -> float:
    """Return the coefficient of the prepared column with which its original values enter the linear predictor."""
    if not facts.ranges:
        return 1.0
    public_range = facts.ranges[position]
    return (public_range.high - public_range.low) / (public_range.most - public_range.least)


def _refuse_offset(value: object, p: Public) -> None:
    if value is None:
        return
    if not isinstance(value, str | int) or isinstance(value, bool):
        remedy = "Write for example offset='log_years'."
        raise InvalidParameter("offset", "be None, or name or place of a column of the features", shown(value), remedy)
    if p.family == MULTINOMIAL:
        raise InvalidParameter("offset", "be None for family='multinomial', whose classes would share it", shown(value))
    offset_position(p.facts, value)
    if p.facts.n_features < 2:
        raise InvalidParameter("offset", "leave at least one feature", "the only column", "Add a feature.")
    if p.facts.preparation and not p.facts.ranges:
        must = "be one of columns that all have public ranges, or of columns that are read as they are"
        raise InvalidParameter("offset", must, shown(value), "Give ranges for all columns.")


OFFSET = Parameter("offset", OTHER, None, optional=True, refuse=_refuse_offset)


RIDGE = Parameter("ridge", OTHER, 0.0, refuse=lambda value, public: check_number("ridge", value, 0, math.inf))


def _variant(family: str, labels: str, classes: int | None = None, options: tuple[str, ...] = ()) -> Variant:
    title = f"Generalised linear model, {family}"
    return Variant(f"{family}-model", title, options, {"family": family}, classes=classes, labels=labels)


GENERALIZED_LINEAR_MODEL = Analysis(
    name="generalized_linear_model",
    estimator="dpcape.estimators.linear.generalized_linear_model:GeneralizedLinearModel",
    group=REGRESSIONS,
    place=3,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="response",
    parameters=(Parameter("family", CHOICE, words=FAMILIES), OFFSET, RIDGE, SCALE, INTERCEPT, CONFIDENCE),
    facts=(Parameter("n_classes", WHOLE, 3, 2, 1000, optional=True, title="Classes"),),
    schedule=_schedule,
    workspace=directions_of_rounds,
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
