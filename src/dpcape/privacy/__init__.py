"""How much is revealed: exact accounting, calibration, ledgers and guarantees."""

from dpcape.privacy.gaussian import compose, delta_of, epsilon_of, mu_of
from dpcape.privacy.guarantee import Guarantee, SiteGuarantee
from dpcape.privacy.ledger import Charge, Ledger
from dpcape.privacy.view import View

__all__ = [
    "Charge",
    "Guarantee",
    "Ledger",
    "SiteGuarantee",
    "View",
    "compose",
    "delta_of",
    "epsilon_of",
    "mu_of",
]
