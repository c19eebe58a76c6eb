"""How messages travel: one method, whatever carries them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class Transport(ABC):
    """Sites that can be asked. Messages and replies are opaque bytes."""

    @property
    @abstractmethod
    def sites(self) -> tuple[str, ...]:
        """Names of the sites, sorted."""

    @property
    def dealer(self) -> str | None:
        """Name of the noise dealer, if there is one."""
        return None

    @property
    def in_one_process(self) -> bool:
        """Whether sites and coordinator share the memory of one process."""
        return False

    @abstractmethod
    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Deliver one message per site and return (replies by site, sites that did not answer in time).

        ``deadline`` is in seconds from now; None waits as long as it takes.
        """


class Passing(Transport):
    """A transport that passes everything on to another; subclasses listen, count or lose."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner

    @property
    def sites(self) -> tuple[str, ...]:
        return self._inner.sites

    @property
    def dealer(self) -> str | None:
        return self._inner.dealer

    @property
    def in_one_process(self) -> bool:
        return self._inner.in_one_process

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        return self._inner.ask(messages_by_site, deadline)
