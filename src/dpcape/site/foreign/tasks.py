"""Tasks for a child and their wire format. Nothing executable is sent."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import msgspec

from dpcape.analyses.enclosed import PublicNumbers
from dpcape.core.facts import PublicFacts
from dpcape.core.messages import Array
from dpcape.site.vault.self_test import Probes

LENGTH_BYTES = 8
MAX_TASK_BYTES = 2**31
# Generous: an outline is about a page of numbers.
MAX_PLAIN_BYTES = 2**22


class DescribeTask(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Describe an analysis as plain data; the child has no access to records."""

    package: str
    analysis: str


class OutlineTask(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """List the releases that an analysis makes for these public numbers."""

    package: str
    analysis: str
    numbers: PublicNumbers


class ContributeTask(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Compute an enclosed statistic; the block of records follows when the code is loaded."""

    package: str
    way: str
    facts: PublicFacts
    public: dict[str, int | float | str | bool | Array]


class ProbeTask(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Report what a child can reach; no code of a package is loaded."""

    probes: Probes


Task = DescribeTask | OutlineTask | ContributeTask | ProbeTask


class NoAnswer(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The analysis failed. The reason is withheld: text from other packages must not leave the child."""


def written(data: bytes) -> bytes:
    """Return data prefixed with its length."""
    return len(data).to_bytes(LENGTH_BYTES, "big") + data


def read_exactly(read: Callable[[int], bytes], n_bytes: int) -> bytes:
    """Read a number of bytes, or raise EOFError."""
    content = bytearray()
    while len(content) < n_bytes:
        chunk = read(min(n_bytes - len(content), 2**20))
        if not chunk:
            raise EOFError
        content += chunk
    return bytes(content)


def read_written(read: Callable[[int], bytes], most: int) -> bytes:
    """Read what :func:`written` returned, if it is not longer than ``most``."""
    n_bytes = int.from_bytes(read_exactly(read, LENGTH_BYTES), "big")
    if n_bytes > most:
        raise EOFError
    return read_exactly(read, n_bytes)


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything to a descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sleep_until(moment: float) -> None:
    """Wait until a moment of the monotonic clock."""
    time.sleep(max(moment - time.monotonic(), 0.0))
