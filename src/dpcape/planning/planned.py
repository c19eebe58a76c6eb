"""Planned releases of an analysis, from public numbers: names, sizes, diameters and shares, which determine the noise.

Where a later release depends on an earlier result, its noise still follows from public numbers, or is known relative
to the largest contribution (:data:`dpcape.analyses.release.RELATIVE`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from dpcape.analyses.description import Analysis, Public, Variant, alternatives, public_facts
from dpcape.analyses.parameters import FLAG, WHOLE, Parameter
from dpcape.analyses.registry import variants
from dpcape.analyses.release import EXACT, Release
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent
from dpcape.core.facts import LARGEST_BOUND, MANY_TIME_POINTS, SMALLEST_BOUND, PublicFacts
from dpcape.core.limits import check_size
from dpcape.core.privacy.calibration import ReleaseNoise, noise_ratio, plan_release
from dpcape.core.privacy.gaussian import mu_of
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.protocol import Protocol
from dpcape.planning.consortium import Consortium

Options: TypeAlias = Mapping[str, object]
"""Values of parameters and facts by name."""


@dataclass(frozen=True)
class PlannedStatistic:
    """Statistic of a plan, without arrays: its name and extent.

    Attributes
    ----------
    name : str
        Name of the statistic.
    facts : PublicFacts
        Public facts of the records.
    extent : Extent
        Size, diameter, radius and rounding error.
    assumption : str
        Assumption under which the diameter holds, in words; empty if the diameter is proved.
    by_site : bool
        Whether its mean has a part for each site.
    in_single : bool
        Whether blocks of records are summed in single precision.
    """

    name: str
    facts: PublicFacts
    extent: Extent
    assumption: str = ""
    by_site: bool = False
    in_single: bool = False

    @property
    def size(self) -> int:
        """Length of the packed vector."""
        return int(self.extent.size)

    @property
    def released_size(self) -> int:
        """Length of the vector that leaves a site: the packed vector and the number of valid records."""
        return int(self.extent.released_size)

    @property
    def diameter(self) -> float:
        """Maximum distance between the contributions of two units."""
        return self.extent.diameter

    @property
    def radius(self) -> float:
        """Maximum norm of one unit's contribution."""
        return self.extent.radius

    def rounding(self, n_records: int) -> float:
        """Return a bound on the floating-point error in a total."""
        return self.extent.rounding(n_records)

    def sensitivity(self, n_records: int) -> float:
        """Return the largest change in the computed total when one unit is replaced."""
        return self.extent.sensitivity(n_records)


@dataclass(frozen=True)
class PlannedRelease:
    """Planned release: a statistic, its share of mu^2, and the number of times it is made.

    Attributes
    ----------
    statistic : PlannedStatistic
        Name and extent of the statistic.
    share : float
        Share of mu^2, each time.
    times : int
        How many times it is made.
    known : str
        Whether the scales are those of the run (``EXACT``), ``RELATIVE`` or ``AT_MOST``; mu is exact in each case.
    instead : str
        Name of the statistic that an earlier result may choose instead; empty if there is none.
    """

    statistic: PlannedStatistic
    share: float = 1.0
    times: int = 1
    known: str = EXACT
    instead: str = ""


Releases = Callable[[Consortium], Sequence[PlannedRelease]]
"""Function from a consortium to its releases: shares and clip radii may depend on sizes and noise."""


TermsFor = Callable[[Sequence[float]], Terms]
"""Function from the shares of all releases to their terms."""


def planned_releases(
    analysis: Analysis, public: Public, facts: PublicFacts, terms_for: TermsFor, protocol: Protocol
) -> tuple[PlannedRelease, ...]:
    """Return the releases of an analysis, for these public numbers and terms."""
    shape = facts.shape_facts()

    def noise(shares: tuple[float, ...], number: int, release: Release) -> float:
        terms = terms_for(shares)
        plan = plan_release(terms, number, _statistic(release, shape), protocol)
        return plan.sum_scale(terms.sites) / terms.divisor(terms.sites)

    analysis.check(public)
    releases = []
    for step in analysis.steps(public, noise):
        release, *others = alternatives(step)
        check_size(release.statistic, int(release.extent.released_size))
        instead = others[0].statistic if others else ""
        releases.append(
            PlannedRelease(_statistic(release, shape), release.share, int(release.times), str(release.known), instead)
        )
    return tuple(releases)


def plans_of(releases: Sequence[PlannedRelease], terms: Terms, protocol: Protocol) -> list[ReleaseNoise]:
    """Return the noise of each release; equal ones are planned once."""
    plans, start = [], 0
    for entry in releases:
        check_size(entry.statistic.name, entry.statistic.released_size)
        plans.append(plan_release(terms, start, entry.statistic, protocol))
        start += entry.times
    return plans


def _statistic(release: Release, facts: PublicFacts) -> PlannedStatistic:
    n_sites = release.numbers.get("n_sites")
    by_site = n_sites is not None and n_sites > 1
    in_single = bool(release.numbers.get("single"))
    return PlannedStatistic(release.statistic, facts, release.extent, release.assumption, by_site, in_single)


def releases_of(
    variant: str, widths: Sequence[int], bounds: Sequence[float], given: Options | None = None, *, setting: Consortium
) -> tuple[PlannedRelease, ...]:
    """Return the releases of a variant, for records of these public dimensions."""
    analysis, facts, public = public_of(variant, widths, bounds, given, setting=setting)
    return planned_releases(analysis, public, facts, lambda shares: setting.terms(facts, shares), setting.protocol)


def public_of(
    variant: str, widths: Sequence[int], bounds: Sequence[float], given: Options | None = None, *, setting: Consortium
) -> tuple[Analysis, PublicFacts, Public]:
    """Return the analysis of a variant, public facts and public numbers, for records of these dimensions."""
    options = options_of(variant, given or {})
    facts = facts_of(variant, widths, bounds, options)
    analysis, chosen = variants()[variant]
    known = public_facts(facts, sum(setting.sizes.values()), len(setting.sizes))

    def numbers(options: Options) -> Public:
        mu = partial(mu_of, float(setting.epsilon), setting.delta)
        return analysis.public(
            {**options, **chosen.fixed},
            known,
            mu=mu,
            total_mu=lambda: mu() / noise_ratio(setting.protocol, len(setting.sizes)),
        )

    return analysis, facts, numbers(_fitting(analysis, options, given or {}, numbers(options)))


def _fitting(analysis: Analysis, options: Options, given: Options, public: Public) -> dict[str, object]:
    """Return options in which a whole number that was not given is moved into its range."""
    moved = dict(options)
    for name, value in options.items():
        parameter = analysis.parameter(name)
        if name not in given and parameter.kind == WHOLE and isinstance(value, int):
            least, most = parameter.ends(public)
            moved[name] = min(max(value, int(least)), int(most))
    return moved


def facts_of(variant: str, widths: Sequence[int], bounds: Sequence[float], options: Options) -> PublicFacts:
    """Return the public facts of records of these dimensions."""
    if any(width < 1 for width in widths) or any(not SMALLEST_BOUND <= bound <= LARGEST_BOUND for bound in bounds):
        shown = [" and ".join(f"{number:g}" for number in numbers) for numbers in (widths, bounds)]
        raise InvalidParameter(
            "features",
            f"be positive, and bound between {SMALLEST_BOUND:g} and {LARGEST_BOUND:g}",
            f"features {shown[0]} and bound {shown[1]}",
        )
    analysis, chosen = variants()[variant]
    kind, unit = analysis.records, chosen.unit
    n_classes = options.get("n_classes", chosen.classes)
    assert n_classes is None or isinstance(n_classes, int)
    return PublicFacts(
        kind=kind,
        unit=unit,
        n_records=1,
        rows_per_unit=0 if unit == "subject" else 1,
        widths=tuple(widths),
        bounds=(1.0,) if kind in ("documents", "table") else tuple(bounds),
        response=(0.0, 1.0) if kind == "labelled" and n_classes is None else None,
        classes=None if n_classes is None else tuple(f"class-{index + 1}" for index in range(n_classes)),
        owner_note=MANY_TIME_POINTS if kind == "subjects" and unit == "record" else "",
    )


def start_of(analysis: Analysis, variant: Variant) -> dict[str, object]:
    """Return a variant's options with their initial values in plans."""
    return {name: analysis.parameter(name).start for name in variant.options}


def options_of(variant: str, given: Options) -> dict[str, object]:
    """Return a variant's options with the given values; refuse unknown names and invalid values."""
    if variant not in variants():
        raise InvalidParameter("analysis", f"be one of {', '.join(variants())}", repr(variant))
    analysis, chosen = variants()[variant]
    options = start_of(analysis, chosen)
    for name, value in given.items():
        if name not in options:
            wanted = f"one of {', '.join(options)}" if options else "left out"
            raise InvalidParameter(f"A parameter of {variant}", f"be {wanted}", repr(name))
        options[name] = _checked(analysis.parameter(name), value)
    return options


def parameters_of(variant: str, options: Options) -> dict[str, object]:
    """Return the parameters an expected error may depend on: options and the variant's fixed values."""
    return {**options, **variants()[variant][1].fixed}


def least_asked(parameter: Parameter) -> int:
    """Return the least whole number a plan accepts: 1, 0 where that means none, or 2 classes."""
    if parameter.name == "n_classes":
        return 2
    return 0 if parameter.least == 0 else 1


def _checked(parameter: Parameter, value: object) -> object:
    """Return a value of the parameter's kind; its range is checked elsewhere."""
    name = parameter.name
    if parameter.optional and value is None:
        return None
    if parameter.kind == FLAG:
        if not isinstance(value, bool):
            raise InvalidParameter(name, "be true or false", repr(value))
        return value
    if parameter.kind == WHOLE:
        least = least_asked(parameter)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidParameter(name, f"be a whole number of at least {least}", repr(value))
        return value
    if value == 0 and not isinstance(value, bool) and parameter.refuse is not None:
        # The parameter's own check decides whether zero is valid.
        return 0.0
    # Negated, because NaN compares false: this way NaN is refused.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InvalidParameter(name, "be a positive number", repr(value))
    return value
