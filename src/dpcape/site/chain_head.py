"""A second copy of a chain's length and head, kept apart from the chain, so that a restored backup is noticed.

Two slots are written in turn, each with its own checksum, so a crash in the middle of a write leaves the other one.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import NamedTuple

from dpcape.core.errors import LedgerRefused
from dpcape.core.files import sync_folder

_SLOT = 128


class Head(NamedTuple):
    """How many rows a chain has, and the hash of the last one."""

    length: int
    hash: str


class HeadCopy:
    """Copy of a chain's head in a separate small file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def create(self, head: Head) -> None:
        """Write the file for the first time; refuse to replace one."""
        descriptor = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "wb", buffering=0) as stream:
            os.write(stream.fileno(), _slot(head) * 2)
            os.fsync(stream.fileno())
        sync_folder(self._path.parent)

    def read(self) -> Head:
        """Return the newest head that was written completely."""
        try:
            content = self._path.read_bytes()
        except OSError as error:
            raise LedgerRefused(
                f"The copy of the ledger's head in {self._path.name!r} could not be read ({type(error).__name__})",
                remedy="Without it a restored backup would go unnoticed. See docs/steward.md, 'Recover from a "
                "restored ledger'.",
            ) from error
        heads = [head for head in (_parsed(content[:_SLOT]), _parsed(content[_SLOT:])) if head is not None]
        if len(content) != 2 * _SLOT or not heads:
            remedy = "See docs/steward.md, 'Recover from a restored ledger'."
            raise LedgerRefused("The copy of the ledger's head is damaged", remedy=remedy)
        return max(heads)

    def write(self, head: Head) -> None:
        """Write a head durably over the older slot."""
        content = self._path.read_bytes()
        first, second = _parsed(content[:_SLOT]), _parsed(content[_SLOT:])
        newer_is_first = second is None or (first is not None and first.length > second.length)
        with open(self._path, "r+b", buffering=0) as stream:
            stream.seek(_SLOT if newer_is_first else 0)
            os.write(stream.fileno(), _slot(head))
            # Only Linux has fdatasync, which skips the file's timestamps.
            getattr(os, "fdatasync", os.fsync)(stream.fileno())

    def replace(self, head: Head) -> None:
        """Put a head in both slots, whatever was there: the steward accepted it."""
        draft = self._path.with_name(self._path.name + ".new")
        draft.unlink(missing_ok=True)
        HeadCopy(draft).create(head)
        draft.replace(self._path)
        sync_folder(self._path.parent)


def _slot(head: Head) -> bytes:
    body = f"{head.length} {head.hash} ".encode("ascii")
    check = hashlib.sha256(b"dpcape head 1 " + body).hexdigest()[:16].encode("ascii")
    return (body + check).ljust(_SLOT - 1) + b"\n"


def _parsed(slot: bytes) -> Head | None:
    words = slot.split()
    if len(words) != 3 or not words[0].isdigit():
        return None
    head = Head(int(words[0]), words[1].decode("ascii", "replace"))
    return head if _slot(head) == slot else None
