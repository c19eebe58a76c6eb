"""Records of a site, one protected unit at a time: for code that must not see two of them together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from dpcape.core.arrays import FloatArray
from dpcape.records.kinds import Records

_BLOCK = 1024


class SingleRecord(Records):
    """One protected unit (row, document, time point or subject), with the interface of all records of a site."""

    def __init__(self, records: Records, block: Any) -> None:
        super().__init__(msgspec.structs.replace(records.facts(), n_records=1))
        self._block = block

    def blocks(self, size: int = 1024) -> Iterator[Any]:
        """Return the only block."""
        return iter([self._block])

    def feature_blocks(self, size: int = 1024) -> Iterator[FloatArray]:
        """Return the only block, without its target."""
        return iter([self._block[0] if isinstance(self._block, tuple) else self._block])

    def each_subject(self) -> Iterator[FloatArray]:
        """Return the only subject."""
        return iter([self._block])


def one_at_a_time(records: Records) -> Iterator[SingleRecord]:
    """Yield every protected unit as records of its own."""
    if records.unit == "subject":
        each: Any = records
        for series in each.each_subject():
            yield SingleRecord(records, series.copy())
        return
    for block in records.blocks(_BLOCK):
        n_records = len(block[0]) if isinstance(block, tuple) else block.shape[0]
        for at in range(n_records):
            one = slice(at, at + 1)
            yield SingleRecord(
                records, tuple(array[one].copy() for array in block) if isinstance(block, tuple) else block[one].copy()
            )
