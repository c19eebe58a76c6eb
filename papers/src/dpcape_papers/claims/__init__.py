"""Every theorem and privacy claim of the papers, with numbers that are computed when they are asked for."""

from dpcape_papers.claims.claim import Claim, Evidence
from dpcape_papers.claims.registry import CLAIMS

__all__ = ["CLAIMS", "Claim", "Evidence"]
