"""Description of random effects over sites: how much sites differ, and what holds beyond them."""

from __future__ import annotations

from dpcape.analyses.description import LAW, REGRESSIONS, Analysis, AuditCase, Public, Variant
from dpcape.analyses.description import RADIUS as ONE_RECORD
from dpcape.analyses.harmonise import COLUMNS, MOMENTS_PROVED, NOISE_OF_MEANS, SITE, moments_by_site
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import OTHER, WHOLE, Parameter, shown
from dpcape.core.errors import InvalidParameter

POOLED_SHARE = 0.3
"""Share of mu^2 for means and squares of all sites together."""
LEAST_CONFIDENCE = 0.92
"""Smallest confidence for which the interval of the mean over sites is proved."""


def _refuse_confidence(value: object, p: Public) -> None:
    CONFIDENCE.check(value, p)
    if isinstance(value, int | float) and value < LEAST_CONFIDENCE:
        must = f"be at least {LEAST_CONFIDENCE} for Heterogeneity, whose interval of the mean holds from there on"
        raise InvalidParameter("confidence", must, shown(value), "Raise it.")


HETEROGENEITY = Analysis(
    name="heterogeneity",
    estimator="dpcape.estimators.sites.heterogeneity:Heterogeneity",
    group=REGRESSIONS,
    place=2,
    kinds=frozenset({"table"}),
    records="table",
    parameters=(SITE, COLUMNS, Parameter("confidence", OTHER, 0.95, refuse=_refuse_confidence)),
    facts=(Parameter("n_sites", WHOLE, 1, 1, 10_000, planned=4, title="Sites to compare"),),
    derived=lambda parameters: {"site": parameters.get("site"), "n_sites": parameters.get("n_sites", 1)},
    schedule=lambda p: moments_by_site(p, POOLED_SHARE),
    variants=(Variant("heterogeneity", "Random effects over sites", ("n_sites",), yardstick=ONE_RECORD),),
    measure=NOISE_OF_MEANS,
    audit=(AuditCase("heterogeneity", {"site": "third"}, "table", 4),),
    law=LAW,
    reason=MOMENTS_PROVED,
    reference="docs/analyses/heterogeneity.md#privacy",
)
