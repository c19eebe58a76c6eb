"""Description of random effects over sites: how much sites differ, and what holds beyond them."""

from __future__ import annotations

from dpcape.analyses.description import RADIUS as ONE_RECORD
from dpcape.analyses.description import REGRESSIONS, VERIFIED, Analysis, AuditCase, Public, Variant
from dpcape.analyses.harmonise import harmonised_columns
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import OTHER, REQUIRED, WHOLE, Parameter, shown
from dpcape.analyses.release import Release, Steps
from dpcape.errors import InvalidParameter

POOLED_SHARE = 0.3
"""Share of mu^2 for means and squares of all sites together."""
LEAST_CONFIDENCE = 0.92
"""Smallest confidence for which the interval of the mean over sites is proved."""


def _schedule(p: Public) -> Steps:
    if p.facts is None or not p.facts.columns:
        n_columns, n_sites = p.n_features, p.n_sites
    else:
        chosen, site = harmonised_columns(p.facts, p.site, p.columns)
        n_columns, n_sites = len(chosen), len(p.facts.columns[site].levels)
    yield Release("site_moments", {"n_columns": n_columns, "n_sites": 1}, share=POOLED_SHARE)
    yield Release("site_moments", {"n_columns": n_columns, "n_sites": n_sites}, share=1 - POOLED_SHARE)


def _refuse(value: object, p: Public) -> None:
    if p.facts is not None and p.facts.columns:
        harmonised_columns(p.facts, p.site, p.columns)


def _refuse_confidence(value: object, p: Public) -> None:
    CONFIDENCE.check(value, p)
    if isinstance(value, int | float) and value < LEAST_CONFIDENCE:
        raise InvalidParameter(
            f"confidence must be at least {LEAST_CONFIDENCE} for Heterogeneity, whose interval of the mean holds "
            f"from there on; got {shown(value)}. Raise it."
        )


HETEROGENEITY = Analysis(
    name="heterogeneity",
    estimator="dpcape.estimators.heterogeneity:Heterogeneity",
    group=REGRESSIONS,
    place=2,
    kinds=frozenset({"table"}),
    records="table",
    parameters=(
        Parameter("site", OTHER, REQUIRED, refuse=_refuse),
        Parameter("columns", OTHER, None, optional=True, refuse=_refuse),
        Parameter("confidence", OTHER, 0.95, refuse=_refuse_confidence),
    ),
    facts=(Parameter("n_sites", WHOLE, 1, 1, 10_000, planned=4, title="Sites to compare"),),
    derived=lambda parameters: {"site": parameters.get("site"), "n_sites": parameters.get("n_sites", 1)},
    schedule=_schedule,
    variants=(Variant("heterogeneity", "Random effects over sites", ("n_sites",), yardstick=ONE_RECORD),),
    measure="noise_of_locations",
    sections=("heterogeneity",),
    results=("heterogeneity",),
    audit=(AuditCase("heterogeneity", {"site": "third"}, "table", 4),),
    standing=VERIFIED,
    reason="the diameter of moments by site is proved at SiteMoments, for any centre and scale",
    reference="docs/analyses/heterogeneity.md",
)
