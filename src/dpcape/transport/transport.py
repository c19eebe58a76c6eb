"""How messages travel: one method, whatever carries them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class Transport(ABC):
    """Sites behind one line. Messages and replies are opaque bytes."""

    @property
    @abstractmethod
    def sites(self) -> tuple[str, ...]:
        """Names of the sites on this line, sorted."""

    @property
    def dealer(self) -> str | None:
        """Name of the noise dealer, if one is on this line."""
        return None

    @abstractmethod
    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Deliver one message per site and return (replies by site, sites that did not answer in time).

        ``deadline`` is in seconds from now; None waits as long as it takes.
        """


class Passing(Transport):
    """A line that passes everything on to another; subclasses listen, count or lose."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    @property
    def sites(self) -> tuple[str, ...]:
        return self._inner.sites

    @property
    def dealer(self) -> str | None:
        return self._inner.dealer

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        return self._inner.ask(messages_by_site, deadline)
