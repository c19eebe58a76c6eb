"""Empirical audits: what an adversary who holds its whole view can tell, against what is promised."""

from dpcape.audit.adversaries import ADVERSARIES, Adversary
from dpcape.audit.audit import Finding, audit
from dpcape.audit.bounds import Bounds, lower_bounds
from dpcape.audit.cases import CASES, Case

__all__ = ["ADVERSARIES", "CASES", "Adversary", "Bounds", "Case", "Finding", "audit", "lower_bounds"]
