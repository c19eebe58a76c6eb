"""How messages travel between coordinator and sites."""

from dpcape.transport.base import Transport

__all__ = ["Transport"]
