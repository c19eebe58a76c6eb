"""Description of the classifier with no, one or several hidden layers, trained by clipped gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcape.analyses.description import CLIP, LAW, REGRESSIONS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.footprint import sent_weights
from dpcape.analyses.kmeans import EVERY_ROUND, SEED
from dpcape.analyses.parameters import (
    NUMBER,
    OTHER,
    POSITIVE,
    WHOLE,
    CodeNames,
    Parameter,
    check_number,
    check_whole,
    shown,
)
from dpcape.analyses.release import Refusal, Release, Steps
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.feature_maps import feature_map, n_inputs, own_maps
from dpcape.statistics.gradients import MOST_LAYERS, MOST_UNITS, n_weights


def without_classes(p: Public) -> Refusal:
    """Return a refusal of records that are not labelled with classes."""
    remedy = "Build them with labelled(X, y, bound=..., classes=[...])."
    got = f"{p.kind!r} without classes"
    error = InvalidParameter("Records for a classifier", "be labelled with classes", got, remedy)
    return Refusal(p.n_classes is None, error)


def _schedule(p: Public) -> Steps:
    yield without_classes(p)
    inputs = p.n_features if p.features is None else n_inputs(p.features, p.n_features)
    outputs = 1 if p.n_classes == 2 else p.n_classes
    rests_on = "" if p.features is None else feature_map(p.features).assumption
    if isinstance(p.n_hidden, Sequence) and len(p.n_hidden) > 1:
        widths = (inputs, *p.n_hidden, outputs)
        deep = {"size": n_weights(widths), "n_units": sum(widths), "clip": p.clip}
        yield Release("deep_gradient", deep, 1 / p.n_iter, p.n_iter, assumption=rests_on)
        return
    n_hidden = p.n_hidden[0] if isinstance(p.n_hidden, Sequence) else p.n_hidden
    numbers = {"n_features": inputs, "n_outputs": outputs, "clip": p.clip}
    linear = n_hidden == 0
    yield Release("linear_gradient", numbers, 1 / p.n_iter, p.n_iter, when=linear, assumption=rests_on)
    hidden = numbers | {"n_hidden": n_hidden}
    yield Release("network_gradient", hidden, 1 / p.n_iter, p.n_iter, when=not linear, assumption=rests_on)


def _noise(p: Public, scales: Sequence[float]) -> float:
    inputs = p.n_features if p.features is None else n_inputs(p.features, p.n_features)
    hidden = p.n_hidden if isinstance(p.n_hidden, Sequence) else [] if p.n_hidden == 0 else [p.n_hidden]
    widths = (inputs, *hidden, 1 if p.n_classes == 2 else p.n_classes)
    spread: float = math.sqrt(n_weights(widths)) / p.clip
    return scales[0] * spread


def hidden_widths(n_hidden: int | Sequence[int]) -> tuple[int, ...]:
    """Return the units of each hidden layer, from the first to the last; none for a linear classifier."""
    if isinstance(n_hidden, Sequence):
        return tuple(int(width) for width in n_hidden)
    return (int(n_hidden),) if n_hidden else ()


def _refuse_hidden(value: object, p: Public) -> None:
    if not isinstance(value, list | tuple):
        check_whole("n_hidden", value, 0, MOST_UNITS)
        return
    if not 1 <= len(value) <= MOST_LAYERS:
        must = f"be a whole number, or from 1 to {MOST_LAYERS} of them, one per hidden layer"
        raise InvalidParameter("n_hidden", must, shown(value), "Write for example 20, or (40, 20).")
    for width in value:
        check_whole("Each entry of n_hidden", width, 1, MOST_UNITS)


def refuse_momentum(value: object, p: Public) -> None:
    """Refuse a momentum that is neither None nor from 0 to 0.999."""
    if value is not None:
        check_number("momentum", value, 0.0, 0.999)


def _refuse_features(value: object, p: Public) -> None:
    if value is None:
        return
    if not isinstance(value, str) or not value:
        remedy = "Write for example 'hog'."
        raise InvalidParameter("features", "be None or the name of a feature map", shown(value), remedy)
    n_inputs(value, p.n_features)


NETWORK_CLASSIFIER = Analysis(
    name="network_classifier",
    estimator="dpcape.estimators.networks.network_classifier:NetworkClassifier",
    group=REGRESSIONS,
    place=4,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="classes",
    parameters=(
        Parameter("n_hidden", WHOLE, 20, 0, MOST_UNITS, title="Hidden units", refuse=_refuse_hidden),
        Parameter("n_iter", WHOLE, 60, 1, 10**6, title="Rounds"),
        Parameter("clip", POSITIVE, 1.0, title="Clip of a gradient"),
        Parameter("learning_rate", POSITIVE, None, optional=True),
        Parameter("momentum", NUMBER, None, optional=True, refuse=refuse_momentum),
        Parameter(
            "features",
            OTHER,
            None,
            optional=True,
            refuse=_refuse_features,
            code=CodeNames("dpcape.feature_maps", own_maps),
        ),
        SEED,
    ),
    facts=(Parameter("n_classes", WHOLE, 2, 2, 10**9, optional=True, title="Classes"),),
    schedule=_schedule,
    workspace=sent_weights,
    variants=(
        Variant(
            "network-classifier", "Network classifier", ("n_hidden", "n_iter", "clip", "n_classes"), yardstick=CLIP
        ),
    ),
    measure=Noise("length of the noise in each gradient, against the clip", _noise),
    audit=(
        AuditCase("network-classifier", {"n_hidden": 3, "n_iter": 3}, "two_classes", 3),
        # A clip that gradients reach within a few rounds; a longer one would leave part of the sensitivity unused.
        AuditCase("deep-classifier", {"n_hidden": [3, 2], "n_iter": 3, "clip": 0.4}, "two_classes", 3),
        AuditCase("linear-classifier", {"n_hidden": 0, "n_iter": 3, "clip": 0.4}, "two_classes", 3),
    ),
    law=LAW,
    reason=EVERY_ROUND,
    reference="docs/analyses/network.md#privacy",
)
