"""What may be claimed, against whom, and the card that says so."""

from dpcape.guarantee.guarantee import Guarantee, SiteGuarantee, guarantee_of
from dpcape.guarantee.release_record import ReleaseRecord

__all__ = ["Guarantee", "ReleaseRecord", "SiteGuarantee", "guarantee_of"]
