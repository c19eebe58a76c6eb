"""Infomax gradients clipped per time point, without a matrix per time point (record unit)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.core.contributions import Cross, Form, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import UNIT_ROUNDOFF, Extent, exact_sums, row_error
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import GridRows, PublicColumns, clipped, reach_on_grid, steps_for
from dpcape.core.kernel import Summed
from dpcape.core.record_blocks import TiledRecords
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.reduced import (
    MOST_REDUCED,
    checked_matrix,
    checked_positive,
    kept_tiles,
    reduced_reach,
    reduced_rows,
)

MOST_CONDITION = 200.0
"""Largest |W|_F over its smallest singular value; sqrt(R) for a rotation."""

# Largest sum of the lengths of what a gradient is added up from, relative to its clip; ordinary ones have far less.
_MOST_TERMS = 1000.0


def check_condition(unmixing: FloatArray) -> None:
    """Refuse an unmixing matrix so ill-conditioned, or so small, that rounding in clipped gradients would not be small.

    Squares of a very small one vanish, and with them the lengths by which gradients are clipped.
    """
    if not np.linalg.norm(unmixing) >= 1 / MOST_REDUCED:
        must = f"have a norm of at least {1 / MOST_REDUCED:g}"
        raise InvalidParameter("unmixing", must, "a smaller one", "Lower the learning rate.")
    if not condition(unmixing) <= MOST_CONDITION:
        must = f"have a norm of at most {MOST_CONDITION:g} times its smallest singular value"
        raise InvalidParameter("unmixing", must, "a larger ratio", "Lower the learning rate.")


def condition(unmixing: FloatArray) -> float:
    """Return |W|_F over the smallest singular value, infinite for a singular matrix."""
    values = np.linalg.svd(unmixing, compute_uv=False)
    return float(np.linalg.norm(values) / values[-1]) if values[-1] > 0 else math.inf


@known
class InfomaxScores(Summed[tuple[FloatArray, FloatArray]]):
    """Mean of G = (I + y z') W clipped to ``clip`` and of h = y clipped to ``bias_clip`` (dissertation, algorithm 6.1).

    z = W x + b, y = 1 - 2 g(z) = -tanh(z/2). Both are in one release and both are noised: stacked, a contribution
    has length at most hypot(clip, bias_clip), in a ball, hence the diameter. The norm of G comes from the ghost
    identity |G|^2 = |W|^2 + 2 y'Pz + |y|^2 z'Pz, P = W W', which needs one more product of the size of z and no R x
    R per time point.

    *On the grid.* x is the reduced row on its grid, W is what is left of it on its own, and z = W x + b exactly; sums
    of f, f y and f y x', f the factor of clipping, give that of f G. Pz is computed from a matrix of 32 bits and is
    off by at most o = (sqrt(R) 2^-32 + 16 (R + 64) u) |P| (|W||x| + |b|), so |G|^2 by (2 |y| + |y|^2 |z|) o; this is
    added, with |W||x| + |b| for |z|.
    Putting (f, f y) on the grid moves it by at most d, and f G by d hypot(|W|, |W'z|): the target of clipping is the
    clip minus this. So what is added is in the ball. A last factor keeps |W| (1 + |y| (|W||x| + |b|)), the length of
    what G is added up from at the end, within 1000 clips, which the rounding counts.
    """

    name = "infomax_scores"
    kinds = frozenset({"rows", "subjects"})
    units = frozenset({"record"})

    def __init__(
        self,
        facts: PublicFacts,
        projection: FloatArray,
        unmixing: FloatArray,
        bias: FloatArray,
        clip: float,
        bias_clip: float,
    ) -> None:
        matrix = checked_matrix("projection", projection, (facts.n_features, None))
        width = int(matrix.shape[1])
        # Limited so that no product below can overflow, whatever the aggregator sends.
        turn = checked_matrix("unmixing", unmixing, (width, width), most=MOST_REDUCED)
        shift = checked_matrix("bias", bias, (width,), most=MOST_REDUCED)
        super().__init__(
            facts,
            projection=matrix,
            unmixing=turn,
            bias=shift,
            clip=checked_positive("clip", clip),
            bias_clip=checked_positive("bias_clip", bias_clip),
        )
        check_condition(turn)
        self._projection, self._bias = matrix, shift
        self._width, self._clip, self._bias_clip = width, float(clip), float(bias_clip)
        self._to_reduced, self._reach = PublicColumns(matrix), reduced_reach(facts, matrix)
        columns = PublicColumns(turn.T)
        self._unmixing = (columns.ints * np.multiply.reduce(columns.units)).T
        gram = self._unmixing @ self._unmixing.T
        # Wx and PWx in one product.
        self._products = PublicColumns(np.hstack([turn.T, (gram @ self._unmixing).T]))
        self._biases = np.concatenate([shift, gram @ shift])[:, np.newaxis]
        # Lengths from above.
        self._length, self._shift = (float(np.linalg.norm(array)) * (1 + 2.0**-40) for array in (self._unmixing, shift))
        self._off = float(np.linalg.norm(gram)) * (math.sqrt(width) * 2.0**-32 + 16 * (width + 64) * UNIT_ROUNDOFF)

    @staticmethod
    def extent(*, n_features: float, n_components: float, clip: float, bias_clip: float) -> Extent:
        """Return the extent for ``n_components`` sources and gradients of these lengths at most."""
        radius = math.hypot(clip, reach_on_grid(bias_clip, n_components))
        roundings = _MOST_TERMS * (4 * n_components + 32)
        return exact_sums(n_components * (n_components + 1), 2 * radius, radius, roundings=roundings)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "n_features": self.facts.n_features,
            "n_components": self._width,
            "clip": self._clip,
            "bias_clip": self._bias_clip,
        }

    def contributed(self, records: TiledRecords) -> Iterator[tuple[Sequence[Form], int, BoolArray | None]]:
        for rows, gone in kept_tiles(records, self._projection, self._reduced):
            yield self._terms(rows), len(rows), gone

    def terms(self, tile: Tile) -> Sequence[Form]:
        return self._terms(self._reduced(tile))

    def _reduced(self, tile: Tile) -> GridRows:
        return reduced_rows(tile.rows, self._to_reduced, self._reach)

    def _terms(self, rows: GridRows) -> Sequence[Form]:
        # In columns, which are stored one after another.
        both = rows.products_by_column(self._products)
        both += self._biases
        sources, moved = both[: self._width], both[self._width :]
        scores = sources * -0.5
        np.tanh(scores, out=scores)
        factors = self._factors(rows, sources, scores, moved)
        width, length = self._width, math.sqrt(self._width + 1)
        taken = np.empty((width + 1, len(rows)))
        factors *= steps_for(width + 1, (length,))
        taken[0] = factors
        np.multiply(scores, factors, out=taken[1:])
        scores *= steps_for(width, (self._bias_clip,))
        left = clipped(taken.T, (width + 1,), (length,))[0]
        return [Sum(left), Cross(left, rows), Sum(clipped(scores.T, (width,), (self._bias_clip,))[0])]

    def _factors(self, rows: GridRows, sources: FloatArray, scores: FloatArray, moved: FloatArray) -> FloatArray:
        """Return the clipping factor of each gradient, such that none on the grid is longer than ``clip``."""
        squares, crossed, quadratic = np.zeros((3, len(rows)))
        product = np.empty(len(rows))
        for score, source, other in zip(scores, sources, moved, strict=True):
            squares += np.multiply(score, score, out=product)
            crossed += np.multiply(score, other, out=product)
            quadratic += np.multiply(source, other, out=product)
        height, reach = np.sqrt(squares), self._length * np.sqrt(rows.squared_lengths()) + self._shift
        off = self._off * reach
        np.maximum(quadratic, 0.0, out=quadratic)
        squared = squares * quadratic + 2 * crossed + self._length**2 + off * (2 * height + squares * reach)
        moves = row_error(self._width + 1, math.sqrt(self._width + 1))
        turned = np.sqrt(quadratic + off * reach)
        room = self._clip * (1 - (self._width + 16) * 2.0**-48)
        target = np.maximum(room - moves * np.sqrt(self._length**2 + turned * turned), 0.0)
        factors = np.minimum(target / np.sqrt(np.maximum(squared, 0.0)), 1.0)
        return np.minimum(factors, _MOST_TERMS * self._clip / (self._length * (1 + height * reach)))

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        taken, products, scores = sums
        outer = products[1:] @ self._unmixing.T + np.outer(taken[1:], self._bias)
        gradient = (taken[0] * np.eye(self._width) + outer) @ self._unmixing
        return np.concatenate([gradient.ravel(), scores])

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (G, h)."""
        return packed[: self._width**2].reshape(self._width, self._width), packed[self._width**2 :]


def infomax_scores(
    facts: PublicFacts, projection: FloatArray, *, unmixing: FloatArray, bias: FloatArray, clip: float, bias_clip: float
) -> InfomaxScores:
    """Mean of the clipped infomax gradients at ``unmixing`` and ``bias``."""
    return InfomaxScores(facts, projection, unmixing, bias, clip, bias_clip)
