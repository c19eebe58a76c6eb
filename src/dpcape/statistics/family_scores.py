"""Scores and curvature of positive responses and of several classes at public coefficients.

Records, weights and bounds are those of :mod:`dpcape.statistics.regression_rounds`: v = w (b, x), no longer than R.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Cross, Form, Outer
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import UNIT_ROUNDOFF, Extent, exact_sums, row_error
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import ROW_BITS, GridRows, on_grid, steps_per_unit, too_long
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.exponentials import exponentials
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.regression_moment import joined_moment
from dpcape.statistics.regression_rounds import (
    AtCoefficients,
    n_coefficients,
    regressor_bound,
    regressor_reach,
)
from dpcape.statistics.scaling import Scaled
from dpcape.statistics.score_rounds import ScoresAndCurvature, shares

RATIO_CLIP = 2.5
"""Responses count up to this many times their mean under the coefficients."""
LARGEST_EXCESS = RATIO_CLIP - 1
"""Largest absolute residual of a positive response, in units of its mean."""
CLASS_SCORE_WEIGHT = 1 / 3
"""Weight of the scores of several classes, in units of R, beside their curvature."""
# The roots of 8/9 (up to three classes), 7/6 and 5/12, rounded up: see ClassScores.
_FEW_CLASSES_DIAMETER, _CLASS_DIAMETER, _CLASS_RADIUS = 0.94281, 1.08013, 0.6455
_LONGEST_ERRORS = math.sqrt(3)
# Numbers per record by which records are divided into parts, at most: the products of fewer than 256 take no less time.
_MOST_ENTRIES = 512
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

    *On the grid.* v is on it, so that R is its length there. e/K is at most 1 + 2^-20 on the grid, and R in front of
    the score is that before, smaller by this factor. The last two parts are shares from 0 to 1. Products of integers
    are exact, so there is nothing else to count.

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
        self._weight = math.sqrt(2) * regressor_bound(facts.bounds[0], bool(intercept))
        self._reach = regressor_reach(facts.n_features, facts.bounds[0], bool(intercept))

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        p, square = n_coefficients(n_features, intercept), regressor_reach(n_features, bound, intercept) ** 2
        return exact_sums(p + packed_size(p) + 2, math.sqrt(10) * square, math.sqrt(5) * square)

    def terms(self, tile: Tile) -> Sequence[Form]:
        factors = self._factors(tile)
        ratios = self._ratios(tile, factors)
        clipped = np.minimum(ratios, RATIO_CLIP)
        excess = (clipped - 1) / LARGEST_EXCESS
        uncut = np.where(ratios < RATIO_CLIP, clipped / RATIO_CLIP, 0.0)
        others = self._beside(factors, factors * excess)
        lengths = self._squared_lengths(tile, others) / self._reach**2
        parts = [shares(excess**2 * lengths), shares(uncut * lengths)]
        return [Outer(tile.rows), Cross(others, tile.rows), Outer(others), *parts]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        moment, cross, others, *parts = sums
        score, n_before = self._weight * self._scores(cross, others)[0], len(others) - 1
        constant = self._constant * cross[:n_before], self._constant**2 * others[:n_before, :n_before]
        squares = [self._reach**2 * part for part in parts]
        return np.concatenate([score, pack(joined_moment(moment, *constant, n_before)), *squares])

    def _ratios(self, tile: Tile, factors: FloatArray) -> FloatArray:
        """Return y / m, not negative and never NaN; 1 where it cannot be computed."""
        predictors = np.clip(self._products(tile, factors)[:, 0] / factors, -_FARTHEST, _FARTHEST)
        ratios = (tile.targets + 1) / 2 * self._most / exponentials(predictors)
        return np.maximum(np.where(np.isnan(ratios), 1.0, ratios), 0.0)

    def unpack(self, packed: FloatArray) -> RatioScoreMeans:
        """Return the means in their own units."""
        p = self.n_coefficients
        score = packed[:p] * (LARGEST_EXCESS / self._weight)
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

    *On the grid.* v is on it, so that R is its length there. e is computed and put on a grid, which counts as an error.
    Block (i, j) of the curvature is plus or minus q q' with q, on a grid of its own, within d of the root of |G_ij|
    times v, so it is off by at most 2 d sqrt(|G_ij|) |v| + d^2, and the curvature C = G (x) v v' by at most E = 2 d
    sqrt(t) + n d^2, where n is the number of classes but the first and t the sum of all |G_ij| times |v|^2. t is at
    most 2 (1 - s) <= 2, and \|G\| at most 1/2: \|G\|^2 <= s - s^2 for s <= 1/2 and (1 - s)^2 beyond. The squared
    distance grows by at most 2 |C - C'| (E + E') + (E + E')^2, with |C - C'| <= sqrt(1/2). For up to three classes,
    |C| <= t and h <= 4/9 - t/20: the derivative of h + t/20 by x is at least x (7/36 - 1/10) + 1/20, so that again x =
    1 - y, where 9/4 of it is (1 - y)^2 (1 + 9 y^2) + 9/20 y (1 - y) <= 0.992 beyond y = 1/10 and less than 1 before;
    and 2/9 - 11/45 x y + 4 x^2 y^2 <= 0.42 for the first class. So 2 (t + t') 2 d (sqrt(t) + sqrt(t')) + 16 d^2 (t +
    t') is taken up by (t + t')/20 up to d = 1/500 (10^7 columns), and 4 n d^2 + 8 n^2 d^4 remains.

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
        self._weight = CLASS_SCORE_WEIGHT * regressor_bound(facts.bounds[0], bool(intercept))
        self._reach = regressor_reach(facts.n_features, facts.bounds[0], bool(intercept))

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients of all classes, those of the constants among them."""
        return self._n_others * self.n_columns

    @property
    def numbers(self) -> Mapping[str, float]:
        return {**super().numbers, "n_classes": self._n_others + 1}

    @property
    def n_entries(self) -> int:
        # A quarter: parts are not made too small.
        return min(_MOST_ENTRIES, len(self._pairs) * self.n_columns // 4)

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool, n_classes: float) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        width, others = n_coefficients(n_features, intercept), n_classes - 1
        square = regressor_reach(n_features, bound, intercept) ** 2
        d = row_error(width, 0.5)
        off = 2 * math.sqrt(2) * d + others * d**2
        few = _FEW_CLASSES_DIAMETER**2 + 4 * others * d**2 + 8 * others**2 * d**4
        many = _CLASS_DIAMETER**2 + 2 * math.sqrt(2) * off + 4 * off**2
        diameter = math.sqrt(few if n_classes < 4 else many)
        radius = math.sqrt(_CLASS_RADIUS**2 + off + off**2)
        # Probabilities add up to 1 but for their own roundings.
        error = CLASS_SCORE_WEIGHT * row_error(n_classes, _LONGEST_ERRORS) + 4 * (n_classes + 8) * UNIT_ROUNDOFF
        size = others * width + packed_size(others * width)
        return exact_sums(size, diameter * square, radius * square, error=error * square)

    def terms(self, tile: Tile) -> Sequence[Form]:
        factors = self._factors(tile)
        chances = self._chances(tile, factors)
        # Stored one column after another, w first if there is a constant.
        beside = np.empty((self._n_others + (1 if self._constant else 0), tile.n_records))
        beside[0] = factors
        errors = beside[-self._n_others :]
        np.equal(tile.classes, np.arange(1, self._n_others + 1)[:, np.newaxis], out=errors)
        errors -= chances.T
        errors *= factors
        # w is at most 1 and errors are at most sqrt(2) long.
        others = on_grid(beside.T, _LONGEST_ERRORS, out=beside.T)
        curvature = [Outer(rows) for rows in self._all_bent(tile, others, self._bends(chances))]
        return [Cross(others, tile.rows), Outer(others), *curvature]

    def _bends(self, chances: FloatArray) -> FloatArray:
        """Return the roots of the absolute entries of G, one pair of classes after another."""
        bends = np.empty((len(self._pairs), len(chances)))
        for bend, (one, other) in zip(bends, self._pairs, strict=True):
            second = (1 - chances[:, one]) if one == other else chances[:, other]
            np.multiply(chances[:, one], second, out=bend)
        return np.sqrt(bends, out=bends)

    def _all_bent(self, tile: Tile, others: GridRows, bends: FloatArray) -> list[GridRows]:
        """Return v times each of some weights as :meth:`_bent` does, one column of v after another."""
        steps = steps_per_unit(ROW_BITS, self.n_columns) / (self._reach / 2)
        bends *= steps
        ints = np.empty((len(bends), self.n_columns, tile.n_records))
        if self._constant:
            np.multiply(bends, self._constant * others.values[:, 0], out=ints[:, 0])
        bends /= tile.rows.steps
        features = ints[:, 1:] if self._constant else ints
        np.multiply(np.ascontiguousarray(tile.rows.ints.T), bends[:, np.newaxis], out=features)
        bent = [GridRows(rows.T, steps) for rows in ints]
        for rows in bent:
            np.rint(rows.ints, out=rows.ints)
            lost = too_long(rows.ints)
            if lost is not None:
                rows.ints[lost] = 0.0
        return bent

    @cached_property
    def _pairs(self) -> list[tuple[int, int]]:
        """Pairs of classes but the first, each pair once."""
        return [(one, other) for one in range(self._n_others) for other in range(one + 1)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        width, others = self.n_columns, self._n_others
        curvature = np.zeros((others, width, others, width))
        cross, others_sum, *products = sums
        for (one, other), lower in zip(self._pairs, products, strict=True):
            # Different classes have a negative entry of G.
            product = (np.tril(lower) + np.tril(lower, -1).T) * (1.0 if one == other else -1.0)
            curvature[one, :, other, :] = curvature[other, :, one, :] = product
        size = others * width
        score = self._weight * self._scores(cross, others_sum)
        return np.concatenate([score.ravel(), pack(curvature.reshape(size, size))])

    def _chances(self, tile: Tile, factors: FloatArray) -> FloatArray:
        """Return the probabilities of all classes but the first."""
        heights = self._predictors(tile, factors)
        np.clip(heights, -_FARTHEST, _FARTHEST, out=heights)
        largest = np.maximum(heights.max(axis=1), 0.0)
        heights -= largest[:, np.newaxis]
        np.exp(heights, out=heights)
        all_heights = np.exp(-largest)
        for other in range(self._n_others):
            all_heights += heights[:, other]
        heights /= all_heights[:, np.newaxis]
        return heights

    def unpack(self, packed: FloatArray) -> ScoresAndCurvature:
        """Return the means of scores and curvature, in their own units."""
        p = self.n_coefficients
        return ScoresAndCurvature(packed[:p] / self._weight, unpack(packed[p:], p))


@known
class ScaledRatioScores(Scaled[RatioScoreMeans]):
    """Scores of positive responses, of standardised records."""

    inner = RatioScores


@known
class ScaledClassScores(Scaled[ScoresAndCurvature]):
    """Scores and curvature of several classes, of standardised records."""

    inner = ClassScores
