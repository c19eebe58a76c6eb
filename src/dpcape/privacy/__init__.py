"""How much is revealed: exact accounting, calibration, and ledgers."""

from dpcape.privacy.adversary_view import View
from dpcape.privacy.gaussian import compose, delta_of, epsilon_of, mu_of
from dpcape.privacy.ledger import Charge, Ledger

__all__ = [
    "Charge",
    "Ledger",
    "View",
    "compose",
    "delta_of",
    "epsilon_of",
    "mu_of",
]
