"""Descriptions of linear and logistic regression: one joint moment of features, response and intercept."""

from __future__ import annotations

import math

from dpcape.analyses.description import REGRESSIONS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import FLAG, NUMBER, OTHER, Parameter, shown
from dpcape.analyses.release import Refusal, Release, Steps
from dpcape.errors import InvalidParameter

INTERCEPT = Parameter("fit_intercept", FLAG, True, title="With an intercept")
RIDGE = Parameter("ridge", NUMBER, 0.0, 0, math.inf)
JOINT_DEGREES = "all degrees in one release with the joint sensitivity"


def _schedule(p: Public) -> Steps:
    numbers = {"n_features": p.n_features, "bound": p.bound, "intercept": p.fit_intercept}
    yield Release("regression_moment", numbers)


def _linear(p: Public) -> Steps:
    yield _wrong_labels(p, classes=False)
    yield from _schedule(p)


def _logistic(p: Public) -> Steps:
    yield _wrong_labels(p, classes=True)
    many = "Labels for logistic regression must have two classes; got {n_classes}. "
    many += "Merge classes by a public rule, or use NetworkClassifier."
    yield Refusal(p.n_classes is not None and p.n_classes != 2, many, {"n_classes": p.n_classes})
    yield from _schedule(p)


def _wrong_labels(p: Public, *, classes: bool) -> Refusal:
    """Return a refusal of records without the kind of label that the regression needs."""
    wanted = "classes=[first, second]" if classes else "response=(low, high)"
    got = p.kind if p.kind != "labelled" else "classes" if p.n_classes is not None else "a numeric response"
    text = (
        f"Records for this regression must be labelled with {'two classes' if classes else 'a numeric response'}; "
        f"got {got}. Build them with labelled(X, y, bound=..., {wanted})."
    )
    return Refusal(p.kind != "labelled" or (p.n_classes is not None) != classes, text)


def _refuse_rescale(value: object, p: Public) -> None:
    if not isinstance(value, bool | str) or value not in ("auto", True, False):
        raise InvalidParameter(f"rescale must be 'auto', True or False; got {shown(value)}.")


LINEAR_REGRESSION = Analysis(
    name="linear_regression",
    estimator="dpcape.estimators.linear_regression:LinearRegression",
    group=REGRESSIONS,
    place=1,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="response",
    parameters=(INTERCEPT, RIDGE, CONFIDENCE),
    schedule=_linear,
    variants=(Variant("linear-regression", "Linear regression", ("fit_intercept",)),),
    measure="variance_lost",
    sections=("coefficients",),
    audit=(AuditCase("linear-regression", {}, "response", 3),),
    standing=VERIFIED,
    reason=JOINT_DEGREES,
    reference="docs/analyses/regression.md",
)

LOGISTIC_REGRESSION = Analysis(
    name="logistic_regression",
    estimator="dpcape.estimators.logistic_regression:LogisticRegression",
    group=REGRESSIONS,
    place=2,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="classes",
    parameters=(
        INTERCEPT,
        RIDGE,
        Parameter("rescale", OTHER, "auto", refuse=_refuse_rescale),
        CONFIDENCE,
    ),
    schedule=_logistic,
    variants=(Variant("logistic-regression", "Logistic regression", ("fit_intercept",), classes=2),),
    measure="variance_lost",
    sections=("coefficients",),
    audit=(AuditCase("logistic-regression", {}, "two_classes", 3),),
    standing=VERIFIED,
    reason=JOINT_DEGREES,
    reference="docs/analyses/regression.md",
)
