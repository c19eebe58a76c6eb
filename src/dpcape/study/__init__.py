"""Study files: reading, checking, and the analysis, protocol and records they describe."""

from dpcape.study.study import Study

__all__ = ["Study"]
