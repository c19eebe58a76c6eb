"""Files of a site folder: what is missing or damaged is said in one sentence."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dpcape.core.errors import Failed, InvalidParameter, LedgerRefused
from dpcape.core.secure_sum.identity import Identity


def read_json(path: Path, must: str, remedy: str) -> dict[str, Any]:
    """Return the JSON object in a file of a site folder, which must be so."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        got = f"{str(path.parent)!r} ({type(error).__name__})"
        raise InvalidParameter("a site folder", must, got, remedy) from error
    if not isinstance(content, dict):
        raise InvalidParameter("a site folder", must, repr(str(path.parent)), remedy)
    return content


def identity_in(path: Path) -> Identity:
    """Return the identity in a file that only its owner can read."""
    _check_private(path)
    try:
        private = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        private = b""
    if len(private) != 32:
        must = "hold an identity key, 64 hexadecimal digits"
        raise InvalidParameter(repr(str(path)), must, "a damaged file", "Restore it from a backup.")
    return Identity.from_private_bytes(private)


def _check_private(path: Path) -> None:
    """Refuse a key that others on the machine can read."""
    if not path.is_file():
        raise Failed(f"The identity key is not at {str(path)!r}", remedy="Mount the disk that holds it.")
    # Windows has lists of rights instead of modes, and serves no site.
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise LedgerRefused(
            "The identity key was not read", "accounts other than its owner's can read it", f"Run: chmod 600 {path}."
        )
