"""Exact privacy accounting, calibration of noise, and ledgers."""

from typing import TYPE_CHECKING

from dpcape.core.lazy import names_of

if TYPE_CHECKING:
    from dpcape.core.privacy.adversary_view import AdversaryView
    from dpcape.core.privacy.gaussian import compose, delta_of, epsilon_of, mu_of
    from dpcape.core.privacy.ledger import Charge, Ledger
    from dpcape.core.privacy.site_deltas import at_one_delta
    from dpcape.core.privacy.unit import Unit

__all__ = ["AdversaryView", "Charge", "Ledger", "Unit", "at_one_delta", "compose", "delta_of", "epsilon_of", "mu_of"]
__getattr__ = names_of(
    __name__,
    {
        "dpcape.core.privacy.adversary_view": "AdversaryView",
        "dpcape.core.privacy.gaussian": "compose delta_of epsilon_of mu_of",
        "dpcape.core.privacy.ledger": "Charge Ledger",
        "dpcape.core.privacy.site_deltas": "at_one_delta",
        "dpcape.core.privacy.unit": "Unit",
    },
)
