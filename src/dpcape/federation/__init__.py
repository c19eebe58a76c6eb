"""Sites behind a transport, under one protocol."""

from dpcape.federation.federation import Allowance, Federation

__all__ = ["Allowance", "Federation"]
