"""Whether a site may have charged its ledger, from what the sites signed.

A site charges when it is asked to submit its first release, not before. A reply that is no refusal shows that it did.
"""

from __future__ import annotations

from collections.abc import Mapping

from dpcape.core.messages import Describe, Described, Refused, Submit, decode_from_site, decode_to_site
from dpcape.transport.transport import Passing, Transport


class ChargeWatch(Passing):
    """A transport that notices the first charge.

    Parameters
    ----------
    inner : Transport
        The transport that carries the messages, and replies that the sites signed.

    Attributes
    ----------
    is_charged : bool
        Whether a site has shown that it charged its ledger.
    """

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.is_charged = False
        # Sites that were asked to submit and have not replied; the request may still be in transit.
        self._silent: set[str] = set()
        self._refused: set[str] = set()
        self._heads: dict[str, tuple[int, str]] = {}

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        """Pass messages on; until a site has charged, look at what they ask for and how it is answered."""
        if self.is_charged:
            return super().ask(messages_by_site, deadline)
        messages = {site: decode_to_site(data)[1] for site, data in messages_by_site.items()}
        self._silent |= {site for site, message in messages.items() if isinstance(message, Submit)}
        replies, missing = super().ask(messages_by_site, deadline)
        for site, answer in replies.items():
            reply = decode_from_site(answer)[1]
            if isinstance(messages[site], Submit):
                self._silent.discard(site)
                self._refused |= {site} if isinstance(reply, Refused) else set()
                self.is_charged |= not isinstance(reply, Refused)
            elif isinstance(messages[site], Describe) and isinstance(reply, Described):
                self._heads.setdefault(site, (reply.ledger_length, reply.ledger_head))
        return replies, missing

    @property
    def may_be_charged(self) -> bool:
        """Whether a site has charged its ledger, or was asked to submit a release and did not show that it has not."""
        return self.is_charged or bool(self._silent or self._refused)

    def settle(self, heads: Mapping[str, tuple[int, str]]) -> None:
        """Take the heads of ledgers after a failure: a site that refused, and wrote no row since, was not charged.

        A site that did not answer is not cleared by its head: it may charge when the question arrives.
        """
        for site in sorted(self._refused):
            before = self._heads.get(site, (0, ""))
            if before[0] > 0 and heads.get(site) == before:
                self._refused.discard(site)
