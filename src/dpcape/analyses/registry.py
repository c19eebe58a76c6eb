"""Registry of analyses by name: dpcape's own, and those of other packages that are allowed."""

from __future__ import annotations

import dataclasses
import pkgutil
from collections.abc import Container, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

import dpcape.analyses
from dpcape.analyses.description import CONDITIONAL, GROUPS, Analysis, Variant
from dpcape.errors import InvalidParameter

GROUP = "dpcape.analyses"


class _Anything:
    """Container of all packages, for a user who chose what is installed."""

    def __contains__(self, package: object) -> bool:
        return True


ANY_PACKAGE: Container[str] = _Anything()
NO_PACKAGE: Container[str] = ()


@cache
def own_analyses() -> Mapping[str, Analysis]:
    """Return dpcape's own analyses by name: those that the modules of this package describe."""
    modules = sorted(entry.name for entry in pkgutil.iter_modules(dpcape.analyses.__path__))
    found = [
        entry
        for name in modules
        for entry in vars(import_module(f"dpcape.analyses.{name}")).values()
        if isinstance(entry, Analysis)
    ]
    named = {entry.name: entry for entry in found}
    if len(named) != len({id(entry) for entry in found}):
        raise AssertionError("names of analyses must be unique")
    return named


def analyses(packages: Container[str] = NO_PACKAGE) -> dict[str, Analysis]:
    """Return the analyses a study may name: dpcape's own, and those of ``packages`` (distributions).

    A description from another package has the status "conditional", whatever it declares. Loading it runs that
    package's code.
    """
    own = {name: entry for name, entry in own_analyses().items() if entry.in_studies}
    return {**{name: loaded(point) for name, point in points(packages).items()}, **own}


def points(packages: Container[str]) -> dict[str, EntryPoint]:
    """Return the analyses that other packages declare, by name, without loading any code."""
    found = {point.name: point for point in entry_points(group=GROUP) if package_of(point) in packages}
    return {name: point for name, point in found.items() if name not in own_analyses()}


def analysis_named(name: str, packages: Container[str] = NO_PACKAGE) -> Analysis:
    """Return the analysis of this name; the error lists all names."""
    known = analyses(packages)
    if name not in known:
        raise InvalidParameter(f"analysis must be one of {', '.join(sorted(known))}; got {name!r}.")
    return known[name]


def declaring_package(name: str) -> str:
    """Return the distribution that declares an analysis, without loading its code; empty for dpcape's own names."""
    points = [] if name in own_analyses() else [point for point in entry_points(group=GROUP) if point.name == name]
    return package_of(points[0]) if points else ""


@cache
def variants() -> Mapping[str, tuple[Analysis, Variant]]:
    """Return the variants that can be planned from public numbers, by name, ordered by group."""
    found = [(entry, variant) for entry in own_analyses().values() for variant in entry.variants]
    return {variant.name: (entry, variant) for entry, variant in sorted(found, key=_place)}


def package_of(point: EntryPoint) -> str:
    """Return the name of the distribution that declares an entry point."""
    return "" if point.dist is None else point.dist.name


def loaded(point: EntryPoint) -> Analysis:
    """Load the analysis of another package, which runs its code; it is conditional, whatever it declares."""
    found = point.load()
    if not isinstance(found, Analysis):
        raise InvalidParameter(
            f"The entry point {point.name!r} of {package_of(point)} must be an Analysis; got {type(found).__name__}. "
            "Report this to the package's authors."
        )
    return dataclasses.replace(found, name=point.name, standing=CONDITIONAL, package=package_of(point))


def _place(entry: tuple[Analysis, Variant]) -> tuple[int, int, str]:
    analysis = entry[0]
    group = GROUPS.index(analysis.group) if analysis.group in GROUPS else len(GROUPS)
    return group, analysis.place, analysis.name
