"""Statistics of regressions in rounds: weighted moments, residuals, scores and curvature at public coefficients.

A row that was shortened by w (``records/clip.py``, or :class:`~dpcape.statistics.scaling.Standardised`) enters with
that weight: the whole record (b, x, a y) is multiplied by w, so that a linear model that holds for the record holds for
what enters (Mallows 1975). In the following v = w (b, x), with |v|^2 <= R^2 = B^2 + b^2, because w x is at most B long
and w at most 1. The coefficients and matrices come from the aggregator; every contribution is bounded for any of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from scipy.special import expit

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import BLOCK_ROWS, Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.record_blocks import Targets, WeightedBlocks
from dpcape.core.statistic import MeanT_co, Statistic, known
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.reduced import checked_matrix, checked_positive, rows_into_ball
from dpcape.statistics.regression_moment import intercept_weight_for, response_weight_for
from dpcape.statistics.row_products import row_products
from dpcape.statistics.scaling import Scaled

LARGEST_SQUARE = 25.0
"""Squared residuals count up to this many times the released mean square."""
SPREAD_CLIP = 100.0
"""Largest length of a contribution to the spread of residuals, per root of the number of coefficients."""
GRADIENT_CLIP = 0.1
"""Largest length of a preconditioned gradient, per root of the number of coefficients."""


class OfRegression(Statistic[WeightedBlocks[Targets], MeanT_co]):
    """Base class of statistics of weighted records with a response or two classes."""

    kinds = frozenset({"labelled"})
    units = frozenset({"record"})
    two_classes: ClassVar[bool] = True

    def __init__(
        self, facts: PublicFacts, intercept: bool, weighted: bool = True, **public: float | str | FloatArray
    ) -> None:
        # Sent only where it is False, so that messages with the default stay the same.
        super().__init__(facts, intercept=intercept, **({} if weighted is True else {"weighted": weighted}), **public)
        for name, value in (("intercept", intercept), ("weighted", weighted)):
            if not isinstance(value, bool | np.bool_):
                raise InvalidParameter(name, "be True or False", repr(value), "Leave it as it was sent.")
        self._unweighted = not weighted
        if self.two_classes and facts.classes is not None and len(facts.classes) != 2:
            remedy = "Merge classes by a public rule, or use NetworkClassifier."
            raise InvalidParameter("Records for a regression", "have two classes", len(facts.classes), remedy)
        self._constant = intercept_weight_for(facts.bounds[0]) if intercept else 0.0

    @property
    def n_columns(self) -> int:
        """Number of entries of v, the constant among them."""
        return self.facts.n_features + (1 if self._constant else 0)

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients, that of the constant among them."""
        return self.n_columns

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "bound": self.facts.bounds[0], "intercept": bool(self._constant)}

    def weighted(self, records: WeightedBlocks[Targets]) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Yield blocks of v, of responses (classes: -1 and 1), and of factors w."""
        for block, targets, weights in records.weighted_blocks(BLOCK_ROWS):
            y = np.asarray(targets if self.facts.classes is None else 2.0 * targets - 1.0, dtype=np.float64)
            if self._unweighted:
                weights = np.ones(len(block))
            v = np.column_stack([self._constant * weights, block]) if self._constant else block
            yield v, y, weights


def n_coefficients(n_features: float, intercept: bool) -> float:
    """Return the number of coefficients, that of the constant among them."""
    return n_features + (1 if intercept else 0)


def regressor_bound(bound: float, intercept: bool) -> float:
    """Return R, the largest length of v = w (b, x)."""
    return math.sqrt(bound**2 + (intercept_weight_for(bound) ** 2 if intercept else 0.0))


@known
class WeightedRegressionMoment(OfRegression[FloatArray]):
    """Mean of u u' with u = w (b, x, a y), a and b by the rules of ``regression_moment.py``.

    |u|^2 = |w x|^2 + w^2 (b^2 + a^2 y^2) <= L = B^2 + b^2 + a^2, whatever w in [0, 1] is. Two contributions are apart
    by |u|^4 + |u'|^4 - 2 (u.u')^2 <= 2 L^2, squared: the diameter sqrt(2) L of the unweighted moment. Without weights
    only the row is shortened, u = (b, w x, a y), and |u|^2 <= L all the same.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    intercept : bool
        Whether the model has a constant.
    weighted : bool
        Whether the constant and the response of a shortened row are shortened with it.
    """

    name = "weighted_regression_moment"

    def __init__(self, facts: PublicFacts, intercept: bool, weighted: bool = True) -> None:
        super().__init__(facts, intercept, weighted)
        self._response_weight = response_weight_for(facts.bounds[0])

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent for rows of ``n_features`` columns and of length at most ``bound``."""
        radius = regressor_bound(bound, intercept) ** 2 + response_weight_for(bound) ** 2
        width = n_coefficients(n_features, intercept) + 1
        return Extent(packed_size(width), math.sqrt(2) * radius, radius, rounding_in_blocks(n_features, radius))

    def total(self, records: WeightedBlocks[Targets]) -> FloatArray:
        width = self.n_coefficients + 1
        total = np.zeros((width, width))
        for v, y, weights in self.weighted(records):
            u = np.column_stack([v, self._response_weight * weights * y])
            total += u.T @ u
        return pack(total)

    def unpack(self, packed: FloatArray) -> FloatArray:
        return unpack(packed, self.n_coefficients + 1)


class AtCoefficients(OfRegression[MeanT_co]):
    """Base class of statistics at public coefficients: of a w y for a response, of log-odds for two classes."""

    def __init__(
        self,
        facts: PublicFacts,
        intercept: bool,
        coefficients: FloatArray,
        weighted: bool = True,
        **public: float | str | FloatArray,
    ) -> None:
        super().__init__(facts, intercept, weighted, coefficients=coefficients, **public)
        self._coefficients = checked_matrix("coefficients", coefficients, (self.n_coefficients,))
        self._response_weight = response_weight_for(facts.bounds[0])

    def _residuals(self, v: FloatArray, y: FloatArray, weights: FloatArray) -> FloatArray:
        """Return weighted residuals; what cannot be computed for these coefficients counts as zero."""
        with np.errstate(all="ignore"):
            if self.facts.classes is None:
                residuals = self._response_weight * weights * y - row_products(v, self._coefficients)
            else:
                residuals = weights * ((y + 1) / 2 - self.probabilities(v, weights))
        return np.where(np.isfinite(residuals), residuals, 0.0)

    def probabilities(self, v: FloatArray, weights: FloatArray) -> FloatArray:
        """Return probabilities of the second class for the rows that v was shortened from."""
        with np.errstate(all="ignore"):
            odds = row_products(v, self._coefficients) / weights
        probabilities: FloatArray = expit(np.where(np.isnan(odds), 0.0, odds))
        return probabilities


@known
class ResidualSpread(AtCoefficients[FloatArray]):
    """Mean of min(e^2 / square, 25) (h_j.v)^2 for each coefficient j, e the residual at public coefficients.

    It tells how the sampling variance of each coefficient compares with that of independent errors. The vector of a
    record has no negative entry and is clipped to length C = 100 sqrt(p), p coefficients: the diameter is
    sqrt(2) C, for any coefficients, directions and square.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    intercept : bool
        Whether the model has a constant.
    coefficients : (p,) array
        Coefficients of the released fit.
    directions : (p, p) array
        Row j is h_j.
    square : float
        Released mean squared residual, positive.
    """

    name = "residual_spread"

    def __init__(
        self, facts: PublicFacts, intercept: bool, coefficients: FloatArray, directions: FloatArray, square: float
    ) -> None:
        super().__init__(facts, intercept, coefficients, directions=directions, square=square)
        self._directions = checked_matrix("directions", directions, (self.n_coefficients, self.n_coefficients))
        self._square = checked_positive("square", square)

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent; the bound of rows does not matter."""
        p = n_coefficients(n_features, intercept)
        clip = SPREAD_CLIP * math.sqrt(p)
        return Extent(p, math.sqrt(2) * clip, clip, rounding_in_blocks(n_features, clip))

    def total(self, records: WeightedBlocks[Targets]) -> FloatArray:
        p = self.n_coefficients
        result = np.zeros(p)
        for v, y, weights in self.weighted(records):
            with np.errstate(all="ignore"):
                squares = np.minimum(self._residuals(v, y, weights) ** 2 / self._square, LARGEST_SQUARE)
                spread = squares[:, np.newaxis] * row_products(v, self._directions.T) ** 2
            rows_into_ball(spread, SPREAD_CLIP * math.sqrt(p))
            result += spread.sum(axis=0)
        return result


@known
class ResidualGradient(AtCoefficients[FloatArray]):
    """Mean of e P v, each clipped to c = 0.1 sqrt(p): the gradient of a loss at public coefficients, preconditioned.

    e is the weighted residual of the squared loss for a response and of the logistic loss for two classes, P a public
    matrix. The diameter is 2 c, as of any two vectors of length at most c, whatever P and the coefficients are.

    Parameters
    ----------
    facts : PublicFacts
        Public facts of the records.
    intercept : bool
        Whether the model has a constant.
    coefficients : (p,) array
        Where the gradient is taken.
    preconditioner : (p, p) array
        P.
    weighted : bool
        Whether the constant and the response of a shortened row are shortened with it.
    """

    name = "residual_gradient"

    def __init__(
        self,
        facts: PublicFacts,
        intercept: bool,
        coefficients: FloatArray,
        preconditioner: FloatArray,
        weighted: bool = True,
    ) -> None:
        super().__init__(facts, intercept, coefficients, weighted, preconditioner=preconditioner)
        p = self.n_coefficients
        self._preconditioner = checked_matrix("preconditioner", preconditioner, (p, p))

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent; the bound of rows does not matter."""
        p = n_coefficients(n_features, intercept)
        clip = GRADIENT_CLIP * math.sqrt(p)
        return Extent(p, 2 * clip, clip, rounding_in_blocks(n_features, clip))

    def total(self, records: WeightedBlocks[Targets]) -> FloatArray:
        result = np.zeros(self.n_coefficients)
        for v, y, weights in self.weighted(records):
            with np.errstate(all="ignore"):
                gradients = self._residuals(v, y, weights)[:, np.newaxis] * row_products(v, self._preconditioner.T)
            rows_into_ball(gradients, GRADIENT_CLIP * math.sqrt(self.n_coefficients))
            result += gradients.sum(axis=0)
        return result


@known
class ScaledWeightedRegressionMoment(Scaled[FloatArray]):
    """Mean of u u' of standardised records."""

    inner = WeightedRegressionMoment


@known
class ScaledResidualSpread(Scaled[FloatArray]):
    """Spread of residuals of standardised records."""

    inner = ResidualSpread


@known
class ScaledResidualGradient(Scaled[FloatArray]):
    """Clipped gradients of standardised records."""

    inner = ResidualGradient
