"""Statistics of regressions in rounds: weighted moments, residuals, scores and curvature at public coefficients.

A row that was shortened by w (``records/clip.py``, or :func:`~dpcape.statistics.scaling.standardised`) enters with
that weight: the whole record (b, x, a y) is multiplied by w, so that a linear model that holds for the record holds for
what enters (Mallows 1975). In the following v = w (b, x), with |v|^2 <= R^2 = B^2 + b^2, because w x is at most B long
and w at most 1. The coefficients and matrices come from the aggregator; every contribution is bounded for any of them.

w x is on its grid already, and w (as other numbers of a record) on one beside it, so that products of the two are exact
and R is the length of v on the grid (:func:`regressor_reach`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from scipy.special import expit

from dpcape.core.arrays import FloatArray
from dpcape.core.contributions import Cross, Form, Outer, Sum
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, exact_sums
from dpcape.core.facts import PublicFacts
from dpcape.core.grid import (
    ROW_BITS,
    GridRows,
    PublicColumns,
    into_balls,
    reach_on_grid,
    steps_per_unit,
    too_long,
)
from dpcape.core.kernel import Summed
from dpcape.core.statistic import MeanT_co, known
from dpcape.core.tiles import Tile
from dpcape.statistics.packing import pack, packed_size, unpack
from dpcape.statistics.reduced import checked_matrix, checked_positive
from dpcape.statistics.regression_moment import (
    LARGEST_ENTRY,
    beside,
    intercept_weight_for,
    joined_moment,
    response_weight_for,
)
from dpcape.statistics.scaling import Scaled

LARGEST_SQUARE = 25.0
"""Squared residuals count up to this many times the released mean square."""
SPREAD_CLIP = 100.0
"""Largest length of a contribution to the spread of residuals, per root of the number of coefficients."""
GRADIENT_CLIP = 0.1
"""Largest length of a preconditioned gradient, per root of the number of coefficients."""


class OfRegression(Summed[MeanT_co]):
    """Base class of statistics of weighted records with a response or two classes."""

    with_factors = True
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

    def _factors(self, tile: Tile) -> FloatArray:
        """Return w."""
        return np.ones(tile.n_records) if self._unweighted else tile.factors

    def _responses(self, tile: Tile) -> FloatArray:
        """Return responses (classes: -1 and 1)."""
        return tile.targets if self.facts.classes is None else 2.0 * tile.targets - 1.0

    def _beside(self, factors: FloatArray, *columns: FloatArray) -> GridRows:
        """Return w, if there is a constant, and other numbers in [-1, 1] on their grid."""
        return beside(factors, *columns) if self._constant else beside(*columns)


def n_coefficients(n_features: float, intercept: bool) -> float:
    """Return the number of coefficients, that of the constant among them."""
    return n_features + (1 if intercept else 0)


def regressor_bound(bound: float, intercept: bool) -> float:
    """Return the largest length of v = w (b, x) before it is put on the grid."""
    return math.sqrt(bound**2 + (intercept_weight_for(bound) ** 2 if intercept else 0.0))


def regressor_reach(n_features: float, bound: float, intercept: bool) -> float:
    """Return R, the largest length of v on the grid: at least (1 + 2^-20) times :func:`regressor_bound`."""
    constant = intercept_weight_for(bound) * LARGEST_ENTRY if intercept else 0.0
    return math.hypot(reach_on_grid(bound, n_features), constant)


@known
class WeightedRegressionMoment(OfRegression[FloatArray]):
    """Mean of u u' with u = w (b, x, a y), a and b by the rules of ``regression_moment.py``.

    |u|^2 = |w x|^2 + w^2 (b^2 + a^2 y^2) <= L = B^2 + b^2 + a^2, whatever w in [0, 1] is. Two contributions are apart
    by |u|^4 + |u'|^4 - 2 (u.u')^2 <= 2 L^2, squared: the diameter sqrt(2) L of the unweighted moment. Without weights
    only the row is shortened, u = (b, w x, a y), and |u|^2 <= L all the same. B, b and a are those of the grid.

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
        response = response_weight_for(bound) * LARGEST_ENTRY
        radius = regressor_reach(n_features, bound, intercept) ** 2 + response**2
        width = n_coefficients(n_features, intercept) + 1
        return exact_sums(packed_size(width), math.sqrt(2) * radius, radius)

    def terms(self, tile: Tile) -> Sequence[Form]:
        factors = self._factors(tile)
        others = self._beside(factors, factors * self._responses(tile))
        return [Outer(tile.rows), Cross(others, tile.rows), Outer(others)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        moment, cross, others = sums
        weights = np.array([self._constant, self._response_weight][-len(others) :])
        cross, others = weights[:, np.newaxis] * cross, np.outer(weights, weights) * others
        return pack(joined_moment(moment, cross, others, len(others) - 1))

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
        blocks = self._coefficients.reshape(-1, self.n_columns)
        first = 1 if self._constant else 0
        self._constants, self._columns = blocks[:, :first].T, PublicColumns(blocks[:, first:].T)
        self._response_weight = response_weight_for(facts.bounds[0])

    def _products(self, tile: Tile, factors: FloatArray) -> FloatArray:
        """Return products of the coefficients with v, (N, K); not finite where they are too large."""
        # One column after another: there are few.
        found = tile.rows.products_by_column(self._columns).T
        if self._constant:
            found += (self._constants.T * (self._constant * factors)).T
        return found

    def _predictors(self, tile: Tile, factors: FloatArray) -> FloatArray:
        """Return linear predictors of the records that v was shortened from, (N, K); zero where there is none."""
        predictors = self._products(tile, factors)
        predictors /= factors[:, np.newaxis]
        np.copyto(predictors, 0.0, where=np.isnan(predictors))
        return predictors

    def _residuals(self, tile: Tile, factors: FloatArray) -> FloatArray:
        """Return weighted residuals; what cannot be computed for these coefficients counts as zero."""
        y = self._responses(tile)
        if self.facts.classes is None:
            residuals = self._response_weight * factors * y - self._products(tile, factors)[:, 0]
        else:
            residuals = factors * ((y + 1) / 2 - self._probabilities(tile, factors))
        return np.where(np.isfinite(residuals), residuals, 0.0)

    def _probabilities(self, tile: Tile, factors: FloatArray) -> FloatArray:
        """Return probabilities of the second class for the rows that v was shortened from."""
        probabilities: FloatArray = expit(self._predictors(tile, factors)[:, 0])
        return probabilities

    def _regressors(self, tile: Tile, factors: FloatArray) -> GridRows:
        """Return v on the grid of the rows.

        It has at most 2^20 sqrt(1 + 1/4) + 1 steps, so that its products with public columns remain within 2^53.
        """
        if not self._constant:
            return tile.rows
        ints = np.empty((tile.n_records, self.n_columns))
        ints[:, 0] = np.rint(factors * (self._constant * tile.rows.steps))
        ints[:, 1:] = tile.rows.ints
        return GridRows(ints, tile.rows.steps)

    def _squared_lengths(self, tile: Tile, others: GridRows) -> FloatArray:
        """Return |v|^2, with w in the first column of what stands beside the rows."""
        squares = tile.rows.squared_lengths()
        return squares + (self._constant * others.values[:, 0]) ** 2 if self._constant else squares

    def _bent(self, tile: Tile, others: GridRows, weights: FloatArray, reach: float) -> GridRows:
        """Return v times weights on a grid of its own, if it is at most ``reach`` long; if it is longer, zero."""
        steps = steps_per_unit(ROW_BITS, self.n_columns) / reach
        ints, growth = np.empty((tile.n_records, self.n_columns)), weights * steps
        if self._constant:
            np.multiply(growth, self._constant * others.values[:, 0], out=ints[:, 0])
        features = ints[:, 1:] if self._constant else ints
        np.multiply(tile.rows.ints, (growth / tile.rows.steps)[:, np.newaxis], out=features)
        np.rint(ints, out=ints)
        lost = too_long(ints)
        if lost is not None:
            ints[lost] = 0.0
        return GridRows(ints, steps)

    def _scores(self, cross: FloatArray, others: FloatArray) -> FloatArray:
        """Return sums of e v, (K, columns of v), from those of products of (w, e) with rows and with themselves."""
        if not self._constant:
            return cross
        return np.column_stack([self._constant * others[1:, 0], cross[1:]])


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
        checked = checked_matrix("directions", directions, (self.n_coefficients, self.n_coefficients))
        self._directions = PublicColumns(checked.T)
        self._square = checked_positive("square", square)

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent; the bound of rows does not matter."""
        p = n_coefficients(n_features, intercept)
        clip = reach_on_grid(SPREAD_CLIP * math.sqrt(p), p)
        return exact_sums(p, math.sqrt(2) * clip, clip)

    def terms(self, tile: Tile) -> Sequence[Form]:
        factors = self._factors(tile)
        v = self._regressors(tile, factors)
        residuals = self._residuals(tile, factors)
        squares = np.minimum(residuals**2 / self._square, LARGEST_SQUARE)
        spread = v.products(self._directions)
        spread *= spread
        spread *= squares[:, np.newaxis]
        return [_clipped(spread, SPREAD_CLIP)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return sums[0]


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
        self._preconditioner = PublicColumns(checked_matrix("preconditioner", preconditioner, (p, p)).T)

    @staticmethod
    def extent(*, n_features: float, bound: float, intercept: bool) -> Extent:
        """Return the extent; the bound of rows does not matter."""
        p = n_coefficients(n_features, intercept)
        clip = reach_on_grid(GRADIENT_CLIP * math.sqrt(p), p)
        return exact_sums(p, 2 * clip, clip)

    def terms(self, tile: Tile) -> Sequence[Form]:
        factors = self._factors(tile)
        v = self._regressors(tile, factors)
        gradients = v.products(self._preconditioner)
        gradients *= self._residuals(tile, factors)[:, np.newaxis]
        return [_clipped(gradients, GRADIENT_CLIP)]

    def packed(self, sums: Sequence[FloatArray]) -> FloatArray:
        return sums[0]


def _clipped(vectors: FloatArray, clip: float) -> Sum:
    """Return the sum of vectors clipped to this length per root of the number of their entries."""
    width = vectors.shape[1]
    return Sum(into_balls(vectors, (width,), (clip * math.sqrt(width),))[0])


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
