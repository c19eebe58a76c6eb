"""Infomax gradients clipped per time point, without a matrix per time point (record unit)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import BLOCK_ROWS, Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import RowBlocks
from dpcape.core.statistic import Statistic, known
from dpcape.statistics.reduced import MOST_REDUCED, checked_matrix, checked_positive, kept_rows
from dpcape.statistics.row_products import row_products

MOST_CONDITION = 200.0
"""Largest |W|_F over its smallest singular value; sqrt(R) for a rotation."""


def check_condition(unmixing: FloatArray) -> None:
    """Refuse an unmixing matrix so ill-conditioned that rounding in the clipped gradients would not be small."""
    if not condition(unmixing) <= MOST_CONDITION:
        must = f"have a norm of at most {MOST_CONDITION:g} times its smallest singular value"
        raise InvalidParameter("unmixing", must, "a larger ratio", "Lower the learning rate.")


def condition(unmixing: FloatArray) -> float:
    """Return |W|_F over the smallest singular value, infinite for a singular matrix."""
    values = np.linalg.svd(unmixing, compute_uv=False)
    return float(np.linalg.norm(values) / values[-1]) if values[-1] > 0 else math.inf


@known
class InfomaxScores(Statistic[RowBlocks, tuple[FloatArray, FloatArray]]):
    """Mean of G = (I + y z') W clipped to ``clip`` and of h = y clipped to ``bias_clip`` (dissertation, algorithm 6.1).

    z = W x + b, y = 1 - 2 g(z) = -tanh(z/2). Both are in one release and both are noised: stacked, a contribution
    has length at most hypot(clip, bias_clip), in a ball, hence the diameter. The norm of G comes from the ghost
    identity |G|^2 = |W|^2 + 2 y'Pz + |y|^2 z'Pz, P = W W', which needs one more product of the size of z and no R x
    R per time point.

    Rounding includes cancellation in I + y z': |I + y z'|_F >= .44 (1 + |y||z|), so the terms that cancel are at most
    |W|_F (1 + |y||z|) <= 2.3 MOST_CONDITION |G|.
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
        self._projection, self._unmixing, self._bias = matrix, turn, shift
        self._width, self._clip, self._bias_clip = width, float(clip), float(bias_clip)

    @staticmethod
    def extent(*, n_features: float, n_components: float, clip: float, bias_clip: float) -> Extent:
        """Return the extent for ``n_components`` sources and gradients of these lengths at most."""
        radius = math.hypot(clip, bias_clip)
        summed = rounding_in_blocks(n_features, radius)
        return Extent(n_components * (n_components + 1), 2 * radius, radius, lambda n: 2.3 * MOST_CONDITION * summed(n))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "n_features": self.facts.n_features,
            "n_components": self._width,
            "clip": self._clip,
            "bias_clip": self._bias_clip,
        }

    def total(self, records: RowBlocks) -> FloatArray:
        step = GhostStep(self._unmixing, self._bias, clip=self._clip, bias_clip=self._bias_clip)
        rows = kept_rows(records, self._projection)
        for start in range(0, len(rows), BLOCK_ROWS):
            step.add(rows[start : start + BLOCK_ROWS])
        return step.total()

    def unpack(self, packed: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (G, h)."""
        return packed[: self._width**2].reshape(self._width, self._width), packed[self._width**2 :]


class GhostStep:
    """Sum of clipped gradients over blocks of rows; buffers are reused and stay in the cache.

    Rounding: with u = 2^-53, the computed y'Pz and z'Pz are off by at most (R + 4) u |P|_F times |y||z| and |z|^2.
    Raising P by ``slack`` I and the norm by ``slack`` covers both, since 2 |y||z| <= 1 + |y|^2 |z|^2, so that the
    norm used is never below the exact one by more than the relative 2^-50 (R + 16) that the target leaves room for.
    """

    def __init__(self, unmixing: FloatArray, bias: FloatArray, *, clip: float, bias_clip: float) -> None:
        width = len(bias)
        self._unmixing, self._bias = unmixing, bias[:, np.newaxis]
        gram = unmixing @ unmixing.T
        slack = 4 * (width + 16) * 2.0**-53 * float(np.linalg.norm(gram))
        self._gram = gram + slack * np.eye(width)
        self._constant = float((unmixing**2).sum()) * (1 + 2.0**-45) + slack
        room = 1 - (width + 16) * 2.0**-50
        self._clip, self._bias_clip = clip * room, bias_clip * room
        self._outer, self._scores = np.zeros((width, width)), np.zeros(width)
        self._weight = 0.0
        self._buffers = np.empty((3, width, BLOCK_ROWS))
        self._ones = np.ones(width)

    def add(self, rows: FloatArray) -> None:
        """Add the clipped gradients of a block of reduced rows."""
        n_rows = len(rows)
        sources, scores, moved = (buffer[:, :n_rows] for buffer in self._buffers)
        np.copyto(sources, row_products(rows, self._unmixing.T).T)
        sources += self._bias
        np.multiply(sources, -0.5, out=scores)
        np.tanh(scores, out=scores)
        np.multiply(scores, scores, out=moved)
        length = self._ones @ moved
        self._scores += scores @ (self._bias_clip / np.maximum(np.sqrt(length), self._bias_clip))
        factors = self._factors(sources, scores, moved, length)
        self._weight += float(factors.sum())
        scores *= factors
        self._outer += scores @ sources.T

    def _factors(self, sources: FloatArray, scores: FloatArray, moved: FloatArray, length: FloatArray) -> FloatArray:
        """Return the clipping factor of each gradient; ``moved`` is overwritten, ``length`` is |y|^2."""
        np.copyto(moved, row_products(sources.T, self._gram).T)
        # |W|^2 + 2 y'Pz + |y|^2 z'Pz. Only the last product may overwrite Pz; a fourth buffer would cost the cache more
        # than einsum does.
        crossed = np.einsum("ij,ij->j", moved, scores)
        moved *= sources
        squared: FloatArray = self._ones @ moved
        squared *= length
        squared += self._constant
        squared += 2 * crossed
        factors: FloatArray = self._clip / np.maximum(np.sqrt(np.maximum(squared, 0.0)), self._clip)
        return factors

    def total(self) -> FloatArray:
        """Return the packed sum of (G, h)."""
        gradient = (self._weight * np.eye(len(self._ones)) + self._outer) @ self._unmixing
        return np.concatenate([gradient.ravel(), self._scores])


def infomax_scores(
    facts: PublicFacts, projection: FloatArray, *, unmixing: FloatArray, bias: FloatArray, clip: float, bias_clip: float
) -> InfomaxScores:
    """Mean of the clipped infomax gradients at ``unmixing`` and ``bias``."""
    return InfomaxScores(facts, projection, unmixing, bias, clip, bias_clip)
