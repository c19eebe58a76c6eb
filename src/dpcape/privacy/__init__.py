"""Exact privacy accounting, calibration of noise, and ledgers."""

from dpcape.privacy.adversary_view import AdversaryView
from dpcape.privacy.gaussian import compose, delta_of, epsilon_of, mu_of
from dpcape.privacy.ledger import Charge, Ledger

__all__ = [
    "AdversaryView",
    "Charge",
    "Ledger",
    "compose",
    "delta_of",
    "epsilon_of",
    "mu_of",
]
