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
    if p.center or p.scale == "private":
        yield from centred_moments_of_views(p)
    else:
        yield Release("scaled_second_moment", _numbers(p))


def centred_moments_of_views(p: Public) -> Steps:
    """Yield the releases of the mean and second moment of views that are recentred, or standardised, privately."""
    plan = yield from standardising(p) if p.scale == "private" else scaling(p, wanted=True, keep_units=True)
    yield Release("scaled_centred_moments", _numbers(p), plan.left)


def _numbers(p: Public) -> dict[str, Number | None]:
    # Each view is divided by its bound, or by its radius, and is at most 1 long.
    return {"n_features": p.n_features, "bound": sqrt(p.n_views)}


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
    results=("canonical_correlations", "x_weights", "y_weights"),
    audit=(
        AuditCase("cca", {"n_components": 1}, "views", 4),
        AuditCase("centred-cca", {"n_components": 1, "center": True}, "views", 4),
        AuditCase("scaled-cca", {"n_components": 1, "scale": "private"}, "views", 4),
    ),
    standing=VERIFIED,
    reason=_REASON,
    reference=ANALYZE_GAUSS,
)
