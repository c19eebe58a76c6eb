"""Scores and curvature of proportional hazards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.contributions import Cells, Cross, Form, Outer, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, cross_error, exact_sums, row_error
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import GridRows, into_balls, on_grid, reach_on_grid
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.exponentials import exponentials
from dpcape.statistics.followed_columns import FollowedDesign, FollowedRows
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.reduced import checked_matrix
from dpcape.statistics.table_designs import Standard

_FARTHEST = 50.0
LARGEST_LIMIT = 20.0
"""Largest number of expected events at which a record's follow-up may be ended."""
LEVEL, TREND = 0.3, 0.25
"""Weights of the scores of the level and the trend of hazards, beside columns in the unit ball."""
LEVEL_CURVATURE, TREND_CURVATURE = 0.5, 0.7
"""Weights of level and trend in the curvature."""
STRETCH = 2.0
"""How much longer than the unit ball a row may be for its curvature to be counted in full."""
_WIDTH = 1 + LEVEL_CURVATURE**2 + TREND_CURVATURE**2
# Largest length of v, with room for rounding.
_REACH = math.sqrt(_WIDTH) * (1 + 2.0**-40)
# Chosen so that both pairs of records that attain the diameter are equally far apart.
CURVATURE = 2 * LEVEL / _WIDTH
"""Weight of the curvature."""
DIAMETER = math.sqrt(4 + 8 * LEVEL**2 + 4 * TREND**2)
"""Largest distance between two contributions to the scores."""
_RADIUS = math.sqrt(1 + LEVEL**2 + 4 * TREND**2 + 4 * LEVEL**2)


class HazardMeans(NamedTuple):
    """Means over all records of scores and curvature, for the parameters (level, trend, columns).

    Attributes
    ----------
    scores : (2 + width,) array
        Events less expected events, times (1, trend, row), over the limit.
    curvature : (2 + width, 2 + width) array
        Expected events times products of (1, trend, row), over the limit.
    """

    scores: FloatArray
    curvature: FloatArray


@known
class HazardScores(Summed[HazardMeans]):
    r"""Scores and curvature of a model of proportional hazards, of records whose follow-up ends early by design.

    The row of a complete record, :math:`u = (x - centre) / scale`, has the hazard :math:`h(t) e^{\beta \cdot u}`, h
    constant between the given ``edges``. Follow-up ends at the time t of its event or its end, or before that at
    the time at which :math:`\Lambda`, the number of events expected until then, reaches the ``limit`` :math:`M \ge 1`;
    d is 1 if the event is seen. That time follows from the row alone, so scores keep the mean zero at the true
    hazards. With q, the row u moved into the unit ball, :math:`\lambda = \Lambda/M`, and a public trend s(t) from -1
    to 1, the record contributes

    .. math:: (g_0 m,\; g_1 y,\; m q,\; \eta P), \quad m = d/M - \lambda, \quad
        y = \bigl(d\, s(t) - \textstyle\int s\, d\Lambda\bigr) / M,

    where :math:`P = \frac 1 M \int v v' d\Lambda`, :math:`v = (h_0, h_1 s, r)`, is the curvature, packed; r is q, or
    longer where the row was shortened, and at most 1 long. An incomplete record contributes zero.

    *Diameter.* Let c = 1/M. (1) :math:`|q| \le 1`, so that :math:`|m q - m' q'| \le |m| + |m'|`. (2)
    :math:`|y| \le c d + \lambda`. (3) P is positive semidefinite with a trace of at most :math:`F^2 \lambda`,
    :math:`F^2 = 1 + h_0^2 + h_1^2`, and so is P': their product has a trace of at least 0, and
    :math:`|P - P'|^2 \le F^4 (\lambda^2 + \lambda'^2)`. So the squared distance of two records is at most

    .. math:: B = g_0^2 (m - m')^2 + (|m| + |m'|)^2 + g_1^2 (c d + c d' + \lambda + \lambda')^2
        + \eta^2 F^4 (\lambda^2 + \lambda'^2),

    which is convex in :math:`(\lambda, \lambda') \in [0, 1]^2` and, there, in :math:`c \in [0, 1]`: its largest value
    is at one of the ends. With :math:`\eta^2 F^4 = 4 g_0^2`, these are, for (d, d') = (0, 0):
    :math:`4 + 4 g_1^2 + 8 g_0^2` at (1, 1) and :math:`1 + g_1^2 + 5 g_0^2` at (1, 0). For (1, 0):
    :math:`4 + 4 g_1^2 + 8 g_0^2` at (0, 1) with c = 1, the same at (1, 1) with c = 0, and
    :math:`1 + 9 g_1^2 + 9 g_0^2` with c = 1; :math:`1 + g_1^2 + 5 g_0^2` or :math:`4 g_1^2 + 4 g_0^2` at (1, 0), and
    less at (0, 0). For (1, 1): at most :math:`4 + 4 g_1^2` at (0, 0), :math:`1 + 9 g_1^2 + 5 g_0^2` at (0, 1), and
    :math:`4 + 4 g_1^2 + 8 g_0^2` or :math:`16 g_1^2 + 8 g_0^2` at (1, 1). With :math:`g_0 = 0.3` and
    :math:`g_1 = 0.25` the largest is :math:`4 + 8 g_0^2 + 4 g_1^2`. It is attained with M = 1 and s = 1 by an event at
    once and no event until the limit, of the same long row. No contribution is longer than
    :math:`\sqrt{1 + g_0^2 + 4 g_1^2 + 4 g_0^2}`.

    All of this holds for any finite public arrays: rows, expected events and their integrals are moved into their
    ranges afterwards.

    *Grid.* P is added up as :math:`w w'` with :math:`w = \sqrt\lambda (h_0, h_1 \bar s, r)`, :math:`\bar s` the mean of
    s over :math:`\Lambda`, and :math:`h_1^2` times the variance of s times :math:`\lambda` for the trend. The proof
    couples these numbers with m, so what the grid moves is counted as ``error``: m by half a step of 2^-20, y by twice
    that, w as a row that is at most F long, and the variance by half a step. Rows q on the grid are at most 1 long
    after division by a public factor.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    event : int
        Position of the time to an event among those of the table.
    design : array of int
        Positions of the columns.
    centre, scale, coefficients : (width,) array
        Public numbers, one per column of the design.
    edges : (K + 1,) array
        Beginning of the first bin of time and ends of all bins, increasing, as places in the range of time. Follow-up
        ends at the last.
    hazards, trend : (K,) array
        Hazard per unit of place in each bin, and the trend there.
    limit : float
        Number of expected events at which follow-up ends, from 1 to 20.
    """

    name = "hazard_scores"
    kinds = frozenset({"table"})
    units = frozenset({"record"})

    def __init__(
        self,
        facts: PublicFacts,
        event: int,
        design: IntArray,
        centre: FloatArray,
        scale: FloatArray,
        coefficients: FloatArray,
        edges: FloatArray,
        hazards: FloatArray,
        trend: FloatArray,
        limit: float,
    ) -> None:
        super().__init__(
            facts,
            event=event,
            design=design,
            centre=centre,
            scale=scale,
            coefficients=coefficients,
            edges=edges,
            hazards=hazards,
            trend=trend,
            limit=limit,
        )
        self._read = FollowedDesign(facts, event, design)
        width = (self._read.width,)
        self._standard = Standard(checked_matrix("centre", centre, width), checked_matrix("scale", scale, width))
        self._longer = reach_on_grid(1.0, self._read.width)
        self._coefficients = checked_matrix("coefficients", coefficients, width)
        self._edges = checked_matrix("edges", edges, (None,))
        if len(self._edges) < 2 or self._edges[0] != 0 or self._edges[-1] > 1 or (np.diff(self._edges) <= 0).any():
            raise InvalidParameter("edges", "be at least two places that increase from 0 to at most 1", repr(edges))
        bins = (len(self._edges) - 1,)
        self._hazards = np.clip(checked_matrix("hazards", hazards, bins), 1e-12, 1e12)
        self._trend = np.clip(checked_matrix("trend", trend, bins), -1.0, 1.0)
        # Written so that NaN is refused.
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 1 <= limit <= LARGEST_LIMIT:
            raise InvalidParameter("limit", f"be a number from 1 to {LARGEST_LIMIT:g}", repr(limit))
        self._limit = float(limit)
        steps = self._hazards * np.diff(self._edges)
        cumulative = [np.append(0.0, np.cumsum(steps * self._trend**power)[:-1]) for power in range(3)]
        self._before: FloatArray = np.array(cumulative)

    @staticmethod
    def extent(*, width: float) -> Extent:
        """Return the extent for columns that become ``width`` numbers."""
        size = 2 + width + packed_size(2 + width)
        of_row = row_error(2 + width, _REACH)
        of_scores = math.sqrt(1 + LEVEL**2) * row_error(1, 1) + TREND * row_error(1, 2)
        of_curvature = cross_error(_REACH, _REACH, of_row, of_row) + TREND_CURVATURE**2 * 2.0**-20
        return exact_sums(size, DIAMETER, _RADIUS, error=of_scores + CURVATURE * of_curvature)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"width": self._read.width}

    def terms(self, tile: Tile) -> Sequence[Form]:
        read = self._read.rows(tile.codes, float(self._edges[-1]))
        units = self._standard(read.design)
        events, trends, expected = self._expected(read, self._relative(units))
        moved, factors, _ = into_balls(units, (self._read.width,), (1.0,))
        level = on_grid((events - expected[0])[:, np.newaxis], 1.0)
        trend = on_grid((trends - expected[1])[:, np.newaxis], 2.0)
        rows, variances = self._roots(moved, factors, expected)
        for part in (level, trend, rows):
            part.drop(read.incomplete)
        varied = Cells(read.incomplete.astype(np.intp), 1, variances)
        return [Sum(level), Sum(trend), Cross(level, moved), Outer(rows), varied]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        level, trend, scores, products, variances = sums
        curvature = products.T.copy()
        curvature[1, 1] += TREND_CURVATURE**2 * variances[0]
        return np.concatenate([LEVEL * level, TREND * trend, scores[0] / self._longer, CURVATURE * pack(curvature)])

    def _relative(self, units: FloatArray) -> FloatArray:
        """Return how many times the usual hazard each standardised row has."""
        # Added column by column: where follow-up ends must not depend on where in a tile a record stands.
        exponents = np.zeros(len(units))
        for coefficient, column in zip(self._coefficients, units.T, strict=True):
            exponents += coefficient * column
        return exponentials(np.clip(np.where(np.isnan(exponents), 0.0, exponents), -_FARTHEST, _FARTHEST))

    def _roots(self, moved: GridRows, factors: FloatArray, expected: FloatArray) -> tuple[GridRows, FloatArray]:
        """Return rows whose outer products are the curvature but for variances of the trend, and these.

        The derivative of a score m q by the coefficients is q u', so a row that was shortened counts for more than the
        product of q: by 1 over its factor, at most ``STRETCH``.
        """
        root = np.sqrt(expected[0])
        mean = np.where(root > 0, expected[1] / root, 0.0)
        longer = np.sqrt(np.minimum(1 / factors, STRETCH) / STRETCH)
        rows = np.empty((len(root), 2 + moved.width), order="F")
        rows[:, 0], rows[:, 1] = LEVEL_CURVATURE * root, TREND_CURVATURE * mean
        np.multiply(moved.ints, (root * longer / (self._longer * moved.steps))[:, np.newaxis], out=rows[:, 2:])
        return on_grid(rows, _REACH), expected[2] - mean * mean

    def _expected(self, rows: FollowedRows, relative: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return, over the limit: events, events times trend, and integrals of 1, s and s^2 over expected events."""
        # The time at which as many events as the limit are expected.
        most = self._limit / relative
        at = np.maximum(np.searchsorted(self._before[0], most, side="left") - 1, 0)
        ends = self._edges[at] + (most - self._before[0][at]) / self._hazards[at]
        seen = rows.occurred & (rows.times <= ends)
        times = np.minimum(rows.times, ends)
        bins = np.clip(np.searchsorted(self._edges, times, side="left") - 1, 0, len(self._trend) - 1)
        within = self._hazards[bins] * (times - self._edges[bins])
        trend = self._trend[bins]
        share = relative / self._limit
        powers = (1.0, trend, trend * trend)
        expected = np.array(
            [share * (before[bins] + within * power) for before, power in zip(self._before, powers, strict=True)]
        )
        np.clip(expected[0], 0.0, 1.0, out=expected[0])
        np.clip(expected[2], 0.0, expected[0], out=expected[2])
        reach = np.sqrt(expected[0] * expected[2])
        np.clip(expected[1], -reach, reach, out=expected[1])
        events = seen / self._limit
        return events, events * trend, expected

    def unpack(self, packed: FloatArray) -> HazardMeans:
        """Return the means, without their weights, of rows that are not shortened for the curvature."""
        width = self._read.width
        n_parameters = 2 + width
        longer = np.array([1.0, 1.0, *[self._longer] * width])
        return HazardMeans(
            packed[:n_parameters] * (longer / score_weights(width)),
            unpack(packed[n_parameters:], n_parameters) * (np.outer(longer, longer) / curvature_weights(width)),
        )


def score_weights(width: int) -> FloatArray:
    """Return the weights of the scores: noise on a score is in inverse proportion to its weight."""
    return np.array([LEVEL, TREND, *[1.0] * width])


def curvature_weights(width: int) -> FloatArray:
    """Return the weights of the entries of the curvature."""
    weights = np.array([LEVEL_CURVATURE, TREND_CURVATURE, *[1 / math.sqrt(STRETCH)] * width])
    products: FloatArray = CURVATURE * np.outer(weights, weights)
    return products
