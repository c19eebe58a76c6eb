"""Sizes and sums of the clusters around given centres: one round of Lloyd's algorithm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dpcape.arrays import FloatArray, IntArray
from dpcape.errors import InvalidParameter
from dpcape.facts import PublicFacts
from dpcape.formula import Number
from dpcape.statistics.extent import BLOCK_ROWS, Extent, rounding_in_blocks
from dpcape.statistics.moments import row_bound
from dpcape.statistics.record_blocks import RowBlocks
from dpcape.statistics.statistic import Statistic, known

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
        fits = isinstance(centres, np.ndarray) and centres.ndim == 2 and centres.dtype == np.float64
        if not fits or centres.shape[1] != facts.n_features or len(centres) < 1:
            raise InvalidParameter(
                f"centres must be a matrix of float64 with {facts.n_features} columns; "
                f"got {getattr(centres, 'shape', type(centres).__name__)}. Pass one row per centre."
            )
        outside = np.flatnonzero(~(np.abs(centres) <= _LARGEST_CENTRE).all(axis=1))
        if outside.size:
            raise InvalidParameter(
                f"centres must be finite; got NaN, infinity or an entry above {_LARGEST_CENTRE:g} in row {outside[0]}. "
                "Choose centres within the bound of the records."
            )
        self._centres: FloatArray = centres

    @staticmethod
    def extent(*, n_features: Number, bound: Number, n_clusters: Number) -> Extent:
        """Return the extent for ``n_clusters`` centres and rows of length at most ``bound``."""
        radius = math.sqrt(2.0) * bound
        return Extent(n_clusters * n_features + n_clusters, 2 * bound, radius, rounding_in_blocks(n_features, radius))

    @property
    def numbers(self) -> Mapping[str, float]:
        n_clusters, n_features = self._centres.shape
        return {"n_features": n_features, "bound": row_bound(self.facts), "n_clusters": n_clusters}

    def total(self, records: RowBlocks) -> FloatArray:
        counts, sums = np.zeros(len(self._centres)), np.zeros_like(self._centres)
        for block in records.feature_blocks(BLOCK_ROWS):
            chosen = nearest(block, self._centres)
            members = (chosen[:, np.newaxis] == np.arange(len(counts))).astype(np.float64)
            counts += members.sum(axis=0)
            sums += members.T @ block
        return np.concatenate([row_bound(self.facts) * counts, sums.ravel()])

    def unpack(self, packed: FloatArray) -> ClusterMeans:
        """Return shares and sums per record."""
        counts, sums = np.split(packed, [len(self._centres)])
        return ClusterMeans(counts / row_bound(self.facts), sums.reshape(self._centres.shape))


def nearest(rows: FloatArray, centres: FloatArray) -> IntArray:
    """Return the position of the nearest centre of each row."""
    # |x - c|^2 without |x|^2, which is the same for all centres.
    distances = np.vecdot(centres, centres) - 2 * rows @ centres.T
    chosen: IntArray = np.argmin(distances, axis=1)
    return chosen


def cluster_sums(facts: PublicFacts, *, centres: FloatArray) -> ClusterSums:
    """Shares and sums of the records nearest to each centre."""
    return ClusterSums(facts, centres=centres)
