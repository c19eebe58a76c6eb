"""Analyses of other packages in a study: which one it names, and how their code is run at the sites."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Container, Mapping
from importlib.metadata import EntryPoint
from typing import TypeAlias

from dpcape.analyses.description import Analysis
from dpcape.analyses.registry import NO_PACKAGE, analyses, loaded, needed_code, own_analyses, package_of
from dpcape.core.enclosed import LEAST_SECONDS, MAX_BLOCK, MOST_SECONDS, RECORD_BY_RECORD, SAMPLED, WAYS, Enclosure
from dpcape.core.errors import InvalidParameter
from dpcape.study.toml_reader import TomlSource, TomlTable

Describe: TypeAlias = Callable[[EntryPoint, str], Analysis]
"""Finds out what must be known of the analysis of this name, given the code of another package that it needs."""


def known_analyses(source: TomlSource, packages: Container[str], describe: Describe | None) -> Mapping[str, Analysis]:
    """Return the analyses a study may name; of other packages only the code it names is looked at."""
    head = source.content.get("study")
    if isinstance(head, Mapping):
        _refuse_one_process(source, head.get("analysis"))
    needed = needed_code(head, packages) if isinstance(head, Mapping) else None
    if not isinstance(head, Mapping) or needed is None:
        return analyses(NO_PACKAGE)
    if package_of(needed) not in packages:
        package = package_of(needed)
        must = "be of dpcape, or of a package that is allowed here"
        remedy = f"At a site, allow it with: dpcape site allow-analysis {package}."
        refused = InvalidParameter("analysis", must, f"{needed.name!r} of the package {package!r}", remedy)
        raise source.located(("study", "analysis"), refused)
    named = str(head["analysis"])
    return ChainMap({named: (describe or loaded)(needed, named)}, analyses(NO_PACKAGE))  # type: ignore[arg-type]


def _refuse_one_process(source: TomlSource, named: object) -> None:
    """Refuse an analysis of dpcape that no site is served for."""
    analysis = own_analyses().get(named) if isinstance(named, str) else None
    if analysis is not None and not analysis.in_studies:
        remedy = f"Use {analysis.python} in Python on the machine that holds the records."
        refused = InvalidParameter("analysis", "be one that sites compute together", repr(named), remedy)
        raise source.located(("study", "analysis"), refused)


def read_enclosure(source: TomlSource, analysis: Analysis) -> Enclosure | None:
    """Return the content of the [package] table; None for an analysis without code of other packages."""
    section = TomlTable(source, ("package",), required=False)
    if analysis.package == "dpcape":
        if "package" in source.content:
            must = "be left out for a study without code of other packages"
            raise source.located(("package",), InvalidParameter("[package]", must, "one", "Remove it."), at_key=True)
        return None
    way = section.choice("way", WAYS) if "way" in section else SAMPLED
    block = section.count("block", least=1, required=way == RECORD_BY_RECORD) or 1
    if block > MAX_BLOCK:
        section.fail("block", f"at most {MAX_BLOCK}")
    seconds = section.seconds("seconds") or Enclosure(package="").seconds
    if not LEAST_SECONDS <= seconds <= MOST_SECONDS:
        section.fail("seconds", f"from {LEAST_SECONDS:g} to {MOST_SECONDS:g}")
    section.finish()
    return Enclosure(package=analysis.package, way=way, block=block, seconds=seconds)
