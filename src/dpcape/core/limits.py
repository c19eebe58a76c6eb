"""What a message and a machine can hold: checked when a release is planned, and again before it is charged."""

from __future__ import annotations

import os
from pathlib import Path

from dpcape.core.errors import Failed, InvalidParameter
from dpcape.core.messages import MAX_BYTES, MAX_ENTRIES

# Numbers of the release's size held at once, each of eight bytes; tests/flow/test_limits.py measures that a fit needs
# no more. At the aggregator: a masked vector per site, their sum, the matrix they are unpacked to and its
# decomposition. At a site: the total as a matrix and packed, draws, masks, and the encoded reply.
_AGGREGATOR_VECTORS, _VECTORS_PER_SITE = 10, 3
_SITE_VECTORS = 10
# Size of a message without its vector, at most.
_ENVELOPE_BYTES = 2**16
# Reserved for the interpreter, the records' buffers and other processes.
_RESERVED_BYTES = 64 * 2**20
# Releases below this size are not checked: querying free memory costs more than the release.
_NEGLIGIBLE_BYTES = 2**20
_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")

MOST_NUMBERS = min(MAX_ENTRIES, (MAX_BYTES - _ENVELOPE_BYTES) // 8)
"""Numbers of a release, at most: what a message can carry."""
REMEDY = "Use fewer columns, or a public basis with fewer columns."


def check_size(name: str, size: int) -> None:
    """Refuse a release that no message can carry."""
    if size > MOST_NUMBERS:
        must = f"hold at most {MOST_NUMBERS:,} numbers to fit into a message"
        raise InvalidParameter("a release", must, f"{size:,} for {name!r}", REMEDY)


def check_aggregator(name: str, size: int, n_sites: int) -> None:
    """Refuse a release that does not fit into the free memory of the computer that adds it up."""
    check_size(name, size)
    _check_memory(name, 8 * size * (_AGGREGATOR_VECTORS + _VECTORS_PER_SITE * n_sites), "the aggregator")


def check_site(name: str, size: int) -> None:
    """Refuse a release that does not fit into the free memory of the site that answers."""
    check_size(name, size)
    _check_memory(name, 8 * size * _SITE_VECTORS, "the site")


def free_memory() -> int | None:
    """Return how many bytes this process may still take, from the system and its control group; None if unknown."""
    limits = [bytes_left for bytes_left in (_available(), _left_in_group()) if bytes_left is not None]
    return min(limits) if limits else None


def _check_memory(name: str, needed: int, machine: str) -> None:
    if needed <= _NEGLIGIBLE_BYTES:
        return
    free = free_memory()
    if free is not None and needed > max(0, free - _RESERVED_BYTES):
        why = f"{machine} would need about {needed / 2**30:.3g} GB of memory, which is more than is free there"
        raise Failed(f"The release {name!r} was refused", why, f"Nothing was charged for it. {REMEDY}")


def _available() -> int | None:
    try:
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        # Windows has neither, so nothing is checked there: an allocation fails instead.
        return None


def _left_in_group() -> int | None:
    try:
        most = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        # The kernel reclaims the page cache when memory is short, so it counts as free.
        cached = dict(line.split() for line in (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines())
        return None if most == "max" else int(most) - used + int(cached.get("inactive_file", "0"))
    except (OSError, ValueError):
        return None
