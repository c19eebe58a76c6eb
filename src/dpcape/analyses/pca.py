"""Description of principal component analysis (PCA), plain and centred."""

from __future__ import annotations

from dpcape.analyses.description import COMPONENTS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.parameters import FLAG, WHOLE, Parameter
from dpcape.analyses.release import Refusal, Steps
from dpcape.analyses.scaling import CLIP, clipping, scaled_release, scaling

CENTER = Parameter("center", FLAG, False)
ANALYZE_GAUSS = "Dwork et al. 2014 (Analyze Gauss)"
ONE_MOMENT = (
    "one second moment, sensitivity sqrt(2) B^2 / N; if centred, mean and radius first, then mean and moment of the "
    "recentred rows jointly"
)


_ALREADY = (
    "clip must be None with center=True, which clips rows around their mean to a released radius; got a quantile. "
    "Leave clip out."
)


def _schedule(p: Public) -> Steps:
    if not p.center:
        plan = yield from clipping(p)
        yield from scaled_release(plan, "second_moment", {"n_features": p.n_features, "bound": plan.bound})
        return
    yield Refusal(p.clip is not None, _ALREADY)
    # Two views would be divided by a radius each, which changes their relative units.
    plan = yield from scaling(p, wanted=p.kind != "views", keep_units=True)
    yield from scaled_release(plan, "centred_moments", {"n_features": p.n_features, "bound": plan.bound})


PCA = Analysis(
    name="pca",
    estimator="dpcape.estimators.pca:PCA",
    group=COMPONENTS,
    place=2,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(
        Parameter(
            "n_components",
            WHOLE,
            least=1,
            most=lambda p: p.n_features,
            words=("auto",),
            planned=5,
            title="Components",
        ),
        CENTER,
        CLIP,
    ),
    schedule=_schedule,
    variants=(
        Variant("pca", "Principal components", ("n_components",), {"center": False}),
        Variant("centred-pca", "Principal components, centred", ("n_components",), {"center": True}),
    ),
    measure="energy_lost",
    sections=("spectrum", "components"),
    results=("eigenvalues", "loadings"),
    audit=(
        AuditCase("pca", {"n_components": 1}, "rows", 3),
        AuditCase("centred-pca", {"n_components": 1, "center": True}, "rows", 3),
        AuditCase("clipped-pca", {"n_components": 1, "clip": (0.9, 0.05)}, "rows", 3),
    ),
    standing=VERIFIED,
    reason=ONE_MOMENT,
    reference=ANALYZE_GAUSS,
)
