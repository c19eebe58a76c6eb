"""Empirical audits: attacks with the adversary's whole view, compared with the guarantee."""

from dpcape.audit.adversaries import ADVERSARIES, Adversary
from dpcape.audit.audit import AuditResult, audit
from dpcape.audit.bounds import Bounds, lower_bounds
from dpcape.audit.cases import CASES, Case
from dpcape.audit.study_audit import StudyAudit, audit_study

__all__ = [
    "ADVERSARIES",
    "CASES",
    "Adversary",
    "AuditResult",
    "Bounds",
    "Case",
    "StudyAudit",
    "audit",
    "audit_study",
    "lower_bounds",
]
