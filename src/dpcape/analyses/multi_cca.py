"""Description of canonical correlation analysis of several views (MultiCCA)."""

from __future__ import annotations

from dpcape.analyses.cca import moments_of_views
from dpcape.analyses.description import COMPONENTS, LAW, Analysis, AuditCase, Variant
from dpcape.analyses.parameters import WHOLE, Parameter
from dpcape.analyses.pca import ANALYZE_GAUSS
from dpcape.analyses.scaling import CENTER, SCALE

_REASON = (
    "one second moment of V views divided by their bounds, sensitivity sqrt(2) V / N; if centred or scaled, mean, "
    "scale and radius first, then mean and moment of the standardised views jointly"
)

MULTI_CCA = Analysis(
    name="multi_cca",
    estimator="dpcape.estimators.multi_cca:MultiCCA",
    group=COMPONENTS,
    place=4,
    kinds=frozenset({"views"}),
    records="views",
    parameters=(
        Parameter(
            "n_components",
            WHOLE,
            least=1,
            # What the other views can share with the widest; for two views the columns of the narrower.
            most=lambda p: p.n_features - p.widest,
            words=("auto",),
            planned=2,
            title="Components",
        ),
        CENTER,
        SCALE,
    ),
    schedule=moments_of_views,
    variants=(
        Variant(
            "multi-cca",
            "Canonical correlations of several views",
            ("n_components",),
            {"center": True, "scale": None},
        ),
        Variant(
            "uncentred-multi-cca",
            "Canonical correlations of several views, without centring",
            ("n_components",),
            {"center": False, "scale": None},
        ),
        Variant(
            "scaled-multi-cca",
            "Canonical correlations of several views, scaled privately",
            ("n_components",),
            {"center": True, "scale": "private"},
        ),
    ),
    measure="correlation_of_noise",
    audit=(
        AuditCase("multi-cca", {"n_components": 1}, "three_views", 6),
        AuditCase("uncentred-multi-cca", {"n_components": 1, "center": False}, "three_views", 6),
        AuditCase("scaled-multi-cca", {"n_components": 1, "scale": "private"}, "three_views", 6),
    ),
    law=LAW,
    reason=_REASON,
    reference=f"docs/analyses/multi_cca.md#privacy; {ANALYZE_GAUSS}",
)
