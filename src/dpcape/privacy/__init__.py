"""Exact privacy accounting, calibration of noise, and ledgers."""

from dpcape.privacy.adversary_view import AdversaryView
from dpcape.privacy.gaussian import compose, delta_of, epsilon_of, mu_of
from dpcape.privacy.ledger import Charge, Ledger
from dpcape.privacy.site_deltas import at_one_delta
from dpcape.privacy.unit import Unit

__all__ = [
    "AdversaryView",
    "Charge",
    "Ledger",
    "Unit",
    "at_one_delta",
    "compose",
    "delta_of",
    "epsilon_of",
    "mu_of",
]
