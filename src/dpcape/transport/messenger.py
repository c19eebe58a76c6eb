"""Sends the coordinator's messages to the sites and checks their replies."""

from __future__ import annotations

from collections.abc import Mapping

from dpcape.core.errors import ProtocolError, error_named
from dpcape.core.messages import FromSite, Refused, ToSite, decode_from_site, encode
from dpcape.core.plain_text import one_line
from dpcape.transport.transport import Transport


class SiteMessenger:
    """Sends the messages of one allowance to the sites."""

    def __init__(
        self, transport: Transport, allowance: str, identities: Mapping[str, bytes], deadline: float | None
    ) -> None:
        self._transport, self._allowance, self._deadline = transport, allowance, deadline
        self.identities: Mapping[str, bytes] = identities
        self.keys: Mapping[str, bytes] = {}

    @property
    def dealer(self) -> str | None:
        """Name of the noise dealer behind this transport, if there is one."""
        return self._transport.dealer

    def ask(self, messages: Mapping[str, ToSite]) -> tuple[dict[str, FromSite], tuple[str, ...]]:
        """Send one message per site; return the replies and who is missing. A refusal raises."""
        encoded: dict[int, bytes] = {}
        data = {}
        for site, message in messages.items():
            # One message is often sent to every site: encode it once.
            if id(message) not in encoded:
                encoded[id(message)] = encode(message, allowance=self._allowance)
            data[site] = encoded[id(message)]
        answers, missing = self._transport.ask(data, self._deadline)
        return {site: self._reply(site, answer) for site, answer in answers.items()}, tuple(missing)

    def _reply(self, site: str, answer: bytes) -> FromSite:
        allowance, reply = decode_from_site(answer)
        if isinstance(reply, Refused):
            raise error_named(reply.error)(one_line(reply.text)).at(site)
        if allowance != self._allowance:
            what = f"The reply of {site} was refused"
            raise ProtocolError(what, "it is for a different allowance", "Start a new run.")
        return reply
