"""Description of generalised linear models."""

from __future__ import annotations

from dpcape.analyses.description import REGRESSIONS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import CHOICE, Parameter
from dpcape.analyses.regression import INTERCEPT, count_rounds, linear_rounds, logistic_rounds, wrong_labels
from dpcape.analyses.release import Refusal, Steps
from dpcape.analyses.scaling import SCALE

FAMILIES = GAUSSIAN, LOGISTIC, POISSON = ("gaussian", "logistic", "poisson")
_ROUNDS = {GAUSSIAN: linear_rounds, LOGISTIC: logistic_rounds, POISSON: count_rounds}


def _schedule(p: Public) -> Steps:
    yield wrong_labels(p, classes=p.family == LOGISTIC)
    many = "Labels for family='logistic' must have two classes; got {n_classes}. Merge classes by a public rule."
    yield Refusal(p.n_classes is not None and p.n_classes != 2, many, {"n_classes": p.n_classes})
    counts = "The response of family='poisson' must be a count, whose public range begins at 0; got {low}. "
    counts += "Build records with labelled(X, y, bound=..., response=(0, most))."
    low = 0.0 if p.facts is None or p.facts.response is None else p.facts.response[0]
    yield Refusal(p.family == POISSON and low != 0, counts, {"low": low})
    level = "fit_intercept must be True for family='poisson', whose intercept is the level of the rates; got False."
    yield Refusal(p.family == POISSON and not p.fit_intercept, level)
    yield from _ROUNDS[p.family](p)


def _variant(family: str, title: str, labels: str, classes: int | None = None) -> Variant:
    return Variant(f"{family}-model", title, (), {"family": family}, classes=classes, labels=labels)


GENERALIZED_LINEAR_MODEL = Analysis(
    name="generalized_linear_model",
    estimator="dpcape.estimators.generalized_linear_model:GeneralizedLinearModel",
    group=REGRESSIONS,
    place=3,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="response",
    parameters=(Parameter("family", CHOICE, words=FAMILIES), SCALE, INTERCEPT, CONFIDENCE),
    schedule=_schedule,
    variants=(
        _variant(GAUSSIAN, "Generalised linear model, gaussian", "response"),
        _variant(LOGISTIC, "Generalised linear model, logistic", "classes", 2),
        _variant(POISSON, "Generalised linear model, poisson", "counts"),
    ),
    measure="noise_of_scores",
    sections=("coefficients",),
    results=("coefficients",),
    audit=(
        AuditCase("gaussian-model", {"family": GAUSSIAN}, "response", 3),
        AuditCase("logistic-model", {"family": LOGISTIC}, "two_classes", 3),
        AuditCase("poisson-model", {"family": POISSON}, "counts", 3),
    ),
    standing=VERIFIED,
    reason="diameters of moments and of bounded scores with curvature are proved at the statistics",
    reference="docs/analyses/generalized_linear_model.md",
)
