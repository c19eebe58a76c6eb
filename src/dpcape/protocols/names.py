"""Where each protocol is defined, in listing order."""

PROTOCOL_NAMES = {
    "cape": "dpcape.protocols.cape:Cape",
    "secure-sum": "dpcape.protocols.secure_sum:SecureSum",
    "independent": "dpcape.protocols.independent:Independent",
    "dealer": "dpcape.protocols.dealer:Dealer",
    "exact": "dpcape.protocols.exact:Exact",
}
"""Name in study files and messages -> module:class."""
