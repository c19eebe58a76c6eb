"""Releases of an analysis before any record is read: names, sizes, diameters, shares, and so their noise.

Where a later release depends on an earlier result, its noise still follows from public numbers, or is known relative
to the largest contribution (:data:`dpcape.analyses.release.RELATIVE`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpcape.analyses.description import Analysis, Public, Variant, alternatives, public_facts
from dpcape.analyses.parameters import FLAG, WHOLE, Parameter
from dpcape.analyses.registry import variants
from dpcape.analyses.release import EXACT, Release
from dpcape.errors import InvalidParameter
from dpcape.facts import LARGEST_BOUND, MANY_TIME_POINTS, SMALLEST_BOUND, PublicFacts
from dpcape.formula import computed
from dpcape.planning.consortium import Consortium
from dpcape.privacy.calibration import plan_release
from dpcape.privacy.gaussian import mu_of
from dpcape.privacy.terms import Terms
from dpcape.protocols import Protocol
from dpcape.statistics import Extent

Options = Mapping[str, Any]


@dataclass(frozen=True)
class PlannedStatistic:
    """A statistic as far as a plan looks at it: its name and extent."""

    name: str
    facts: PublicFacts
    extent: Extent
    assumption: str = ""

    @property
    def size(self) -> int:
        """Length of the packed vector."""
        return int(computed(self.extent.size))

    @property
    def diameter(self) -> float:
        """Largest distance between the contributions of two units."""
        return computed(self.extent.diameter)

    @property
    def radius(self) -> float:
        """Largest length of one unit's contribution."""
        return computed(self.extent.radius)

    def rounding(self, n_records: int) -> float:
        """Bound the error that floating point leaves in a total."""
        return computed(self.extent.rounding(n_records))

    def sensitivity(self, n_records: int) -> float:
        """Return how far replacing one unit moves the computed total."""
        return computed(self.extent.sensitivity(n_records))


@dataclass(frozen=True)
class PlannedRelease:
    """A release, how often it is made, and the share of mu^2 it takes each time.

    Attributes
    ----------
    statistic : PlannedStatistic
        Name and extent of what is released.
    share : float
        Part of mu^2, each time.
    times : int
        How often it is made.
    known : str
        Whether the scales are those of the run (``EXACT``), ``RELATIVE`` or ``AT_MOST``; mu is exact in each case.
    instead : str
        Name of the statistic that an earlier result may put in its place; empty if there is none.
    """

    statistic: PlannedStatistic
    share: float = 1.0
    times: int = 1
    known: str = EXACT
    instead: str = ""


Releases = Callable[[Consortium], Sequence[PlannedRelease]]
"""Shares and clip radii may follow from sizes and from noise: what is released is known for a consortium."""


TermsFor = Callable[[Sequence[float]], Terms]
"""From the shares of all releases to the terms they are made under."""


def planned_releases(
    analysis: Analysis, public: Public, facts: PublicFacts, terms_for: TermsFor, protocol: Protocol
) -> tuple[PlannedRelease, ...]:
    """Return what an analysis releases, for these public numbers and terms."""
    shape = facts.shape_facts()

    def noise(shares: tuple[float, ...], number: int, release: Release) -> float:
        terms = terms_for(shares)
        plan = plan_release(terms, number, _statistic(release, shape), protocol)
        return plan.sum_scale(terms.sites) / terms.divisor(terms.sites)

    analysis.check(public)
    found = []
    for step in analysis.steps(public, noise):
        release, *others = alternatives(step)
        instead = others[0].statistic if others else ""
        found.append(
            PlannedRelease(
                _statistic(release, shape),
                computed(release.share),
                int(computed(release.times)),
                release.known,
                instead,
            )
        )
    return tuple(found)


def _statistic(release: Release, facts: PublicFacts) -> PlannedStatistic:
    return PlannedStatistic(release.statistic, facts, release.extent, release.assumption)


def releases_of(
    variant: str, widths: Sequence[int], bounds: Sequence[float], given: Options | None = None, *, setting: Consortium
) -> tuple[PlannedRelease, ...]:
    """Return what a variant of an analysis releases, for records of these public dimensions."""
    options = options_of(variant, given or {})
    facts = facts_of(variant, widths, bounds, options)
    analysis, chosen = variants()[variant]
    known = public_facts(facts, sum(setting.sizes.values()))

    def public_of(options: Options) -> Public:
        later = {"mu": lambda: mu_of(float(setting.epsilon), setting.delta)}
        return analysis.public({**options, **chosen.fixed}, known, **later)

    public = public_of(_fitting(analysis, options, given or {}, public_of(options)))
    return planned_releases(analysis, public, facts, lambda shares: setting.terms(facts, shares), setting.protocol)


def _fitting(analysis: Analysis, options: Options, given: Options, public: Public) -> dict[str, Any]:
    """Return options in which a whole number that nobody gave is moved into its range here."""
    moved = dict(options)
    for name, value in options.items():
        parameter = analysis.parameter(name)
        if name not in given and parameter.kind == WHOLE and value is not None:
            least, most = parameter.ends(public)
            moved[name] = min(max(value, least), most)
    return moved


def facts_of(variant: str, widths: Sequence[int], bounds: Sequence[float], options: Options) -> PublicFacts:
    """Return the public facts of records of these dimensions."""
    if any(width < 1 for width in widths) or any(not SMALLEST_BOUND <= bound <= LARGEST_BOUND for bound in bounds):
        given = [" and ".join(f"{number:g}" for number in numbers) for numbers in (widths, bounds)]
        raise InvalidParameter(
            f"features and bound must be positive, a bound between {SMALLEST_BOUND:g} and {LARGEST_BOUND:g}; "
            f"got {given[0]} and bound {given[1]}."
        )
    analysis, chosen = variants()[variant]
    kind, unit = analysis.records, chosen.unit
    n_classes = options.get("n_classes", chosen.classes)
    return PublicFacts(
        kind=kind,
        unit=unit,
        n_records=1,
        rows_per_unit=0 if unit == "subject" else 1,
        widths=tuple(widths),
        bounds=(1.0,) if kind == "documents" else tuple(bounds),
        response=(0.0, 1.0) if kind == "labelled" and n_classes is None else None,
        classes=None if n_classes is None else tuple(f"class-{index + 1}" for index in range(n_classes)),
        owner_note=MANY_TIME_POINTS if kind == "subjects" and unit == "record" else "",
    )


def start_of(analysis: Analysis, variant: Variant) -> dict[str, Any]:
    """Return a variant's options with the values a plan starts from."""
    return {name: analysis.parameter(name).start for name in variant.options}


def options_of(variant: str, given: Options) -> dict[str, Any]:
    """Return a variant's options with what was given; refuse others, and numbers that cannot be."""
    if variant not in variants():
        raise InvalidParameter(f"analysis must be one of {', '.join(variants())}; got {variant!r}.")
    analysis, chosen = variants()[variant]
    options = start_of(analysis, chosen)
    for name, value in given.items():
        if name not in options:
            wanted = ", ".join(options) or "left out"
            raise InvalidParameter(f"parameters of {variant} must be {wanted}; got {name!r}.")
        options[name] = _checked(analysis.parameter(name), value)
    return options


def parameters_of(variant: str, options: Options) -> dict[str, Any]:
    """Return all that an expected error may depend on: options, and what the variant always has."""
    return {**options, **variants()[variant][1].fixed}


def least_asked(parameter: Parameter) -> int:
    """Return the least whole number that is worth a plan: one, or two classes; the rest is the analysis' to refuse."""
    return 2 if parameter.name == "n_classes" else 1


def _checked(parameter: Parameter, value: Any) -> Any:
    """Return a value of the parameter's kind, whatever its range is here."""
    name = parameter.name
    if parameter.optional and value is None:
        return None
    if parameter.kind == FLAG:
        if not isinstance(value, bool):
            raise InvalidParameter(f"{name} must be true or false; got {value!r}.")
        return value
    if parameter.kind == WHOLE:
        least = least_asked(parameter)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidParameter(f"{name} must be a whole number of at least {least}; got {value!r}.")
        return value
    if value == 0 and not isinstance(value, bool) and parameter.refuse is not None:
        # Whether zero means something, the parameter says itself.
        return 0.0
    # Written so that NaN is refused.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidParameter(f"{name} must be a positive number; got {value!r}.")
    return value
