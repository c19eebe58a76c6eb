"""Description of canonical correlation analysis (CCA)."""

from __future__ import annotations

from dpcape.analyses.description import COMPONENTS, VERIFIED, Analysis, AuditCase, Variant
from dpcape.analyses.parameters import WHOLE, Parameter
from dpcape.analyses.pca import ANALYZE_GAUSS, CENTER, ONE_MOMENT, moments

CCA = Analysis(
    name="cca",
    estimator="dpcape.estimators.cca:CCA",
    group=COMPONENTS,
    place=3,
    kinds=frozenset({"views"}),
    records="views",
    parameters=(
        Parameter(
            "n_components",
            WHOLE,
            least=1,
            most=lambda p: p.narrowest,
            words=("auto",),
            planned=2,
            title="Components",
        ),
        CENTER,
    ),
    schedule=moments,
    variants=(
        Variant("cca", "Canonical correlations", ("n_components",), {"center": False}),
        Variant("centred-cca", "Canonical correlations, centred", ("n_components",), {"center": True}),
    ),
    measure="correlation_of_noise",
    sections=("correlations", "x_directions", "y_directions"),
    audit=(AuditCase("cca", {"n_components": 1}, "views", 4),),
    standing=VERIFIED,
    reason=ONE_MOMENT,
    reference=ANALYZE_GAUSS,
)
