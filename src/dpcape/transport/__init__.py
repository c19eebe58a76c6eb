"""How messages travel between coordinator and sites."""

from dpcape.transport.transport import Transport

__all__ = ["Transport"]
