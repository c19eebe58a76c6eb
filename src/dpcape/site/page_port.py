"""Where the steward's page listens, noted in the site folder while it runs.

The engine may connect to some ports, on whatever machine. The page must be on none of them, and a start of the engine
tries to reach it.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from dpcape.core.files import write_private

PAGE_FILE = "page.port"
_LOOPBACK = "127.0.0.1"
_SECONDS = 2.0
# Not on Windows, where no site is served.
_GUARDED = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"))


def note_page(folder: Path, port: int) -> None:
    """Note that the page listens on a port."""
    write_private(folder / PAGE_FILE, f"{port}\n")


def forget_page(folder: Path, port: int) -> None:
    """Remove the note of a page that ends, unless another page wrote one since."""
    if _noted(folder) == port:
        (folder / PAGE_FILE).unlink(missing_ok=True)


def page_port(folder: Path) -> int | None:
    """Return the port of the page that runs now; None if none does."""
    port = _noted(folder)
    if port is None:
        return None
    with contextlib.suppress(OSError), socket.create_connection((_LOOPBACK, port), _SECONDS):
        return port
    return None


def _noted(folder: Path) -> int | None:
    try:
        # Root also reads it, in a folder of another account.
        descriptor = os.open(folder / PAGE_FILE, os.O_RDONLY | _GUARDED)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        text = stream.read(16).strip()
    return int(text) if text.isdigit() and int(text) < 2**16 else None
