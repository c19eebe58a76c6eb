"""Description of the mean."""

from __future__ import annotations

from collections.abc import Sequence

from dpcape.analyses.description import BOUND, COMPONENTS, LAW, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.footprint import OBJECT_BYTES
from dpcape.analyses.parameters import FLAG, OTHER, Parameter, check_confidence, check_flag
from dpcape.analyses.release import Steps
from dpcape.analyses.scaling import CLIP, clipping, scaled_release, scaling
from dpcape.core.errors import InvalidParameter
from dpcape.statistics.clipped_means import clipping_weight, weight_after_scaling

CONFIDENCE = Parameter("confidence", OTHER, 0.95, refuse=lambda value, public: check_confidence(value))


def _refuse_recentre(value: object, p: Public) -> None:
    check_flag("recentre", value)
    if value and p.clip is not None:
        must = "be False where clip is given, because it finds a length of its own"
        raise InvalidParameter("recentre", must, "True", "Leave one out.")
    if value and p.kind == "views":
        remedy = "Choose bounds."
        raise InvalidParameter("recentre", "be False for views, whose relative units it would change", "True", remedy)


def _schedule(p: Public) -> Steps:
    plan = yield from (scaling(p, wanted=True, keep_units=True) if p.recentre else clipping(p))
    weight = weight_after_scaling(p.facts) if plan.used else clipping_weight(p.facts)
    numbers = {"n_features": p.n_features, "bound": plan.bound, "clipping_weight": weight}
    yield from scaled_release(plan, "clipped_means", numbers)


def _noise(p: Public, scales: Sequence[float]) -> float:
    # After a release of lengths, rows are at most 1 long.
    as_given = (p.clip is None and not p.recentre) or len(scales) == 1
    return scales[-1] / (p.bound if as_given else 1.0)


MEAN = Analysis(
    name="mean",
    estimator="dpcape.estimators.mean:Mean",
    group=COMPONENTS,
    place=1,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(CONFIDENCE, CLIP, Parameter("recentre", FLAG, False, refuse=_refuse_recentre)),
    schedule=_schedule,
    results=lambda p, sizes: 2 * OBJECT_BYTES * p.n_features,
    variants=(Variant("mean", "Mean", yardstick=BOUND),),
    measure=Noise("noise of each entry of the mean, against the bound", _noise, "bound", is_error=True),
    audit=(
        AuditCase("mean", {}, "rows", 3),
        AuditCase("clipped-mean", {"clip": (0.9, 0.05)}, "rows", 3),
        AuditCase("recentred-mean", {"recentre": True}, "rows", 3),
    ),
    law=LAW,
    reason="the diameter of (x, x^2, what clipping took away) is proved at ClippedMeans",
    reference="docs/analyses/mean.md#privacy",
)
