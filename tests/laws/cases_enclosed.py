"""Cases of enclosed statistics: of a statistic that is not dpcape's, one record per block.

Larger blocks have a diameter that no single record's contribution reaches; test_enclosed.py searches them.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpcape import rows
from dpcape.core.arrays import FloatArray
from dpcape.core.extent import Extent, rounding_in_blocks
from dpcape.core.statistic import Statistic, known

from .cases_moments import _clipped
from .statistic_case import Case

Vector = NDArray[np.float64]
BOUND = 1.5
PUBLIC = {"inner": "laws_rows", "package": "laws", "size": 3, "radius": BOUND, "block": 1, "seconds": 0.1}


@known
class LawsRows(Statistic[Any, FloatArray]):
    """The rows themselves, as a statistic of another package."""

    name: ClassVar = "laws_rows"
    kinds: ClassVar = frozenset({"rows"})
    units: ClassVar = frozenset({"record"})

    @staticmethod
    def extent(*, n_features: Any, bound: Any) -> Extent:
        return Extent(n_features, 2 * bound, bound, rounding_in_blocks(n_features, bound))

    @property
    def numbers(self) -> dict[str, float]:
        return {"n_features": self.facts.n_features, "bound": math.hypot(*self.facts.bounds)}

    def total(self, records: Any) -> FloatArray:
        total: FloatArray = sum((block.sum(axis=0) for block in records.blocks()), np.zeros(self.size))
        return total


def _rows(p: Vector) -> Any:
    return rows(p, bound=BOUND)


def _mean(p: Vector) -> Vector:
    return _clipped(p, BOUND).mean(axis=0)


CASES = [
    Case("sampled", "block1", 3, _rows, PUBLIC, expected=_mean),
    Case("record_by_record", "block1", 3, _rows, PUBLIC, expected=_mean),
    Case("record_by_record", "block4", 3, _rows, {**PUBLIC, "block": 4}, expected=_mean),
]
