"""Registry of protocols: every concrete protocol class of this package, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from dpcape.core.errors import InvalidMessage, InvalidParameter, nearest_name
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
        must = f"be one of {', '.join(PROTOCOLS)}"
        raise InvalidParameter("protocol", must, repr(name), nearest_name(name, PROTOCOLS))
    protocol = PROTOCOLS[name]
    own = [parameter.name for parameter in protocol.parameters]
    chosen = {key: value for key, value in values.items() if value is not None}
    for key in chosen:
        if key not in own and key not in parameters():
            must = f"be {', '.join(own) or 'left out'}"
            raise InvalidParameter(f"parameters of {name}", must, repr(key), nearest_name(key, own))
        if key in protocol.refused:
            raise InvalidParameter(key, f"be left out for {name}: {protocol.refused[key]}")
    for parameter in protocol.parameters:
        if parameter.required and parameter.name not in chosen:
            must = f"be given for {name}"
            raise InvalidParameter(parameter.name, must, "nothing", f"Write for example {parameter.name}=1.")
    return protocol(**{key: value for key, value in chosen.items() if key in own})


def from_settings(settings: ProtocolSettings) -> Protocol:
    """Return the protocol with these settings."""
    if settings.name not in PROTOCOLS:
        remedy = "Install the same dpcape version everywhere."
        raise InvalidMessage("protocol", f"be one of {sorted(PROTOCOLS)}", repr(settings.name), remedy)
    return PROTOCOLS[settings.name].from_settings(settings)


def protocol_of(class_name: str) -> type[Protocol] | None:
    """Return the protocol class of this name, as guarantees state it, or None if there is none."""
    return next((protocol for protocol in PROTOCOLS.values() if protocol.__name__ == class_name), None)
