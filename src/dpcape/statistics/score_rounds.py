"""Scores and curvature of generalised linear models at public coefficients, each bounded for any of them.

Records, weights and bounds are those of :mod:`dpcape.statistics.regression_rounds`: v = w (b, x), no longer than R.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import Targets, WeightedBlocks
from dpcape.core.statistic import known
from dpcape.statistics.count_residuals import LARGEST_RESIDUAL, centred_residuals
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.reduced import checked_positive
from dpcape.statistics.regression_rounds import AtCoefficients, n_coefficients, regressor_bound
from dpcape.statistics.row_products import row_products
from dpcape.statistics.scaling import Scaled

SCORE_RADIUS = 0.28353
"""Largest length of scores and curvature of a record, in units of R^2."""
# Logarithms of rates are clipped to this distance from zero; no counts have rates beyond it.
_FARTHEST_RATE = 12.0


class ScoresAndCurvature(NamedTuple):
    """Means over records of the weighted score and of the weighted curvature of the logistic loss."""

    score: FloatArray
    curvature: FloatArray


class CountScoreMeans(NamedTuple):
    """Means over records of the bounded score of counts, of its curvature, and of the squared residual times |v|^2."""

    score: FloatArray
    curvature: FloatArray
    square: float


@known
class LogisticScores(AtCoefficients[ScoresAndCurvature]):
    """Weighted score and curvature of the logistic loss at public coefficients, released jointly.

    With p the probability of the label at the coefficients and e = y - p, y = 0 or 1, a record contributes (R/4 w e v,
    |e| (1 - |e|) v v'), because p (1 - p) = |e| (1 - |e|). Its diameter is R^2/2, attained by opposite v with |e| = 1.
    Take R = 1 and let a = |e| |v| <= 1. The curvature's length k = |e| (1 - |e|) |v|^2 is at most K = a (1 - a), since
    |v| - a <= 1 - a. With c the cosine of two scores the squared distance is at most

        (a^2 + a'^2 - 2 a a' c) / 16 + k^2 + k'^2 - 2 k k' c^2,

    convex in k and in k', so largest where each is 0 or K. It is concave in c. If k = K, k' = K' and the maximum over c
    lies inside, at c = -1 / (32 (1 - a) (1 - a')), it is (a^2 + a'^2)/16 + K^2 + K'^2 + a a' / (512 (1 - a) (1 - a'))
    <= 2 max(a^2/16 + K^2) + 1/16 < 0.224. Otherwise c = -1, and the value is at most (a + a')^2/16 + max(K, K')^2 <=
    (1 + a)^2/16 + a^2 (1 - a)^2, which with d = 1 - a is 1/4 - d (1/4 - d/16 - d (1 - d)^2) <= 1/4, because d/16 +
    d (1 - d)^2 <= 1/16 + 4/27. A weight w shortens only the score. The squared distance is convex in the lengths of the
    scores, so largest at full length or without one of them, where it is at most 1/16 + max(a^2/16 + K^2) < 0.143. A
    contribution is no longer than the root of max(a^2/16 + K^2), 0.28353.
    """

    name = "logistic_scores"

    def __init__(self, facts: PublicFacts, intercept: bool, coefficients: FloatArray) -> None:
        super().__init__(facts, intercept, coefficients)
        if facts.classes is None:
            remedy = "Build them with labelled(X, y, bound=..., classes=[first, second])."
            raise InvalidParameter("Records for logistic scores", "have two classes", "a numeric response", remedy)
        self._reach = regressor_bound(facts.bounds[0], bool(intercept))

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        p, square = n_coefficients(n_features, intercept), regressor_bound(bound, intercept) ** 2
        radius = SCORE_RADIUS * square
        return Extent(p + packed_size(p), square / 2, radius, rounding_in_blocks(n_features, radius))

    def total(self, records: WeightedBlocks[Targets]) -> FloatArray:
        p = self.n_coefficients
        score, curvature = np.zeros(p), np.zeros((p, p))
        for v, y, weights in self.weighted(records):
            chance = self.probabilities(v, weights)
            score += (weights * ((y + 1) / 2 - chance)) @ v
            curvature += (v * (chance * (1 - chance))[:, np.newaxis]).T @ v
        return np.concatenate([self._reach / 4 * score, pack(curvature)])

    def unpack(self, packed: FloatArray) -> ScoresAndCurvature:
        """Return the means of scores and curvature, in their own units."""
        p = self.n_coefficients
        return ScoresAndCurvature(packed[:p] * (4 / self._reach), unpack(packed[p:], p))


@known
class CountScores(AtCoefficients[CountScoreMeans]):
    r"""Bounded score and curvature of the Poisson model at public coefficients, released jointly.

    The rate of a record is m = exp(coefficients.v / w), and t the public ``level``. With the centred residual c of the
    count (:mod:`~dpcape.statistics.count_residuals`, \|c\| <= K = 2.125), e = c min(sqrt(m/t), sqrt(t/m)) and W = k
    min(m/t, 1), k the covariance of that residual, a record contributes (sqrt(2) R / K w e v, W v v', c^2 min(m/t, 1)
    |v|^2 / K^2). The mean of e v is zero at the coefficients of a Poisson model, its derivative is sqrt(t) W v v', and
    its covariance at most W v v', because the covariance k is at least the variance.

    *Diameter.* Let R = 1. Whatever coefficients, level and count are, a, the length of the first part, is at most
    sqrt(2), k = W |v|^2 that of the second at most 1, and the third is between 0 and 1. With g the cosine of two v the
    squared distance is at most a^2 + a'^2 - 2 a a' g + k^2 + k'^2 - 2 k k' g^2 + 1 for scores of one sign (else -g for
    g), convex in each of a, a', k, k', so largest where each is at an end. For k = k' = 1 and a = a' = sqrt(2) it is
    7 - 4 g - 2 g^2 <= 9, since it falls with g and g >= -1; for k = 0 or k' = 0 at most 8 + 1 + 1; with a = 0 or a' = 0
    at most 2 + 2 + 1. So the diameter is sqrt(10) R^2, and no contribution is longer than 2 R^2.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records; the response is a count, whose range begins at 0.
    intercept : bool
        Whether the model has a constant.
    coefficients : (p,) array
        Where the score is taken.
    level : float
        t, a typical rate: records of higher rates are weighted down.
    """

    name = "count_scores"

    def __init__(self, facts: PublicFacts, intercept: bool, coefficients: FloatArray, level: float) -> None:
        super().__init__(facts, intercept, coefficients, level=level)
        if facts.response is None or facts.response[0] != 0:
            must = "have a response whose range begins at 0"
            remedy = "Build them with labelled(X, y, bound=..., response=(0, most))."
            raise InvalidParameter("Records for scores of counts", must, facts.response, remedy)
        self._most = float(facts.response[1])
        self._level = checked_positive("level", level)
        self._reach = regressor_bound(facts.bounds[0], bool(intercept))

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        p, square = n_coefficients(n_features, intercept), regressor_bound(bound, intercept) ** 2
        radius = 2.0 * square
        rounding = rounding_in_blocks(n_features, radius)
        return Extent(p + packed_size(p) + 1, math.sqrt(10) * square, radius, rounding)

    def total(self, records: WeightedBlocks[Targets]) -> FloatArray:
        p = self.n_coefficients
        score, curvature, square = np.zeros(p), np.zeros((p, p)), 0.0
        for v, y, weights in self.weighted(records):
            residuals, bends, squares = self._bounded(v, y, weights)
            score += (weights * residuals) @ v
            curvature += (v * bends[:, np.newaxis]).T @ v
            square += float(squares @ np.vecdot(v, v))
        scaled = [score * (math.sqrt(2) * self._reach / LARGEST_RESIDUAL), pack(curvature)]
        return np.concatenate([*scaled, [square / LARGEST_RESIDUAL**2]])

    def _bounded(self, v: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return e, W and c^2 min(m/t, 1), bounded for any coefficients and level; zero if they cannot be computed."""
        with np.errstate(all="ignore"):
            predictors = row_products(v, self._coefficients) / weights
            rates = np.exp(np.clip(np.where(np.isnan(predictors), 0.0, predictors), -_FARTHEST_RATE, _FARTHEST_RATE))
            plain, bends = centred_residuals((y + 1) / 2 * self._most, rates)
            ratio = rates / self._level
            residuals = plain * np.sqrt(np.minimum(ratio, 1 / ratio))
            bends, squares = bends * np.minimum(ratio, 1.0), plain**2 * np.minimum(ratio, 1.0)
        return (
            _within(residuals, -LARGEST_RESIDUAL, LARGEST_RESIDUAL),
            _within(bends, 0.0, 1.0),
            _within(squares, 0.0, LARGEST_RESIDUAL**2),
        )

    def unpack(self, packed: FloatArray) -> CountScoreMeans:
        """Return the means in their own units."""
        p = self.n_coefficients
        score = packed[:p] * (LARGEST_RESIDUAL / (math.sqrt(2) * self._reach))
        return CountScoreMeans(score, unpack(packed[p:-1], p), float(packed[-1]) * LARGEST_RESIDUAL**2)


def _within(values: FloatArray, low: float, high: float) -> FloatArray:
    """Return values moved between two ends; zero where they are not finite."""
    return np.clip(np.where(np.isfinite(values), values, 0.0), low, high)


@known
class ScaledLogisticScores(Scaled[ScoresAndCurvature]):
    """Scores and curvature of standardised records."""

    inner = LogisticScores


@known
class ScaledCountScores(Scaled[CountScoreMeans]):
    """Scores and curvature of counts, of standardised records."""

    inner = CountScores
