"""Every theorem and privacy claim of the papers, with numbers that are computed when they are asked for."""

from dpcape.published.claims.claim import Claim, Evidence
from dpcape.published.claims.registry import CLAIMS, claim

__all__ = ["CLAIMS", "Claim", "Evidence", "claim"]
