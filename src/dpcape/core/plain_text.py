"""Text that came from elsewhere, made safe to show, to log and to send on."""

from __future__ import annotations

MOST_SIGNS = 2000


def one_line(text: str, most: int = MOST_SIGNS) -> str:
    """Return text as one line of printable characters, truncated: no line breaks, no terminal escape sequences."""
    shown = "".join(sign if sign.isprintable() else "?" for sign in text[:most])
    return shown if len(text) <= most else f"{shown} ..."
