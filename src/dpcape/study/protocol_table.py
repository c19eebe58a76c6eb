"""The [protocol] table of a study."""

from __future__ import annotations

from collections.abc import Mapping

from dpcape.core.protocols.parameters import ProtocolParameter
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.protocols.registry import PROTOCOLS, make_protocol
from dpcape.study.toml_reader import TomlTable


def read_protocol(section: TomlTable, n_sites: int) -> tuple[dict[str, float | str], float | None]:
    """Return the content of the [protocol] table: kind and parameters, and the deadline."""
    kind = section.choice("kind", tuple(PROTOCOLS))
    deadline = section.seconds("deadline")
    read = {parameter.name: _read_parameter(section, parameter) for parameter in PROTOCOLS[kind].parameters}
    section.finish()
    settings: dict[str, float | str] = {
        "kind": kind,
        **{name: value for name, value in read.items() if value is not None},
    }
    section.within("kind", lambda: protocol_of(settings).settings(n_sites))
    return settings, deadline


def _read_parameter(section: TomlTable, parameter: ProtocolParameter) -> float | str | None:
    if parameter.kind == "name":
        return section.text(parameter.name, required=parameter.required)
    if parameter.kind == "count":
        return section.count(parameter.name, least=parameter.least, required=parameter.required)
    return section.number(parameter.name, required=parameter.required)


def protocol_of(settings: Mapping[str, float | str]) -> Protocol:
    """Return the protocol of a study's settings."""
    parameters = {key: value for key, value in settings.items() if key != "kind"}
    return make_protocol(str(settings["kind"]), **parameters)
