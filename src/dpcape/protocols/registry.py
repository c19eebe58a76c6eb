"""Protocols by the names that study files and commands use."""

from __future__ import annotations

from dpcape.errors import InvalidParameter
from dpcape.protocols.cape import Cape
from dpcape.protocols.dealer import Dealer
from dpcape.protocols.independent import Independent
from dpcape.protocols.protocol import Protocol
from dpcape.protocols.secure_sum import SecureSum

PROTOCOLS = ("cape", "secure-sum", "independent", "dealer")


def make_protocol(
    name: str, *, n_colluding: int, minimum_sites: int | None = None, cancelling_ratio: float = 100.0
) -> Protocol:
    """Return the protocol of this command-line name."""
    if name == "cape":
        return Cape(n_colluding=n_colluding, minimum_sites=minimum_sites, cancelling_ratio=cancelling_ratio)
    if name == "secure-sum":
        return SecureSum(n_colluding=n_colluding, minimum_sites=minimum_sites)
    if name == "independent":
        return Independent(minimum_sites=minimum_sites)
    if name == "dealer":
        if minimum_sites is not None:
            raise InvalidParameter("minimum_sites must be left out for dealer: all sites must finish.")
        return Dealer(n_colluding=n_colluding, cancelling_ratio=cancelling_ratio)
    raise InvalidParameter(f"protocol must be one of {', '.join(PROTOCOLS)}; got {name!r}.")
