"""How sites share noise: large at a site, small in the sum."""

from dpcape.errors import ProtocolError
from dpcape.privacy.terms import ProtocolSettings
from dpcape.protocols.cape import Cape
from dpcape.protocols.dealer import Dealer
from dpcape.protocols.exact import Exact
from dpcape.protocols.independent import Independent
from dpcape.protocols.protocol import CoordinatorRole, Protocol, SiteRole
from dpcape.protocols.secure_sum import SecureSum

_BY_NAME: dict[str, type[Protocol]] = {
    protocol.name: protocol for protocol in (Cape, SecureSum, Independent, Dealer, Exact)
}


def from_settings(settings: ProtocolSettings) -> Protocol:
    """Rebuild a protocol from what travelled."""
    if settings.name not in _BY_NAME:
        raise ProtocolError(f"a protocol must be one of {sorted(_BY_NAME)}; got {settings.name!r}.")
    return _BY_NAME[settings.name].from_settings(settings)


__all__ = [
    "Cape",
    "CoordinatorRole",
    "Dealer",
    "Exact",
    "Independent",
    "Protocol",
    "SecureSum",
    "SiteRole",
    "from_settings",
]
