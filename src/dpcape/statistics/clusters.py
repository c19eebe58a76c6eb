"""Sizes and sums of the clusters around given centres: one round of Lloyd's algorithm."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts
from dpcape.statistics.moments import row_bound
from dpcape.statistics.statistic import BLOCK_ROWS, Statistic, known

Vector = NDArray[np.float64]
_LARGEST_CENTRE = 1e102


class ClusterMeans(NamedTuple):
    """Shares of records per cluster, and sums of rows per cluster divided by the number of all records."""

    shares: Vector
    sums: Vector


@known
class ClusterSums(Statistic):
    """Shares and sums of the records nearest to each centre.

    A record of cluster k contributes (B e_k, x in place k). Two records of one cluster are |x - x'| <= 2 B
    apart; two of different clusters sqrt(2 B^2 + |x|^2 + |x'|^2) <= 2 B: the sizes ride along within the
    diameter of the sums. Where the centres lie does not matter for this, only that a record belongs to one of
    them.

    Parameters
    ----------
    centres : (K, D) — public; ties go to the first.
    """

    name = "cluster_sums"
    kinds = frozenset({"rows", "labelled", "views", "subjects"})
    units = frozenset({"record"})

    def __init__(self, facts: Facts, centres: Vector) -> None:
        super().__init__(facts, centres=centres)
        fits = isinstance(centres, np.ndarray) and centres.ndim == 2 and centres.dtype == np.float64
        if not fits or centres.shape[1] != facts.n_features or len(centres) < 1:
            raise InvalidParameter(
                f"centres must be a matrix of float64 with {facts.n_features} columns; "
                f"got {getattr(centres, 'shape', type(centres).__name__)}."
            )
        if not (np.abs(centres) <= _LARGEST_CENTRE).all():
            raise InvalidParameter("centres must have finite entries; got others.")
        self._centres: Vector = centres

    @property
    def size(self) -> int:
        return self._centres.size + len(self._centres)

    @property
    def diameter(self) -> float:
        return 2 * row_bound(self.facts)

    @property
    def radius(self) -> float:
        return float(np.sqrt(2.0)) * row_bound(self.facts)

    def total(self, records: Any) -> Vector:
        counts, sums = np.zeros(len(self._centres)), np.zeros_like(self._centres)
        for block in records.feature_blocks(BLOCK_ROWS):
            chosen = nearest(block, self._centres)
            members = (chosen[:, np.newaxis] == np.arange(len(counts))).astype(np.float64)
            counts += members.sum(axis=0)
            sums += members.T @ block
        return np.concatenate([row_bound(self.facts) * counts, sums.ravel()])

    def valid_share(self, packed: Vector) -> tuple[float, float]:
        n_clusters, bound = len(self._centres), row_bound(self.facts)
        return float(packed[:n_clusters].sum()) / bound, float(np.sqrt(n_clusters)) / bound

    def unpack(self, packed: Vector) -> ClusterMeans:
        """Return shares and sums per record."""
        counts, sums = np.split(packed, [len(self._centres)])
        return ClusterMeans(counts / row_bound(self.facts), sums.reshape(self._centres.shape))


def nearest(rows: Vector, centres: Vector) -> NDArray[np.intp]:
    """Return the position of the nearest centre of each row."""
    # |x - c|^2 without |x|^2, which is the same for all centres.
    distances = np.vecdot(centres, centres) - 2 * rows @ centres.T
    chosen: NDArray[np.intp] = np.argmin(distances, axis=1)
    return chosen


def cluster_sums(facts: Facts, *, centres: Vector) -> ClusterSums:
    """Shares and sums of the records nearest to each centre."""
    return ClusterSums(facts, centres=centres)
