"""Registry of protocols: every concrete protocol class of this package, by name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from functools import cache

from dpcape.core.errors import Failed, InvalidMessage, InvalidParameter
from dpcape.core.lazy import Lazily
from dpcape.core.privacy.terms import ProtocolSettings
from dpcape.core.protocols.names import PROTOCOL_NAMES
from dpcape.core.protocols.parameters import ProtocolParameter
from dpcape.core.protocols.protocol import Protocol

PROTOCOLS: Mapping[str, type[Protocol]] = Lazily(PROTOCOL_NAMES)
"""Classes of all protocols, by the name that study files, commands and messages use; imported when asked for."""


@cache
def plannable() -> Mapping[str, type[Protocol]]:
    """Return the classes of the protocols that plans can be made for, by name."""
    return {name: protocol for name, protocol in PROTOCOLS.items() if protocol.plannable}


@cache
def parameters() -> Mapping[str, ProtocolParameter]:
    """Return the parameters of all protocols, by name."""
    return {entry.name: entry for protocol in PROTOCOLS.values() for entry in protocol.parameters}


def make_protocol(name: str, **values: float | str | None) -> Protocol:
    """Return the protocol of this name.

    Parameters
    ----------
    name : str
        One of ``PROTOCOLS``.
    **values : float, str or None
        Parameters of this or another protocol; None is the same as leaving one out. Another protocol's parameters are
        ignored if the guarantee holds for any value of them, else refused (``Protocol.refused``).

    Examples
    --------
    >>> make_protocol("cape", n_colluding=1)
    Cape(n_colluding=1, minimum_sites=None, cancelling_ratio=100.0, n_neighbours=None)
    >>> make_protocol("independent", n_colluding=1)
    Independent(minimum_sites=None)
    """
    if name not in PROTOCOLS:
        text = f"protocol must be one of {', '.join(PROTOCOLS)}; got {name!r}."
        raise InvalidParameter(f"{text} {_nearest(name, PROTOCOLS)}".rstrip())
    protocol = PROTOCOLS[name]
    own = [parameter.name for parameter in protocol.parameters]
    given = {key: value for key, value in values.items() if value is not None}
    for key in given:
        if key not in own and key not in parameters():
            text = f"parameters of {name} must be {', '.join(own) or 'left out'}; got {key!r}."
            raise InvalidParameter(f"{text} {_nearest(key, own)}".rstrip())
        if key in protocol.refused:
            raise InvalidParameter(key, f"be left out for {name}: {protocol.refused[key]}")
    for parameter in protocol.parameters:
        if parameter.required and parameter.name not in given:
            raise Failed(
                f"{name} needs {parameter.name}, which was not given", remedy=f"Write for example {parameter.name}=1."
            )
    return protocol(**{key: value for key, value in given.items() if key in own})


def from_settings(settings: ProtocolSettings) -> Protocol:
    """Return the protocol with these settings."""
    if settings.name not in PROTOCOLS:
        raise InvalidMessage(
            "protocol",
            f"be one of {sorted(PROTOCOLS)}",
            repr(settings.name),
            "Install the same dpcape version everywhere.",
        )
    return PROTOCOLS[settings.name].from_settings(settings)


def protocol_of(class_name: str) -> type[Protocol] | None:
    """Return the protocol class of this name, as guarantees state it, or None if there is none."""
    return next((protocol for protocol in PROTOCOLS.values() if protocol.__name__ == class_name), None)


def _nearest(value: str, choices: Iterable[str]) -> str:
    near = difflib.get_close_matches(value, list(choices), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""
