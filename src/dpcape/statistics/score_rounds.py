"""Scores and curvature of generalised linear models at public coefficients, each bounded for any of them.

Records, weights and bounds are those of :mod:`dpcape.statistics.regression_rounds`: v = w (b, x), no longer than R.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Cells, Cross, Form, Outer
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums, row_error
from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.count_residuals import LARGEST_RESIDUAL, centred_residuals
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.reduced import checked_positive
from dpcape.statistics.regression_rounds import (
    AtCoefficients,
    n_coefficients,
    regressor_bound,
    regressor_reach,
)
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

    *Diameter.* Take R = 1. Two curvatures are positive semidefinite, so their inner product is not negative, and |s -
    s'|^2 <= 2 |s|^2 + 2 |s'|^2 for the scores: the squared distance is at most the sum over both records of h = 2 |s|^2
    + k^2, k the length of the curvature. Let a = |e| |v| <= 1. Then |s| <= a/4, and k is at most K = a (1 - a), since
    |v| - a <= 1 - a. With d = 1 - a, 1/8 - h is at least d ((1 + a)/8 - a^2 d), and the bracket is at least 0.089 a: so
    h <= 1/8. A contribution is no longer than the root of max(a^2/16 + K^2), 0.28353.

    *On the grid.* v is on it, so that R is its length there. e is within 2^-20 on the grid, and R in front of the score
    is that before, smaller by the factor 1 + 2^-20: |s| <= (a + 2^-20)/4 / (1 + 2^-20) <= (a + 2^-20 d)/4, which adds
    at most d 2^-20 (a + 2^-20)/4 to h. The curvature is q q' with q, on a grid of its own, within g of the root of |e|
    (1 - |e|) times v: still positive semidefinite, and k^2 <= (sqrt(K) + g)^4 <= K^2 + K (2 g + 8 g^2) + 3 g^4, since K
    <= 1/4 and 4 g^3 sqrt(K) <= 2 g^2 K + 2 g^4. K <= a d, so what is added is less than 0.089 a d + 3 g^4 up to g =
    1/32 (10^10 columns): h <= 1/8 + 3 g^4. In the same way the squared length of a contribution grows by at most
    2^-20/8 + (2 g + 8 g^2)/4 + 3 g^4.
    """

    name = "logistic_scores"

    def __init__(self, facts: PublicFacts, intercept: bool, coefficients: FloatArray) -> None:
        super().__init__(facts, intercept, coefficients)
        if facts.classes is None:
            remedy = "Build them with labelled(X, y, bound=..., classes=[first, second])."
            raise InvalidParameter("Records for logistic scores", "have two classes", "a numeric response", remedy)
        self._weight = regressor_bound(facts.bounds[0], bool(intercept)) / 4
        self._reach = regressor_reach(facts.n_features, facts.bounds[0], bool(intercept))

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        p, square = n_coefficients(n_features, intercept), regressor_reach(n_features, bound, intercept) ** 2
        g = row_error(p, 0.5)
        diameter = math.sqrt(0.25 + 6 * g**4)
        radius = math.sqrt(SCORE_RADIUS**2 + 2.0**-23 + (2 * g + 8 * g**2) / 4 + 3 * g**4)
        return exact_sums(p + packed_size(p), diameter * square, radius * square)

    def terms(self, tile: Tile) -> Sequence[Form]:
        factors = self._factors(tile)
        chance = self._probabilities(tile, factors)
        others = self._beside(factors, factors * ((self._responses(tile) + 1) / 2 - chance))
        bent = self._bent(tile, others, np.sqrt(chance * (1 - chance)), self._reach / 2)
        return [Cross(others, tile.rows), Outer(others), Outer(bent)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        cross, others, curvature = sums
        return np.concatenate([self._weight * self._scores(cross, others)[0], pack(curvature.T)])

    def unpack(self, packed: FloatArray) -> ScoresAndCurvature:
        """Return the means of scores and curvature, in their own units."""
        p = self.n_coefficients
        return ScoresAndCurvature(packed[:p] / self._weight, unpack(packed[p:], p))


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
    g), convex in a and in a', so largest where each is at an end. For a = a' = sqrt(2) it falls with g, so that it is
    at most 9 + (k - k')^2 <= 10 - 2 m + m^2 <= 10 - m with m = min(k, k'); otherwise it is at most 2 + 2 + 1. So the
    diameter is sqrt(10) R^2, and no contribution is longer than 2 R^2.

    *On the grid.* v is on it, so that R is its length there. e/K is at most 1 + 2^-20 on the grid, and R in front of
    the score is that before, smaller by this factor: a <= sqrt(2). The third part is a share from 0 to 1. The curvature
    is q q' with q within d of sqrt(W) v on a grid of its own. With x^2 = m, q.q' is within r = d (2 + d) of sqrt(k k')
    g, so that (q.q')^2 >= k k' g^2 - 2 r x, and the squared length of a curvature is at most (sqrt(k) + d)^4. That adds
    at most (1 + d)^4 - 1 for the longer, 4 d x^3 + 6 d^2 x^2 + 4 d^3 x + d^4 for the shorter and 4 r x for the product:
    the latter two together with -x^2 less than 17 d^2 + d^4 up to d = 1/100 (10^8 columns). The squared diameter is at
    most 10 + 4 d + 25 d^2, and the squared length at most 2 + (1 + d)^4 + 1.

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
        self._weight = math.sqrt(2) * regressor_bound(facts.bounds[0], bool(intercept))
        self._reach = regressor_reach(facts.n_features, facts.bounds[0], bool(intercept))

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        p, square = n_coefficients(n_features, intercept), regressor_reach(n_features, bound, intercept) ** 2
        d = row_error(p, 1.0)
        diameter, radius = math.sqrt(10 + 4 * d + 25 * d**2), math.sqrt(3 + (1 + d) ** 4)
        return exact_sums(p + packed_size(p) + 1, diameter * square, radius * square)

    def terms(self, tile: Tile) -> Sequence[Form]:
        factors = self._factors(tile)
        residuals, bends, squares = self._bounded(tile, factors)
        others = self._beside(factors, factors * residuals / LARGEST_RESIDUAL)
        bent = self._bent(tile, others, np.sqrt(bends), self._reach)
        lengths = self._squared_lengths(tile, others) / self._reach**2
        return [Cross(others, tile.rows), Outer(others), Outer(bent), shares(squares / LARGEST_RESIDUAL**2 * lengths)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        cross, others, curvature, square = sums
        score = self._weight * self._scores(cross, others)[0]
        return np.concatenate([score, pack(curvature.T), self._reach**2 * square])

    def _bounded(self, tile: Tile, factors: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return e, W and c^2 min(m/t, 1), bounded for any coefficients and level; zero if they cannot be computed."""
        rates = np.exp(np.clip(self._predictors(tile, factors)[:, 0], -_FARTHEST_RATE, _FARTHEST_RATE))
        plain, bends = centred_residuals((self._responses(tile) + 1) / 2 * self._most, rates)
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
        score = packed[:p] * (LARGEST_RESIDUAL / self._weight)
        return CountScoreMeans(score, unpack(packed[p:-1], p), float(packed[-1]) * LARGEST_RESIDUAL**2)


def shares(parts: FloatArray) -> Cells:
    """Return the sum of parts from 0 to 1."""
    return Cells(np.zeros(len(parts), dtype=np.intp), 1, parts)


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
