"""Descriptions of linear and logistic regression: for inference or prediction, with or without private scaling."""

from __future__ import annotations

import math

from dpcape.analyses.description import LAW, REGRESSIONS, Analysis, AuditCase, Public, Variant
from dpcape.analyses.footprint import directions_of_rounds
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import CHOICE, FLAG, OTHER, WHOLE, Parameter, check_number, shown
from dpcape.analyses.release import Refusal, Release, Steps
from dpcape.analyses.scaling import SCALE, ScalingPlan, only, scaled_release, scaling
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.regression_rounds import SPREAD_CLIP, n_coefficients

PURPOSES = INFERENCE, PREDICTION = ("inference", "prediction")
PURPOSE = Parameter("purpose", CHOICE, INFERENCE, words=PURPOSES)
INTERCEPT = Parameter("fit_intercept", FLAG, True, title="With an intercept")
N_ITER = Parameter("n_iter", WHOLE, 24, 0, 10_000, title="Rounds of a prediction")
JOINT_DEGREES = (
    "all degrees in one release with the joint sensitivity; scores and gradients clipped, every round counted"
)
START_SHARE = 0.3
"""Share of mu^2 of the moment from which a prediction starts."""
SPREAD_SHARE = 0.1
"""Share of mu^2 of the spread of residuals, where it is released."""
MOST_SPREAD_NOISE = 0.5
"""With more noise than this the spread of residuals is assumed, not released."""
LOGISTIC_SHARES = (0.1, 0.15, 0.2, 0.55)
"""Shares of mu^2 of the rounds of scores and curvature."""
RATE_START = 0.1
"""Share of mu^2 of the moment from which a regression of counts or of positive responses starts."""
RATE_SHARES = (0.1, 0.2, 0.6)
"""Shares of mu^2 of its rounds of scores."""
AVERAGED = 1 / 3
"""Share of the rounds of a prediction whose coefficients are averaged."""
LARGEST_UNIT = 10.0
"""Residuals of a response are clipped at 0.1 times their unit, from 1 to this, in half ranges of the response."""
UNIT_NOISE = 0.0125
"""Noise, in half ranges of the response, up to which a prediction may clip farther out."""


def residual_unit(noise: float) -> float:
    """Return the unit of residuals that the noise of a prediction at unit 1 allows.

    The farther out residuals are clipped, the smaller the bias by heavy tails and the larger the noise. Clipping
    goes as far out as leaves noise of 1.25% of the half range of the response.
    """
    return min(max(UNIT_NOISE / max(noise, 1e-300), 1.0), LARGEST_UNIT)


LOGISTIC_UNITS = (2.0, 16.0)
"""Smallest and largest unit of the residuals of labels, which are clipped at 0.1 times it."""
LOGISTIC_NOISE = 0.1
"""Noise of all log-odds together, in the mean of squares, up to which residuals may be clipped farther out."""


def logistic_unit(noise: float) -> float:
    """Return the unit of the residuals of labels that the noise of a prediction at unit 1 allows.

    The limits were chosen on simulated data (experiments/regression/logistic.py).
    """
    smallest, largest = LOGISTIC_UNITS
    return min(max(LOGISTIC_NOISE / max(noise, 1e-300), smallest), largest)


def _refuse_ridge(value: object, p: Public) -> None:
    ridge = check_number("ridge", value, 0, math.inf)
    if ridge > 0 and p.purpose == INFERENCE:
        must = "be 0 for purpose='inference', whose coefficients are not shrunken"
        raise InvalidParameter("ridge", must, shown(value), "Write purpose='prediction', or read shrunken_coef_.")


RIDGE = Parameter("ridge", OTHER, 0.0, refuse=_refuse_ridge)


def spread_released(p: Public, plan: ScalingPlan) -> bool:
    """Return whether the spread of residuals is released: where its noise, by public numbers, is small enough."""
    clip = SPREAD_CLIP * math.sqrt(n_coefficients(p.n_features, p.fit_intercept))
    noise: float = math.sqrt(2) * clip / (p.mu * p.n_records * math.sqrt(SPREAD_SHARE * plan.left))
    return noise <= MOST_SPREAD_NOISE


def _numbers(p: Public, plan: ScalingPlan) -> dict[str, float | None]:
    return {"n_features": p.n_features, "bound": plan.bound, "intercept": p.fit_intercept}


def _predicted(p: Public) -> Steps:
    """Yield the releases of a prediction: one moment, then gradients; without rounds and unscaled the moment alone."""
    once = p.n_iter == 0
    alone = p.scale is None and once
    numbers = {"n_features": p.n_features, "bound": p.bound, "intercept": p.fit_intercept}
    yield Release("regression_moment", numbers, when=alone)
    plan = yield from scaling(p)
    start = scaled_release(plan, "weighted_regression_moment", _numbers(p, plan), (1.0 if once else START_SHARE))
    yield from only(start, not alone)
    each = 0.0 if once else (1 - START_SHARE) / p.n_iter
    yield from only(scaled_release(plan, "residual_gradient", _numbers(p, plan), each, p.n_iter), not once)


def _linear(p: Public) -> Steps:
    yield wrong_labels(p, classes=False)
    yield from _predicted(p) if p.purpose == PREDICTION else linear_rounds(p)


def linear_rounds(p: Public) -> Steps:
    """Yield the releases of a linear regression for inference."""
    plan = yield from scaling(p)
    released, numbers = spread_released(p, plan), _numbers(p, plan)
    share = 1 - SPREAD_SHARE if released else 1.0
    yield from scaled_release(plan, "weighted_regression_moment", numbers, share)
    yield from only(scaled_release(plan, "residual_spread", numbers, SPREAD_SHARE), released)


def _logistic(p: Public) -> Steps:
    yield wrong_labels(p, classes=True)
    remedy = "Merge classes by a public rule, or use NetworkClassifier."
    many = InvalidParameter("Labels for logistic regression", "have two classes", "{n_classes}", remedy)
    yield Refusal(p.n_classes is not None and p.n_classes != 2, many, {"n_classes": p.n_classes})
    yield from _predicted(p) if p.purpose == PREDICTION else logistic_rounds(p)


def logistic_rounds(p: Public) -> Steps:
    """Yield the releases of a logistic regression for inference."""
    plan = yield from scaling(p)
    for share in LOGISTIC_SHARES:
        yield from scaled_release(plan, "logistic_scores", _numbers(p, plan), share)


def rate_rounds(p: Public, statistic: str) -> Steps:
    """Yield the releases of a regression of counts or of positive responses for inference.

    A moment to start from, then rounds of scores and curvature, which ``statistic`` names.
    """
    plan = yield from scaling(p)
    yield from scaled_release(plan, "weighted_regression_moment", _numbers(p, plan), RATE_START)
    for share in RATE_SHARES:
        yield from scaled_release(plan, statistic, _numbers(p, plan), share)


def class_rounds(p: Public) -> Steps:
    """Yield the releases of a regression of several classes for inference."""
    plan = yield from scaling(p)
    numbers = {**_numbers(p, plan), "n_classes": p.n_classes}
    for share in LOGISTIC_SHARES:
        yield from scaled_release(plan, "class_scores", numbers, share)


def wrong_labels(p: Public, *, classes: bool, several: bool = False) -> Refusal:
    """Return a refusal of records without the kind of label that the regression needs."""
    wanted = "classes=[first, second]" if classes else "response=(low, high)"
    named = "classes" if several else "two classes"
    got = p.kind if p.kind != "labelled" else "classes" if p.n_classes is not None else "a numeric response"
    subject, remedy = "Records for this regression", f"Build them with labelled(X, y, bound=..., {wanted})."
    text = InvalidParameter(subject, f"be labelled with {named if classes else 'a numeric response'}", got, remedy)
    return Refusal(p.kind != "labelled" or (p.n_classes is not None) != classes, text)


def _refuse_rescale(value: object, p: Public) -> None:
    if not isinstance(value, bool | str) or value not in ("auto", True, False):
        raise InvalidParameter("rescale", "be 'auto', True or False", shown(value))


def _refuse_effect_bound(value: object, p: Public) -> None:
    if value is not None and not check_number("effect_bound", value, 0, math.inf) > 0:
        raise InvalidParameter("effect_bound", "be positive, or None for no bound", shown(value))


EFFECT_BOUND = Parameter("effect_bound", OTHER, 3.0, refuse=_refuse_effect_bound)


def _variants(name: str, title: str, classes: int | None = None) -> tuple[Variant, ...]:
    """Return the variants that can be planned: for inference, with private scaling, and for prediction."""
    one = ("fit_intercept",)
    return (
        Variant(name, title, one, classes=classes),
        Variant(f"{name}-scaled", f"{title}, private scaling", one, {"scale": "private"}, classes=classes),
        Variant(
            f"{name}-prediction", f"{title} for prediction", (*one, "n_iter"), {"purpose": PREDICTION}, classes=classes
        ),
    )


LINEAR_REGRESSION = Analysis(
    name="linear_regression",
    estimator="dpcape.estimators.linear.linear_regression:LinearRegression",
    group=REGRESSIONS,
    place=1,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="response",
    parameters=(PURPOSE, SCALE, INTERCEPT, RIDGE, CONFIDENCE, EFFECT_BOUND, N_ITER),
    schedule=_linear,
    workspace=directions_of_rounds,
    variants=_variants("linear-regression", "Linear regression"),
    measure="variance_lost",
    audit=(
        AuditCase("linear-regression", {}, "response", 3),
        AuditCase("linear-regression-prediction", {"purpose": PREDICTION, "n_iter": 3}, "response", 3),
    ),
    law=LAW,
    reason=JOINT_DEGREES,
    reference="docs/analyses/regression.md#privacy",
)

LOGISTIC_REGRESSION = Analysis(
    name="logistic_regression",
    estimator="dpcape.estimators.linear.logistic_regression:LogisticRegression",
    group=REGRESSIONS,
    place=2,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="classes",
    parameters=(
        PURPOSE,
        SCALE,
        INTERCEPT,
        RIDGE,
        Parameter("rescale", OTHER, "auto", refuse=_refuse_rescale),
        CONFIDENCE,
        N_ITER,
    ),
    schedule=_logistic,
    workspace=directions_of_rounds,
    variants=_variants("logistic-regression", "Logistic regression", 2),
    measure="variance_lost",
    audit=(
        AuditCase("logistic-regression", {}, "two_classes", 3),
        AuditCase("logistic-regression-prediction", {"purpose": PREDICTION, "n_iter": 3}, "two_classes", 3),
    ),
    law=LAW,
    reason=JOINT_DEGREES,
    reference="docs/analyses/regression.md#privacy",
)
