"""Registry of protocols: every concrete protocol class of this package, by name."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType

from dpcape.errors import InvalidParameter, ProtocolError
from dpcape.privacy.terms import ProtocolSettings
from dpcape.protocols.parameters import ProtocolParameter
from dpcape.protocols.protocol import Protocol


def _found() -> dict[str, type[Protocol]]:
    """Return the protocols of this package, in listing order."""
    package = __name__.rpartition(".")[0]
    names = [f"{package}.{entry.name}" for entry in iter_modules([str(Path(__file__).parent)])]
    classes = [
        entry
        for name in names
        if name != __name__
        for entry in vars(import_module(name)).values()
        if inspect.isclass(entry) and issubclass(entry, Protocol) and entry.__module__ == name
    ]
    concrete = [entry for entry in classes if not inspect.isabstract(entry)]
    return {entry.name: entry for entry in sorted(concrete, key=lambda entry: (entry.rank, entry.name))}


PROTOCOLS: Mapping[str, type[Protocol]] = MappingProxyType(_found())
"""Classes of all protocols, by the name that study files, commands and messages use."""

PLANNABLE: Mapping[str, type[Protocol]] = MappingProxyType(
    {name: protocol for name, protocol in PROTOCOLS.items() if protocol.plannable}
)
"""Classes of the protocols that plans can be made for, by name."""

PARAMETERS: Mapping[str, ProtocolParameter] = MappingProxyType(
    {parameter.name: parameter for protocol in PROTOCOLS.values() for parameter in protocol.parameters}
)
"""Parameters of all protocols, by name."""


def make_protocol(name: str, **parameters: float | str | None) -> Protocol:
    """Return the protocol of this name.

    Parameters
    ----------
    name : str
        One of ``PROTOCOLS``.
    **parameters : float, str or None
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
    given = {key: value for key, value in parameters.items() if value is not None}
    for key in given:
        if key not in PARAMETERS:
            text = f"parameters of {name} must be {', '.join(own) or 'left out'}; got {key!r}."
            raise InvalidParameter(f"{text} {_nearest(key, own)}".rstrip())
        if key in protocol.refused:
            raise InvalidParameter(f"{key} must be left out for {name}: {protocol.refused[key]}.")
    for parameter in protocol.parameters:
        if parameter.required and parameter.name not in given:
            raise InvalidParameter(
                f"{name} needs {parameter.name}, which was not given. Write for example {parameter.name}=1."
            )
    return protocol(**{key: value for key, value in given.items() if key in own})


def from_settings(settings: ProtocolSettings) -> Protocol:
    """Return the protocol with these settings."""
    if settings.name not in PROTOCOLS:
        raise ProtocolError(
            f"protocol must be one of {sorted(PROTOCOLS)}; got {settings.name!r}. "
            "Install the same dpcape version everywhere."
        )
    return PROTOCOLS[settings.name].from_settings(settings)


def protocol_of(class_name: str) -> type[Protocol] | None:
    """Return the protocol class of this name, as guarantees state it, or None if there is none."""
    return next((protocol for protocol in PROTOCOLS.values() if protocol.__name__ == class_name), None)


def _nearest(value: str, choices: Iterable[str]) -> str:
    near = difflib.get_close_matches(value, list(choices), n=1)
    return f"Did you mean {near[0]!r}?" if near else ""
