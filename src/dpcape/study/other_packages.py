"""Analyses of other packages in a study: which one it names, and how their code is run at the sites."""

from __future__ import annotations

from collections.abc import Callable, Container
from importlib.metadata import EntryPoint
from typing import TypeAlias

from dpcape.analyses.description import Analysis
from dpcape.analyses.registry import NO_PACKAGE, analyses, loaded, points
from dpcape.statistics.enclosed import (
    LEAST_SECONDS,
    MAX_BLOCK,
    MOST_SECONDS,
    RECORD_BY_RECORD,
    SAMPLED,
    WAYS,
    Enclosure,
)
from dpcape.study.toml_reader import TomlSource, TomlTable

Describe: TypeAlias = Callable[[EntryPoint], Analysis]
"""Finds out what must be known of an analysis of another package."""


def known_analyses(source: TomlSource, packages: Container[str], describe: Describe | None) -> dict[str, Analysis]:
    """Return the analyses a study may name; of other packages only the one it names is looked at."""
    head = source.content.get("study")
    named = head.get("analysis") if isinstance(head, dict) else None
    allowed = points(packages)
    if not isinstance(named, str) or named not in allowed:
        return analyses(NO_PACKAGE)
    return {**analyses(NO_PACKAGE), named: (describe or loaded)(allowed[named])}


def read_enclosure(source: TomlSource, analysis: Analysis) -> Enclosure | None:
    """Return the content of the [package] table; None for an analysis of dpcape, which has no such table."""
    section = TomlTable(source, ("package",), required=False)
    if analysis.package == "dpcape":
        if "package" in source.content:
            source.fail(
                ("package",), "[package] must be left out for an analysis of dpcape; got one. Remove it.", at_key=True
            )
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
