"""What a message and a machine can hold: checked when releases are planned, and again before they are charged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dpcape.core.errors import Failed, InvalidParameter
from dpcape.core.messages import MAX_BYTES, MAX_ENTRIES
from dpcape.core.tiles import tile_rows

SITE_VECTORS = 8
"""Vectors of a release's size that a site holds at once: the total as a matrix and packed, draws, masks, the reply."""
SITE_TILES = 8
"""Tiles of rows that a site holds at once: as they are read, on the grid, and as the statistic changes them."""
# `experiments/memory/campaign.py` measures both, with what the coordinator needs (`analyses.footprint`).
# Size of a message without its vector, at most.
_ENVELOPE_BYTES = 2**16
# Reserved for what is imported while an analysis runs, the records' buffers and other processes.
_RESERVED_BYTES = 64 * 2**20
# Needs below this are not checked: querying free memory costs more than the release.
NEGLIGIBLE_BYTES = 2**20
_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")
# Files of a control group with its limit and its use, and the name of the page cache that is not in use: the kernel
# reclaims it when memory is short, so it counts as free. Of version 2, and of version 1.
_GROUP_FILES = ("memory.max", "memory.current", "inactive_file")
_OLD_GROUP_FILES = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")

MOST_NUMBERS = min(MAX_ENTRIES, (MAX_BYTES - _ENVELOPE_BYTES) // 8)
"""Numbers of a release, at most: what a message can carry."""
REMEDY = "Use fewer columns, or a public basis with fewer columns."
UNCHARGED = "Nothing was charged."
STANDS = "Nothing further was charged; what was charged before stands."


def check_size(name: str, size: int) -> None:
    """Refuse a release that no message can carry."""
    if size > MOST_NUMBERS:
        must = f"hold at most {MOST_NUMBERS:,} numbers to fit into a message"
        raise InvalidParameter("a release", must, f"{size:,} for {name!r}", REMEDY)


def site_bytes(size: float, n_features: float, n_records: float) -> float:
    """Return the bytes that a site needs for a release of so many numbers, from rows of ``n_features`` columns."""
    entries = tile_rows(int(n_features), int(n_records)) * n_features
    return 8 * (SITE_VECTORS * size + SITE_TILES * entries)


def check_site(name: str, size: int, n_features: int, n_records: int, *, is_charged: bool) -> None:
    """Refuse a release that does not fit into the free memory of the site that answers."""
    check_size(name, size)
    needed = site_bytes(size, n_features, n_records)
    check_memory(f"The release {name!r}", needed, "the site", STANDS if is_charged else UNCHARGED)


def check_memory(what: str, needed: float, machine: str, remedy: str) -> None:
    """Refuse what does not fit into the memory that this process may still take; ``machine`` is where it runs."""
    if needed <= NEGLIGIBLE_BYTES:
        return
    free = free_memory()
    if free is not None and needed > max(0, free - _RESERVED_BYTES):
        why = f"{machine} would need about {needed / 2**30:.3g} GB of memory, which is more than is free there"
        raise Failed(f"{what} was refused", why, f"{remedy} {REMEDY}")


def free_memory() -> int | None:
    """Return how many bytes this process may still take; None if unknown.

    It is the least that the system, the control groups of the process and its own limits leave.
    """
    limits = [*_left_in_system(), *_left_in_groups(), *_left_of_limits()]
    return min(limits) if limits else None


def _left_in_system() -> Iterator[int]:
    try:
        for line in (_PROC / "meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                yield int(line.split()[1]) * 1024
                return
        yield os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        # Windows has neither, so nothing is checked there: an allocation fails instead.
        return


def _left_in_groups() -> Iterator[int]:
    """Yield what the control group of this process leaves, and every group around it: each has its own limit."""
    try:
        lines = (_PROC / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        controllers, _, path = line.partition(":")[2].partition(":")
        if controllers and "memory" not in controllers.split(","):
            continue
        root, files = (_CGROUP / "memory", _OLD_GROUP_FILES) if controllers else (_CGROUP, _GROUP_FILES)
        # In a container, groups outside of it are in the path but not among the files.
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts) + 1):
            yield from _left_in_group(root.joinpath(*parts[:depth]), *files)


def _left_in_group(group: Path, most: str, used: str, cache: str) -> Iterator[int]:
    try:
        limit, taken = ((group / name).read_text(encoding="ascii").strip() for name in (most, used))
        numbers = dict(line.split() for line in (group / "memory.stat").read_text(encoding="ascii").splitlines())
        if limit != "max":
            yield int(limit) - int(taken) + int(numbers.get(cache, "0"))
    except (OSError, ValueError):
        return


def _left_of_limits() -> Iterator[int]:
    """Yield what this process's limits of address space and of data leave (ulimit -v and -d)."""
    try:
        import resource

        pages = (_PROC / "self" / "statm").read_text(encoding="ascii").split()
        for kind, n_pages in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
            limit = resource.getrlimit(kind)[0]
            if limit != resource.RLIM_INFINITY:
                yield limit - int(n_pages) * resource.getpagesize()
    except (ImportError, OSError, ValueError, IndexError):
        return
