"""Size and sensitivity of a statistic's release, computed from public numbers.

An :class:`Extent` needs neither records nor arrays. The functions of this module, and the static method ``extent`` of
every statistic, are plain Python on public numbers; the planner's page is generated from it
(``planning.page.traced``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

BLOCK_ROWS = 1024
"""Rows per block when totals are accumulated; part of the rounding analysis below."""

UNIT_ROUNDOFF = 2.0**-53
"""Largest relative error of one operation in double precision."""

Rounding: TypeAlias = Callable[[float], float]
"""Function from a number of records to a bound on the Euclidean floating-point error of their total."""


@dataclass(frozen=True, eq=False)
class Extent:
    """Size and sensitivity of what a statistic releases.

    Attributes
    ----------
    size : float
        Length of the packed vector.
    diameter : float
        Largest Euclidean distance between the packed contributions of two units.
    radius : float
        Largest Euclidean length of one unit's packed contribution.
    rounding : callable
        Function from a number of records to a bound on the floating-point error of their total.
    in_neighbours : callable or None
        The same for the part of that error that may differ between two totals whose records differ in one unit; None
        for all of it.

    Privacy
    -------
    Diameter and radius hold for exact arithmetic; ``rounding``, or ``in_neighbours``, bounds what floating point adds.
    """

    size: float
    diameter: float
    radius: float
    rounding: Rounding
    in_neighbours: Rounding | None = None

    @property
    def changed(self) -> Rounding:
        """Function from a number of records to the part of the error that may differ between neighbouring totals."""
        return self.rounding if self.in_neighbours is None else self.in_neighbours

    @property
    def released_size(self) -> float:
        """Length of the vector that leaves a site: the packed vector and the number of valid records."""
        return self.size + 1

    @property
    def count_weight(self) -> float:
        """Weight w with which valid records are counted beside the total; 0 if they cannot be counted for free.

        A valid unit contributes (c, w), an invalid one (0, 0). Two valid units are as far apart as without the count,
        and a valid and an invalid one by sqrt(|c|^2 + w^2), which is at most the diameter if w^2 <= diameter^2 -
        radius^2: the count costs no noise. The weight is at most the radius, so that sums fit the same range, and has
        at most 20 significant bits, so that its multiples are exact and add no rounding.
        """
        diameter, radius = self.diameter, self.radius
        room = (diameter - radius) * (diameter + radius)
        if not room > 0:
            return 0.0
        fraction, exponent = math.frexp(min(radius, math.sqrt(room)) * (1 - 2.0**-20))
        return math.ldexp(math.floor(fraction * 2**20), exponent - 20)

    def sensitivity(self, n_records: float) -> float:
        """Return how far replacing one unit moves the computed total: diameter plus both totals' rounding.

        A unit that is invalid contributes zero, which is as far from another contribution as that one is long: where
        the radius exceeds the diameter, it counts.
        """
        return max(self.diameter, self.radius) + 2 * self.changed(n_records)


def rounding_in_blocks(n_features: float, radius: float, *, block: float = BLOCK_ROWS, further: float = 0) -> Rounding:
    """Return the rounding of contributions that are summed block by block.

    Summing N terms of length at most ``radius`` in blocks makes an error of at most gamma_k N radius, where k counts
    the roundings any one term passes through (Higham 2002, section 4.2): the block, the blocks' sum, and the
    contribution itself, for which 4 (n_features + 64) roundings are allowed. The factor 2 covers 1/(1 - k u).

    Parameters
    ----------
    n_features : float
        Length of the sums that a contribution is computed by.
    radius : float
        Largest length of a contribution.
    block : float
        Records per block.
    further : float
        Roundings of a contribution beyond those allowed for ``n_features``.
    """

    def rounding(n_records: float) -> float:
        depth = block + math.ceil(n_records / block) + further + 4 * (n_features + 64)
        return 2 * depth * UNIT_ROUNDOFF * n_records * radius

    return rounding


CONVERSIONS = 8
"""Roundings of a coordinate when an exact sum becomes a packed number: to float64, scale, weight, site's weight."""


def exact_sums(
    size: float, diameter: float, radius: float, *, error: float = 0, roundings: float = CONVERSIONS
) -> Extent:
    """Return the extent of contributions that are integers and are added exactly (:mod:`dpcape.core.contributions`).

    Totals of neighbouring data sets then differ by what the two units contribute, whatever the others are. Only the
    conversion of a total rounds: every coordinate a few times, and the total by at most roundings u N radius.

    Parameters
    ----------
    size : float
        Length of the packed vector.
    diameter, radius : float
        Of one unit's contribution. Where the proof uses of a row only how long it is, both are taken for rows on the
        grid (:func:`~dpcape.core.grid.reach_on_grid`), and nothing else is counted.
    error : float
        Largest distance between the contribution of a unit as it is computed and as the proof has it.
    roundings : float
        Roundings of a coordinate, with one to spare.
    """

    def rounding(n_records: float) -> float:
        return n_records * (error + roundings * UNIT_ROUNDOFF * radius)

    def changed(n_records: float) -> float:
        return error + n_records * (roundings * UNIT_ROUNDOFF * radius)

    return Extent(size, diameter, radius, rounding, changed)


def plain_error(width: float, reach: float, *, roundings: float = 64) -> float:
    """Return how far a vector of ``width`` entries, at most ``reach`` long, moves when computed and put on 2^40 steps.

    Its entries are rounded by half a step, and before, by ``roundings`` of their own. A vector that is longer than its
    reach by a factor of 1 + 2^-21, whatever a statistic says, may still be added.
    """
    return reach * (math.sqrt(width) * 2.0**-40 + 1.01 * 2.0**-21 + roundings * UNIT_ROUNDOFF)


def row_error(width: float, reach: float, *, roundings: float = 64) -> float:
    """Return how far a row that is computed moves when it is put on the grid of 2^20 steps: half a step per entry."""
    return reach * (math.sqrt(width) * 2.0**-21 * (1 + 2.0**-8) + roundings * UNIT_ROUNDOFF)


def cross_error(left: float, right: float, left_error: float, right_error: float) -> float:
    """Return how far l r' moves where rows of at most ``left`` and ``right`` move by these errors; also for x x'."""
    return left * right_error + right * left_error + left_error * right_error


def rounding_one_by_one(radius: float, *, further: float = 0) -> Rounding:
    """Return the rounding of contributions that are exact in length and are added one by one.

    Parameters
    ----------
    radius : float
        Largest length of a contribution.
    further : float
        Roundings of a contribution beyond the 64 that are always allowed.
    """

    def rounding(n_records: float) -> float:
        depth = n_records + further + 64
        return 2 * depth * UNIT_ROUNDOFF * n_records * radius

    return rounding
