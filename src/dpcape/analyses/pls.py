"""Description of partial least squares of two views (PLS)."""

from __future__ import annotations

from dpcape.analyses.cca import bytes_of_draws, moments_of_views
from dpcape.analyses.description import COMPONENTS, LAW, Analysis, AuditCase, Variant
from dpcape.analyses.parameters import n_components
from dpcape.analyses.pca import ANALYZE_GAUSS
from dpcape.analyses.scaling import CENTER, SCALE

_TITLE, _OPTIONS = "Partial least squares", ("n_components",)

PLS = Analysis(
    name="pls",
    estimator="dpcape.estimators.views.pls:PLS",
    group=COMPONENTS,
    place=5,
    kinds=frozenset({"views"}),
    records="views",
    most_views=2,
    parameters=(
        n_components(lambda p: p.narrowest, planned=2),
        CENTER,
        SCALE,
    ),
    schedule=moments_of_views,
    results=lambda p, sizes: bytes_of_draws(p.first, p.n_features - p.first),
    variants=(
        Variant("pls", _TITLE, _OPTIONS, {"center": True, "scale": None}),
        Variant("scaled-pls", f"{_TITLE}, scaled privately", _OPTIONS, {"center": True, "scale": "private"}),
    ),
    measure="covariance_of_noise",
    audit=(
        AuditCase("pls", {"n_components": 1}, "views", 4),
        AuditCase("uncentred-pls", {"n_components": 1, "center": False}, "views", 4),
        AuditCase("scaled-pls", {"n_components": 1, "scale": "private"}, "views", 4),
    ),
    law=LAW,
    reason="the releases of CCA: mean, scale and radius first, then mean and moment of the standardised views jointly",
    reference=f"docs/analyses/pls.md#privacy; {ANALYZE_GAUSS}",
)
