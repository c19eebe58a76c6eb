"""Heads of other sites' ledgers, as this site last saw them under their signatures.

A site whose whole folder was restored from a backup cannot know it. Its peers keep its last head and show it again
through the coordinator; the site finds that its ledger does not contain it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from dpcape.core.errors import LedgerRefused, ProtocolError
from dpcape.core.files import write_private
from dpcape.core.secure_sum.signed_head import SignedHead


class PeerHeads:
    """Heads of peers in a file of the site folder.

    Parameters
    ----------
    path : Path
        The file; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def kept(self, pinned: Mapping[str, bytes]) -> tuple[SignedHead, ...]:
        """Return the heads that are kept of sites whose identity is still the pinned one."""
        try:
            heads = msgspec.json.decode(self._path.read_bytes(), type=dict[str, SignedHead])
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.DecodeError) as error:
            what = f"The heads of other sites' ledgers could not be read from {self._path.name} in the site folder"
            raise LedgerRefused(what, remedy="Restore the file from a backup, or remove it.") from error
        return tuple(head for site, head in sorted(heads.items()) if site in pinned and head.is_genuine(pinned[site]))

    def take(self, shown: Sequence[SignedHead], pinned: Mapping[str, bytes]) -> None:
        """Keep newer heads of peers; refuse forged ones, and a ledger that has another row where one was seen.

        A shorter ledger than the one that is kept may be an old statement of a study that runs at the same time. It
        changes nothing here: the kept head is shown to that site, which knows its own rows.
        """
        known = {head.site: head for head in self.kept(pinned)}
        newer: dict[str, SignedHead] = {}
        for head in shown:
            require_genuine(head, pinned)
            before = known.get(head.site)
            if before is None or (before.length, before.head) in head.accepted or head.length > before.length:
                newer[head.site] = head
            elif head.length == before.length and head.head != before.head:
                raise LedgerRefused(
                    "The study was refused",
                    f"row {head.length} of the ledger of {head.site} is not the row that was seen before: a backup "
                    "was restored there",
                    f"Ask the steward of {head.site} to accept the loss (docs/steward.md).",
                )
        if any(known.get(site) != head for site, head in newer.items()):
            write_private(self._path, msgspec.json.encode({**known, **newer}))


def require_genuine(head: SignedHead, pinned: Mapping[str, bytes]) -> None:
    """Refuse a head that its site did not sign."""
    if head.site not in pinned or not head.is_genuine(pinned[head.site]):
        what = f"The ledger head of {head.site!r} was refused"
        raise ProtocolError(what, "it is not signed with the pinned identity", "Compare fingerprints with that site.")
