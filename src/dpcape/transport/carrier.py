"""What the transport needs from an engine: bytes to one site and back, or a code that says what happened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from dpcape.transport.frames import Kind

Code = Literal["ok", "timeout", "unreachable", "no vault", "error"]


@dataclass(frozen=True)
class Delivery:
    """What became of one request."""

    code: Code
    data: bytes = b""


class Carrier(ABC):
    """Carries one request to one site and waits for its reply; called from several threads."""

    can_ping: ClassVar[bool]

    @abstractmethod
    def carry(self, site: str, kind: Kind, data: bytes, timeout: float) -> Delivery:
        """Return the reply, or the code of what went wrong; never raises."""
