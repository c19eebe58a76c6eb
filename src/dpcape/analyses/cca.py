"""Description of canonical correlation analysis (CCA)."""

from __future__ import annotations

from dpcape.analyses.description import COMPONENTS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.parameters import WHOLE, Parameter
from dpcape.analyses.pca import ANALYZE_GAUSS, CENTER
from dpcape.analyses.release import Release, Steps
from dpcape.analyses.scaling import SCALE, scaling, standardising
from dpcape.formula import Number, sqrt

_REASON = (
    "one second moment of views divided by their bounds, sensitivity sqrt(8) / N; if centred or scaled, mean, scale "
    "and radius first, then mean and moment of the standardised views jointly"
)


def moments_of_views(p: Public) -> Steps:
    """Yield the releases of the moments of views that are divided by their bounds, or standardised privately."""
    # Each view is divided by its bound, or by its radius, and is at most 1 long.
    numbers: dict[str, Number | None] = {"n_features": p.n_features, "bound": sqrt(p.n_views)}
    is_scaled = p.scale == "private"
    if not p.center and not is_scaled:
        yield Release("scaled_second_moment", numbers)
        return
    plan = yield from standardising(p) if is_scaled else scaling(p, wanted=True, keep_units=True)
    yield Release("scaled_centred_moments", numbers, plan.left)


CCA = Analysis(
    name="cca",
    estimator="dpcape.estimators.cca:CCA",
    group=COMPONENTS,
    place=3,
    kinds=frozenset({"views"}),
    records="views",
    most_views=2,
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
        SCALE,
    ),
    schedule=moments_of_views,
    variants=(
        Variant("cca", "Canonical correlations", ("n_components",), {"center": False, "scale": None}),
        Variant("centred-cca", "Canonical correlations, centred", ("n_components",), {"center": True, "scale": None}),
        Variant(
            "scaled-cca",
            "Canonical correlations, scaled privately",
            ("n_components",),
            {"center": True, "scale": "private"},
        ),
    ),
    measure="correlation_of_noise",
    sections=("correlations", "x_directions", "y_directions"),
    audit=(
        AuditCase("cca", {"n_components": 1}, "views", 4),
        AuditCase("centred-cca", {"n_components": 1, "center": True}, "views", 4),
        AuditCase("scaled-cca", {"n_components": 1, "scale": "private"}, "views", 4),
    ),
    standing=VERIFIED,
    reason=_REASON,
    reference=ANALYZE_GAUSS,
)
