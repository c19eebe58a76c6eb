"""Moments of wide rows in a public basis, and maps of what the basis leaves out.

A row x of length at most B has the coordinates y = Q'x in a public basis. The second moment of y is released together
with the energy that the basis leaves out; a second release can relate what is left of each row, r = x - Qy, to a few
scores of the row, at full resolution. Bases and scores come from the aggregator. No proof here relies on them:
coordinates are shortened to the length of their row, residuals and scores to unit balls, after the last
multiplication.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
from scipy.linalg.blas import dsyrk

from dpcape.arrays import FloatArray, IntArray
from dpcape.errors import InvalidParameter
from dpcape.facts import PublicFacts
from dpcape.formula import Number, computed, sqrt
from dpcape.statistics.bases import basis_from
from dpcape.statistics.basis import Basis
from dpcape.statistics.extent import Extent, block_rows, rounding_in_blocks
from dpcape.statistics.moments import MEAN_WEIGHT, row_bound
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.record_blocks import RowBlocks
from dpcape.statistics.reduced import checked_matrix, checked_positive, rows_into_ball
from dpcape.statistics.row_products import row_products
from dpcape.statistics.scaling import Scaled
from dpcape.statistics.statistic import MeanT_co, PublicValue, Statistic, known

_ROW_KINDS = frozenset({"rows", "labelled", "views", "subjects"})


class _InBasis(Statistic[RowBlocks, MeanT_co]):
    """Base class of statistics that read rows through a public basis.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    basis : str
        Kind of the basis.
    columns : array
        What the basis is made from.
    **public
        Further public values.
    """

    kinds = _ROW_KINDS
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, basis: str, columns: FloatArray | IntArray, **public: PublicValue) -> None:
        super().__init__(facts, basis=basis, columns=columns, **public)
        self._basis = basis_from(basis, columns)
        if self._basis.n_features != facts.n_features:
            raise InvalidParameter(
                f"basis must have one row per column of the records ({facts.n_features}); got "
                f"{self._basis.n_features}. Use a basis of the voxels of the mask."
            )

    @property
    def _bound(self) -> float:
        return row_bound(self.facts)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "n_features": self.facts.n_features,
            "n_columns": self._basis.n_columns,
            "bound": self._bound,
        }

    def _blocks(self, records: RowBlocks) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield blocks of rows, and of their coordinates."""
        for block in records.feature_blocks(int(computed(block_rows(self.facts.n_features)))):
            # A hostile template may overflow: its coordinates are then made zero.
            with np.errstate(over="ignore", invalid="ignore"):
                yield block, self._basis.coordinates(block)


def _shortened(coordinates: FloatArray, lengths: FloatArray) -> None:
    """Shorten coordinates to the lengths of their rows, in place; those that are not finite become zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.sqrt(np.vecdot(coordinates, coordinates))
    lost = ~np.isfinite(norms)
    coordinates[lost], norms[lost] = 0.0, 0.0
    longer = norms > lengths
    coordinates[longer] *= (lengths[longer] / norms[longer])[:, np.newaxis]


@known
class BasisMoments(_InBasis[tuple[FloatArray, float]]):
    """Mean of y y' in a public basis, packed, and the mean energy that the basis leaves out.

    The contribution is (y y', a): y are the coordinates, shortened to the length of x where they are longer, and a =
    |x|^2 - |y|^2, which is |x - Qy|^2 for orthonormal columns. Whatever the basis is, P = |y|^2 and a are nonnegative
    and P + a = |x|^2 <= B^2. The squared distance of two contributions is P^2 + P'^2 - 2 (y.y')^2 + (a - a')^2 <= P^2
    + P'^2 + (a - a')^2, which is convex in (P, a, P', a') and largest at a vertex of the two triangles: 2 B^4 at P =
    P' = B^2 and at P = a' = B^2. The energy is free: the diameter is that of the second moment, sqrt(2) B^2. The
    radius follows from P^2 + a^2 <= (P + a)^2.
    """

    name = "basis_moments"

    def __init__(self, facts: PublicFacts, basis: str, columns: FloatArray | IntArray) -> None:
        super().__init__(facts, basis, columns)

    @staticmethod
    def extent(*, n_features: Number, n_columns: Number, bound: Number) -> Extent:
        """Return the extent for rows of ``n_features`` columns of length at most ``bound``."""
        radius = bound**2
        rounding = rounding_in_blocks(n_features + n_columns, radius, block=block_rows(n_features))
        return Extent(packed_size(n_columns) + 1, math.sqrt(2) * radius, radius, rounding)

    def total(self, records: RowBlocks) -> FloatArray:
        matrix, _, energy = _moments(self._blocks(records), self._basis)
        return np.append(pack(matrix), energy)

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, float]:
        """Return (second moment of the coordinates, energy left out)."""
        return unpack(packed[:-1], self._basis.n_columns), float(packed[-1])


@known
class CentredBasisMoments(_InBasis[tuple[FloatArray, FloatArray, float]]):
    """Mean of y, mean of y y' and the mean energy that the basis leaves out, released jointly.

    The contribution is (b B y, y y', a), b at most sqrt(2), with y and a as in :class:`BasisMoments`; the diameter is
    that of :class:`~dpcape.statistics.moments.CentredMoments`, (b^2 + 2)/sqrt(2) B^2. Take B = 1, P = p^2 and P' =
    q^2 the squared lengths of y and y', and c their cosine: the squared distance is b^2 (P + P' - 2 p q c) + P^2 +
    P'^2 - 2 P P' c^2 + (a - a')^2, with P + a <= 1 and P' + a' <= 1. It is concave in c. If its maximum over c is
    inside, it is at c = -b^2/(2 p q), b^2 (P + P') + P^2 + P'^2 + b^4/2 + (a - a')^2: convex in (P, a, P', a'), so
    largest at a vertex of the two triangles: (b^2 + 2)^2/2 at P = P' = 1, less by b^2 at P = a' = 1, and less
    elsewhere. Otherwise it is at c = -1 and 2 p q < b^2, so that it is at most b^2 (P + P') + b^4 + (P - P')^2 + (a -
    a')^2, convex as well: b^2 + b^4 + 2 at P = a' = 1, 2 b^2 + b^4 at P = P' = 1 and at most b^2 + b^4 + 1 elsewhere,
    none more than (b^2 + 2)^2/2 for b^2 <= 2.
    """

    name = "centred_basis_moments"

    def __init__(self, facts: PublicFacts, basis: str, columns: FloatArray | IntArray, mean_weight: float) -> None:
        if not 0 < mean_weight <= math.sqrt(2):
            raise InvalidParameter(f"mean_weight must be in (0, sqrt(2)]; got {mean_weight!r}. The default is 0.5.")
        super().__init__(facts, basis, columns, mean_weight=mean_weight)
        self._mean_weight = float(mean_weight)

    @staticmethod
    def extent(*, n_features: Number, n_columns: Number, bound: Number, mean_weight: Number = MEAN_WEIGHT) -> Extent:
        """Return the extent for rows of ``n_features`` columns of length at most ``bound``."""
        radius = sqrt(1 + mean_weight**2) * bound**2
        rounding = rounding_in_blocks(n_features + n_columns, radius, block=block_rows(n_features))
        size = n_columns + packed_size(n_columns) + 1
        return Extent(size, (mean_weight**2 + 2) / math.sqrt(2) * bound**2, radius, rounding)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {**super().numbers, "mean_weight": self._mean_weight}

    def total(self, records: RowBlocks) -> FloatArray:
        matrix, sums, energy = _moments(self._blocks(records), self._basis)
        return np.concatenate([self._mean_weight * self._bound * sums, pack(matrix), [energy]])

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, FloatArray, float]:
        """Return (mean of the coordinates, their second moment, energy left out)."""
        width = self._basis.n_columns
        mean = packed[:width] / (self._mean_weight * self._bound)
        return mean, unpack(packed[width:-1], width), float(packed[-1])


def _moments(blocks: Iterator[tuple[FloatArray, FloatArray]], basis: Basis) -> tuple[FloatArray, FloatArray, float]:
    """Return the sums of y y' (upper triangle), of y, and of the energy left out."""
    width = basis.n_columns
    matrix, sums, energy = np.zeros((width, width), order="F"), np.zeros(width), 0.0
    for rows, coordinates in blocks:
        squares = np.vecdot(rows, rows)
        _shortened(coordinates, np.sqrt(squares))
        matrix = dsyrk(1.0, coordinates.T, beta=1.0, c=matrix, overwrite_c=1, lower=0)
        sums += coordinates.sum(axis=0)
        energy += float(np.maximum(squares - np.vecdot(coordinates, coordinates), 0.0).sum())
    return matrix, sums, energy


@known
class ResidualMaps(_InBasis[FloatArray]):
    """Mean of r z': what a public basis leaves of a row, times the scores of the row, at full resolution.

    The residual r = (x - Qy) / residual_scale and the scores z = S'y - offset are each moved into the unit ball after
    the last operation, whatever basis, scores, offset and scale are. So |r z'| <= 1, and two contributions are at
    most 2 apart, attained by opposite residuals with equal scores.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    basis : str
        Kind of the basis.
    columns : array
        What the basis is made from.
    scores : (kept, K) array
        Weights of the first coordinates in each score; further coordinates are part of what is left.
    offset : (K,) array
        Subtracted from the scores.
    residual_scale : float
        Length that most residuals do not exceed.
    """

    name = "residual_maps"

    def __init__(
        self,
        facts: PublicFacts,
        basis: str,
        columns: FloatArray | IntArray,
        scores: FloatArray,
        offset: FloatArray,
        residual_scale: float,
    ) -> None:
        super().__init__(facts, basis, columns, scores=scores, offset=offset, residual_scale=residual_scale)
        self._scores = checked_matrix("scores", scores, (None, None))
        self._offset = checked_matrix("offset", offset, (self._scores.shape[1],))
        self._scale = checked_positive("residual_scale", residual_scale)
        if len(self._scores) > self._basis.n_columns:
            raise InvalidParameter(
                f"scores must have at most one row per column of the basis ({self._basis.n_columns}); got "
                f"{len(self._scores)}. Use the basis of the first release."
            )

    @staticmethod
    def extent(*, n_features: Number, n_components: Number) -> Extent:
        """Return the extent for rows of ``n_features`` columns and ``n_components`` scores."""
        rounding = rounding_in_blocks(n_features, 1.0, block=block_rows(n_features))
        return Extent(n_features * n_components, 2.0, 1.0, rounding)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "n_components": self._scores.shape[1]}

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.facts.n_features, self._scores.shape[1])

    def total(self, records: RowBlocks) -> FloatArray:
        result = np.zeros(self.shape)
        for rows, coordinates in self._blocks(records):
            coordinates[:, len(self._scores) :] = 0.0
            with np.errstate(all="ignore"):
                scores = row_products(coordinates[:, : len(self._scores)], self._scores) - self._offset
                left = self._basis.expanded(coordinates)
                np.subtract(rows, left, out=left)
                left /= self._scale
            rows_into_ball(scores, 1.0)
            rows_into_ball(left, 1.0)
            result += left.T @ scores
        return result.ravel()


@known
class ScaledBasisMoments(Scaled[tuple[FloatArray, float]]):
    """Second moment in a public basis of standardised rows, and the energy it leaves out."""

    inner = BasisMoments


@known
class ScaledCentredBasisMoments(Scaled[tuple[FloatArray, FloatArray, float]]):
    """Mean and second moment in a public basis of standardised rows, and the energy it leaves out."""

    inner = CentredBasisMoments


@known
class ScaledResidualMaps(Scaled[FloatArray]):
    """What a public basis leaves of standardised rows, times their scores."""

    inner = ResidualMaps


def of_basis(basis: Basis) -> dict[str, PublicValue]:
    """Return a basis as the public values of a statistic."""
    return {"basis": basis.kind, "columns": basis.sent_array}
