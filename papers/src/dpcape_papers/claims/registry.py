"""The registry of all claims, in the order of the page: what matters most to a user first."""

from __future__ import annotations

from dpcape_papers.claims import analyses, cape, factor, functional, gaussian, ica, moments, preparation
from dpcape_papers.claims.claim import Claim
from dpcape_papers.claims.consequences import CONSEQUENCE_OF

_FOUND: dict[str, Claim] = {
    entry.key: entry
    for module in (cape, gaussian, moments, functional, ica, analyses, factor, preparation)
    for entry in module.CLAIMS
}
CLAIMS: dict[str, Claim] = {key: _FOUND[key] for key in CONSEQUENCE_OF}
