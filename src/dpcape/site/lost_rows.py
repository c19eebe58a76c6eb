"""Rows that stand for spending whose own rows were lost with a restored backup."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from dpcape.core.privacy.gaussian import mu_of
from dpcape.core.privacy.ledger import Charge
from dpcape.core.privacy.terms import epsilon_reserve, tail_reserve
from dpcape.site.hash_chain import RowBody
from dpcape.site.ledger import State, charge_row


def lost_rows(state: State, lost: Mapping[str, tuple[float, float]]) -> list[tuple[str, RowBody]]:
    """Return charges that stand for spending whose rows were lost: (epsilon, delta) by data set, per its unit."""
    rows = []
    for data, (epsilon, delta) in lost.items():
        charge = Charge(
            allowance=f"lost-{secrets.token_hex(8)}",
            mu=mu_of(epsilon, delta),
            gap=epsilon_reserve(epsilon),
            tail=tail_reserve(delta),
            n_releases=0,
            unit=state.unit_of(data),
        )
        rows.append(("charge", charge_row(charge, data=data, study="lost")))
    return rows
