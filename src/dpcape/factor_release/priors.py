"""Priors on the loadings' column precisions: independent gammas, or the multiplicative gamma process.

Both classes do the same few things: give the column precisions tau, draw their parameters given the column
sums, make the exact scale move, and draw the parameter of a newly added column.

Scale move. The likelihood is unchanged under lambda_h -> c lambda_h, eta_h -> eta_h / c, but Gibbs steps
move along this direction only by about 1/sqrt(p) a sweep, because the loadings' prior pins their scale to
tau_h. We let tau_h go along (tau_h -> tau_h / c^2), so that phi tau lambda^2, and with it the prior of the
loadings together with the Jacobian, is unchanged. What is left is the prior of the factors and of tau. With
u = c^2 and the invariant measure du/u it is an inverse-gamma density, so the move is an exact draw and
moves by about 1/sqrt(n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray


@dataclass(frozen=True)
class IndependentGamma:
    """Column precisions tau_h ~ Gamma(shape, 1), independent: equation (4) as printed."""

    shape: float = 2.1

    name = "independent"

    def precisions(self, increments: FloatArray) -> FloatArray:
        """Return tau, which here is the parameter itself."""
        return increments

    def draw(
        self, increments: FloatArray, column_sums: FloatArray, n_features: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw tau_h ~ Gamma(shape + p/2, 1 + sum_j phi lambda^2 / 2)."""
        return rng.standard_gamma(self.shape + n_features / 2, increments.shape) / (1.0 + 0.5 * column_sums)

    def scale_move(
        self, increments: FloatArray, factor_squares: FloatArray, n: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Draw u_h = c_h^2 for each column; return c and the moved parameter."""
        u = (increments + 0.5 * factor_squares) / rng.standard_gamma(self.shape + n / 2, increments.shape)
        return np.sqrt(u), increments / u

    def from_prior(self, first: bool, rng: np.random.Generator) -> float:
        """Draw the parameter of a new column."""
        return float(rng.standard_gamma(self.shape))

    def from_precisions(self, precisions: FloatArray) -> FloatArray:
        """Return the parameter that has these column precisions."""
        return precisions


@dataclass(frozen=True)
class MultiplicativeGamma:
    """Column precisions tau_h = delta_1 ... delta_h, increasingly large: [BD11] equation (2).

    delta_1 ~ Gamma(first_shape, 1) and delta_h ~ Gamma(later_shape, 1) for h > 1. A mean of delta above one
    makes later columns shrink; later_shape above two makes their prior variance finite and decreasing
    (Durante 2017).
    """

    first_shape: float = 2.1
    later_shape: float = 3.1

    name = "multiplicative"

    def _shapes(self, n_factors: int) -> FloatArray:
        shapes = np.full(n_factors, self.later_shape)
        shapes[0] = self.first_shape
        return shapes

    def precisions(self, increments: FloatArray) -> FloatArray:
        """Return tau, the cumulative products."""
        return np.asarray(np.cumprod(increments))

    def draw(
        self, increments: FloatArray, column_sums: FloatArray, n_features: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw each delta_h in turn ([BD11] section 3.1 step 5)."""
        delta, n_factors = increments.copy(), increments.size
        shapes = self._shapes(n_factors) + 0.5 * n_features * np.arange(n_factors, 0, -1)
        for h in range(n_factors):
            without = np.cumprod(delta)[h:] / delta[h]
            delta[h] = rng.standard_gamma(shapes[h]) / (1.0 + 0.5 * float(without @ column_sums[h:]))
        return delta

    def scale_move(
        self, increments: FloatArray, factor_squares: FloatArray, n: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Scale column h and all later ones by c_h, with delta_h / c_h^2, for h = 1..K in turn.

        Dividing delta_h alone divides tau of all later columns, so they move along; the density of u =
        c_h^2 is inverse gamma with shape a_h + n (K - h + 1) / 2 and rate delta_h + sum of the moved
        factors' squares / 2.
        """
        delta, squares, n_factors = increments.copy(), factor_squares.copy(), increments.size
        shapes = self._shapes(n_factors) + 0.5 * n * np.arange(n_factors, 0, -1)
        scale = np.ones(n_factors)
        for h in range(n_factors):
            u = (delta[h] + 0.5 * float(squares[h:].sum())) / rng.standard_gamma(shapes[h])
            delta[h] /= u
            squares[h:] /= u
            scale[h:] *= np.sqrt(u)
        return scale, delta

    def from_prior(self, first: bool, rng: np.random.Generator) -> float:
        """Draw the parameter of a new column."""
        return float(rng.standard_gamma(self.first_shape if first else self.later_shape))

    def from_precisions(self, precisions: FloatArray) -> FloatArray:
        """Return the increments whose cumulative products are these column precisions."""
        return np.asarray(precisions / np.concatenate(([1.0], precisions[:-1])))


Prior = IndependentGamma | MultiplicativeGamma
