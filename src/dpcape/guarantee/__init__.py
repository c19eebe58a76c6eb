"""What may be claimed, against whom, and the card that says so."""

from typing import TYPE_CHECKING

from dpcape.core.lazy import names_of

if TYPE_CHECKING:
    from dpcape.guarantee.guarantee import Guarantee, SiteGuarantee, guarantee_of
    from dpcape.guarantee.release_record import ReleaseRecord

__all__ = ["Guarantee", "ReleaseRecord", "SiteGuarantee", "guarantee_of"]
__getattr__ = names_of(
    __name__,
    {
        "dpcape.guarantee.guarantee": "Guarantee SiteGuarantee guarantee_of",
        "dpcape.guarantee.release_record": "ReleaseRecord",
    },
)
