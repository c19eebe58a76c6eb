"""The two statistics of adjusted contrasts: moments of the design, and products of residuals with outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.contributions import Cells, Form, Grouped, Outer, Squares, Sum
from dpcape.core.extent import Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import entry_on_grid, into_balls, on_grid, reach_on_grid
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.reduced import checked_matrix
from dpcape.statistics.table_designs import Standard, TableDesign

SQUARES = 2.5
"""Weight of a squared outcome in the moments of a design, squared."""
OUTCOMES = 0.25
"""What outcomes add to the squared diameter of the moments of a design, relative to it."""
CONTRAST = 0.25
"""Weight of the product of residual and contrast."""


class DesignMeans(NamedTuple):
    """Means over all records of what complete records contribute.

    Attributes
    ----------
    counts : (S,) array
        Share of all records that are complete and of each site.
    sums : (S, width) array
        Rows of the design by site.
    products : (width, width) array
        Products of the design's columns.
    outcomes, squares : (V,) array
        Outcomes and their squares.
    """

    counts: FloatArray
    sums: FloatArray
    products: FloatArray
    outcomes: FloatArray
    squares: FloatArray


@known
class DesignMoments(Summed[DesignMeans]):
    r"""Moments of a design by site, and of the outcomes, over complete records.

    A complete record of site s with the design row z, :math:`|z|^2 \le b` for b columns, and outcomes y in [-1, 1]
    contributes :math:`(b e_s, \sqrt{2b}\, e_s \otimes z, z z', t y, t \sqrt{5/2}\, y^2)` with
    :math:`t = b / \sqrt{2 V}` for V outcomes; an incomplete one zero.

    *Diameter.* The part of the design. (1) Same site: with :math:`\theta = z \cdot z'` the squared distance is
    :math:`2b(|z|^2 + |z'|^2 - 2\theta) + |z|^4 + |z'|^4 - 2\theta^2 \le 6b^2 - 4b\theta - 2\theta^2 \le 8b^2`, the
    largest at :math:`\theta = -b`, that is :math:`z' = -z`. (2) Different sites:
    :math:`2b^2 + 2b(|z|^2 + |z'|^2) + |z|^4 + |z'|^4 - 2\theta^2 \le 8b^2`. (3) Incomplete:
    :math:`b^2 + 2b|z|^2 + |z|^4 \le 4b^2`.

    The part of the outcomes. Two values that are :math:`\Delta` apart have a sum of at most :math:`2 - \Delta`, so
    their squares are at most :math:`\Delta(2 - \Delta)` apart, and :math:`\Delta^2 + \frac 5 2 \Delta^2(2 - \Delta)^2
    \le 4` because :math:`2 + \Delta - \frac 5 2 \Delta^2 (2 - \Delta) > 0` on [0, 2] (its least value is 0.31, at
    :math:`\Delta = 1.22`). From zero, :math:`y^2 + \frac 5 2 y^4 \le 3.5`. So it is at most :math:`4 V t^2 = 2 b^2`.

    Together the diameter is :math:`\sqrt{10}\, b`, attained by z' = -z and y' = -y, all ends of ranges. No contribution
    is longer than :math:`b \sqrt{4 + 3.5 / 2}`.

    *Grid.* Rows z on the grid may be longer than :math:`\sqrt b`, and outcomes larger than 1, by public factors. Sums
    are divided by these, and products and squares by their squares, so that all of this holds for what is added.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    outcomes : (V,) array of int
        Positions of the outcomes.
    design : array of int
        Positions of the contrast and the covariates.
    site : int
        Position of the column with the sites; -1 if there is none.
    """

    name = "design_moments"
    kinds = frozenset({"table"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, outcomes: IntArray, design: IntArray, site: int) -> None:
        super().__init__(facts, outcomes=outcomes, design=design, site=site)
        self._design = TableDesign(facts, outcomes, design, site)
        n_columns, n_outcomes = self._design.n_columns, self._design.n_outcomes
        self.weights = moment_weights(n_columns, n_outcomes)
        self._reaches = math.sqrt(n_columns), math.sqrt(n_outcomes)
        self._longer = reach_on_grid(1.0, self._design.width)
        self._larger = entry_on_grid(self._reaches[1], n_outcomes)

    @staticmethod
    def extent(*, n_columns: float, width: float, n_sites: float, n_outcomes: float) -> Extent:
        """Return the extent for a design of ``n_columns`` columns, which become ``width`` numbers."""
        size = n_sites * (1 + width) + packed_size(width) + 2 * n_outcomes
        radius = n_columns * math.sqrt(4 + (1 + SQUARES) * 2 * OUTCOMES)
        return exact_sums(size, n_columns * math.sqrt(8 * (1 + OUTCOMES)), radius)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "n_columns": self._design.n_columns,
            "width": self._design.width,
            "n_sites": self._design.n_sites,
            "n_outcomes": self._design.n_outcomes,
        }

    def terms(self, tile: Tile) -> Sequence[Form]:
        rows = self._design.rows(tile.codes)
        design, outcomes = on_grid(rows.design, self._reaches[0]), on_grid(rows.outcomes, self._reaches[1])
        by_site = Cells(rows.sites, self._design.n_sites)
        for part in (by_site, design, outcomes):
            part.drop(rows.incomplete)
        return [by_site, Grouped(by_site, design), Outer(design), Sum(outcomes), Squares(outcomes)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        counts, by_site, products, outcomes, squares = sums
        weights, longer, larger = self.weights, self._longer, self._larger
        return np.concatenate(
            [
                weights.counts * counts,
                weights.sums / longer * by_site.ravel(),
                pack(products.T) / longer**2,
                weights.outcomes / larger * outcomes,
                weights.squares / larger**2 * squares,
            ]
        )

    def unpack(self, packed: FloatArray) -> DesignMeans:
        """Return the means, without their weights."""
        n_sites, width, n_outcomes = self._design.n_sites, self._design.width, self._design.n_outcomes
        sizes = [n_sites, n_sites * width, packed_size(width), n_outcomes, n_outcomes]
        blocks = np.split(packed, np.cumsum(sizes)[:-1])
        weights, longer, larger = self.weights, self._longer, self._larger
        return DesignMeans(
            blocks[0] / weights.counts,
            (blocks[1] * (longer / weights.sums)).reshape(n_sites, width),
            unpack(blocks[2], width) * longer**2,
            blocks[3] * (larger / weights.outcomes),
            blocks[4] * (larger**2 / weights.squares),
        )


class MomentWeights(NamedTuple):
    """Weights of the parts of the moments of a design: noise on a part is in inverse proportion to its weight."""

    counts: float
    sums: float
    outcomes: float
    squares: float


def moment_weights(n_columns: int, n_outcomes: int) -> MomentWeights:
    """Return the weights for a design of so many columns."""
    outcomes = n_columns * math.sqrt(2 * OUTCOMES / n_outcomes)
    return MomentWeights(float(n_columns), math.sqrt(2 * n_columns), outcomes, outcomes * math.sqrt(SQUARES))


class ProductMeans(NamedTuple):
    """Means over all records of products of residuals.

    Attributes
    ----------
    products : (V,) array
        Residual times outcome.
    squares : (V,) array
        The same, squared record by record.
    contrast : float
        Residual times contrast, shortened as the outcomes were.
    """

    products: FloatArray
    squares: FloatArray
    contrast: float


@known
class ResidualProducts(Summed[ProductMeans]):
    r"""Products of the contrast's residual with the outcomes, their squares, and the product with the contrast.

    Of a complete record of site s with the design row z, :math:`r = w_s (c \cdot z - o_s)` is moved into [-1, 1], and
    :math:`u = (y - centre) / scale` into the unit ball, by a factor :math:`f \le 1`. It contributes
    :math:`(r u, (r u)^2 / \sqrt 2, r f z_1 / 4)`, where :math:`z_1` in [-1, 1] is the contrast; an incomplete record
    contributes zero.

    *Diameter.* For m = r u and m' in the unit ball let p = m + m', q = m - m', and :math:`\delta = p \cdot q`. Since
    :math:`|p \pm q| \le 2`, :math:`|p|^2 + |q|^2 + 2|\delta| \le 4`. The squares differ by the numbers
    :math:`p_i q_i`, whose sum is :math:`\delta` and whose absolute values sum to at most :math:`|p||q|`; the sum of
    their squares is at most that of their positive and of their negative sum, :math:`(|p|^2|q|^2 + \delta^2)/2`. With
    P and Q the larger and the smaller of :math:`|p|^2, |q|^2`, :math:`Q \le 4 - P - 2|\delta|`, the squared distance
    is at most :math:`P + (PQ + \delta^2)/4 \le 2P - P^2/4 + |\delta| (|\delta|/4 - P/2) \le 4`, because
    :math:`|\delta| \le \sqrt{PQ} \le P`. The last number adds at most 1/4. From an incomplete record:
    :math:`1 + 1/2 + 1/16`. So the diameter is :math:`\sqrt{4.25}`, attained by u' = -u of length 1, r = r' = 1 and
    opposite contrasts.

    All of this holds for any finite public arrays: what they make of a record is clipped afterwards, and what is not a
    number becomes zero. On the grid m may be longer than 1, and the last product larger, by a public factor, by which
    sums are divided, and squares by its square.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    outcomes : (V,) array of int
        Positions of the outcomes.
    design : array of int
        Positions of the contrast and the covariates.
    site : int
        Position of the column with the sites; -1 if there is none.
    coefficients : (width,) array
        The c of the residual.
    offsets : (S,) array
        The o_s.
    site_weights : (S,) array
        The w_s.
    centre, scale : (V,) array
        Public numbers, one per outcome.
    """

    name = "residual_products"
    kinds = frozenset({"table"})
    units = frozenset({"record"})

    def __init__(
        self,
        facts: PublicFacts,
        outcomes: IntArray,
        design: IntArray,
        site: int,
        coefficients: FloatArray,
        offsets: FloatArray,
        site_weights: FloatArray,
        centre: FloatArray,
        scale: FloatArray,
    ) -> None:
        super().__init__(
            facts,
            outcomes=outcomes,
            design=design,
            site=site,
            coefficients=coefficients,
            offsets=offsets,
            site_weights=site_weights,
            centre=centre,
            scale=scale,
        )
        self._design = TableDesign(facts, outcomes, design, site)
        n_sites, n_outcomes = self._design.n_sites, self._design.n_outcomes
        self._coefficients = checked_matrix("coefficients", coefficients, (self._design.width,))
        self._offsets = checked_matrix("offsets", offsets, (n_sites,))
        self._site_weights = checked_matrix("site_weights", site_weights, (n_sites,))
        width = (n_outcomes,)
        self._standard = Standard(checked_matrix("centre", centre, width), checked_matrix("scale", scale, width))
        # Outcomes are put on the grid when they are shortened, and once more times the residual.
        self._reach = reach_on_grid(1.0, n_outcomes)
        self._longer = reach_on_grid(self._reach, n_outcomes)

    @staticmethod
    def extent(*, n_outcomes: float, width: float) -> Extent:
        """Return the extent for ``n_outcomes`` outcomes and a design of ``width`` numbers."""
        return exact_sums(2 * n_outcomes + 1, math.sqrt(4 + 4 * CONTRAST**2), math.sqrt(1.5 + CONTRAST**2))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_outcomes": self._design.n_outcomes, "width": self._design.width}

    def terms(self, tile: Tile) -> Sequence[Form]:
        rows = self._design.rows(tile.codes)
        residuals = self._residuals(rows.design, rows.sites)
        moved, factors, _ = into_balls(self._standard(rows.outcomes), (self._design.n_outcomes,), (1.0,))
        values = np.multiply(moved.ints, (residuals / moved.steps)[:, np.newaxis], out=moved.ints)
        products = on_grid(values, self._reach)
        contrasts = on_grid((residuals * factors * rows.design[:, 0])[:, np.newaxis], 1.0)
        for part in (products, contrasts):
            part.drop(rows.incomplete)
        return [Sum(products), Squares(products), Sum(contrasts)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        products, squares, contrast = sums
        longer = self._longer
        return np.concatenate(
            [products / longer, squares * (math.sqrt(0.5) / longer**2), contrast * (CONTRAST / longer)]
        )

    def _residuals(self, design: FloatArray, sites: IntArray) -> FloatArray:
        """Return the residual of every record, in [-1, 1]; zero where it is not a number."""
        at = np.minimum(sites, self._design.n_sites - 1)
        residuals = -self._offsets[at]
        # Added column by column, so that a residual does not depend on where in a tile its record stands.
        for coefficient, column in zip(self._coefficients, design.T, strict=True):
            residuals = residuals + coefficient * column
        residuals = residuals * self._site_weights[at]
        return np.clip(np.where(np.isnan(residuals), 0.0, residuals), -1.0, 1.0)

    def unpack(self, packed: FloatArray) -> ProductMeans:
        """Return the means, without their weights."""
        n_outcomes, longer = self._design.n_outcomes, self._longer
        return ProductMeans(
            packed[:n_outcomes] * longer,
            packed[n_outcomes:-1] * (math.sqrt(2) * longer**2),
            float(packed[-1]) * longer / CONTRAST,
        )


def length_of_outcomes(n_outcomes: float) -> float:
    """Return the length to which standardised outcomes are shortened, at least.

    Shortening a row of many outcomes weighs the record, and changes no slope; of few, it shortens their tails.
    """
    return 0.9 * math.sqrt(n_outcomes) + 1.6 * min(1, 4 / n_outcomes)
