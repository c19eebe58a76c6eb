"""All analyses by name: dpcape's own, and those of other packages where they are allowed."""

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
    """Contains every package: for whoever chose what is installed."""

    def __contains__(self, package: object) -> bool:
        return True


ANY_PACKAGE: Container[str] = _Anything()
NO_PACKAGE: Container[str] = ()


@cache
def own_analyses() -> Mapping[str, Analysis]:
    """Return dpcape's own analyses by name: whatever the files of this package describe."""
    modules = sorted(entry.name for entry in pkgutil.iter_modules(dpcape.analyses.__path__))
    found = [
        entry
        for name in modules
        for entry in vars(import_module(f"dpcape.analyses.{name}")).values()
        if isinstance(entry, Analysis)
    ]
    named = {entry.name: entry for entry in found}
    if len(named) != len({id(entry) for entry in found}):
        raise AssertionError("every analysis must have a name of its own")
    return named


def analyses(packages: Container[str] = NO_PACKAGE) -> dict[str, Analysis]:
    """Return the analyses a study may name: dpcape's own, and those of ``packages`` (distributions).

    A description from elsewhere is conditional, whatever it says of itself. Loading one runs its package's code.
    """
    own = {name: entry for name, entry in own_analyses().items() if entry.in_studies}
    foreign = {point.name: point for point in entry_points(group=GROUP) if package_of(point) in packages}
    return {**{name: _foreign(point) for name, point in foreign.items() if name not in own}, **own}


def analysis_named(name: str, packages: Container[str] = NO_PACKAGE) -> Analysis:
    """Return an analysis, or say which there are."""
    known = analyses(packages)
    if name not in known:
        raise InvalidParameter(f"an analysis must be one of {', '.join(sorted(known))}; got {name!r}.")
    return known[name]


@cache
def variants() -> Mapping[str, tuple[Analysis, Variant]]:
    """Return what can be planned from public numbers, by name, in the order of their groups."""
    found = [(entry, variant) for entry in own_analyses().values() for variant in entry.variants]
    return {variant.name: (entry, variant) for entry, variant in sorted(found, key=_place)}


def package_of(point: EntryPoint) -> str:
    """Return the distribution an entry point comes from."""
    return "" if point.dist is None else point.dist.name


def _foreign(point: EntryPoint) -> Analysis:
    found = point.load()
    if not isinstance(found, Analysis):
        raise InvalidParameter(
            f"the entry point {point.name!r} of {package_of(point)} must be an Analysis; got {type(found).__name__}."
        )
    return dataclasses.replace(found, name=point.name, standing=CONDITIONAL, package=package_of(point))


def _place(entry: tuple[Analysis, Variant]) -> tuple[int, int, str]:
    analysis = entry[0]
    group = GROUPS.index(analysis.group) if analysis.group in GROUPS else len(GROUPS)
    return group, analysis.place, analysis.name
