"""Description of the classifier with one hidden layer, trained by clipped gradients."""

from __future__ import annotations

from dpcape.analyses.description import CLIP, REGRESSIONS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.kmeans import EVERY_ROUND, SEED
from dpcape.analyses.parameters import POSITIVE, WHOLE, Parameter
from dpcape.analyses.release import Refusal, Release, Steps
from dpcape.formula import choose


def _schedule(p: Public) -> Steps:
    text = (
        f"Records for a classifier must be labelled with classes; got {p.kind!r} without classes. "
        "Build them with labelled(X, y, bound=..., classes=[...])."
    )
    yield Refusal(p.n_classes is None, text)
    numbers = {
        "n_features": p.n_features,
        "n_hidden": p.n_hidden,
        "n_outputs": choose(p.n_classes == 2, 1, p.n_classes),
        "clip": p.clip,
    }
    yield Release("network_gradient", numbers, 1 / p.n_iter, p.n_iter)


NETWORK_CLASSIFIER = Analysis(
    name="network_classifier",
    estimator="dpcape.estimators.network_classifier:NetworkClassifier",
    group=REGRESSIONS,
    place=4,
    kinds=frozenset({"labelled"}),
    records="labelled",
    labels="classes",
    parameters=(
        Parameter("n_hidden", WHOLE, 20, 1, 10**6, title="Hidden units"),
        Parameter("n_iter", WHOLE, 20, 1, 10**6, title="Rounds"),
        Parameter("clip", POSITIVE, 1.0, title="Clip of a gradient"),
        Parameter("learning_rate", POSITIVE, 2.5),
        SEED,
    ),
    facts=(Parameter("n_classes", WHOLE, 2, 2, 10**9, optional=True, title="Classes"),),
    schedule=_schedule,
    variants=(
        Variant(
            "network-classifier", "Network classifier", ("n_hidden", "n_iter", "clip", "n_classes"), yardstick=CLIP
        ),
    ),
    measure="noise_of_gradients",
    sections=("hidden_units",),
    audit=(AuditCase("network-classifier", {"n_hidden": 3, "n_iter": 3}, "two_classes", 3),),
    standing=VERIFIED,
    reason=EVERY_ROUND,
    reference="docs/analyses/regression.md",
)
