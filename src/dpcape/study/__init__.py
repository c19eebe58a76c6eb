"""Study files: read, checked, turned into an analysis, a protocol and records."""

from dpcape.study.study import Study

__all__ = ["Study"]
