"""Exact privacy accounting, calibration of noise, and ledgers."""

from typing import TYPE_CHECKING

from dpcape.lazy import names_of

if TYPE_CHECKING:
    from dpcape.privacy.adversary_view import AdversaryView
    from dpcape.privacy.gaussian import compose, delta_of, epsilon_of, mu_of
    from dpcape.privacy.ledger import Charge, Ledger
    from dpcape.privacy.unit import Unit

__all__ = ["AdversaryView", "Charge", "Ledger", "Unit", "compose", "delta_of", "epsilon_of", "mu_of"]
__getattr__ = names_of(
    __name__,
    {
        "dpcape.privacy.adversary_view": "AdversaryView",
        "dpcape.privacy.gaussian": "compose delta_of epsilon_of mu_of",
        "dpcape.privacy.ledger": "Charge Ledger",
        "dpcape.privacy.unit": "Unit",
    },
)
