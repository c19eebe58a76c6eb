"""Description of principal component analysis (PCA), plain and centred."""

from __future__ import annotations

from dpcape.analyses.description import COMPONENTS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.parameters import FLAG, WHOLE, Parameter
from dpcape.analyses.release import Release, Steps

CENTER = Parameter("center", FLAG, False)
ANALYZE_GAUSS = "Dwork et al. 2014 (Analyze Gauss)"
ONE_MOMENT = "one second moment, sensitivity sqrt(2) B^2 / N; if centred, mean and moment jointly"


def moments(p: Public) -> Steps:
    """Yield the release of the second moment; if centred, of mean and second moment."""
    name = "centred_moments" if p.center else "second_moment"
    yield Release(name, {"n_features": p.n_features, "bound": p.bound})


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
    ),
    schedule=moments,
    variants=(
        Variant("pca", "Principal components", ("n_components",), {"center": False}),
        Variant("centred-pca", "Principal components, centred", ("n_components",), {"center": True}),
    ),
    measure="energy_lost",
    sections=("spectrum", "components"),
    audit=(
        AuditCase("pca", {"n_components": 1}, "rows", 3),
        AuditCase("centred-pca", {"n_components": 1, "center": True}, "rows", 3),
    ),
    standing=VERIFIED,
    reason=ONE_MOMENT,
    reference=ANALYZE_GAUSS,
)
