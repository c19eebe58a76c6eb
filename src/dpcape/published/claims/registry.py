"""All claims, in the order of the papers."""

from __future__ import annotations

import difflib

from dpcape.errors import InvalidParameter
from dpcape.published.claims import analyses, cape, factor, functional, gaussian, ica, moments, preparation
from dpcape.published.claims.claim import Claim

CLAIMS: dict[str, Claim] = {
    entry.key: entry
    for module in (cape, gaussian, moments, functional, ica, analyses, factor, preparation)
    for entry in module.CLAIMS
}


def claim(key: str) -> Claim:
    """Return the claim of this key."""
    if key not in CLAIMS:
        near = difflib.get_close_matches(key, CLAIMS, n=3)
        remedy = f" Did you mean {' or '.join(near)}?" if near else ""
        raise InvalidParameter(f"a claim must be one of {', '.join(CLAIMS)}; got {key!r}.{remedy}")
    return CLAIMS[key]
