"""How many releases of an allowance the rows of a ledger count, and what happens when rows were lost."""

from __future__ import annotations

from collections.abc import Sequence

from dpcape.core.errors import LedgerRefused, ProtocolError
from dpcape.site.hash_chain import Entry


def next_release(entries: Sequence[Entry], allowance: str) -> int:
    """Return the number of the first release that was not begun; refuse if rows that count some may be lost."""
    following = 0
    for entry in reversed(entries):
        if entry.kind == "accept":
            raise releases_may_be_lost()
        if entry.body.get("allowance") != allowance:
            continue
        if entry.kind == "release":
            # The largest number, so that the count never decreases whatever other rows follow.
            following = max(following, int(entry.body["number"]) + 1)
        elif entry.kind == "charge":
            return following
    raise ProtocolError("The release was refused", "its allowance was not charged", "Start a new run.")


def releases_may_be_lost() -> LedgerRefused:
    """Return the refusal to resume an allowance after the ledger lost rows that may count its releases."""
    return LedgerRefused(
        "The allowance was not continued",
        "this site's ledger lost rows after it was charged: what was released already could be released again with "
        "other noise",
        "No records were read. Start a new run with --again, which is charged separately.",
    )
