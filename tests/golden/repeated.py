"""Keys, nonces, identifiers and the clock, the same in every run."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, tzinfo
from unittest.mock import patch

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from .places import CLOCKS


@contextmanager
def repeated(label: str) -> Iterator[None]:
    """Let the operating system's randomness, key generation and the clock depend on ``label`` alone."""
    drawn, ticks = 0, 0

    def take(n_bytes: int) -> bytes:
        nonlocal drawn
        drawn += 1
        return hashlib.shake_256(f"golden {label} {drawn}".encode()).digest(n_bytes)

    class Clock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            nonlocal ticks
            ticks += 1
            return datetime(2024, 2, 29, 12, 0, 0, tzinfo=tz) + timedelta(seconds=ticks)

    with ExitStack() as stack:
        stack.enter_context(patch.object(os, "urandom", take))
        # `secrets` draws through the module `random`, which has its own name for it.
        stack.enter_context(patch.object(random, "_urandom", take))
        for kind in (X25519PrivateKey, Ed25519PrivateKey):
            stack.enter_context(patch.object(kind, "generate", lambda kind=kind: kind.from_private_bytes(take(32))))
        for module in CLOCKS:
            stack.enter_context(patch.object(module, "datetime", Clock))
        yield
