"""Confidence sets for coefficients of noisy normal equations, which stay true however large the noise is.

A release is the mean of u u', u = (v, y), plus symmetric noise E: standard deviation s on the diagonal, s / sqrt(2) off
it. A is its block of the regressors v, c that of v with the response, S the last entry. At the true coefficients beta
the vector r(beta) = c - A beta has mean zero and covariance s^2/2 ((1 + |beta|^2) I + beta beta') + sampling: exactly
normal in its first part. A set of all beta with small r (Anderson and Rubin 1949) therefore covers also where A cannot
be told from a singular matrix; it is then unbounded.

Noise in A is symmetric, so it also biases the inverse: the mean of E M E is s^2/2 (tr(M) I + M). A is shifted by the
fixed point of that equation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpcape.core.arrays import FloatArray

# The sampling part of the covariance is doubled where its shape is not released: a stated assumption.
ASSUMED_SPREAD = 2.0
_ONE_SIDED = 1.645
_STEPS = 400
_GRID = 97


@dataclass(frozen=True)
class NormalEquations:
    """Noisy normal equations in the units of a release.

    Attributes
    ----------
    moment : (p, p) array
        A, the second moment of the regressors.
    cross : (p,) array
        c, the moment of regressors and response.
    square : float
        S, the mean squared response.
    scale : float
        s, the standard deviation of the noise on the diagonal.
    share : float
        One over the number of records, or its counterpart for weighted sites.
    variance : float or None
        Factor of A in the sampling covariance of c, if it is known; None to bound it by the squared response.
    """

    moment: FloatArray
    cross: FloatArray
    square: float
    scale: float
    share: float
    variance: float | None = None

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """Eigenvalues and eigenvectors of A."""
        values, vectors = np.linalg.eigh(self.moment)
        return values, vectors

    @cached_property
    def moved(self) -> FloatArray | None:
        """Eigenvalues plus the shift for the bias of the inverse; None if there is no positive fixed point."""
        return shifted(self.spectrum[0], self.scale)

    @cached_property
    def ridge(self) -> FloatArray:
        """Coefficients shrunk by a public penalty, about the operator norm of the noise."""
        return self.shrunken(self.scale * math.sqrt(2 * len(self.cross)))

    def shrunken(self, penalty: float) -> FloatArray:
        """Return the ridge coefficients for a penalty; directions that noise made negative count as zero."""
        values, vectors = self.spectrum
        floor = max(penalty, 1e-12 * float(np.abs(values).max(initial=0.0)), 1e-300)
        return vectors @ ((vectors.T @ self.cross) / (np.maximum(values, 0.0) + floor))

    @cached_property
    def residual(self) -> float:
        """Upper bound on the mean squared residual of the best coefficients, at 95%.

        Any coefficients bound the least residual from above; noise adds at most its operator norm.
        """
        if self.variance is not None:
            return self.variance
        beta = self.ridge
        length = 1 + float(beta @ beta)
        of_ridge = self.left_by(beta) + self.scale * math.sqrt(2 * (len(beta) + 1)) * length
        return max(min(self.square + _ONE_SIDED * self.scale, of_ridge), 0.0)

    def left_by(self, coefficients: FloatArray) -> float:
        """Return the released mean squared residual of given coefficients; noise may make it negative."""
        explained = 2 * float(coefficients @ self.cross) - float(coefficients @ self.moment @ coefficients)
        return self.square - explained


@dataclass(frozen=True)
class EffectSets:
    """Intervals of single coefficients, and the coefficients at which r vanishes after the shift.

    Attributes
    ----------
    coefficients : (p,) array
        Solution of the shifted equations; ridge coefficients where there is none.
    low, high : (p,) array, or (m, p) for m quantiles
        Ends of the intervals; infinite where nothing can be said.
    noise : (p,) array
        Standard deviations of the noise of privacy in the coefficients, to first order; NaN where the set is unbounded
        without a largest length, so that no such figure means anything.
    """

    coefficients: FloatArray
    low: FloatArray
    high: FloatArray
    noise: FloatArray


def shifted(values: FloatArray, scale: float) -> FloatArray | None:
    """Return eigenvalues plus the shift for the bias of the inverse; None if there is no positive fixed point."""
    if scale == 0:
        return values
    shift = np.zeros_like(values)
    for _ in range(_STEPS):
        moved = values + shift
        if moved.min() <= 0:
            return None
        inverse = 1 / moved
        wanted = scale**2 / 2 * (inverse.sum() + inverse)
        if np.abs(wanted - shift).max() <= 1e-10 * np.abs(moved).max():
            return moved
        shift = (shift + wanted) / 2
    return None


def effect_sets(
    equations: NormalEquations,
    *,
    quantile: float | FloatArray,
    spread: FloatArray | float = ASSUMED_SPREAD,
    largest: float = math.inf,
    direction: FloatArray | None = None,
) -> EffectSets:
    """Return the confidence interval of every coefficient.

    The covariance of r is at most max(1 + 2 |beta|^2, q) Q for a number q and Q = s^2/2 + spread * sigma^2 W share / q
    in the eigenbasis of A, whose shifted eigenvalues are W. Each bound gives an ellipsoid; the interval is the hull of
    the two projections, cut at ``largest`` if that is given.

    Parameters
    ----------
    equations : NormalEquations
        The released equations.
    quantile : float or (m,) array
        Two-sided normal quantile, 1.96 for 95%; or several.
    spread : (p,) array or float
        Factor of the sampling part for each coefficient.
    largest : float
        Assumed largest length of all coefficients together; infinite if nothing is assumed.
    direction : (p,) array or None
        A further combination of the coefficients, whose interval comes last; none by default.
    """
    values, vectors = equations.spectrum
    turned = vectors.T @ equations.cross
    moved = equations.moved
    known = moved is not None and float(np.min(moved)) > 1e-13 * float(np.max(np.abs(values)))
    used = np.maximum(values, 0.0) if moved is None else moved
    solved = vectors @ (turned / used) if known else equations.ridge
    ridge = equations.ridge
    q = 1 + 2 * min(float(solved @ solved) if known else math.inf, 4 * float(ridge @ ridge) + 1)
    spreads = np.broadcast_to(np.asarray(spread, dtype=np.float64), turned.shape)
    wanted = np.eye(len(turned)) if direction is None else np.vstack([np.eye(len(turned)), direction])
    spreads = np.append(spreads, np.full(len(wanted) - len(turned), spreads.max()))
    quantiles = np.asarray(quantile, dtype=np.float64)
    low, high = (np.full((*quantiles.shape, len(wanted)), end) for end in (-math.inf, math.inf))
    noises = np.full(len(wanted), math.nan)
    sampling = equations.residual * equations.share / q * np.maximum(used, 0.0)
    for factor in np.unique(spreads):
        noise = equations.scale**2 / 2 + factor * sampling
        chosen = np.flatnonzero(spreads == factor)
        problem = _Problem(vectors, values if moved is None else used, turned, noise, q)
        if known:
            low[..., chosen], high[..., chosen] = problem.hull(quantiles, values, wanted[chosen])
            if np.isfinite(low[..., chosen]).all():
                noises[chosen] = _noise_of(equations.scale, wanted[chosen] @ vectors / used, turned / used)
        for index in chosen[chosen < len(turned)] if math.isfinite(largest) else ():
            for at, each in np.ndenumerate(quantiles):
                ends = problem.cut(float(each), int(index), largest)
                low[*at, index] = max(low[*at, index], ends[0])
                high[*at, index] = min(high[*at, index], ends[1])
    return EffectSets(solved, low, high, noises)


def _noise_of(scale: float, inverse: FloatArray, coefficients: FloatArray) -> FloatArray:
    """Return the standard deviations that the covariance of r gives combinations of coefficients.

    Both are in the eigenbasis of A; the rows of ``inverse`` are the combinations times the inverse of A.
    """
    lengths = (1 + float(coefficients @ coefficients)) * (inverse**2).sum(axis=1)
    deviations: FloatArray = scale / math.sqrt(2) * np.sqrt(lengths + (inverse @ coefficients) ** 2)
    return deviations


@dataclass(frozen=True)
class _Problem:
    """One covariance bound: eigenvectors and eigenvalues of A, turned c, variances of turned r, and q."""

    vectors: FloatArray
    values: FloatArray
    turned: FloatArray
    noise: FloatArray
    q: float

    @property
    def _forms(self) -> tuple[tuple[float, float], ...]:
        """The two bounds on the covariance, as (theta, k): (k + theta |beta|^2) times the noise."""
        return (2.0, 1.0), (0.0, self.q)

    def hull(
        self, quantiles: FloatArray, unshifted: FloatArray, directions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper ends along directions: the hull of both ellipsoids, if both are bounded."""
        every = np.atleast_1d(quantiles)[:, np.newaxis] ** 2
        # Multiply by the noise instead of dividing by it: it may be zero.
        least = np.minimum(unshifted, self.values) ** 2 - max(theta for theta, _ in self._forms) * every * self.noise
        bounded = (least > 0).all(axis=1) & (unshifted > 0).all() & (self.values > 0).all()
        low, high = (np.full((len(every), len(directions)), end) for end in (-math.inf, math.inf))
        squared, along, ends = every[bounded], directions @ self.vectors, []
        for theta, k in self._forms:
            curvature = self.values**2 - theta * squared * self.noise
            centre = (self.values * self.turned / curvature) @ along.T
            room = squared * (theta * np.sum(self.turned**2 / curvature, axis=1, keepdims=True) + k)
            half_width = np.sqrt((self.noise / curvature) @ (along**2).T * room)
            ends.append((centre - half_width, centre + half_width))
        low[bounded], high[bounded] = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
        shape = (*quantiles.shape, len(directions))
        return low.reshape(shape), high.reshape(shape)

    def cut(self, quantile: float, index: int, largest: float) -> tuple[float, float]:
        """Return the ends of all values of a coefficient that some others within the ball allow."""
        intervals = [self._accepted(quantile**2, index, largest, theta, k) for theta, k in self._forms]
        return min(low for low, _ in intervals), max(high for _, high in intervals)

    def _accepted(self, squared: float, index: int, largest: float, theta: float, k: float) -> tuple[float, float]:
        # Without noise and residuals, only rounding error remains.
        safe = np.maximum(self.noise, (1e-15 * float(np.abs(self.values).max(initial=0.0))) ** 2 + 1e-300)
        curvature = self.values**2 / safe - theta * squared
        form = (self.vectors * curvature) @ self.vectors.T
        pull = self.vectors @ (self.values * self.turned / safe)
        constant = float(np.sum(self.turned**2 / safe)) - k * squared
        others = np.arange(len(pull)) != index
        values, vectors = np.linalg.eigh(form[np.ix_(others, others)])
        coupling, linear = vectors.T @ form[others, index], vectors.T @ pull[others]

        def least(b: FloatArray) -> FloatArray:
            """Return the least value of the form over the other coefficients, for values b of this one."""
            slopes = b[:, np.newaxis] * coupling - linear
            own: FloatArray = b**2 * form[index, index] - 2 * b * pull[index] + constant
            return own + _least_in_ball(values, slopes, np.maximum(largest**2 - b**2, 0.0))

        low, high, step = -largest, largest, 2 * largest / (_GRID - 1)
        grid = np.linspace(low, high, _GRID)
        inside = np.flatnonzero(least(grid) <= 0)
        if not inside.size:
            # Accepted values, if any, lie between two grid points: return the whole best neighbourhood.
            best = float(grid[np.argmin(least(grid))])
            return best - step, best + step
        return (
            _refined(least, grid[inside[0]], max(grid[inside[0]] - step, low)),
            _refined(least, grid[inside[-1]], min(grid[inside[-1]] + step, high)),
        )


def _refined(least: Callable[[FloatArray], FloatArray], inside: float, outside: float) -> float:
    """Return where a value stops being accepted, between one that is and one that need not be, from outside."""
    grid = np.linspace(outside, inside, 33)
    accepted = np.flatnonzero(least(grid) <= 0)
    return float(grid[max(int(accepted[0]) - 1, 0)]) if accepted.size else float(inside)


def _least_in_ball(values: FloatArray, slopes: FloatArray, squares: FloatArray) -> FloatArray:
    """Return min of sum_i values_i y_i^2 + 2 slopes_i y_i over |y|^2 <= squares, for each row of slopes, from below.

    By duality the minimum is max over m of -sum slopes^2 / (values + m) - m squares, m >= max(0, -least value); each
    m bounds it from below, so a search that stops early only enlarges a confidence set.
    """
    if values.size == 0:
        return np.zeros(len(slopes))
    floor = max(0.0, -float(values.min()))
    tiny = 1e-12 * (float(np.abs(values).max()) + 1e-300)
    lengths = np.sqrt((slopes**2).sum(axis=1))
    low = np.full(len(slopes), floor + (tiny if floor > 0 or values.min() <= 0 else 0.0))
    high = low + lengths / np.sqrt(np.maximum(squares, 1e-300)) + tiny

    def length(m: FloatArray) -> FloatArray:
        total: FloatArray = ((slopes / (values + m[:, np.newaxis])) ** 2).sum(axis=1)
        return total

    done = length(low) <= squares
    for _ in range(60):
        middle = (low + high) / 2
        long = length(middle) > squares
        low, high = np.where(long & ~done, middle, low), np.where(long | done, high, middle)
    m = np.where(done, low, high)
    result: FloatArray = -((slopes**2) / (values + m[:, np.newaxis])).sum(axis=1) - m * squares
    return result
