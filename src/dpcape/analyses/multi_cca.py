"""Description of canonical correlation analysis of several views (MultiCCA)."""

from __future__ import annotations

from dpcape.analyses.cca import moments_of_views
from dpcape.analyses.description import COMPONENTS, LAW, Analysis, AuditCase, Variant
from dpcape.analyses.parameters import n_components
from dpcape.analyses.pca import ANALYZE_GAUSS
from dpcape.analyses.scaling import CENTER, SCALE

_REASON = (
    "one second moment of V views divided by their bounds, sensitivity sqrt(2) V / N; if centred or scaled, mean, "
    "scale and radius first, then mean and moment of the standardised views jointly"
)
_TITLE, _OPTIONS = "Canonical correlations of several views", ("n_components",)

MULTI_CCA = Analysis(
    name="multi_cca",
    estimator="dpcape.estimators.views.multi_cca:MultiCCA",
    group=COMPONENTS,
    place=4,
    kinds=frozenset({"views"}),
    records="views",
    parameters=(
        # What the other views can share with the widest; for two views the columns of the narrower.
        n_components(lambda p: p.n_features - p.widest, planned=2),
        CENTER,
        SCALE,
    ),
    schedule=moments_of_views,
    # Draws that tell components from noise are made a few at a time.
    results=lambda p, sizes: 3 * 2.0**23,
    variants=(
        Variant("multi-cca", _TITLE, _OPTIONS, {"center": True, "scale": None}),
        Variant("uncentred-multi-cca", f"{_TITLE}, without centring", _OPTIONS, {"center": False, "scale": None}),
        Variant("scaled-multi-cca", f"{_TITLE}, scaled privately", _OPTIONS, {"center": True, "scale": "private"}),
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
