"""Analyses of other packages: their statistics are enclosed, and what a site must know of them is plain data.

A site never loads such an analysis. :class:`PlainOutline` and :class:`PlainAnalysis` hold what a sandboxed child found
out about it, and :func:`plain_analysis` makes a description of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import msgspec

from dpcape.analyses.description import Analysis, Public, alternatives, public_facts
from dpcape.analyses.parameters import OTHER, REQUIRED, Parameter
from dpcape.analyses.release import Either, Refusal, Release, Step, Steps
from dpcape.core.enclosed import Enclosure, assumption_of
from dpcape.core.errors import Failed, InvalidParameter
from dpcape.core.extent import Extent, rounding_one_by_one
from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import is_own, statistic_class

MAX_STEPS = 10_000
PlainValue = str | int | float | bool | list[str | int | float | bool] | None
"""Value of a parameter in a study file."""


class PlainRelease(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A release as data; ``size`` and ``radius`` are those that another package states of its own statistic."""

    statistic: str
    is_own: bool
    numbers: dict[str, float | None]
    share: float
    times: int
    known: str
    feeds: bool
    assumption: str
    size: int
    radius: float


class PlainOutline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The releases of an analysis, each with its alternative, up to one whose noise must be known to go on."""

    steps: list[list[PlainRelease]]
    is_complete: bool


class PlainAnalysis(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a site must know of an analysis besides its releases."""

    python: str
    kinds: list[str]
    records: str
    units: list[str]
    required: list[str]
    optional: list[str]


class Asker(Protocol):
    """Interface of what runs the code of another package elsewhere."""

    def analysis(self, name: str, package: str) -> PlainAnalysis:
        """Return what must be known of an analysis."""

    def outline(self, name: str, package: str, numbers: PublicNumbers) -> PlainOutline:
        """Return the releases of an analysis."""


class PublicNumbers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Numbers that determine the releases of an analysis; ``noise`` has the scales of the first that feed others."""

    given: dict[str, PlainValue]
    facts: PublicFacts
    n_records: int
    n_participants: int
    mu: float
    total_mu: float
    noise: list[float]


def enclosed(analysis: Analysis, enclosure: Enclosure) -> Analysis:
    """Return an analysis of another package whose own statistics are enclosed; those of dpcape stay as they are."""

    def schedule(public: Public) -> Steps:
        running, answer = analysis.schedule(public), None
        while True:
            try:
                step = running.send(answer)
            except StopIteration:
                return
            answer = yield _enclosed_step(step, enclosure)

    return replace(analysis, schedule=schedule)


def _enclosed_step(step: Step, enclosure: Enclosure) -> Step:
    if isinstance(step, Refusal):
        return step
    if isinstance(step, Either):
        first, second = (_enclosed_release(entry, enclosure) for entry in (step.first, step.second))
        return replace(step, first=first, second=second)
    return _enclosed_release(step, enclosure)


def _enclosed_release(release: Release, enclosure: Enclosure) -> Release:
    if release.stated is None and _is_proved(release):
        return release
    extent = release.extent
    return replace(
        release,
        statistic=enclosure.way,
        numbers={"size": extent.size, "radius": extent.radius, "block": enclosure.block},
        assumption=assumption_of(enclosure, release.statistic),
        inner=release.statistic,
        stated=None,
    )


def _is_proved(release: Release) -> bool:
    """Return whether dpcape's own code computes a release. Whatever rests on an assumption is enclosed."""
    return is_own(statistic_class(release.statistic)) and not release.assumption


def plain_analysis(name: str, package: str, asker: Asker, part: str = "") -> Analysis:
    """Return the description of an analysis that is not loaded here: whatever is computed from it is asked for.

    ``part`` says what the package provides if the analysis is dpcape's own.
    """
    about = asker.analysis(name, package)
    required = [Parameter(entry, OTHER, default=REQUIRED) for entry in about.required]
    optional = [Parameter(entry, OTHER, default=None) for entry in about.optional]
    names = (*about.required, *about.optional)
    return Analysis(
        name,
        f":{about.python}",
        "Others",
        frozenset(about.kinds),
        about.records,
        (*required, *optional),
        _outlined_schedule(lambda numbers: asker.outline(name, package, numbers), names),
        units=frozenset(about.units),
        package=package,
        part=part,
    )


def _outlined_schedule(
    outline: Callable[[PublicNumbers], PlainOutline], names: tuple[str, ...]
) -> Callable[[Public], Steps]:
    def schedule(public: Public) -> Steps:
        parameters = {name: getattr(public, name) for name in names if getattr(public, name) is not None}
        noise: list[float] = []
        n_done = 0
        while True:
            numbers = PublicNumbers(
                given=parameters,
                facts=public.facts,
                n_records=public.n_records,
                n_participants=public.n_participants,
                mu=public.mu,
                total_mu=public.total_mu,
                noise=noise,
            )
            outlined = outline(numbers)
            answer: float | None = None
            for step in outlined.steps[n_done:]:
                answer = yield _read(step)
            n_done = len(outlined.steps)
            if outlined.is_complete:
                return
            if answer is None or n_done >= MAX_STEPS:
                raise Failed("The releases of the analysis have no end", remedy="Report this to the package's authors.")
            noise.append(float(answer))

    return schedule


def _read(step: list[PlainRelease]) -> Step:
    releases = [_read_release(entry) for entry in step]
    if len(releases) not in (1, 2):
        remedy = "Report this to the package's authors."
        raise InvalidParameter("A step of an analysis", "be one release or two alternatives", "more or fewer", remedy)
    return releases[0] if len(releases) == 1 else Either(releases[0], releases[1])


def _read_release(plain: PlainRelease) -> Release:
    if not (0 < plain.share <= 1 and 1 <= plain.times <= MAX_STEPS and plain.size >= 1 and plain.radius > 0):
        raise InvalidParameter("A release", "have a share, a size and a radius", "one without")
    stated = Extent(plain.size, 2 * plain.radius, plain.radius, rounding_one_by_one(plain.radius))
    return Release(
        plain.statistic,
        plain.numbers,
        share=plain.share,
        times=plain.times,
        known=plain.known,
        feeds=plain.feeds,
        assumption=plain.assumption,
        stated=None if plain.is_own else stated,
    )


def plain_outline(analysis: Analysis, numbers: PublicNumbers) -> PlainOutline:
    """Return the releases of a loaded analysis as data; this runs its code."""
    known = public_facts(numbers.facts, numbers.n_records, numbers.n_participants)
    public = analysis.public(numbers.given, known, mu=lambda: numbers.mu, total_mu=lambda: numbers.total_mu)
    analysis.check(public)
    steps: list[list[PlainRelease]] = []
    scales = list(numbers.noise)
    is_unknown = False

    def answered(number: int, release: Release) -> float:
        nonlocal is_unknown
        is_unknown = not scales
        return scales.pop(0) if scales else 1.0

    for step in analysis.releases(public, answered):
        steps.append([_plain(entry) for entry in alternatives(step)])
        if is_unknown:
            break
    return PlainOutline(steps=steps, is_complete=not is_unknown)


def _plain(release: Release) -> PlainRelease:
    extent = release.extent
    own = _is_proved(release)
    return PlainRelease(
        statistic=release.statistic,
        is_own=own,
        numbers=dict(release.numbers) if own else {},
        share=float(release.share),
        times=int(release.times),
        known=str(release.known),
        feeds=release.feeds,
        assumption=release.assumption,
        size=int(extent.size),
        radius=float(extent.radius),
    )


def plain_about(analysis: Analysis) -> PlainAnalysis:
    """Return what a site must know of a loaded analysis besides its releases."""
    names: Mapping[bool, list[str]] = {True: [], False: []}
    for entry in analysis.parameters:
        names[entry.default is REQUIRED].append(entry.name)
    return PlainAnalysis(
        python=analysis.python,
        kinds=sorted(analysis.kinds),
        records=analysis.records,
        units=sorted(analysis.units),
        required=names[True],
        optional=names[False],
    )


def inner_statistics(analysis: Analysis, public: Public) -> frozenset[str]:
    """Return the names of the statistics of another package that an enclosed analysis may request."""
    steps = analysis.releases(public, lambda number, release: 1.0)
    return frozenset(entry.inner for step in steps for entry in alternatives(step) if entry.inner)
