"""Everything sites send except noisy vectors, compared between neighbouring data sets."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import msgspec

from dpcape.audit.cases import Case
from dpcape.core.arrays import FloatArray
from dpcape.core.errors import DpcapeError, DpcapeWarning
from dpcape.core.messages import Described, decode_from_site
from dpcape.core.noise import Replay
from dpcape.core.protocols.protocol import Protocol
from dpcape.site.in_process import in_process
from dpcape.transport.transport import Passing, Transport

Sent = list[tuple[str, str, object]]


def sent_by_sites(
    case: Case, protocol: Protocol, numbers: Mapping[str, FloatArray], *, epsilon: float, delta: float, seed: int
) -> Sent:
    """Run an analysis through real sites; return site, kind and content of every reply, in order.

    Bytes (keys, signatures, masked and noisy vectors) are random: only their lengths are kept. Texts and numbers are
    kept as they are.
    """
    sites = in_process({name: case.records(site_numbers) for name, site_numbers in numbers.items()}, noise=Replay(seed))
    listener = _Replies(sites)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DpcapeWarning)
        try:
            case.make(epsilon, delta).fit(case.federation(listener, protocol))
        except DpcapeError as error:
            listener.replies.append(("coordinator", "failure", str(error)))
    return listener.replies


def differences(first: Sent, second: Sent) -> list[str]:
    """Return in words where two runs on neighbouring data sets sent something else."""
    texts = [
        f"reply {number + 1} of {one[0]} ({one[1]})"
        for number, (one, other) in enumerate(zip(first, second, strict=False))
        if one != other
    ]
    if len(first) != len(second):
        texts.append(f"the number of replies ({len(first)} and {len(second)})")
    return texts


class _Replies(Passing):
    """Passes messages on and keeps what the sites answered."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.replies: Sent = []

    def ask(
        self, messages_by_site: Mapping[str, bytes], deadline: float | None
    ) -> tuple[dict[str, bytes], tuple[str, ...]]:
        replies, missing = super().ask(messages_by_site, deadline)
        for site in sorted(replies):
            message = decode_from_site(replies[site])[1]
            content = _outline(msgspec.to_builtins(message, builtin_types=(bytes,)))
            if isinstance(message, Described) and isinstance(content, dict):
                # A new ledger's head is random: its first row names the ledger.
                content["ledger_head"] = len(message.ledger_head)
            self.replies.append((site, type(message).__name__, content))
        self.replies += [(site, "missing", None) for site in sorted(missing)]
        return replies, missing


def _outline(value: object) -> object:
    """Return a message with every run of bytes replaced by its length."""
    if isinstance(value, bytes | bytearray | memoryview):
        return ("bytes", len(value))
    if isinstance(value, dict):
        return {key: _outline(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_outline(entry) for entry in value]
    return value
