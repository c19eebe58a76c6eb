"""Sizes and sums of the clusters around given centres: one round of Lloyd's algorithm, also in few coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import BLOCK_ROWS, Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import RowBlocks
from dpcape.core.statistic import Statistic, known
from dpcape.statistics.moments import row_bound
from dpcape.statistics.reduced import checked_matrix, rows_into_ball
from dpcape.statistics.row_products import row_products
from dpcape.statistics.scaling import Scaled
from dpcape.statistics.third_moments import checked_positive

_LARGEST_CENTRE = 1e102


class ClusterMeans(NamedTuple):
    """Shares of records per cluster, and sums of rows per cluster divided by the number of all records."""

    shares: FloatArray
    sums: FloatArray


@known
class ClusterSums(Statistic[RowBlocks, ClusterMeans]):
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
    kinds = frozenset({"rows", "labelled", "views", "subjects"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, centres: FloatArray) -> None:
        super().__init__(facts, centres=centres)
        self._centres = _checked_centres(centres, facts.n_features)

    @staticmethod
    def extent(*, n_features: float, bound: float, n_clusters: float) -> Extent:
        """Return the extent for ``n_clusters`` centres and rows of length at most ``bound``."""
        radius = math.sqrt(2.0) * bound
        return Extent(n_clusters * n_features + n_clusters, 2 * bound, radius, rounding_in_blocks(n_features, radius))

    @property
    def numbers(self) -> Mapping[str, float]:
        n_clusters, n_features = self._centres.shape
        return {"n_features": n_features, "bound": row_bound(self.facts), "n_clusters": n_clusters}

    def total(self, records: RowBlocks) -> FloatArray:
        return _total(records.feature_blocks(BLOCK_ROWS), self._centres, row_bound(self.facts))

    def unpack(self, packed: FloatArray) -> ClusterMeans:
        """Return shares and sums per record."""
        counts, sums = np.split(packed, [len(self._centres)])
        return ClusterMeans(counts / row_bound(self.facts), sums.reshape(self._centres.shape))


class _OfShortenedRows(Statistic[RowBlocks, ClusterMeans]):
    """Base class of cluster sums of rows that are mapped by public arrays and then shortened to a public length."""

    kinds = frozenset({"rows", "labelled", "views", "subjects"})
    units = frozenset({"record"})
    _centres: FloatArray
    _clip: float

    @staticmethod
    def extent(*, n_features: float, n_columns: float, n_clusters: float, clip: float) -> Extent:
        """Return the extent for rows of ``n_columns`` coordinates and of length at most ``clip``."""
        radius = math.sqrt(2.0) * clip
        size = n_clusters * n_columns + n_clusters
        return Extent(size, 2 * clip, radius, rounding_in_blocks(n_features + n_columns, radius))

    @property
    def numbers(self) -> Mapping[str, float]:
        n_clusters, n_columns = self._centres.shape
        return {
            "n_features": self.facts.n_features,
            "n_columns": n_columns,
            "n_clusters": n_clusters,
            "clip": self._clip,
        }

    def _mapped(self, block: FloatArray) -> FloatArray:
        """Return the coordinates of rows, not yet shortened, as a new array."""
        raise NotImplementedError

    def _shortened(self, records: RowBlocks) -> Iterator[FloatArray]:
        for block in records.feature_blocks(BLOCK_ROWS):
            # For any public arrays: rows that overflow are not finite and become zero.
            with np.errstate(over="ignore", invalid="ignore"):
                mapped = self._mapped(block)
            rows_into_ball(mapped, self._clip)
            yield mapped

    def total(self, records: RowBlocks) -> FloatArray:
        return _total(self._shortened(records), self._centres, self._clip)

    def unpack(self, packed: FloatArray) -> ClusterMeans:
        """Return shares, and sums per record relative to ``centre``."""
        counts, sums = np.split(packed, [len(self._centres)])
        return ClusterMeans(counts / self._clip, sums.reshape(self._centres.shape))


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
        super().__init__(facts, centre=centre, centres=centres, clip=clip)
        self._centre = checked_matrix("centre", centre, (facts.n_features,))
        self._centres = _checked_centres(centres, facts.n_features)
        self._clip = checked_positive("clip", clip)

    def _mapped(self, block: FloatArray) -> FloatArray:
        moved: FloatArray = block - self._centre
        return moved


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
        super().__init__(facts, centre=centre, projection=projection, centres=centres, clip=clip)
        self._centre = checked_matrix("centre", centre, (facts.n_features,))
        self._projection = checked_matrix("projection", projection, (facts.n_features, None))
        self._centres = _checked_centres(centres, self._projection.shape[1])
        self._clip = checked_positive("clip", clip)

    def _mapped(self, block: FloatArray) -> FloatArray:
        mapped: FloatArray = row_products(block - self._centre, self._projection)
        return mapped


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


def _total(blocks: Iterable[FloatArray], centres: FloatArray, weight: float) -> FloatArray:
    """Return the sizes of clusters times ``weight``, and the sums of their rows."""
    counts, sums = np.zeros(len(centres)), np.zeros_like(centres)
    for block in blocks:
        chosen = nearest(block, centres)
        members = (chosen[:, np.newaxis] == np.arange(len(counts))).astype(np.float64)
        counts += members.sum(axis=0)
        sums += members.T @ block
    return np.concatenate([weight * counts, sums.ravel()])


def nearest(rows: FloatArray, centres: FloatArray) -> IntArray:
    """Return the position of the nearest centre of each row."""
    # |x - c|^2 without |x|^2, which is the same for all centres.
    distances = np.vecdot(centres, centres) - 2 * row_products(rows, centres.T)
    chosen: IntArray = np.argmin(distances, axis=1)
    return chosen


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
