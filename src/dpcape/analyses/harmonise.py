"""Description of harmonisation: location and scale of every site or scanner."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcape.analyses.description import COMPONENTS, LAW, RADIUS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.parameters import FLAG, OTHER, REQUIRED, WHOLE, Parameter, shown
from dpcape.analyses.release import Release, Steps
from dpcape.analyses.summary import names_of
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicFacts
from dpcape.statistics.cells import CATEGORY

FIRST_SHARE = 0.1
"""Share of mu^2 for means and standard deviations of all sites together."""


def harmonised_columns(facts: PublicFacts, site: object, columns: object) -> tuple[list[int], int]:
    """Return the positions of the columns that are harmonised, and of the column with the sites."""
    known = {column.name: at for at, column in enumerate(facts.columns)}
    names = names_of(site, "site")
    if len(names) != 1 or names[0] not in known or facts.columns[known[names[0]]].kind != CATEGORY:
        remedy = f"Choose from {', '.join(known)}."
        raise InvalidParameter("site", "name one column with public levels", shown(site), remedy)
    for name in names_of(columns, "columns"):
        if name not in known or facts.columns[known[name]].kind == CATEGORY:
            raise InvalidParameter("columns", "name columns of numbers", repr(name), "Choose columns with ranges.")
    numbers = [at for at, column in enumerate(facts.columns) if column.kind != CATEGORY]
    chosen = [known[name] for name in names_of(columns, "columns")] or numbers
    if not chosen:
        raise InvalidParameter("columns", "name at least one column of numbers", "a table without any")
    return chosen, known[names[0]]


def _counted(p: Public) -> tuple[float, float]:
    """Return the numbers of columns and of sites."""
    if p.facts is None or not p.facts.columns:
        return p.n_features, p.n_sites
    chosen, site = harmonised_columns(p.facts, p.site, p.columns)
    return len(chosen), len(p.facts.columns[site].levels)


def moments_by_site(p: Public, first_share: float) -> Steps:
    """Yield the releases of moments of all sites together, with this share of mu^2, and of each site with the rest."""
    n_columns, n_sites = _counted(p)
    yield Release("site_moments", {"n_columns": n_columns, "n_sites": 1}, share=first_share)
    yield Release("site_moments", {"n_columns": n_columns, "n_sites": n_sites}, share=1 - first_share)


def _noise(p: Public, scales: Sequence[float]) -> float:
    """Return the noise of a site's mean: rows are as long as the square root of their number, and one more."""
    n_columns, n_sites = _counted(p)
    return n_sites * (math.sqrt(n_columns) + 1) * scales[1]


NOISE_OF_MEANS = Noise("noise of a site's mean, in standard deviations of a column (sites of equal size)", _noise)


def _refuse(value: object, p: Public) -> None:
    if p.facts is not None and p.facts.columns:
        harmonised_columns(p.facts, p.site, p.columns)


SITE = Parameter("site", OTHER, REQUIRED, refuse=_refuse)
"""Column whose public levels are the sites."""
COLUMNS = Parameter("columns", OTHER, None, optional=True, refuse=_refuse)
"""Columns of numbers that are compared over sites; None for all."""
MOMENTS_PROVED = "the diameter of moments by site is proved at SiteMoments, for any centre and scale"


def first_scale(n_columns: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the scale under which no row of places is longer than one."""
    return np.full(n_columns, np.sqrt(n_columns) * (1 + 2.0**-30))


HARMONISE = Analysis(
    name="harmonise",
    estimator="dpcape.estimators.sites.harmonise:Harmonise",
    group=COMPONENTS,
    place=1,
    kinds=frozenset({"table"}),
    records="table",
    parameters=(SITE, COLUMNS, Parameter("scale", FLAG, True)),
    facts=(Parameter("n_sites", WHOLE, 1, 1, 10_000, planned=4, title="Sites to harmonise"),),
    derived=lambda parameters: {"site": parameters.get("site"), "n_sites": parameters.get("n_sites", 1)},
    schedule=lambda p: moments_by_site(p, FIRST_SHARE),
    variants=(Variant("harmonise", "Harmonisation of sites", ("n_sites",), yardstick=RADIUS),),
    measure=NOISE_OF_MEANS,
    audit=(AuditCase("harmonise", {"site": "third"}, "table", 4),),
    law=LAW,
    reason=MOMENTS_PROVED,
    reference="docs/analyses/harmonise.md#privacy",
)
