"""Description of principal component analysis (PCA), centred and not."""

from __future__ import annotations

from dpcape.analyses.description import COMPONENTS, LAW, Analysis, AuditCase, Public, Variant
from dpcape.analyses.parameters import CHOICE, WHOLE, Parameter
from dpcape.analyses.release import Refusal, Steps
from dpcape.analyses.scaling import CENTER, CLIP, clipping, is_centred, only, scaled_release, scaling
from dpcape.analyses.wide import (
    BASIS,
    MAPS,
    N_BASIS,
    basis_columns,
    columns_of,
    map_releases,
    refused_maps,
    rows_in_basis,
)

ADJUST = Parameter("adjust", CHOICE, None, optional=True, words=("site",))
"""Whether the mean of its site is subtracted from every row ("site") or that of all rows, or none (None)."""
OF_MEANS = "The noise of the sites' means is not part of the expected error."
ANALYZE_GAUSS = "Dwork et al. 2014 (Analyze Gauss)"
ONE_MOMENT = (
    "one second moment, sensitivity sqrt(2) B^2 / N; if centred, mean and radius first, then mean and moment of the "
    "recentred rows jointly, or means by site and moment; in a public basis the same, and maps of what it leaves out, "
    "sensitivity 2 / N in units of their clip radii"
)


_ALREADY = (
    "clip must be None with center=True, which clips rows around their mean to a released radius; got a quantile. "
    "Leave clip out."
)

ADJUSTED = "basis must be left out with adjust='site'; got a basis. Harmonise the records first, or leave adjust out."
"""Why means of sites are not subtracted in a basis."""
WIDE_NOTE = "The expected error is about what the basis contains; what it leaves out is not part of it."
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
        asked = p.kind != "views"
        plan = yield from scaling(p, wanted=asked, keep_units=True)
    else:
        asked = p.clip is not None
        plan = yield from clipping(p)
    whole = {"n_features": p.n_features, "bound": plan.bound, "single": p.single}
    plain = "centred_moments" if centred else "second_moment"
    if adjusted:
        plain = "site_centred_moments"
        whole = {"n_features": p.n_features, "bound": plan.bound, "n_sites": p.n_participants}
    yield from only(scaled_release(plan, plain, whole), not in_basis.wide)
    moments = "centred_basis_moments" if centred else "basis_moments"
    yield from map_releases(p, in_basis, plan, moments, plan.used if asked else True)


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
            most=columns_of,
            words=("auto",),
            planned=5,
            title="Components",
        ),
        CENTER,
        CLIP,
        BASIS,
        MAPS,
        ADJUST,
    ),
    facts=(N_BASIS,),
    derived=basis_columns,
    schedule=_schedule,
    variants=(
        Variant("pca", "Principal components", ("n_components",), {"center": True}),
        Variant("uncentred-pca", "Principal components, without centring", ("n_components",), {"center": False}),
        Variant(
            "site-adjusted-pca",
            "Principal components within sites",
            ("n_components",),
            {"center": True, "adjust": "site"},
            note=OF_MEANS,
        ),
        Variant(
            "wide-pca",
            "Principal components of wide rows, in a public basis",
            ("n_components", "n_basis"),
            {"center": True, "maps": False},
            note=WIDE_NOTE,
        ),
        Variant(
            "wide-pca-maps",
            "Principal components of wide rows, with maps beyond the basis",
            ("n_components", "n_basis"),
            {"center": True, "maps": True},
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
