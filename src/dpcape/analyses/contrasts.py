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
from dpcape.analyses.summary import names_of
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
# What the outcomes add to the noise of the first release.
_RIDERS = 1.12


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
    at = _places(facts, names_of(contrast, "contrast"), "contrast")
    if len(at) != 1 or _is_constant(facts.columns[at[0]], most=2):
        raise InvalidParameter(
            f"contrast must name one column, a number or a category of two levels; got {shown(contrast)}. Choose "
            "another column, or declare two levels."
        )
    adjusted = _places(facts, names_of(covariates, "covariates"), "covariates")
    of_site = _places(facts, names_of(site, "site"), "site")
    if len(of_site) > 1 or any(facts.columns[place].kind != CATEGORY for place in of_site):
        raise InvalidParameter(f"site must name one column with public levels; got {shown(site)}. Declare its levels.")
    if any(_is_constant(facts.columns[place]) for place in adjusted):
        raise InvalidParameter(
            f"covariates must be numbers, or categories of at least two levels; got {shown(covariates)}. Leave out "
            "columns with one level."
        )
    used = [*at, *adjusted, *of_site]
    named = _places(facts, names_of(outcomes, "outcomes"), "outcomes")
    rest = [place for place, column in enumerate(facts.columns) if place not in used and column.kind != CATEGORY]
    measured = named or rest
    if not measured or any(facts.columns[place].kind == CATEGORY for place in measured):
        raise InvalidParameter(
            f"outcomes must name at least one column of numbers; got {shown(outcomes)}. Choose columns with ranges."
        )
    if len({*used, *measured}) != len(used) + len(measured):
        raise InvalidParameter(
            "contrast, covariates, site and outcomes must be different columns; got one twice. Name each once."
        )
    return ContrastColumns(tuple(measured), tuple([*at, *adjusted]), of_site[0] if of_site else NO_SITE)


def first_share(n_columns: float, n_sites: float, n_outcomes: float) -> float:
    """Return the share of mu^2 for the moments of the design.

    It minimises the sum of two variances: that of effects of sites which noise leaves in the residual, half a standard
    deviation each, and that of the noise of the products.
    """
    left = _RIDERS * math.sqrt(n_columns * n_sites)
    noise = 2 * REACH * length_of_outcomes(n_outcomes)
    return min(max(left / (left + noise), _LEAST_SHARE), _LARGEST_SHARE)


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
        raise InvalidParameter(f"contrast must be the name of one column; got {shown(value)}. Write contrast='...'.")
    contrast_columns(p.facts, p.contrast, p.outcomes, p.covariates, p.site)


def _refuse_outcomes(value: object, p: Public) -> None:
    if p.facts is not None and p.facts.columns and not names_of(value, "outcomes"):
        raise InvalidParameter(
            f"outcomes must name at least one column; got {shown(value)}. Write outcomes=['...'], or use "
            "MassUnivariate for all columns of numbers."
        )
    _refuse("outcomes", value, p)


def _places(facts: PublicFacts, names: Sequence[str], parameter: str) -> list[int]:
    known = {column.name: at for at, column in enumerate(facts.columns)}
    for name in names:
        if name not in known:
            raise InvalidParameter(
                f"{parameter} must name columns of the table; got {name!r}. Choose from {', '.join(known)}."
            )
    return [known[name] for name in names]


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
    estimator="dpcape.estimators.contrasts:GroupContrast",
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
    estimator="dpcape.estimators.contrasts:MassUnivariate",
    place=1,
    parameters=_parameters(many=True),
    variants=(Variant("mass-univariate", "Adjusted differences in many outcomes", _OPTIONS, yardstick=RADIUS),),
    audit=(AuditCase("mass-univariate", {"contrast": "group", "site": "third"}, "table", 4),),
    **_SHARED,  # type: ignore[arg-type]  # values of several types
)
