"""Description of principal component analysis (PCA), centred and not."""

from __future__ import annotations

from dpcape.analyses.description import COMPONENTS, LAW, Analysis, AuditCase, Public, Variant
from dpcape.analyses.footprint import Workspace
from dpcape.analyses.parameters import CHOICE, Parameter, n_components
from dpcape.analyses.release import Refusal, Steps
from dpcape.analyses.scaling import CENTER, CLIP, clipping, is_centred, only, scaled_release, scaling
from dpcape.analyses.wide import (
    BASIS,
    MAPS,
    N_BASIS,
    basis_columns,
    bytes_of_basis,
    columns_of,
    map_releases,
    refused_maps,
    rows_in_basis,
)
from dpcape.core.errors import InvalidParameter

ADJUST = Parameter("adjust", CHOICE, None, optional=True, words=("site",))
"""Whether the mean of its site is subtracted from every row ("site") or that of all rows, or none (None)."""
OF_MEANS = "The noise of the sites' means is not part of the expected error."
ANALYZE_GAUSS = "Dwork et al. 2014 (Analyze Gauss)"
ONE_MOMENT = (
    "one second moment, sensitivity sqrt(2) B^2 / N; if centred, mean and radius first, then mean and moment of the "
    "recentred rows jointly, or means by site and moment; in a public basis the same, and maps of what it leaves out, "
    "sensitivity 2 / N in units of their clip radii"
)


_ALREADY = InvalidParameter(
    "clip",
    "be None with center=True, which clips rows around their mean to a released radius",
    "a quantile",
    "Leave clip out.",
)

ADJUSTED = InvalidParameter(
    "basis", "be left out with adjust='site'", "a basis", "Harmonise the records first, or leave adjust out."
)
"""Why means of sites are not subtracted in a basis."""
WIDE_NOTE = "The expected error is about what the basis contains; what it leaves out is not part of it."
_TITLE, _WIDE_TITLE = "Principal components", "Principal components of wide rows"
_OPTIONS, _IN_BASIS = ("n_components",), ("n_components", "n_basis")
_WIDE = {"center": True, "maps": False}
# A basis of one of three columns, for the audit.
_SMALL = ["cosines", [3], [1]]


def _schedule(p: Public) -> Steps:
    in_basis = rows_in_basis(p)
    yield from refused_maps(p, in_basis)
    centred, adjusted = is_centred(p.center, p.clip), p.adjust == "site"
    yield Refusal(adjusted and in_basis.wide, ADJUSTED)
    if centred or adjusted:
        yield Refusal(p.clip is not None, _ALREADY)
        # Two views would be divided by a radius each, which changes their relative units.
        wants_radius = p.kind != "views"
        plan = yield from scaling(p, wanted=wants_radius, keep_units=True)
    else:
        wants_radius = p.clip is not None
        plan = yield from clipping(p)
    numbers = {"n_features": p.n_features, "bound": plan.bound, "single": p.single}
    plain = "centred_moments" if centred else "second_moment"
    if adjusted:
        plain = "site_centred_moments"
        numbers = {"n_features": p.n_features, "bound": plan.bound, "n_sites": p.n_participants}
    yield from only(scaled_release(plan, plain, numbers), not in_basis.wide)
    moments = "centred_basis_moments" if centred else "basis_moments"
    yield from map_releases(p, in_basis, plan, moments, plan.used if wants_radius else True)


PCA = Analysis(
    name="pca",
    estimator="dpcape.estimators.pca:PCA",
    group=COMPONENTS,
    place=2,
    kinds=frozenset({"rows", "labelled", "views", "subjects"}),
    records="rows",
    parameters=(
        n_components(columns_of, planned=5),
        CENTER,
        CLIP,
        BASIS,
        MAPS,
        ADJUST,
    ),
    facts=(N_BASIS,),
    derived=basis_columns,
    schedule=_schedule,
    workspace=lambda p, sizes: Workspace(public=bytes_of_basis(p)),
    # The noise of sites' means moves every entry of the moment.
    results=lambda p, sizes: 4 * 8 * max(sizes) if p.adjust == "site" else 0.0,
    variants=(
        Variant("pca", _TITLE, _OPTIONS, {"center": True}),
        Variant("uncentred-pca", f"{_TITLE}, without centring", _OPTIONS, {"center": False}),
        Variant(
            "site-adjusted-pca", f"{_TITLE} within sites", _OPTIONS, {"center": True, "adjust": "site"}, note=OF_MEANS
        ),
        Variant("wide-pca", f"{_WIDE_TITLE}, in a public basis", _IN_BASIS, _WIDE, note=WIDE_NOTE),
        Variant(
            "wide-pca-maps",
            f"{_WIDE_TITLE}, with maps beyond the basis",
            _IN_BASIS,
            _WIDE | {"maps": True},
            note=WIDE_NOTE,
        ),
    ),
    measure="energy_lost",
    audit=(
        AuditCase("pca", {"n_components": 1}, "rows", 3),
        AuditCase("uncentred-pca", {"n_components": 1, "center": False}, "rows", 3),
        AuditCase("site-adjusted-pca", {"n_components": 1, "adjust": "site"}, "rows", 3),
        AuditCase("clipped-pca", {"n_components": 1, "clip": (0.9, 0.05)}, "rows", 3),
        AuditCase("wide-pca", {"n_components": 1, "basis": _SMALL, "maps": True}, "rows", 3),
    ),
    law=LAW,
    reason=ONE_MOMENT,
    reference=f"docs/analyses/pca.md#privacy; {ANALYZE_GAUSS}",
)
