"""Sizes and sums of the clusters around given centres: one round of Lloyd's algorithm, also in few coordinates."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Cells, Form, Grouped
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import GridRows, PublicColumns, clipped, reach_on_grid, steps_for
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.moments import row_bound
from dpcape.statistics.reduced import checked_matrix, public_products, reduced_rows
from dpcape.statistics.scaling import Scaled
from dpcape.statistics.third_moments import checked_positive

_LARGEST_CENTRE = 1e102


class ClusterMeans(NamedTuple):
    """Shares of records per cluster, and sums of rows per cluster divided by the number of all records."""

    shares: FloatArray
    sums: FloatArray


class _OfClusters(Summed[ClusterMeans]):
    """Base class of shares and sums of rows by the nearest centre, where rows are in a ball of a public length.

    The proofs use of a row only how long it is: the length is that on the grid.
    """

    kinds = frozenset({"rows", "labelled", "views", "subjects"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, centres: FloatArray, length: float, **public: FloatArray | float) -> None:
        super().__init__(facts, centres=centres, **public)
        self._centres, self._columns = centres, PublicColumns(centres.T)
        self._reach = reach_on_grid(length, centres.shape[1])

    @abstractmethod
    def _rows(self, tile: Tile) -> GridRows:
        """Return the rows whose nearest centre is found."""

    def terms(self, tile: Tile) -> Sequence[Form]:
        rows = self._rows(tile)
        cells = Cells(rows.nearest(self._columns), len(self._centres))
        return [cells, Grouped(cells, rows)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        counts, rows = sums
        return np.concatenate([self._reach * counts, rows.ravel()])

    def unpack(self, packed: FloatArray) -> ClusterMeans:
        """Return shares, and sums per record."""
        counts, sums = np.split(packed, [len(self._centres)])
        return ClusterMeans(counts / self._reach, sums.reshape(self._centres.shape))


@known
class ClusterSums(_OfClusters):
    """Shares and sums of the records nearest to each centre.

    A record of cluster k contributes (B e_k, x in place k). Two records of one cluster are |x - x'| <= 2 B
    apart; two of different clusters sqrt(2 B^2 + |x|^2 + |x'|^2) <= 2 B: releasing the sizes as well does not
    increase the diameter of the sums. The position of the centres does not matter for this, only that a record belongs
    to one of them.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    centres : (K, D) array
        Public centres; a record at equal distance from two belongs to the first.
    """

    name = "cluster_sums"

    def __init__(self, facts: PublicFacts, centres: FloatArray) -> None:
        super().__init__(facts, _checked_centres(centres, facts.n_features), row_bound(facts))

    @staticmethod
    def extent(*, n_features: float, bound: float, n_clusters: float) -> Extent:
        """Return the extent for ``n_clusters`` centres and rows of length at most ``bound``."""
        reach = reach_on_grid(bound, n_features)
        return exact_sums(n_clusters * n_features + n_clusters, 2 * reach, math.sqrt(2.0) * reach)

    @property
    def numbers(self) -> Mapping[str, float]:
        n_clusters, n_features = self._centres.shape
        return {"n_features": n_features, "bound": row_bound(self.facts), "n_clusters": n_clusters}

    def _rows(self, tile: Tile) -> GridRows:
        return tile.rows


class _OfShortenedRows(_OfClusters):
    """Base class of cluster sums of rows that are mapped by public arrays and then shortened to a public length."""

    def __init__(self, facts: PublicFacts, centres: FloatArray, clip: float, **public: FloatArray) -> None:
        self._clip = checked_positive("clip", clip)
        super().__init__(facts, centres, self._clip, clip=clip, **public)

    @staticmethod
    def extent(*, n_features: float, n_columns: float, n_clusters: float, clip: float) -> Extent:
        """Return the extent for rows of ``n_columns`` coordinates and of length at most ``clip``."""
        reach = reach_on_grid(clip, n_columns)
        return exact_sums(n_clusters * n_columns + n_clusters, 2 * reach, math.sqrt(2.0) * reach)

    @property
    def numbers(self) -> Mapping[str, float]:
        n_clusters, n_columns = self._centres.shape
        return {
            "n_features": self.facts.n_features,
            "n_columns": n_columns,
            "n_clusters": n_clusters,
            "clip": self._clip,
        }


@known
class RecentredClusterSums(_OfShortenedRows):
    """Shares and sums of rows minus a public centre, shortened to length ``clip``, that are nearest to each centre.

    *Diameter.* As of :class:`ClusterSums` for the bound ``clip``: a record contributes (clip e_k, z in place k) with
    |z| <= clip after the centre is applied, so two contributions are at most 2 clip apart, whatever the arrays are.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    centre : (D,) array
        Public point that is subtracted from rows.
    centres : (K, D) array
        Public centres, relative to ``centre``.
    clip : float
        Largest length of a row after the subtraction.
    """

    name = "recentred_cluster_sums"

    def __init__(self, facts: PublicFacts, centre: FloatArray, centres: FloatArray, clip: float) -> None:
        self._centre = checked_matrix("centre", centre, (facts.n_features,))
        super().__init__(facts, _checked_centres(centres, facts.n_features), clip, centre=centre)

    def _rows(self, tile: Tile) -> GridRows:
        steps = steps_for(len(self._centre), (self._clip,))
        moved = tile.rows.ints * (steps / tile.rows.steps)
        moved -= steps * self._centre
        # For any public arrays: rows that overflow are not finite and become zero.
        return clipped(moved, moved.shape[1:], (self._clip,))[0]


@known
class ReducedClusterSums(_OfShortenedRows):
    """Shares and sums of rows in few public coordinates, shortened to length ``clip``, nearest to each centre.

    The coordinates are z = P'(x - centre). *Diameter.* As of :class:`ClusterSums` for the bound ``clip``: a record
    contributes (clip e_k, z in place k) with |z| <= clip after centre and projection are applied, so two
    contributions are at most 2 clip apart, whatever the arrays are.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    centre : (D,) array
        Public point that is subtracted from rows.
    projection : (D, columns) array
        Public directions P.
    centres : (K, columns) array
        Public centres in these coordinates.
    clip : float
        Largest length of a row in these coordinates.
    """

    name = "reduced_cluster_sums"

    def __init__(
        self, facts: PublicFacts, centre: FloatArray, projection: FloatArray, centres: FloatArray, clip: float
    ) -> None:
        moved = checked_matrix("centre", centre, (facts.n_features,))
        matrix = checked_matrix("projection", projection, (facts.n_features, None))
        self._projection, self._origin = PublicColumns(matrix), public_products(moved, matrix)
        checked = _checked_centres(centres, matrix.shape[1])
        super().__init__(facts, checked, clip, centre=centre, projection=projection)

    def _rows(self, tile: Tile) -> GridRows:
        return reduced_rows(tile.rows, self._projection, self._clip, origin=self._origin)


def _checked_centres(centres: FloatArray, n_columns: int) -> FloatArray:
    fits = isinstance(centres, np.ndarray) and centres.ndim == 2 and centres.dtype == np.float64
    if not fits or centres.shape[1] != n_columns or len(centres) < 1:
        must, remedy = f"be a matrix of float64 with {n_columns} columns", "Pass one row per centre."
        raise InvalidParameter("centres", must, getattr(centres, "shape", type(centres).__name__), remedy)
    outside = np.flatnonzero(~(np.abs(centres) <= _LARGEST_CENTRE).all(axis=1))
    if outside.size:
        raise InvalidParameter(
            "centres",
            "be finite",
            f"NaN, infinity or an entry above {_LARGEST_CENTRE:g} in row {outside[0]}",
            "Choose centres within the bound of the records.",
        )
    checked: FloatArray = centres
    return checked


def cluster_sums(facts: PublicFacts, *, centres: FloatArray) -> ClusterSums:
    """Shares and sums of the records nearest to each centre."""
    return ClusterSums(facts, centres=centres)


def recentred_cluster_sums(
    facts: PublicFacts, *, centre: FloatArray, centres: FloatArray, clip: float
) -> RecentredClusterSums:
    """Shares and sums of the records nearest to each centre, as rows minus a public one."""
    return RecentredClusterSums(facts, centre=centre, centres=centres, clip=clip)


def reduced_cluster_sums(
    facts: PublicFacts, *, centre: FloatArray, projection: FloatArray, centres: FloatArray, clip: float
) -> ReducedClusterSums:
    """Shares and sums of the records nearest to each centre, in few public coordinates."""
    return ReducedClusterSums(facts, centre=centre, projection=projection, centres=centres, clip=clip)


@known
class ScaledClusterSums(Scaled[ClusterMeans]):
    """Shares and sums of the standardised rows nearest to each centre."""

    inner = ClusterSums
