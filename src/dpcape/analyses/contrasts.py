"""Description of adjusted contrasts: differences between two groups in one, few or many outcomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpcape.analyses.description import LAW, RADIUS, REGRESSIONS, Analysis, AuditCase, Noise, Public, Variant
from dpcape.analyses.mean import CONFIDENCE
from dpcape.analyses.parameters import NUMBER, OTHER, REQUIRED, WHOLE, Parameter, shown
from dpcape.analyses.release import Release, Steps
from dpcape.analyses.summary import names_of, positions_of
from dpcape.core.arrays import IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.facts import PublicColumn, PublicFacts
from dpcape.statistics.adjusted_products import length_of_outcomes
from dpcape.statistics.cells import CATEGORY
from dpcape.statistics.table_designs import NO_SITE, design_width

# Shares of mu^2 that the moments of the design get.
_LEAST_SHARE, _LARGEST_SHARE = 0.15, 0.6
REACH = 1.4
"""Expected reach of a residual."""
# Factor by which the outcomes increase the noise of the first release.
_OUTCOME_NOISE = 1.12


@dataclass(frozen=True)
class ContrastColumns:
    """Positions of the columns of a contrast.

    Attributes
    ----------
    outcomes : tuple of int
        Of the outcomes.
    design : tuple of int
        Of the contrast and the covariates.
    site : int
        Of the sites; -1 if there is none.
    """

    outcomes: tuple[int, ...]
    design: tuple[int, ...]
    site: int

    def public(self) -> dict[str, IntArray | int]:
        """Return the columns as public values of a statistic."""
        return {
            "outcomes": np.array(self.outcomes, dtype=np.int64),
            "design": np.array(self.design, dtype=np.int64),
            "site": self.site,
        }


def contrast_columns(
    facts: PublicFacts, contrast: object, outcomes: object, covariates: object, site: object
) -> ContrastColumns:
    """Return the columns of a contrast by position, or refuse what does not fit the table."""
    contrasted = positions_of(facts, contrast, "contrast")
    if len(contrasted) != 1 or _is_constant(facts.columns[contrasted[0]], most=2):
        must = "name one column, a number or a category of two levels"
        raise InvalidParameter("contrast", must, shown(contrast), "Choose another column, or declare two levels.")
    adjusted = positions_of(facts, covariates, "covariates")
    of_site = positions_of(facts, site, "site")
    if len(of_site) > 1 or any(facts.columns[at].kind != CATEGORY for at in of_site):
        raise InvalidParameter("site", "name one column with public levels", shown(site), "Declare its levels.")
    if any(_is_constant(facts.columns[at]) for at in adjusted):
        must = "be numbers, or categories of at least two levels"
        raise InvalidParameter("covariates", must, shown(covariates), "Leave out columns with one level.")
    used = [*contrasted, *adjusted, *of_site]
    other_numbers = [at for at, column in enumerate(facts.columns) if at not in used and column.kind != CATEGORY]
    measured = positions_of(facts, outcomes, "outcomes") or other_numbers
    if not measured or any(facts.columns[at].kind == CATEGORY for at in measured):
        remedy = "Choose columns with ranges."
        raise InvalidParameter("outcomes", "name at least one column of numbers", shown(outcomes), remedy)
    if len({*used, *measured}) != len(used) + len(measured):
        remedy = "Name each once."
        raise InvalidParameter("contrast, covariates, site and outcomes", "be different columns", "one twice", remedy)
    return ContrastColumns(tuple(measured), (*contrasted, *adjusted), of_site[0] if of_site else NO_SITE)


def first_share(n_columns: float, n_sites: float, n_outcomes: float) -> float:
    """Return the share of mu^2 for the moments of the design.

    It minimises the sum of two variances: that of effects of sites which noise leaves in the residual, half a standard
    deviation each, and that of the noise of the products.
    """
    site_effects = _OUTCOME_NOISE * math.sqrt(n_columns * n_sites)
    noise = 2 * REACH * length_of_outcomes(n_outcomes)
    return min(max(site_effects / (site_effects + noise), _LEAST_SHARE), _LARGEST_SHARE)


def _schedule(p: Public) -> Steps:
    if p.facts is None or not p.facts.columns:
        n_columns, n_sites, n_outcomes = 1 + p.n_covariates, p.n_sites, p.n_features
        width: float = n_columns
    else:
        chosen = contrast_columns(p.facts, p.contrast, p.outcomes, p.covariates, p.site)
        n_columns, n_outcomes = len(chosen.design), len(chosen.outcomes)
        n_sites = 1 if chosen.site == NO_SITE else len(p.facts.columns[chosen.site].levels)
        width = design_width([p.facts.columns[at] for at in chosen.design])
    share = first_share(n_columns, n_sites, n_outcomes)
    numbers = {"n_columns": n_columns, "width": width, "n_sites": n_sites, "n_outcomes": n_outcomes}
    yield Release("design_moments", numbers, share=share)
    yield Release("residual_products", {"n_outcomes": n_outcomes, "width": width}, share=1 - share)


def _noise(p: Public, scales: Sequence[float]) -> float:
    """Return the noise of d: residuals reach 1.4, and groups of equal size are two apart."""
    n_outcomes = p.n_features
    if p.facts is not None and p.facts.columns:
        n_outcomes = len(contrast_columns(p.facts, p.contrast, p.outcomes, p.covariates, p.site).outcomes)
    return 2 * REACH * length_of_outcomes(n_outcomes) * scales[1]


def _refuse(name: str, value: object, p: Public) -> None:
    if p.facts is None or not p.facts.columns:
        # A plan knows numbers of columns, not their names.
        return
    names = names_of(value, name)
    if name == "contrast" and len(names) != 1:
        raise InvalidParameter("contrast", "be the name of one column", shown(value), "Write contrast='...'.")
    contrast_columns(p.facts, p.contrast, p.outcomes, p.covariates, p.site)


def _refuse_outcomes(value: object, p: Public) -> None:
    if p.facts is not None and p.facts.columns and not names_of(value, "outcomes"):
        remedy = "Write outcomes=['...'], or use MassUnivariate for all columns of numbers."
        raise InvalidParameter("outcomes", "name at least one column", shown(value), remedy)
    _refuse("outcomes", value, p)


def _is_constant(column: PublicColumn, *, most: int | None = None) -> bool:
    """Tell whether a category has one level, or more than ``most``."""
    n_levels = len(column.levels)
    return column.kind == CATEGORY and (n_levels < 2 or (most is not None and n_levels > most))


def _parameters(*, many: bool) -> tuple[Parameter, ...]:
    outcomes = (
        Parameter("outcomes", OTHER, None, optional=True, refuse=lambda value, p: _refuse("outcomes", value, p))
        if many
        else Parameter("outcomes", OTHER, REQUIRED, refuse=_refuse_outcomes)
    )
    return (
        Parameter("contrast", OTHER, REQUIRED, refuse=lambda value, p: _refuse("contrast", value, p)),
        outcomes,
        Parameter("covariates", OTHER, None, optional=True, refuse=lambda value, p: _refuse("covariates", value, p)),
        Parameter("site", OTHER, None, optional=True, refuse=lambda value, p: _refuse("site", value, p)),
        Parameter("assumed_effect", NUMBER, 0.5, 0.0, 10.0),
        CONFIDENCE,
    )


_FACTS = (
    Parameter("n_sites", WHOLE, 1, 1, 10_000, planned=4, title="Sites adjusted for"),
    Parameter("n_covariates", WHOLE, 0, 0, 1000, planned=2, title="Covariates"),
)
_SHARED = {
    "group": REGRESSIONS,
    "kinds": frozenset({"table"}),
    "records": "table",
    "facts": _FACTS,
    "derived": lambda parameters: {
        "contrast": parameters.get("contrast"),
        "outcomes": parameters.get("outcomes"),
        "n_sites": parameters.get("n_sites", 1),
        "n_covariates": parameters.get("n_covariates", 0),
    },
    "schedule": _schedule,
    "measure": Noise("noise of an adjusted difference, in standard deviations of the outcome", _noise),
    "law": LAW,
    "reason": "the diameters are proved at DesignMoments and ResidualProducts, for any residualiser",
    "reference": "docs/analyses/contrasts.md#privacy",
}
_OPTIONS = ("n_sites", "n_covariates")
GROUP_CONTRAST = Analysis(
    name="group_contrast",
    estimator="dpcape.estimators.contrasts.contrasts:GroupContrast",
    place=0,
    parameters=_parameters(many=False),
    variants=(Variant("group-contrast", "Adjusted group difference", _OPTIONS, yardstick=RADIUS),),
    audit=(
        AuditCase(
            "group-contrast",
            {"contrast": "group", "outcomes": ("first",), "covariates": ("second",), "site": "third"},
            "table",
            4,
        ),
    ),
    **_SHARED,  # type: ignore[arg-type]  # values of several types
)
MASS_UNIVARIATE = Analysis(
    name="mass_univariate",
    estimator="dpcape.estimators.contrasts.contrasts:MassUnivariate",
    place=1,
    parameters=_parameters(many=True),
    variants=(Variant("mass-univariate", "Adjusted differences in many outcomes", _OPTIONS, yardstick=RADIUS),),
    audit=(AuditCase("mass-univariate", {"contrast": "group", "site": "third"}, "table", 4),),
    **_SHARED,  # type: ignore[arg-type]  # values of several types
)
