"""The head of a site's ledger under the site's signature: what peers keep, and show the site again."""

from __future__ import annotations

import msgspec

from dpcape.core.secure_sum.identity import Identity, verify
from dpcape.core.secure_sum.transcript import digest


class SignedHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site's statement of its ledger's head.

    Attributes
    ----------
    site : str
        The site.
    length : int
        Number of rows.
    head : str
        Hash of the last row.
    accepted : tuple of (int, str)
        Heads that were lost and whose loss the steward accepted.
    signature : bytes
        By the site's identity.
    """

    site: str
    length: int
    head: str
    accepted: tuple[tuple[int, str], ...] = ()
    signature: bytes = b""

    @classmethod
    def of(
        cls, identity: Identity, site: str, length: int, head: str, accepted: tuple[tuple[int, str], ...]
    ) -> SignedHead:
        """Return a signed statement."""
        unsigned = cls(site=site, length=length, head=head, accepted=accepted)
        return msgspec.structs.replace(unsigned, signature=identity.sign(unsigned.statement()))

    def statement(self) -> bytes:
        """Return what is signed."""
        lost = [field for entry in self.accepted for field in entry]
        return digest("ledger head", self.site, self.length, self.head, len(self.accepted), *lost)

    def is_genuine(self, public: bytes) -> bool:
        """Return whether the identity with this public key signed it."""
        in_range = all(0 <= length < 2**63 for length in (self.length, *(length for length, _ in self.accepted)))
        return in_range and verify(public, self.signature, self.statement())
