"""The [federation] table of a study, and the noise dealer that a study on an engine may need."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dpcape.core.protocols.protocol import Protocol
from dpcape.study.toml_reader import TomlSource, TomlTable, without_dates

# Names of other roles, under which sites store keys.
_RESERVED = ("coordinator",)


def read_federation(source: TomlSource, protocol: Protocol, sites: Collection[str]) -> dict[str, Any] | None:
    """Return the content of the [federation] table; the engine checks everything but its name."""
    _check_dealer(TomlTable(source, ("protocol",)), protocol, sites, on_engine="federation" in source.content)
    if "federation" not in source.content:
        return None
    section = TomlTable(source, ("federation",))
    engine = section.choice("engine", ("flare",))
    engine_settings = section.unread()
    for key, value in engine_settings.items():
        if not without_dates(value):
            section.fail(key, "made of strings, finite numbers, true, false, lists and tables")
    return {"engine": engine, **engine_settings}


def _check_dealer(section: TomlTable, protocol: Protocol, sites: Collection[str], *, on_engine: bool) -> None:
    """Refuse a study on an engine that names no noise dealer where one is needed, and a dealer that is a site."""
    name = protocol.dealt_by
    if name in (*sites, *_RESERVED):
        section.fail("dealer", "a participant of its own, neither a site of the study nor the coordinator")
    if name and not on_engine:
        section.refuse("dealer", "without [federation]: noise is then dealt by the process that runs the study")
    if protocol.needs_dealer and on_engine and not name:
        section.fail("dealer", "the name of the participant that deals noise, since the study runs on an engine")
