"""Who took part in a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpcape.federation import Federation
from dpcape.secure_sum import fingerprint_of


def participants(federation: Federation, model: Any, heads: Mapping[str, tuple[int, str]]) -> dict[str, dict[str, Any]]:
    """Return who took part, for a run's folder."""
    return {
        site: {
            "records": n_records,
            "identity": fingerprint_of(federation.identities[site]),
            "took_part": site in model.guarantee_.took_part,
            "ledger": list(heads.get(site, (0, ""))),
        }
        for site, n_records in federation.sites.items()
    }
