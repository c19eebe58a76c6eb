"""Verdicts on every theorem and privacy claim of the papers, with evidence computed on demand."""

from dpcape_papers.claims.claim import Claim, Evidence
from dpcape_papers.claims.registry import CLAIMS

__all__ = ["CLAIMS", "Claim", "Evidence"]
