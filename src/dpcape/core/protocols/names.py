"""Where each protocol is defined, in listing order."""

PROTOCOL_NAMES = {
    "cape": "dpcape.core.protocols.cape:Cape",
    "secure-sum": "dpcape.core.protocols.secure_sum:SecureSum",
    "independent": "dpcape.core.protocols.independent:Independent",
    "dealer": "dpcape.core.protocols.dealer:Dealer",
    "exact": "dpcape.core.protocols.exact:Exact",
}
"""Name in study files and messages -> module:class."""
