"""The sites that took part in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

from dpcape.core.secure_sum.identity import fingerprint_of
from dpcape.federation.federation import Federation

if TYPE_CHECKING:
    from dpcape.estimators.estimator import FederatedEstimator


class Participant(TypedDict):
    """What a run's folder keeps of one site; the ledger is given by its length and head."""

    records: int
    identity: str
    took_part: bool
    ledger: list[int | str]


def participants(
    federation: Federation, model: FederatedEstimator, heads: Mapping[str, tuple[int, str]]
) -> dict[str, Participant]:
    """Return the sites of a run, with what its folder keeps of them."""
    return {
        site: {
            "records": n_records,
            "identity": fingerprint_of(federation.identities[site]),
            "took_part": site in model.guarantee_.took_part,
            "ledger": list(heads.get(site, (0, ""))),
        }
        for site, n_records in federation.sites.items()
    }
