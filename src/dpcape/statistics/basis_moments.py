"""Moments of wide rows in a public basis, and maps of what the basis leaves out.

A row x of length at most B has the coordinates y = Q'x in a public basis. The second moment of y is released together
with the energy that the basis leaves out; a second release can relate what is left of each row, r = x - Qy, to a few
scores of the row, at full resolution. A row may consist of parts, such as views, that have a basis and scores each.
Bases and scores come from the aggregator. No proof here relies on them: coordinates are shortened to the length of
their part of the row, residuals and scores to unit balls, after the last multiplication, and what is shortened is whole
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.contributions import PLAIN_BITS, Cross, Form, Outer, Plain, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.fine_grid import FINE_BITS, FineRows, fine_rows, shortened, usual_reach, whole_squares
from dpcape.core.grid import GridRows, PublicColumns, clipped, into_balls, reach_on_grid, steps_for
from dpcape.core.kernel import Summed
from dpcape.core.statistic import MeanT_co, PublicValue, known
from dpcape.core.tiles import Tile
from dpcape.statistics.bases import basis_from
from dpcape.statistics.basis import Basis, BasisPart, basis_parts
from dpcape.statistics.moments import MEAN_WEIGHT, row_bound
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.reduced import checked_matrix
from dpcape.statistics.scaling import Scaled

_ROW_KINDS = frozenset({"rows", "labelled", "views", "subjects"})


class _InBasis(Summed[MeanT_co]):
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
            must = f"have one row per column of the records ({facts.n_features})"
            raise InvalidParameter("basis", must, self._basis.n_features, "Use a basis of the voxels of the mask.")

    @property
    def _bound(self) -> float:
        """Length that a row may have on the grid."""
        return reach_on_grid(row_bound(self.facts), self.facts.n_features)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "n_features": self.facts.n_features,
            "n_columns": self._basis.n_columns,
            "n_parts": len(self._basis.parts),
            "bound": row_bound(self.facts),
        }

    def _seen(self, rows: GridRows) -> tuple[GridRows, Plain]:
        """Return the coordinates of rows, those of each part no longer than it, and the energies left out of parts.

        Both are whole numbers on the grid of the rows: coordinates of part p have squares that add up to at most those
        of x_p, and the energy is the difference. It has at most 2^40 steps, which 40 bits keep exactly.
        """
        found = self._basis.exact_coordinates(rows)
        ints, left = np.empty(found.shape), np.empty((len(rows), len(self._basis.parts)))
        for at, (_, columns, own) in enumerate(basis_parts(self._basis)):
            squares = whole_squares(rows.ints[:, columns])
            ints[:, own], kept = shortened(found[:, own], squares, rows.steps)
            left[:, at] = squares - kept
        unit = rows.steps**-2
        return GridRows(ints, rows.steps), Plain(left * unit, (2.0**PLAIN_BITS - 1) * unit)


@known
class BasisMoments(_InBasis[tuple[FloatArray, FloatArray]]):
    """Mean of y y' in a public basis, packed, and the mean energy that the basis leaves out of each part of a row.

    The contribution is (y y', a): the coordinates y_p of part p are shortened to the length of x_p where they are
    longer, and a_p = |x_p|^2 - |y_p|^2, which is |x_p - Q y_p|^2 for orthonormal columns. Whatever the basis is, P =
    |y|^2 and all a_p are nonnegative and P + sum a_p = |x|^2 <= B^2. The squared distance of two contributions is P^2
    + P'^2 - 2 (y.y')^2 + |a - a'|^2 <= P^2 + P'^2 + |a - a'|^2, which is convex in (P, a, P', a') and largest at a
    vertex of the two simplices: 2 B^4 at P = P' = B^2, at P = a'_p = B^2 and, of several parts, at a_p = a'_q = B^2.
    The energies are free: the diameter is that of the second moment, sqrt(2) B^2. The radius follows from P^2 + |a|^2
    <= (P + sum a_p)^2. All of it holds for the whole numbers that are added, with B the length of rows on the grid.
    """

    name = "basis_moments"

    def __init__(self, facts: PublicFacts, basis: str, columns: FloatArray | IntArray) -> None:
        super().__init__(facts, basis, columns)

    @staticmethod
    def extent(*, n_features: float, n_columns: float, bound: float, n_parts: float = 1) -> Extent:
        """Return the extent for rows of ``n_features`` columns, in ``n_parts``, of length at most ``bound``."""
        radius = reach_on_grid(bound, n_features) ** 2
        return exact_sums(packed_size(n_columns) + n_parts, math.sqrt(2) * radius, radius)

    def terms(self, tile: Tile) -> Sequence[Form]:
        coordinates, energies = self._seen(tile.rows)
        return [Outer(coordinates), energies]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        products, energies = sums
        return np.concatenate([pack(products.T), energies])

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (second moment of the coordinates, energy left out of each part)."""
        n_parts = len(self._basis.parts)
        return unpack(packed[:-n_parts], self._basis.n_columns), packed[-n_parts:].copy()


@known
class CentredBasisMoments(_InBasis[tuple[FloatArray, FloatArray, FloatArray]]):
    """Mean of y, mean of y y' and the mean energy that the basis leaves out of each part, released jointly.

    The contribution is (b B y, y y', a), b at most sqrt(2), with y and a as in :class:`BasisMoments`; the diameter is
    that of :class:`~dpcape.statistics.moments.CentredMoments`, (b^2 + 2)/sqrt(2) B^2. Take B = 1, P = p^2 and P' =
    q^2 the squared lengths of y and y', and c their cosine: the squared distance is b^2 (P + P' - 2 p q c) + P^2 +
    P'^2 - 2 P P' c^2 + |a - a'|^2, with P + sum a_i <= 1 and P' + sum a'_i <= 1. It is concave in c. If its maximum
    over c is inside, it is at c = -b^2/(2 p q), b^2 (P + P') + P^2 + P'^2 + b^4/2 + |a - a'|^2: convex in (P, a, P',
    a'), so largest at a vertex of the two simplices: (b^2 + 2)^2/2 at P = P' = 1, less by b^2 at P = a'_i = 1, less by
    2 b^2 at a_i = a'_j = 1, and less elsewhere. Otherwise it is at c = -1 and 2 p q < b^2, so that it is at most b^2 (P
    + P') + b^4 + (P - P')^2 + |a - a'|^2, convex as well: b^2 + b^4 + 2 at P = a'_i = 1, 2 b^2 + b^4 at P = P' = 1,
    b^4 + 2 at a_i = a'_j = 1 and at most b^2 + b^4 + 1 elsewhere, none more than (b^2 + 2)^2/2 for b^2 <= 2.
    """

    name = "centred_basis_moments"

    def __init__(self, facts: PublicFacts, basis: str, columns: FloatArray | IntArray, mean_weight: float) -> None:
        if not 0 < mean_weight <= math.sqrt(2):
            raise InvalidParameter("mean_weight", "be in (0, sqrt(2)]", repr(mean_weight), "The default is 0.5.")
        super().__init__(facts, basis, columns, mean_weight=mean_weight)
        self._mean_weight = float(mean_weight)

    @staticmethod
    def extent(
        *, n_features: float, n_columns: float, bound: float, n_parts: float = 1, mean_weight: float = MEAN_WEIGHT
    ) -> Extent:
        """Return the extent for rows of ``n_features`` columns, in ``n_parts``, of length at most ``bound``."""
        square = reach_on_grid(bound, n_features) ** 2
        size = n_columns + packed_size(n_columns) + n_parts
        diameter = (mean_weight**2 + 2) / math.sqrt(2) * square
        return exact_sums(size, diameter, math.sqrt(1 + mean_weight**2) * square)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {**super().numbers, "mean_weight": self._mean_weight}

    def terms(self, tile: Tile) -> Sequence[Form]:
        coordinates, energies = self._seen(tile.rows)
        return [Sum(coordinates), Outer(coordinates), energies]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        coordinates, products, energies = sums
        return np.concatenate([self._mean_weight * self._bound * coordinates, pack(products.T), energies])

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return (mean of the coordinates, their second moment, energy left out of each part)."""
        width, n_parts = self._basis.n_columns, len(self._basis.parts)
        mean = packed[:width] / (self._mean_weight * self._bound)
        return mean, unpack(packed[width:-n_parts], width), packed[-n_parts:].copy()


@known
class ResidualMaps(_InBasis[FloatArray]):
    """Mean of r z': what a public basis leaves of a row, times the scores of the row, at full resolution.

    Of each part p of the row (one, or the views that have a basis) the residual is r_p = (x_p - Q y_p) / scale_p and
    the scores are z_p = S_p'y_p - offset_p. The residuals of all parts together, r, are moved into the unit ball, and
    so are the scores z_p of each part, after the last operation, whatever basis, scores, offsets and scales are. The
    contribution, all r_p z_p', has the squared length sum |r_p|^2 |z_p|^2 <= |r|^2 <= 1, so that the diameter is
    2, attained by opposite residuals with equal scores. In the units of the records that is 2 b C for
    residuals clipped to b and scores clipped to C. On the grid r and z_p may be slightly longer than 1, R and Z: the
    diameter is 2 R Z.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    basis : str
        Kind of the basis.
    columns : array
        What the basis is made from.
    kept : (parts,) array
        How many of the first coordinates of each part are kept; further ones are part of what is left.
    scores : (sum of kept, K) array
        Weights of the kept coordinates in each score, one part after the other.
    offset : (parts, K) array
        Subtracted from the scores of each part.
    residual_scale : (parts,) array
        Length that most residuals of each part do not exceed.
    """

    name = "residual_maps"

    def __init__(
        self,
        facts: PublicFacts,
        basis: str,
        columns: FloatArray | IntArray,
        kept: IntArray,
        scores: FloatArray,
        offset: FloatArray,
        residual_scale: FloatArray,
    ) -> None:
        super().__init__(facts, basis, columns, kept=kept, scores=scores, offset=offset, residual_scale=residual_scale)
        self._kept = self._checked_kept(kept)
        self._scores = checked_matrix("scores", scores, (sum(self._kept), None))
        self._offset = checked_matrix("offset", offset, (len(self._mapped), self._scores.shape[1]))
        ends = np.cumsum(self._kept)
        each = zip(ends - self._kept, ends, strict=True)
        self._weights = [PublicColumns(self._scores[start:end], FINE_BITS) for start, end in each]
        self._scale = checked_matrix("residual_scale", residual_scale, (len(self._mapped),))
        if (self._scale <= 0).any():
            remedy = "Use a length of residuals."
            raise InvalidParameter("residual_scale", "be positive numbers", f"{self._scale.min():g}", remedy)

    @property
    def _mapped(self) -> list[BasisPart]:
        """The parts of which something is left, with their columns and coordinates."""
        return [entry for entry in basis_parts(self._basis) if not entry[0].is_complete]

    def _checked_kept(self, kept: IntArray) -> list[int]:
        """Return how many coordinates of each part are kept; refuse more than it has."""
        counts = np.asarray(kept)
        most = [part.n_columns for part, _, _ in self._mapped]
        fits = counts.shape == (len(most),) and counts.dtype.kind in "iu" and len(most) > 0
        if not fits or (counts < 1).any() or (counts > most).any():
            must = f"be whole numbers from 1 to the columns of each basis ({most})"
            remedy = "Use the basis of the first release."
            raise InvalidParameter("kept", must, " ".join(str(counts).split())[:60], remedy)
        return [int(number) for number in counts]

    @staticmethod
    def extent(*, n_features: float, n_components: float, n_mapped: float | None = None) -> Extent:
        """Return the extent for rows of ``n_features`` columns and ``n_components`` scores.

        Parameters
        ----------
        n_features : float
            Columns of a row.
        n_components : float
            Scores of each part.
        n_mapped : float or None
            Columns of the parts that have a basis; None for all.
        """
        n_rows = n_features if n_mapped is None else n_mapped
        radius = reach_on_grid(1.0, n_rows) * reach_on_grid(1.0, n_components)
        return exact_sums(n_rows * n_components, 2 * radius, radius)

    @property
    def numbers(self) -> Mapping[str, float]:
        rows, n_components = self.shape
        return {"n_features": self.facts.n_features, "n_components": n_components, "n_mapped": rows}

    @property
    def shape(self) -> tuple[int, int]:
        return (sum(part.n_features for part, _, _ in self._mapped), self._scores.shape[1])

    def terms(self, tile: Tile) -> Sequence[Form]:
        residuals, scores = self._residuals_and_scores(tile.rows)
        forms, end = [], 0
        for (part, _, _), own in zip(self._mapped, scores, strict=True):
            start, end = end, end + part.n_features
            forms.append(Cross(GridRows(residuals.ints[:, start:end], residuals.steps), own))
        return forms

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return np.concatenate([products.ravel() for products in sums])

    def _residuals_and_scores(self, rows: GridRows) -> tuple[GridRows, list[GridRows]]:
        """Return the residuals of all parts, in the unit ball together, and the scores of each, in theirs."""
        width, n_components = self.shape
        residuals, scores, end = np.empty((len(rows), width)), [], 0
        coordinates = self._basis.exact_coordinates(rows)
        # In steps of the unit ball at once.
        steps = steps_for(width, (1.0,))
        for at, (part, columns, own) in enumerate(self._mapped):
            kept = coordinates[:, own]
            kept[:, self._kept[at] :] = 0.0
            fine = fine_rows(kept, usual_reach(rows))
            own_scores = FineRows(fine.ints[:, : self._kept[at]], fine.steps).products(self._weights[at])
            own_scores -= self._offset[at]
            scores.append(into_balls(own_scores, (n_components,), (1.0,))[0])
            start, end = end, end + part.n_features
            residual = residuals[:, start:end]
            np.multiply(rows.ints[:, columns], steps / rows.steps / self._scale[at], out=residual)
            residual -= part.exact_expansion(fine, steps / self._scale[at])
        return clipped(residuals, (width,), (1.0,))[0], scores


@known
class ScaledBasisMoments(Scaled[tuple[FloatArray, FloatArray]]):
    """Second moment in a public basis of standardised rows, and the energy it leaves out."""

    inner = BasisMoments


@known
class ScaledCentredBasisMoments(Scaled[tuple[FloatArray, FloatArray, FloatArray]]):
    """Mean and second moment in a public basis of standardised rows, and the energy it leaves out."""

    inner = CentredBasisMoments


@known
class ScaledResidualMaps(Scaled[FloatArray]):
    """What a public basis leaves of standardised rows, times their scores."""

    inner = ResidualMaps


def of_basis(basis: Basis) -> dict[str, PublicValue]:
    """Return a basis as the public values of a statistic."""
    return {"basis": basis.kind, "columns": basis.sent_array}
