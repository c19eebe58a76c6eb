"""Sites behind a transport, under one protocol."""

from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.federation.kept_releases import KeptReleases

__all__ = ["Allowance", "Federation", "KeptReleases"]
