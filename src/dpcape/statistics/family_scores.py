"""Scores and curvature of positive responses and of several classes at public coefficients.

Records, weights and bounds are those of :mod:`dpcape.statistics.regression_rounds`: v = w (b, x), no longer than R.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import Targets, WeightedBlocks
from dpcape.core.statistic import known
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.regression_rounds import AtCoefficients, n_coefficients, regressor_bound
from dpcape.statistics.row_products import row_products
from dpcape.statistics.scaling import Scaled
from dpcape.statistics.score_rounds import ScoresAndCurvature

RATIO_CLIP = 2.5
"""Responses count up to this many times their mean under the coefficients."""
LARGEST_EXCESS = RATIO_CLIP - 1
"""Largest absolute residual of a positive response, in units of its mean."""
CLASS_SCORE_WEIGHT = 1 / 3
"""Weight of the scores of several classes, in units of R, beside their curvature."""
# The roots of 8/9 (up to three classes), 7/6 and 5/12, rounded up: see ClassScores.
_FEW_CLASSES_DIAMETER, _CLASS_DIAMETER, _CLASS_RADIUS = 0.94281, 1.08013, 0.6455
# Linear predictors are clipped to this distance from zero, so that exponentials are finite.
_FARTHEST = 200.0


class RatioScoreMeans(NamedTuple):
    """Means over records of the bounded score of a positive response, of v v', and of two sums over |v|^2.

    The last two are the mean square of the residual and the mean of the ratios that were not cut off, both weighted by
    |v|^2.
    """

    score: FloatArray
    moment: FloatArray
    square: float
    uncut: float


@known
class RatioScores(AtCoefficients[RatioScoreMeans]):
    r"""Bounded score of positive responses with a logarithmic link at public coefficients, released jointly.

    With m = exp(coefficients.v / w) and g = y / m, moved into [0, 2.5], the residual is e = g - 1, \|e\| <= K = 1.5. A
    record contributes (sqrt(2) R / K w e v, v v', e^2 |v|^2 / K^2, u |v|^2), u = g / 2.5 where y / m was not moved and
    0 elsewhere. If y / m is independent of the features, the mean of e v has slopes that vanish at the true slopes, and
    its derivative is the mean of the ratios that were not moved times the mean of v v'.

    *Diameter.* Let R = 1. Whatever coefficients and response are, the first part is at most a = sqrt(2) r long, r = |v|
    <= 1, the second is r^2 long, the last two are between 0 and 1. With c the cosine of two v the squared distance of
    the first two parts is at most 2 r^2 + 2 r'^2 - 4 r r' c + r^4 + r'^4 - 2 r^2 r'^2 c^2 for scores of full length and
    one sign (else -c for c): it falls with c, so c = -1, where it is (r + r')^2 (2 + (r - r')^2), which grows with the
    larger of r and r' and is, with that at 1, (1 + t)^2 (2 + (1 - t)^2) <= 8. It is convex in the lengths of the
    scores, and without one of them at most 2 + 2. The last two parts add at most 2: the diameter is sqrt(10) R^2, and
    no contribution is longer than sqrt(5) R^2.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records; the response is not negative, and its range begins at 0.
    intercept : bool
        Whether the model has a constant.
    coefficients : (p,) array
        Where the score is taken.
    """

    name = "ratio_scores"

    def __init__(self, facts: PublicFacts, intercept: bool, coefficients: FloatArray) -> None:
        super().__init__(facts, intercept, coefficients)
        if facts.response is None or facts.response[0] != 0:
            must = "have a response whose range begins at 0"
            remedy = "Build them with labelled(X, y, bound=..., response=(0, most))."
            raise InvalidParameter("Records for scores of ratios", must, facts.response, remedy)
        self._most = float(facts.response[1])
        self._reach = regressor_bound(facts.bounds[0], bool(intercept))

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        p, square = n_coefficients(n_features, intercept), regressor_bound(bound, intercept) ** 2
        radius = math.sqrt(5) * square
        rounding = rounding_in_blocks(n_features, radius)
        return Extent(p + packed_size(p) + 2, math.sqrt(10) * square, radius, rounding)

    def total(self, records: WeightedBlocks[Targets]) -> FloatArray:
        p = self.n_coefficients
        score, moment, square, uncut = np.zeros(p), np.zeros((p, p)), 0.0, 0.0
        for v, y, weights in self.weighted(records):
            ratios = self._ratios(v, y, weights)
            clipped = np.minimum(ratios, RATIO_CLIP)
            lengths = np.vecdot(v, v)
            score += (weights * (clipped - 1)) @ v
            moment += v.T @ v
            square += float(((clipped - 1) ** 2) @ lengths)
            uncut += float(np.where(ratios < RATIO_CLIP, clipped, 0.0) @ lengths)
        scaled = [score * (math.sqrt(2) * self._reach / LARGEST_EXCESS), pack(moment)]
        return np.concatenate([*scaled, [square / LARGEST_EXCESS**2, uncut / RATIO_CLIP]])

    def _ratios(self, v: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
        """Return y / m, not negative and never NaN; 1 where it cannot be computed."""
        with np.errstate(all="ignore"):
            predictors = row_products(v, self._coefficients) / weights
            ratios = (y + 1) / 2 * self._most / np.exp(np.clip(predictors, -_FARTHEST, _FARTHEST))
        return np.maximum(np.where(np.isnan(ratios), 1.0, ratios), 0.0)

    def unpack(self, packed: FloatArray) -> RatioScoreMeans:
        """Return the means in their own units."""
        p = self.n_coefficients
        score = packed[:p] * (LARGEST_EXCESS / (math.sqrt(2) * self._reach))
        square, uncut = float(packed[-2]) * LARGEST_EXCESS**2, float(packed[-1]) * RATIO_CLIP
        return RatioScoreMeans(score, unpack(packed[p:-2], p), square, uncut)


@known
class ClassScores(AtCoefficients[ScoresAndCurvature]):
    r"""Score and curvature of the multinomial model at public coefficients, released jointly.

    Coefficients are blocks of v, one per class but the first, whose log-odds are zero. With p the probabilities at the
    coefficients, e the indicator of the class minus p, and G = diag(p) - p p', both without the first class, a record
    contributes (R/3 w e (x) v, G (x) v v').

    *Diameter.* Let R = 1. Two curvatures are positive semidefinite, so their inner product is not negative, and |a -
    a'|^2 <= 2 |a|^2 + 2 |a'|^2 for the scores: the squared distance of two contributions is at most the sum over both
    of h = 2/9 \|e\|^2 + \|G\|^2.

    *Up to three classes.* Let x and y be the probabilities of the second and third class. Then \|G\|^2 = x^2 (1 -
    x)^2 + y^2 (1 - y)^2 + 2 x^2 y^2. A record of the third class has \|e\|^2 = x^2 + (1 - y)^2, and the derivative of
    h by x is x (4/9 + 2 (1 - x) (1 - 2 x) + 4 y^2) >= x (4/9 - 1/4) >= 0, so h is largest at x = 1 - y: 4/9 (1 - y)^2
    (1 + 9 y^2), which has its only inner maximum at y = 1/3, 32/81, and is 4/9 at y = 0. The second class is the same
    with x and y exchanged. A record of the first class has \|e\|^2 = x^2 + y^2, h grows with x and with y in the same
    way, and at x + y = 1 it is 2/9 (1 - 2 t) + 4 t^2 <= 13/36 for t = x y <= 1/4. So h <= 4/9: the diameter is
    sqrt(8)/3, attained by opposite records of one class that another class seemed certain for.

    *More classes.* Let s be the sum of all squared probabilities, c that of their cubes and q the probability of the
    record's class. With the first class, both lengths are no smaller: \|e\|^2 <= 1 - 2 q + s <= 1 + s and \|G\|^2 <=
    s - 2 c + s^2. For s <= 1/2, c >= s^2 (Cauchy-Schwarz with weights p), and h <= 2/9 + 11/9 s - s^2 grows with s.
    For s >= 1/2, c >= (3 s - 1)/2, because c = 1 - 3 e_2 + 3 e_3 for the elementary symmetric functions e_2 = (1 -
    s)/2 and e_3 >= 0, and h <= s^2 - 16/9 s + 11/9 is convex in s. Both are 7/12 at s = 1/2, more than 4/9 at s = 1.
    So h <= 7/12 and the diameter is at most sqrt(7/6) = 1.0801. It is not attained: each of two such records is split
    between two classes, and their scores cannot be opposite then. A search finds 0.9896 for four classes and 1.0342
    for five or more, 0.916 and 0.957 of it.

    *Length.* In the same way, (1 + s)/9 + s - 2 c + s^2 is at most 5/12.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records, which have classes.
    intercept : bool
        Whether the model has constants.
    coefficients : (p,) array
        Where the score is taken: one block per class but the first.
    """

    name = "class_scores"
    two_classes = False

    def __init__(self, facts: PublicFacts, intercept: bool, coefficients: FloatArray) -> None:
        if facts.classes is None:
            remedy = "Build them with labelled(X, y, bound=..., classes=[...])."
            raise InvalidParameter("Records for scores of classes", "have classes", "a numeric response", remedy)
        self._n_others = len(facts.classes) - 1
        super().__init__(facts, intercept, coefficients)
        self._reach = regressor_bound(facts.bounds[0], bool(intercept))

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients of all classes, those of the constants among them."""
        return self._n_others * self.n_columns

    @property
    def numbers(self) -> Mapping[str, float]:
        return {**super().numbers, "n_classes": self._n_others + 1}

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool, n_classes: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        p = (n_classes - 1) * n_coefficients(n_features, intercept)
        square = regressor_bound(bound, intercept) ** 2
        diameter = (_FEW_CLASSES_DIAMETER if n_classes < 4 else _CLASS_DIAMETER) * square
        radius = _CLASS_RADIUS * square
        return Extent(p + packed_size(p), diameter, radius, rounding_in_blocks(n_features, radius))

    def total(self, records: WeightedBlocks[Targets]) -> FloatArray:
        width, others = self.n_columns, self._n_others
        score, curvature = np.zeros((others, width)), np.zeros((others, width, others, width))
        for v, y, weights in self.weighted(records):
            chances = self._chances(v, weights)
            # Codes of the classes were mapped by 2 k - 1.
            codes = np.rint((y + 1) / 2).astype(np.intp)
            score += ((codes[:, np.newaxis] == np.arange(1, others + 1)) - chances).T @ (weights[:, np.newaxis] * v)
            for one in range(others):
                for other in range(one + 1):
                    bend = chances[:, one] * ((one == other) - chances[:, other])
                    product = (v * bend[:, np.newaxis]).T @ v
                    curvature[one, :, other, :] += product
                    if other != one:
                        curvature[other, :, one, :] += product
        size = others * width
        scaled = self._reach * CLASS_SCORE_WEIGHT * score.reshape(-1)
        return np.concatenate([scaled, pack(curvature.reshape(size, size))])

    def _chances(self, v: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the probabilities of all classes but the first."""
        blocks = self._coefficients.reshape(self._n_others, -1)
        with np.errstate(all="ignore"):
            odds = row_products(v, blocks.T) / weights[:, np.newaxis]
        odds = np.clip(np.where(np.isnan(odds), 0.0, odds), -_FARTHEST, _FARTHEST)
        largest = np.maximum(odds.max(axis=1), 0.0)
        heights = np.exp(odds - largest[:, np.newaxis])
        chances: FloatArray = heights / (heights.sum(axis=1) + np.exp(-largest))[:, np.newaxis]
        return chances

    def unpack(self, packed: FloatArray) -> ScoresAndCurvature:
        """Return the means of scores and curvature, in their own units."""
        p = self.n_coefficients
        return ScoresAndCurvature(packed[:p] / (self._reach * CLASS_SCORE_WEIGHT), unpack(packed[p:], p))


@known
class ScaledRatioScores(Scaled[RatioScoreMeans]):
    """Scores of positive responses, of standardised records."""

    inner = RatioScores


@known
class ScaledClassScores(Scaled[ScoresAndCurvature]):
    """Scores and curvature of several classes, of standardised records."""

    inner = ClassScores
