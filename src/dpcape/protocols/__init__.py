"""Protocols: how sites add noise so that it is large at a site and small in the sum."""

from dpcape.protocols.cape import Cape
from dpcape.protocols.dealer import Dealer
from dpcape.protocols.exact import Exact
from dpcape.protocols.independent import Independent
from dpcape.protocols.parameters import ProtocolParameter
from dpcape.protocols.protocol import CoordinatorRole, Protocol, SiteRole
from dpcape.protocols.registry import PARAMETERS, PLANNABLE, PROTOCOLS, from_settings, make_protocol, protocol_of
from dpcape.protocols.secure_sum import SecureSum

__all__ = [
    "PARAMETERS",
    "PLANNABLE",
    "PROTOCOLS",
    "Cape",
    "CoordinatorRole",
    "Dealer",
    "Exact",
    "Independent",
    "Protocol",
    "ProtocolParameter",
    "SecureSum",
    "SiteRole",
    "from_settings",
    "make_protocol",
    "protocol_of",
]
