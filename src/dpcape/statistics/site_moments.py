"""Numbers of records, means and squares of columns, by site."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.contributions import Cells, Form, Grouped, GroupedSquares
from dpcape.core.extent import Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import into_balls, reach_on_grid
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.reduced import checked_matrix
from dpcape.statistics.table_designs import SiteColumns, Standard

WEIGHT = math.sqrt(0.5)
"""Weight of counts and of squares."""


class SiteMeans(NamedTuple):
    """Means over all records of what complete records contribute.

    Attributes
    ----------
    counts : (S,) array
        Share of all records that are complete and of each site.
    sums, squares : (S, V) array
        Standardised rows by site, and their squared entries.
    """

    counts: FloatArray
    sums: FloatArray
    squares: FloatArray


@known
class SiteMoments(Summed[SiteMeans]):
    r"""Counts, sums and squares of standardised rows, by site.

    The row of a complete record, :math:`u = (x - centre) / scale`, is moved into the unit ball. The record contributes
    :math:`e_s \otimes (1/\sqrt 2, u, u^2/\sqrt 2)` in the place of its site s, an incomplete one zero.

    *Diameter.* (1) Same site: :math:`|u - u'|^2 + |u^2 - u'^2|^2 / 2 \le 4` for u, u' in the unit ball, as proved at
    :class:`~dpcape.statistics.adjusted_products.ResidualProducts`. (2) Different sites: both lengths squared,
    :math:`2 (1/2 + 1 + 1/2) = 4`. (3) Incomplete: 2. So the diameter is 2, whatever the sites are; u' = -u of length
    1 attains it. No contribution is longer than :math:`\sqrt 2`. All of this holds for any finite public arrays: what
    they make of a record is clipped afterwards, and what is not a number becomes zero. On the grid a row may be longer
    than 1 by a public factor; sums are divided by it, and squares by its square.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of a table.
    columns : (V,) array of int
        Positions of the columns, all numbers or dates.
    site : int
        Position of the column with the sites; -1 for all records together.
    centre, scale : (V,) array
        Public numbers, one per column.
    """

    name = "site_moments"
    kinds = frozenset({"table"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, columns: IntArray, site: int, centre: FloatArray, scale: FloatArray) -> None:
        super().__init__(facts, columns=columns, site=site, centre=centre, scale=scale)
        self._read = SiteColumns(facts, columns, site)
        width = (self._read.n_columns,)
        self._standard = Standard(checked_matrix("centre", centre, width), checked_matrix("scale", scale, width))
        self._longer = reach_on_grid(1.0, self._read.n_columns)

    @staticmethod
    def extent(*, n_columns: float, n_sites: float) -> Extent:
        """Return the extent for ``n_columns`` columns at ``n_sites`` sites."""
        return exact_sums(n_sites * (1 + 2 * n_columns), 2.0, math.sqrt(2))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_columns": self._read.n_columns, "n_sites": self._read.n_sites}

    def terms(self, tile: Tile) -> Sequence[Form]:
        rows, sites, incomplete = self._read.rows(tile.codes)
        moved, _, _ = into_balls(self._standard(rows), (self._read.n_columns,), (1.0,))
        by_site = Cells(sites, self._read.n_sites)
        for part in (by_site, moved):
            part.drop(incomplete)
        return [by_site, Grouped(by_site, moved), GroupedSquares(by_site, moved)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        counts, rows, squares = sums
        longer = self._longer
        return np.concatenate([WEIGHT * counts, rows.ravel() / longer, squares.ravel() * (WEIGHT / longer**2)])

    def unpack(self, packed: FloatArray) -> SiteMeans:
        """Return the means, without their weights."""
        n_sites, n_columns, longer = self._read.n_sites, self._read.n_columns, self._longer
        counts, sums, squares = np.split(packed, [n_sites, n_sites * (1 + n_columns)])
        shape = (n_sites, n_columns)
        return SiteMeans(counts / WEIGHT, sums.reshape(shape) * longer, squares.reshape(shape) * (longer**2 / WEIGHT))
