"""Coefficients of quadratic losses: one matrix for a linear or logistic regression.

The functional mechanism releases the coefficients of the loss polynomial. For the squared loss, and for the
logistic loss to second order, they are the entries of the mean of u u' with u = (b, x, a y): one matrix, one
joint sensitivity. The dissertation spends the whole budget on each degree (chapter 8), so its claimed epsilon is too
small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Cross, Form, Outer
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import GridRows, on_grid, reach_on_grid
from dpcape.core.kernel import Summed
from dpcape.core.statistic import known
from dpcape.core.tiles import Tile
from dpcape.statistics.packing import pack, packed_size, unpack

LARGEST_ENTRY = 1 + 2.0**-20
"""Largest entry on the grid of numbers in [-1, 1] that stand beside rows (:func:`beside`)."""
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
class RegressionMoment(Summed[RegressionBlocks]):
    """Mean of u u' with u = (b, x, a y), packed: features, response and intercept in one release.

    Write v = (x, a y), |v|^2 <= R^2 = B^2 + a^2. Two contributions are apart by (b^2 + |v|^2)^2 + (b^2 +
    |v'|^2)^2 - 2 (b^2 + v.v')^2, squared. Longer v never lowers it, and at full length the last term vanishes
    at v.v' = -b^2 if b <= R, else is least at v.v' = -R^2. Hence the diameter sqrt(2) (R^2 + b^2), or 2
    sqrt(2) b R for b > R. It grows with B and a, which are taken as x and a y have them on the grid; the constant has
    no rounding, since it is the same number for all records.

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
        reach = math.hypot(reach_on_grid(bound, n_features), a * LARGEST_ENTRY)
        width = (1 if intercept else 0) + n_features + 1
        diameter = 2 * math.sqrt(2) * b * reach if b > reach else math.sqrt(2) * (reach**2 + b**2)
        radius = reach**2 + b**2
        return exact_sums(packed_size(width), diameter, radius)

    @property
    def numbers(self) -> Mapping[str, float]:
        return {
            "n_features": self.facts.n_features,
            "bound": self.facts.bounds[0],
            "intercept": bool(self.intercept_weight),
            "response_weight": self.response_weight,
            "intercept_weight": self.intercept_weight,
        }

    def terms(self, tile: Tile) -> Sequence[Form]:
        y = tile.targets if self.facts.classes is None else 2.0 * tile.targets - 1.0
        others = beside(np.ones(tile.n_records), y) if self.intercept_weight else beside(y)
        return [Outer(tile.rows), Cross(others, tile.rows), Outer(others)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        moment, cross, others = sums
        weights = np.array([self.intercept_weight / _ONE, self.response_weight][-len(others) :])
        cross, others = weights[:, np.newaxis] * cross, np.outer(weights, weights) * others
        return pack(joined_moment(moment, cross, others, self._first))

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


def beside(*columns: FloatArray) -> GridRows:
    """Return numbers in [-1, 1], up to three per record, on a grid of their own; none is larger than LARGEST_ENTRY.

    K of them are at most sqrt(K) long together, so that half a step is less than sqrt(K)/2 2^-20 (1 + 2^-18).
    """
    # Stored one column after another.
    numbers = np.stack(columns).T
    return on_grid(numbers, math.sqrt(len(columns)), out=numbers)


_ONE = float(beside(np.ones(1), np.zeros(1)).values[0, 0])
"""What the number 1 is on the grid beside a response."""


def joined_moment(rows: FloatArray, cross: FloatArray, others: FloatArray, n_before: int) -> FloatArray:
    """Return the upper triangle of the moment of (o, x, o'), o the first ``n_before`` of the other numbers of a record.

    Parameters
    ----------
    rows : (D, D) array
        Sum of x x', the lower triangle.
    cross : (K, D) array
        Sum of products of the other numbers with x.
    others : (K, K) array
        Sum of products of the other numbers, the lower triangle.
    n_before : int
        How many of them stand before x.
    """
    width, n_others = len(rows), len(others)
    at = [number if number < n_before else number + width for number in range(n_others)]
    inside = slice(n_before, n_before + width)
    matrix = np.zeros((width + n_others, width + n_others))
    matrix[inside, inside] = rows.T
    for one, row in enumerate(at):
        matrix[row, inside] = matrix[inside, row] = cross[one]
        for other in range(one, n_others):
            matrix[row, at[other]] = others[other, one]
    return matrix


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
