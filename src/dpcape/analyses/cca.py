"""Description of canonical correlation analysis (CCA)."""

from __future__ import annotations

import math

from dpcape.analyses.description import COMPONENTS, LAW, Analysis, AuditCase, Public, Variant
from dpcape.analyses.footprint import Workspace
from dpcape.analyses.parameters import n_components
from dpcape.analyses.pca import ADJUST, ADJUSTED, ANALYZE_GAUSS, OF_MEANS, WIDE_NOTE
from dpcape.analyses.release import Refusal, Release, Steps
from dpcape.analyses.scaling import CENTER, SCALE, ScalingPlan, is_centred, scaling, standardising
from dpcape.analyses.wide import (
    MAPS,
    N_X_BASIS,
    N_Y_BASIS,
    VIEW_BASES,
    bytes_of_view_bases,
    columns_of_views,
    map_releases,
    refused_maps,
    view_basis_columns,
    views_in_bases,
)
from dpcape.core.errors import InvalidParameter

_REASON = (
    "one second moment of views divided by their bounds, sensitivity sqrt(8) / N; if centred or scaled, mean, scale "
    "and radius first, then mean, or means by site, and moment of the standardised views jointly; in public bases the "
    "same, and maps of what they leave out, sensitivity 2 / N in units of their clip radii"
)
_NO_SCALES = InvalidParameter(
    "scale",
    "be None with a basis, because noise would hide the deviations of so many columns",
    "'private'",
    "Use center=True, and give all columns of a view the same unit.",
)
_TITLE, _WIDE_TITLE = "Canonical correlations", "Canonical correlations of wide views"
_OPTIONS, _IN_BASES = ("n_components",), ("n_components", "n_x_basis", "n_y_basis")
_WITHIN_SITES = {"center": True, "scale": None, "adjust": "site"}
_WIDE = {"center": True, "scale": None, "maps": False}
# A basis of one column for the first of two views of two columns, for the audit.
_SMALL: tuple[object, ...] = (["cosines", [2], [1]], [])


def moments_of_views(p: Public) -> Steps:
    """Yield the releases of the moments of views that are divided by their bounds, or standardised privately."""
    if is_centred(p.center) or p.scale == "private":
        yield from centred_moments_of_views(p)
    else:
        yield Release("scaled_second_moment", _numbers(p))


def centred_moments_of_views(p: Public) -> Steps:
    """Yield the releases of the mean and second moment of views that are recentred, or standardised, privately."""
    yield from _after_scaling(p, "scaled_centred_moments", _numbers(p))


def _after_scaling(p: Public, statistic: str, numbers: dict[str, float | None]) -> Steps:
    plan = yield from standardising(p) if p.scale == "private" else scaling(p, wanted=True, keep_units=True)
    yield Release(statistic, numbers, plan.left)


def _schedule(p: Public) -> Steps:
    in_bases = views_in_bases(p)
    yield from refused_maps(p, in_bases)
    if p.adjust == "site":
        yield Refusal(in_bases.wide, ADJUSTED)
        numbers = {"n_features": p.n_features, "bound": math.sqrt(p.n_views), "n_sites": p.n_participants}
        yield from _after_scaling(p, "scaled_site_centred_moments", numbers)
        return
    if not in_bases.wide:
        yield from moments_of_views(p)
        return
    yield Refusal(p.scale == "private", _NO_SCALES)
    plan, has_radius = ScalingPlan(True, 1.0, math.sqrt(p.n_views)), True
    centred = is_centred(p.center)
    if centred:
        recentring = yield from scaling(p, wanted=True, keep_units=True)
        # Views whose radius cannot be found are divided by their bounds, so they count as standardised too.
        plan, has_radius = plan._replace(left=recentring.left), recentring.used
    moments = "centred_basis_moments" if centred else "basis_moments"
    yield from map_releases(p, in_bases, plan, moments, has_radius)


def bytes_of_draws(n_first: float, n_second: float) -> float:
    """Return the bytes of the draws that tell pairs of views with so many columns from noise."""
    # Imported here: sites, which never ask, need not load it.
    from dpcape.postprocessing.component_tests import draws_bytes

    return draws_bytes(int(n_first), int(n_second))


def _numbers(p: Public) -> dict[str, float | None]:
    # Each view is divided by its bound, or by its radius, and is at most 1 long.
    return {"n_features": p.n_features, "bound": math.sqrt(p.n_views), "single": p.single}


CCA = Analysis(
    name="cca",
    estimator="dpcape.estimators.views.cca:CCA",
    group=COMPONENTS,
    place=3,
    kinds=frozenset({"views"}),
    records="views",
    most_views=2,
    parameters=(
        n_components(lambda p: min(*columns_of_views(p)), planned=2),
        CENTER,
        SCALE,
        VIEW_BASES,
        MAPS,
        ADJUST,
    ),
    facts=(N_X_BASIS, N_Y_BASIS),
    derived=view_basis_columns,
    schedule=_schedule,
    workspace=lambda p, sizes: Workspace(public=bytes_of_view_bases(p)),
    results=lambda p, sizes: bytes_of_draws(*columns_of_views(p)),
    variants=(
        Variant("cca", _TITLE, _OPTIONS, {"center": True, "scale": None}),
        Variant("uncentred-cca", f"{_TITLE}, without centring", _OPTIONS, {"center": False, "scale": None}),
        Variant("scaled-cca", f"{_TITLE}, scaled privately", _OPTIONS, {"center": True, "scale": "private"}),
        Variant("site-adjusted-cca", f"{_TITLE} within sites", _OPTIONS, _WITHIN_SITES, note=OF_MEANS),
        Variant("wide-cca", f"{_WIDE_TITLE}, in public bases", _IN_BASES, _WIDE, note=WIDE_NOTE),
        Variant(
            "wide-cca-maps",
            f"{_WIDE_TITLE}, with maps beyond the bases",
            _IN_BASES,
            _WIDE | {"maps": True},
            note=WIDE_NOTE,
        ),
    ),
    measure="correlation_of_noise",
    audit=(
        AuditCase("cca", {"n_components": 1}, "views", 4),
        AuditCase("uncentred-cca", {"n_components": 1, "center": False}, "views", 4),
        AuditCase("site-adjusted-cca", {"n_components": 1, "adjust": "site"}, "views", 4),
        AuditCase("scaled-cca", {"n_components": 1, "scale": "private"}, "views", 4),
        AuditCase("wide-cca", {"n_components": 1, "basis": _SMALL, "maps": True}, "views", 4),
    ),
    law=LAW,
    reason=_REASON,
    reference=f"docs/analyses/cca.md#privacy; {ANALYZE_GAUSS}",
)
