"""Study files: reading, checking, and the analysis, protocol and records they describe."""

from typing import TYPE_CHECKING

from dpcape.core.lazy import names_of

if TYPE_CHECKING:
    from dpcape.study.study import Study

__all__ = ["Study"]
__getattr__ = names_of(
    __name__,
    {
        "dpcape.study.study": "Study",
    },
)
