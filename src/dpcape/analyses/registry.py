"""Registry of analyses by name: dpcape's own, and those of other packages that are allowed."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections import ChainMap
from collections.abc import Container, Iterator, Mapping
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points

from dpcape.analyses.description import GROUPS, Analysis, Variant
from dpcape.analyses.names import IN_ONE_PROCESS, IN_STUDIES
from dpcape.core.errors import InvalidParameter
from dpcape.core.lazy import Lazily

GROUP = "dpcape.analyses"


class _Anything:
    """Container of all packages, for a user who chose what is installed."""

    def __contains__(self, package: object) -> bool:
        return True


ANY_PACKAGE: Container[str] = _Anything()
NO_PACKAGE: Container[str] = ()


_OWN: Mapping[str, Analysis] = Lazily({**IN_STUDIES, **IN_ONE_PROCESS})
_IN_STUDIES: Mapping[str, Analysis] = Lazily(IN_STUDIES)


def own_analyses() -> Mapping[str, Analysis]:
    """Return dpcape's own analyses by name; a description is imported when it is asked for."""
    return _OWN


@cache
def code_groups() -> tuple[str, ...]:
    """Return the groups of entry points under which packages declare code: analyses, and what their parameters name."""
    named = [entry.code.group for analysis in own_analyses().values() for entry in analysis.parameters if entry.code]
    return (GROUP, *sorted(set(named)))


def analyses(packages: Container[str] = NO_PACKAGE) -> Mapping[str, Analysis]:
    """Return the analyses a study may name: dpcape's own, and those of ``packages`` (distributions).

    A description from another package has the status "conditional", whatever it declares. Loading it runs that
    package's code.
    """
    others = {name: loaded(point, name) for name, point in points(packages).items()}
    return ChainMap(_IN_STUDIES, others) if others else _IN_STUDIES  # type: ignore[arg-type]  # nothing is written


def points(packages: Container[str]) -> dict[str, EntryPoint]:
    """Return the analyses that other packages declare, by name, without loading any code."""
    own = own_analyses()
    return {point.name: point for point in _declared(GROUP) if package_of(point) in packages and point.name not in own}


def _declared(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, without loading any code."""
    return _read(group, tuple((folder, _changed(folder)) for folder in sys.path))


def _changed(folder: str) -> int:
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


# Cached, because this reads every installed distribution and a run needs it dozens of times. Installing or removing a
# distribution changes the modification time of its folder, and so the key of the cache.
@lru_cache(maxsize=8)
def _read(group: str, folders: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def analysis_named(name: str, packages: Container[str] = NO_PACKAGE) -> Analysis:
    """Return the analysis of this name; the error lists all names."""
    known = analyses(packages)
    if name not in known:
        raise InvalidParameter("analysis", f"be one of {', '.join(sorted(known))}", repr(name))
    return known[name]


def declared_code(packages: Container[str]) -> list[EntryPoint]:
    """Return everything that packages declare, analyses and what parameters may name, without loading any code."""
    named = [point for group in code_groups()[1:] for point in _declared(group)]
    return [*points(packages).values(), *(point for point in named if package_of(point) in packages)]


def needed_code(head: Mapping[str, object], packages: Container[str]) -> EntryPoint | None:
    """Return the code of another package that a study names, without loading it; None if it names none.

    That is the analysis itself, or what a parameter of an analysis of dpcape names.

    Parameters
    ----------
    head : mapping
        The [study] table of a study.
    packages : container of str
        Distributions that are preferred where several declare the name.
    """
    name = str(head.get("analysis", ""))
    own = own_analyses().get(name)
    wanted = [(GROUP, name)] if own is None else list(_named_code(own, head))
    matches = [point for group, value in wanted for point in _declared(group) if point.name == value]
    return next((point for point in matches if package_of(point) in packages), matches[0] if matches else None)


def _named_code(analysis: Analysis, head: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield group and name of code that parameters of an analysis name; dpcape's own is left out."""
    for entry in analysis.parameters:
        value = head.get(entry.name)
        if entry.code is not None and isinstance(value, str) and value not in entry.code.own():
            yield entry.code.group, value


@cache
def variants() -> Mapping[str, tuple[Analysis, Variant]]:
    """Return the variants that can be planned from public numbers, by name, ordered by group."""
    pairs = [(entry, variant) for entry in own_analyses().values() for variant in entry.variants]
    return {variant.name: (entry, variant) for entry, variant in sorted(pairs, key=_order)}


def package_of(point: EntryPoint) -> str:
    """Return the name of the distribution that declares an entry point."""
    return "" if point.dist is None else point.dist.name


def loaded(point: EntryPoint, name: str) -> Analysis:
    """Load code of another package, which runs it, and return the analysis of this name that needs it.

    The analysis is conditional, whatever the package declares.
    """
    code = point.load()
    if point.group != GROUP:
        return dataclasses.replace(own_analyses()[name], law="", package=package_of(point), part=part_of(point))
    if not isinstance(code, Analysis):
        subject = f"The entry point {point.name!r} of {package_of(point)}"
        raise InvalidParameter(subject, "be an Analysis", type(code).__name__, "Report this to the package's authors.")
    return dataclasses.replace(code, name=point.name, law="", package=package_of(point))


def part_of(point: EntryPoint) -> str:
    """Return what a package adds to an analysis of dpcape, in words; empty if the analysis itself is the package's."""
    return "" if point.group == GROUP else f"{point.group.partition('.')[2]}: {point.name}"


def _order(entry: tuple[Analysis, Variant]) -> tuple[int, int, str]:
    analysis = entry[0]
    group = GROUPS.index(analysis.group) if analysis.group in GROUPS else len(GROUPS)
    return group, analysis.place, analysis.name
