"""Description of the mean."""

from __future__ import annotations

from dpcape.analyses.description import BOUND, COMPONENTS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.parameters import OTHER, Parameter, check_confidence
from dpcape.analyses.release import Release, Steps
from dpcape.statistics.clipped_means import clipping_weight

CONFIDENCE = Parameter("confidence", OTHER, 0.95, refuse=lambda value, public: check_confidence(value))


def _schedule(p: Public) -> Steps:
    weight = clipping_weight(p.facts)
    yield Release("clipped_means", {"n_features": p.n_features, "bound": p.bound, "clipping_weight": weight})


MEAN = Analysis(
    name="mean",
    estimator="dpcape.estimators.mean:Mean",
    group=COMPONENTS,
    place=1,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(CONFIDENCE,),
    schedule=_schedule,
    variants=(Variant("mean", "Mean", yardstick=BOUND),),
    measure="noise_of_mean",
    sections=("means",),
    audit=(AuditCase("mean", {}, "rows", 3),),
    standing=VERIFIED,
    reason="the diameter of (x, x^2, what clipping took away) is proved at ClippedMeans",
    reference="docs/analyses",
)
