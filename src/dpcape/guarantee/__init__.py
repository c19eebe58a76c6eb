"""What may be claimed, against whom, and the card that says so."""

from dpcape.guarantee.guarantee import Guarantee, SiteGuarantee, guarantee_of
from dpcape.guarantee.release_record import Release

__all__ = ["Guarantee", "Release", "SiteGuarantee", "guarantee_of"]
