"""Numbers of records, means and squares of columns, by site."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.extent import Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import CodedBlocks
from dpcape.core.statistic import Statistic, known
from dpcape.statistics.reduced import checked_matrix
from dpcape.statistics.table_designs import SiteColumns
from dpcape.statistics.unit_ball import clip_to_ball

_BLOCK = 1 << 12
_LARGEST = 1e100
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
class SiteMoments(Statistic[CodedBlocks, SiteMeans]):
    r"""Counts, sums and squares of standardised rows, by site.

    The row of a complete record, :math:`u = (x - centre) / scale`, is moved into the unit ball. The record contributes
    :math:`e_s \otimes (1/\sqrt 2, u, u^2/\sqrt 2)` in the place of its site s, an incomplete one zero.

    *Diameter.* (1) Same site: :math:`|u - u'|^2 + |u^2 - u'^2|^2 / 2 \le 4` for u, u' in the unit ball, as proved at
    :class:`~dpcape.statistics.adjusted_products.ResidualProducts`. (2) Different sites: both lengths squared,
    :math:`2 (1/2 + 1 + 1/2) = 4`. (3) Incomplete: 2. So the diameter is 2, whatever the sites are; u' = -u of length
    1 attains it. No contribution is longer than :math:`\sqrt 2`. All of this holds for any finite public arrays: what
    they make of a record is clipped afterwards, and what is not a number becomes zero.

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
        self._centre = checked_matrix("centre", centre, (self._read.n_columns,))
        self._scale = checked_matrix("scale", scale, (self._read.n_columns,))
        with np.errstate(all="ignore"):
            largest = (1 + np.abs(self._centre)) / np.abs(self._scale)
        # NaN compares false, so it counts as large. The factor of ten covers rounding.
        self._may_be_large = not bool(np.all(largest < _LARGEST / 10))

    @staticmethod
    def extent(*, n_columns: float, n_sites: float) -> Extent:
        """Return the extent for ``n_columns`` columns at ``n_sites`` sites."""
        radius = math.sqrt(2)
        return Extent(n_sites * (1 + 2 * n_columns), 2.0, radius, rounding_in_blocks(n_columns, radius, block=_BLOCK))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_columns": self._read.n_columns, "n_sites": self._read.n_sites}

    def total(self, records: CodedBlocks) -> FloatArray:
        n_sites, n_columns = self._read.n_sites, self._read.n_columns
        counts, sums, squares = np.zeros(n_sites), np.zeros((n_sites, n_columns)), np.zeros((n_sites, n_columns))
        for block in records.coded_blocks(_BLOCK):
            rows, sites = self._read.rows(block)
            with np.errstate(all="ignore"):
                rows -= self._centre
                rows /= self._scale
            if self._may_be_large:
                # Keep lengths finite: near overflow, rounding would decide whether a row becomes zero.
                np.clip(rows, -_LARGEST, _LARGEST, out=rows)
            clip_to_ball(rows)
            for site, chosen in _by_site(rows, sites):
                counts[site] += len(chosen)
                sums[site] += chosen.sum(axis=0)
                squares[site] += np.einsum("ij,ij->j", chosen, chosen)
        return np.concatenate([WEIGHT * counts, sums.ravel(), WEIGHT * squares.ravel()])

    def unpack(self, packed: FloatArray) -> SiteMeans:
        """Return the means, without their weights."""
        n_sites, n_columns = self._read.n_sites, self._read.n_columns
        counts, sums, squares = np.split(packed, [n_sites, n_sites * (1 + n_columns)])
        shape = (n_sites, n_columns)
        return SiteMeans(counts / WEIGHT, sums.reshape(shape), squares.reshape(shape) / WEIGHT)


def _by_site(rows: FloatArray, sites: IntArray) -> Iterator[tuple[int, FloatArray]]:
    """Return the rows of each site that has some."""
    if len(sites) and (sites == sites[0]).all():
        yield int(sites[0]), rows
        return
    for site in np.flatnonzero(np.bincount(sites)):
        yield int(site), rows[sites == site]
