"""Private files of a site folder: read, or refused with what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpcape.errors import InvalidParameter, LedgerRefused


def read_json(path: Path, requirement: str, remedy: str) -> dict[str, Any]:
    """Return the content of a JSON file, or say what it must be and what to do."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{requirement}; got {str(path.parent)!r} ({type(error).__name__}). {remedy}"
        raise InvalidParameter(message) from error
    if not isinstance(content, dict):
        raise InvalidParameter(f"{requirement}; got {str(path.parent)!r}. {remedy}")
    return content


def check_private(path: Path) -> None:
    """Refuse a key that others on the machine can read."""
    if not path.is_file():
        raise InvalidParameter(f"the identity key must be at {str(path)!r}; got none. Mount the disk that holds it.")
    if path.stat().st_mode & 0o077:
        raise LedgerRefused(f"the identity key must be readable by its owner alone; got wider. Run: chmod 600 {path}.")
