"""The registry of all claims, in the order of the page."""

from __future__ import annotations

from dpcape_papers.claims import analyses, cape, factor, functional, gaussian, ica, moments, preparation
from dpcape_papers.claims.claim import Claim

CLAIMS: dict[str, Claim] = {
    entry.key: entry
    for module in (cape, gaussian, moments, functional, ica, analyses, factor, preparation)
    for entry in module.CLAIMS
}
