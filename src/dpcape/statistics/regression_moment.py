"""Coefficients of quadratic losses: one matrix for a linear or logistic regression.

The functional mechanism releases the coefficients of the loss polynomial. For the squared loss, and for the
logistic loss to second order, they are the entries of the mean of u u' with u = (b, x, a y): one matrix, one
joint sensitivity. The dissertation spends the whole budget on each degree (chapter 8), so its claimed epsilon is too
small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import BLOCK_ROWS, Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import LabelledBlocks, Targets
from dpcape.core.statistic import Statistic, known
from dpcape.statistics.outer_products import OuterProducts
from dpcape.statistics.packing import pack, packed_size, unpack

_LARGEST_WEIGHT = 1e50


class RegressionBlocks(NamedTuple):
    """Means over records, with responses y in [-1, 1] (classes: -1 and 1).

    Attributes
    ----------
    moment : (D, D) array
        Mean of x x'.
    cross : (D,) array
        Mean of y x.
    mean : (D,) array
        Mean of x; zeros without an intercept.
    response_mean : float
        Mean of y; zero without an intercept.
    response_square : float
        Mean of y y.
    """

    moment: FloatArray
    cross: FloatArray
    mean: FloatArray
    response_mean: float
    response_square: float


@known
class RegressionMoment(Statistic[LabelledBlocks[Targets], RegressionBlocks]):
    """Mean of u u' with u = (b, x, a y), packed: features, response and intercept in one release.

    Write v = (x, a y), |v|^2 <= R^2 = B^2 + a^2. Two contributions are apart by (b^2 + |v|^2)^2 + (b^2 +
    |v'|^2)^2 - 2 (b^2 + v.v')^2, squared. Longer v never lowers it, and at full length the last term vanishes
    at v.v' = -b^2 if b <= R, else is least at v.v' = -R^2. Hence the diameter sqrt(2) (R^2 + b^2), or 2
    sqrt(2) b R for b > R.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    response_weight : float
        a, positive; a larger value gives the response less noise and the features more.
    intercept_weight : float
        b; 0 for a model without an intercept.
    """

    name = "regression_moment"
    kinds = frozenset({"labelled"})
    units = frozenset({"record"})

    def __init__(self, facts: PublicFacts, response_weight: float, intercept_weight: float) -> None:
        super().__init__(facts, response_weight=response_weight, intercept_weight=intercept_weight)
        self.response_weight = _checked_weight("response_weight", response_weight)
        self.intercept_weight = 0.0 if intercept_weight == 0 else _checked_weight("intercept_weight", intercept_weight)
        if facts.classes is not None and len(facts.classes) != 2:
            remedy = "Merge classes by a public rule, or use NetworkClassifier."
            raise InvalidParameter("Records for a regression", "have two classes", len(facts.classes), remedy)

    @property
    def _first(self) -> int:
        """Position of the first feature in u."""
        return 1 if self.intercept_weight else 0

    @property
    def _width(self) -> int:
        return self._first + self.facts.n_features + 1

    @staticmethod
    def extent(
        *,
        n_features: float,
        bound: float,
        intercept: bool,
        response_weight: float | None = None,
        intercept_weight: float | None = None,
    ) -> Extent:
        """Return the extent; weights that are None follow the public rule.

        Parameters
        ----------
        n_features : float
            Columns of a row.
        bound : float
            Largest length of a row.
        intercept : bool
            Whether the model has an intercept.
        response_weight, intercept_weight : float or None
            a and b; None for :func:`response_weight_for` and :func:`intercept_weight_for`.
        """
        a = response_weight_for(bound) if response_weight is None else response_weight
        b = (intercept_weight_for(bound) if intercept_weight is None else intercept_weight) if intercept else 0.0
        reach = math.hypot(bound, a)
        width = (1 if intercept else 0) + n_features + 1
        diameter = 2 * math.sqrt(2) * b * reach if b > reach else math.sqrt(2) * (reach**2 + b**2)
        radius = reach**2 + b**2
        return Extent(packed_size(width), diameter, radius, rounding_in_blocks(n_features, radius))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "n_features": self.facts.n_features,
            "bound": self.facts.bounds[0],
            "intercept": bool(self.intercept_weight),
            "response_weight": self.response_weight,
            "intercept_weight": self.intercept_weight,
        }

    def total(self, records: LabelledBlocks[Targets]) -> FloatArray:
        width = self.facts.n_features
        products, sums = OuterProducts(width), np.zeros((2, width))
        # Powers of the response: number of records, sum, sum of squares.
        powers = np.zeros(3)
        for block, targets in records.blocks(BLOCK_ROWS):
            y = np.asarray(targets if self.facts.classes is None else 2.0 * targets - 1.0, dtype=np.float64)
            products.add(block)
            # Two products with a vector: cheaper than one with two rows, or than summing columns.
            sums[0] += np.ones_like(y) @ block
            sums[1] += y @ block
            powers += np.array([len(y), float(y.sum()), float(y @ y)])
        means = RegressionBlocks(products.upper, sums[1], sums[0], float(powers[1]), float(powers[2]))
        return pack(self._matrix(means, int(powers[0])))

    def _matrix(self, sums: RegressionBlocks, n_records: int) -> FloatArray:
        """Return the sums as entries of u u' (upper triangle)."""
        first, a, b = self._first, self.response_weight, self.intercept_weight
        matrix = np.zeros((self._width, self._width))
        matrix[first:-1, first:-1] = sums.moment
        matrix[first:-1, -1] = a * sums.cross
        matrix[-1, -1] = a * a * sums.response_square
        if b:
            matrix[0, 0] = b * b * n_records
            matrix[0, first:-1] = b * sums.mean
            matrix[0, -1] = a * b * sums.response_mean
        return matrix

    def unpack(self, packed: FloatArray) -> RegressionBlocks:
        """Return the means in their own units; constants are returned without noise."""
        matrix = unpack(packed, self._width)
        first, a, b = self._first, self.response_weight, self.intercept_weight
        width = self.facts.n_features
        return RegressionBlocks(
            moment=matrix[first:-1, first:-1],
            cross=matrix[first:-1, -1] / a,
            mean=matrix[0, first:-1] / b if b else np.zeros(width),
            response_mean=float(matrix[0, -1]) / (a * b) if b else 0.0,
            response_square=1.0 if self.facts.classes is not None else float(matrix[-1, -1]) / a**2,
        )


def response_weight_for(bound: float) -> float:
    """Return the weight a of the response, a^2 = B^2/2, by a public rule.

    The noise in the normal equations has variance proportional to (B^2 + a^2 + b^2)^2 (|w|^2 + 1/a^2 +
    (intercept)^2/b^2). For the largest coefficients the bounds suggest, |w| B = 1 and an intercept of one
    half, it is least near a^2 = B^2/2 and b^2 = B^2/4, and it is flat there.
    """
    return bound * math.sqrt(0.5)


def intercept_weight_for(bound: float) -> float:
    """Return the weight b of the constant, b^2 = B^2/4, by the rule of :func:`response_weight_for`."""
    return bound / 2


def _checked_weight(subject: str, weight: float) -> float:
    if isinstance(weight, bool) or not isinstance(weight, int | float | np.floating):
        raise InvalidParameter(subject, "be a number", repr(weight), "Leave it out for the default.")
    if not 1 / _LARGEST_WEIGHT <= weight <= _LARGEST_WEIGHT:
        must = f"be between {1 / _LARGEST_WEIGHT:g} and {_LARGEST_WEIGHT:g}"
        raise InvalidParameter(subject, must, repr(weight), "Leave it out for the default.")
    return float(weight)


def regression_moment(facts: PublicFacts, *, intercept: bool, response_weight: float | None = None) -> RegressionMoment:
    """Mean of u u', u = (b, x, a y), weighted by a public rule (:func:`response_weight_for`)."""
    bound = facts.bounds[0]
    return RegressionMoment(
        facts,
        response_weight=response_weight_for(bound) if response_weight is None else response_weight,
        intercept_weight=intercept_weight_for(bound) if intercept else 0.0,
    )
