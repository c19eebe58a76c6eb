"""Means of rows together with how much clipping took away, so that an interval can allow for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Cells, Form, Squares, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import reach_on_grid
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.moments import row_bound
from dpcape.statistics.scaling import Scaled

# Weight of the clipped part relative to the bound: larger with public ranges, where it determines an interval's width.
_WITH_RANGES, _WITHOUT = 1.0, 0.5


class Means(NamedTuple):
    """Means over valid records.

    Attributes
    ----------
    mean : (D,) array
        Mean of the clipped rows.
    squares : (D,) array
        Mean of their squared entries.
    clipped : float
        Mean of the part of a row that clipping took away, from 0 to 1.
    """

    mean: FloatArray
    squares: FloatArray
    clipped: float


@known
class ClippedMeans(Summed[Means]):
    """Mean of rows, of their squared entries, and of the part that clipping took away.

    A row that was multiplied by f lost the part t = 1 - f of itself. The contribution is (x, x*x/(2 B), c B t/T),
    where T is the largest part that can be lost (1 without public ranges). Two contributions differ by at most 2 B in
    the first two (:class:`~dpcape.statistics.moments.FirstMoments`) and by c B in the third: the diameter is
    sqrt(4 + c^2) B, attained by a row clipped by T and an unclipped one opposite to it. The radius is
    sqrt(1.25 + c^2) B.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    clipping_weight : float
        c, from 0 to 2; 0 where no row can be clipped.
    """

    name = "clipped_means"
    kinds = frozenset({"rows", "labelled", "views", "subjects"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, clipping_weight: float) -> None:
        if isinstance(clipping_weight, bool) or not 0 <= clipping_weight <= 2:
            raise InvalidParameter("clipping_weight", "be from 0 to 2", repr(clipping_weight), "Leave it out.")
        super().__init__(facts, clipping_weight=clipping_weight)
        self.clipping_weight = float(clipping_weight)
        self._bound, self._most = reach_on_grid(row_bound(facts), facts.n_features), most_clipped(facts)

    @staticmethod
    def extent(*, n_features: float, bound: float, clipping_weight: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        reach = reach_on_grid(bound, n_features)
        diameter, radius = math.sqrt(4 + clipping_weight**2) * reach, math.sqrt(1.25 + clipping_weight**2) * reach
        return exact_sums(2 * n_features + 1, diameter, radius)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "n_features": self.facts.n_features,
            "bound": row_bound(self.facts),
            "clipping_weight": self.clipping_weight,
        }

    @property
    def _unit(self) -> float:
        """What a row that lost all of itself contributes to the third part."""
        return self.clipping_weight * self._bound / self._most if self._most > 0 else 0.0

    def terms(self, tile: Tile) -> Sequence[Form]:
        # Public ranges hold for every row, so no part exceeds the largest.
        lost = (1 - tile.factors) / self._most if self._most > 0 else np.zeros(tile.n_records)
        return [Sum(tile.rows), Squares(tile.rows), Cells(np.zeros(tile.n_records, dtype=np.intp), 1, lost)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        rows, squares, lost = sums
        return np.concatenate([rows, squares / (2 * self._bound), self._unit * self._most * lost])

    @property
    def square_unit(self) -> float:
        """Noise of a mean square over that of a mean."""
        return 2 * self._bound

    @property
    def clipped_unit(self) -> float:
        """Noise of the clipped part over that of a mean; 0 where no row can be clipped."""
        return 1 / self._unit if self._unit > 0 else 0.0

    def unpack(self, packed: FloatArray) -> Means:
        """Return the means."""
        mean, squares = packed[:-1].reshape(2, -1)
        return Means(mean, squares * self.square_unit, float(packed[-1]) * self.clipped_unit)


def most_clipped(facts: PublicFacts) -> float:
    """Return the largest part of a row that clipping can take away: 1 without public ranges."""
    if not facts.longest:
        return 1.0
    return max(1 - min(1.0, bound / longest) for bound, longest in zip(facts.bounds, facts.longest, strict=True))


def clipping_weight(facts: PublicFacts | None) -> float:
    """Return the weight of the clipped part by a public rule; facts are None on the planner's page."""
    if facts is None or not facts.longest:
        return _WITHOUT
    return _WITH_RANGES if most_clipped(facts) > 0 else 0.0


def weight_after_scaling(facts: PublicFacts | None) -> float:
    """Return the weight of the clipped part where rows are clipped to a released length, by a public rule."""
    return _WITHOUT if facts is None or not facts.longest else _WITH_RANGES


def clipped_means(facts: PublicFacts) -> ClippedMeans:
    """Means of rows and of what clipping took away."""
    return ClippedMeans(facts, clipping_weight=clipping_weight(facts))


@known
class ScaledClippedMeans(Scaled[Means]):
    """Mean of standardised rows, of their squared entries, and of the part that clipping took away."""

    inner = ClippedMeans
