"""The room that all regressions share: what they ask of the sites, and how coefficients follow.

*Inference* takes the equations of a weighted moment, or of scores and curvature, and returns confidence sets that cover
also where noise dominates. *Prediction* starts from a shrunken solution and takes preconditioned gradient steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy.special import ndtri

from dpcape.analyses.regression import AVERAGED, LOGISTIC_UNITS, logistic_unit, residual_unit
from dpcape.core.arrays import FloatArray, IntArray
from dpcape.core.statistic import PublicValue
from dpcape.estimators.estimator import effective_share
from dpcape.estimators.linear.effect_sets import NormalEquations, effect_sets, shifted
from dpcape.estimators.linear.shrinkage import shrunken_solution
from dpcape.estimators.scaling import scaled
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.scaling import Scaling
from dpcape.statistics.regression_moment import intercept_weight_for, response_weight_for
from dpcape.statistics.regression_rounds import GRADIENT_CLIP

# Step of a preconditioned gradient; chosen on simulated data (experiments/regression).
_STEP = 0.5
# Residuals are never clipped farther out than this many times their root mean square.
_FARTHEST = 5.0
# The share of records that count fully is assumed to be at least this.
_LEAST_WEIGHT = 0.25
_ONE_SIDED = 1.645


class Rounds(Protocol):
    """What a solver needs of a study: private means, their noise, and the units of the records."""

    @property
    def intercept(self) -> bool:
        """Whether the model has a constant."""

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients, that of the constant among them."""

    @property
    def bound(self) -> float:
        """Largest length of a row as statistics read it."""

    @property
    def scale(self) -> float:
        """Standard deviation of the noise of the last mean."""

    @property
    def share(self) -> float:
        """One over the number of records of the last mean, or its counterpart for weighted sites."""

    @property
    def weighted(self) -> bool:
        """Whether a record whose row was shortened is weighted down as a whole."""

    def mean(self, statistic: str, **public: PublicValue) -> Any:
        """Return a private mean."""


@dataclass(frozen=True)
class FederatedRounds:
    """Rounds of a federation, whose records may be scaled.

    Attributes
    ----------
    federation : Federation
        The sites.
    private : Allowance
        Releases that are left.
    scaling : Scaling or None
        Public numbers by which records are scaled.
    intercept : bool
        Whether the model has a constant.
    weighted : bool
        Whether a record whose row was shortened is weighted down as a whole.
    """

    federation: Federation
    private: Allowance
    scaling: Scaling | None
    intercept: bool
    weighted: bool = True

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients, that of the constant among them."""
        return self.federation.n_features + (1 if self.intercept else 0)

    @property
    def bound(self) -> float:
        """Largest length of a row as statistics read it."""
        return self.federation.facts.bounds[0] if self.scaling is None else 1.0

    @property
    def scale(self) -> float:
        """Standard deviation of the noise of the last mean."""
        return self.private.releases[-1].scale / self.private.valid

    @property
    def share(self) -> float:
        """One over the number of records of the last mean, or its counterpart for weighted sites."""
        return effective_share(self.federation, self.private.releases[-1].survivors) / self.private.valid

    def mean(self, statistic: str, **public: PublicValue) -> Any:
        """Return a private mean over standardised records, or over records as they are."""
        facts = self.federation.facts
        if not self.weighted:
            public["weighted"] = False
        return self.private.mean(scaled(facts, self.scaling, statistic, intercept=self.intercept, **public))


Ends: TypeAlias = Callable[[float | FloatArray], tuple[FloatArray, FloatArray]]


@dataclass(frozen=True)
class Coefficients:
    """Coefficients of v = (b, x): of a y for a response in [-1, 1], of log-odds for two classes.

    Attributes
    ----------
    values : (p,) array
        Coefficients.
    shrunken : (p,) array
        Coefficients for predictions: shrunken by what noise and sampling hide.
    low, high : array or None
        Ends of the intervals of all coefficients, then of the direction that was asked for; None for a prediction.
    square : float
        Mean squared residual of a y; 0 for two classes.
    ends : callable or None
        Function from a two-sided normal quantile, or several, to the ends of the intervals; a row for each of several.
    fits : bool
        False if the released figures refute the model; intervals are then infinite.
    typical : float
        Root mean square change of the linear predictor in the last round of scores; 0 if there was none.
    quantile : float or None
        Two-sided normal quantile of ``low`` and ``high``; None for a prediction.
    noise : array or None
        Standard deviations of the noise of privacy, in the order of ``low``; NaN where none is known.
    """

    values: FloatArray
    shrunken: FloatArray
    low: FloatArray | None = None
    high: FloatArray | None = None
    square: float = 0.0
    ends: Ends | None = None
    fits: bool = True
    typical: float = 0.0
    quantile: float | None = None
    noise: FloatArray | None = None


@dataclass(frozen=True)
class Asked:
    """What is asked of the coefficients of a generalised linear model.

    Attributes
    ----------
    confidence : float
        Probability with which an interval contains its coefficient.
    direction : (p,) or (m, p) array or None
        Combinations of coefficients whose intervals come last.
    fixed : tuple of int and float, or None
        Place and value of a coefficient that is known.
    penalties : (p,) array or None
        Weights of half the squared coefficients in the mean loss; coefficients then have no intervals.
    """

    confidence: float
    direction: FloatArray | None = None
    fixed: tuple[int, float] | None = None
    penalties: FloatArray | None = None

    def free(self, count: int) -> IntArray:
        """Return the places of the coefficients that are not known."""
        positions = np.arange(count)
        return positions if self.fixed is None else positions[positions != self.fixed[0]]

    def with_fixed(self, coefficients: FloatArray) -> FloatArray:
        """Return coefficients with the known one at its value."""
        fixed_at = coefficients.copy()
        if self.fixed is not None:
            fixed_at[self.fixed[0]] = self.fixed[1]
        return fixed_at

    def placed(self, figures: FloatArray, count: int) -> FloatArray:
        """Return figures of what is not known in the order of all coefficients and directions; 0 for what is known."""
        free = self.free(count)
        every = np.zeros((*figures.shape[:-1], count + figures.shape[-1] - len(free)))
        every[..., free], every[..., count:] = figures[..., : len(free)], figures[..., len(free) :]
        return every

    def ends(self, centre: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ends of the intervals of all coefficients and directions, from those of what is not known."""
        full = centre if self.direction is None else np.append(centre, self.direction @ centre)
        return full + self.placed(low, len(centre)), full + self.placed(high, len(centre))


def weights_of(bound: float, *, intercept: bool) -> tuple[float, float]:
    """Return a and b, the weights of the response and of the constant."""
    constant = intercept_weight_for(bound) if intercept else 0.0
    return response_weight_for(bound), constant


def linear_inference(rounds: Rounds, asked: Asked, *, spread_released: bool, largest: float = math.inf) -> Coefficients:
    """Return coefficients with confidence sets, from one moment and, if it is released, the spread of residuals.

    A known coefficient h is taken to the side of the response: noise on that side, and on the mean squared response,
    then has sqrt(1 + h^2) and 1 + h^2 times its scale, so divided by these the equations are as they were.
    """
    matrix: FloatArray = rounds.mean("weighted_regression_moment")
    equations = NormalEquations(matrix[:-1, :-1], matrix[:-1, -1], float(matrix[-1, -1]), rounds.scale, rounds.share)
    current, free, unit = asked.with_fixed(np.zeros(len(matrix) - 1)), asked.free(len(matrix) - 1), 1.0
    if asked.fixed is not None:
        unit = math.hypot(1.0, asked.fixed[1])
        cross, square = (equations.cross - equations.moment @ current)[free], equations.left_by(current)
        moment = equations.moment[np.ix_(free, free)]
        equations = replace(equations, moment=moment, cross=cross / unit, square=square / unit**2)
    quantile = float(ndtri(0.5 + asked.confidence / 2))
    if asked.penalties is not None:
        penalised = replace(equations, moment=equations.moment + np.diag(asked.penalties[free]))
        current[free] = unit * effect_sets(penalised, quantile=quantile).coefficients
        return Coefficients(current, current)
    direction = None if asked.direction is None else np.atleast_2d(asked.direction)[:, free]
    options: dict[str, Any] = {"direction": direction, "largest": (math.inf if spread_released else largest) / unit}
    sets = effect_sets(equations, quantile=quantile, **options)
    if spread_released:
        spread = _released_spread(rounds, asked, equations, unit * sets.coefficients)
        options |= {"largest": largest / unit, "spread": spread}
        sets = effect_sets(equations, quantile=quantile, **options)

    def ends(quantile: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        at_quantile = effect_sets(equations, quantile=quantile, **options)
        return asked.ends(current, unit * at_quantile.low, unit * at_quantile.high)

    ridge_residual = equations.left_by(equations.ridge)
    square = unit**2 * (min(ridge_residual, equations.residual) if ridge_residual > 0 else equations.residual)
    low, high = ends(quantile)
    values, shrunken = current.copy(), current.copy()
    values[free], shrunken[free] = unit * sets.coefficients, unit * _shrunken(rounds, equations)
    noise = asked.placed(unit * sets.noise, len(current))
    return Coefficients(values, shrunken, low, high, square, ends, noise=noise)


def _shrunken(rounds: Rounds, equations: NormalEquations) -> FloatArray:
    """Return coefficients for predictions: those of the features shrunken towards the constant model.

    Features are centred by the released moment, so that the constant, which has most of the energy, is not shrunk.
    """
    moment, cross, cross_scale = equations.moment, equations.cross, equations.scale / math.sqrt(2)
    # Half the operator norm of the noise; chosen on simulated data.
    ridge = equations.scale * math.sqrt(len(cross) / 2)
    if not rounds.intercept:
        return shrunken_solution(
            moment, cross, scale=equations.scale, cross_scale=cross_scale, ridge=ridge
        ).coefficients
    constant = _plausible_constant(rounds, moment)
    means, level = moment[1:, 0] / constant, float(cross[0])
    # The part of the response that the constant explains brings noise of its own.
    cross_scale *= math.hypot(1.0, level / constant)
    slopes = shrunken_solution(
        moment[1:, 1:] - constant * np.outer(means, means),
        cross[1:] - level * means,
        scale=equations.scale,
        cross_scale=cross_scale,
        ridge=ridge,
    ).coefficients
    return np.append(level / constant - means @ slopes, slopes)


def _plausible_constant(rounds: Rounds, moment: FloatArray) -> float:
    """Return the released second moment of the constant, moved to where it can be."""
    _, b = weights_of(rounds.bound, intercept=True)
    return min(max(float(moment[0, 0]), _LEAST_WEIGHT * b * b), b * b)


def _released_spread(rounds: Rounds, asked: Asked, equations: NormalEquations, estimate: FloatArray) -> FloatArray:
    """Return by how much the sampling variance of each coefficient may exceed that of independent errors."""
    values, vectors = equations.spectrum
    moved = shifted(values, equations.scale)
    floor = max(equations.scale * math.sqrt(2 * len(values)), 1e-12 * float(np.abs(values).max(initial=0.0)), 1e-300)
    inverse = (vectors / (np.maximum(values, 0.0) + floor if moved is None else np.maximum(moved, floor))) @ vectors.T
    own = inverse / np.sqrt(np.maximum(np.diagonal(inverse), 1e-300))[:, np.newaxis]
    coefficients = asked.with_fixed(np.zeros(rounds.n_coefficients))
    free, directions = asked.free(len(coefficients)), np.zeros((len(coefficients), len(coefficients)))
    coefficients[free], directions[np.ix_(free, free)] = estimate, own
    unit = 1.0 if asked.fixed is None else math.hypot(1.0, asked.fixed[1])
    square = max(unit**2 * equations.residual, 1e-12)
    spread: FloatArray = rounds.mean("residual_spread", coefficients=coefficients, directions=directions, square=square)
    return np.maximum(1.0, spread[free] + _ONE_SIDED * rounds.scale)


def linear_prediction(rounds: Rounds, *, n_iter: int, ridge: float) -> Coefficients:
    """Return coefficients for predictions: a shrunken start, then preconditioned gradient steps.

    How far out residuals are clipped follows from public numbers: as far as noise allows, but not beyond what the
    released moment says of their size.
    """
    start, moment, scale, square = shrunken_start(rounds, ridge)
    a, _ = weights_of(rounds.bound, intercept=rounds.intercept)
    largest = max(1.0, _FARTHEST / GRADIENT_CLIP * math.sqrt(max(square, 0.0)) / a)

    def unit(noise: float) -> float:
        return a * min(residual_unit(noise), largest)

    return _descended(rounds, start, moment, scale, n_iter=n_iter, units=(a, unit), ridge=ridge)


def shrunken_start(rounds: Rounds, ridge: float) -> tuple[FloatArray, FloatArray, float, float]:
    """Return shrunken coefficients of a y, the moment of v with its constant made plausible, and its noise.

    The last number is an upper estimate of the mean squared residual of a y at these coefficients.
    """
    matrix: FloatArray = rounds.mean("weighted_regression_moment")
    scale = rounds.scale
    moment, cross = matrix[:-1, :-1].copy(), matrix[:-1, -1]
    whole_cross = cross
    level = np.zeros(len(cross))
    cross_scale = scale / math.sqrt(2)
    if rounds.intercept:
        # The fit is shrunk towards the constant model, not towards zero.
        moment[0, 0] = _plausible_constant(rounds, moment)
        level[0] = cross[0] / moment[0, 0]
        cross = cross - level[0] * moment[:, 0]
        cross_scale *= math.hypot(1.0, float(level[0]))
    solution = shrunken_solution(moment, cross, scale=scale, cross_scale=cross_scale, ridge=ridge)
    start = solution.coefficients + level
    square = float(matrix[-1, -1] - 2 * whole_cross @ start + start @ moment @ start) + 2 * scale
    return start, moment, scale, square


def _descended(
    rounds: Rounds,
    start: FloatArray,
    moment: FloatArray,
    scale: float,
    *,
    n_iter: int,
    units: tuple[float, Callable[[float], float]],
    ridge: float,
) -> Coefficients:
    """Take preconditioned steps and return the mean of the last third of them.

    The preconditioner is the inverse root of the released moment, its eigenvalues floored at half the operator norm of
    the noise. Of ``units``, the first is that of residuals in the first round; the second is a function that returns
    the unit of the others from the noise of the first, averaged over rounds and for all coefficients together.
    """
    averaged = max(1, round(AVERAGED * n_iter))
    unit, later_unit = units
    values, vectors = np.linalg.eigh(moment)
    floor = max(scale * math.sqrt(len(values) / 2), 1e-9 * float(np.abs(values).max(initial=0.0)), 1e-150)
    root = (vectors / np.sqrt(np.maximum(values, floor))) @ vectors.T
    current, late = start, []
    for number in range(n_iter):
        gradient: FloatArray = rounds.mean("residual_gradient", coefficients=current, preconditioner=root / unit)
        penalty = ridge * current
        current = current + _STEP * (root @ (unit * gradient) - root @ (root @ penalty))
        if number == 0:
            unit = later_unit(rounds.scale * math.sqrt(len(current) / averaged))
        if number >= n_iter - averaged:
            late.append(current)
    average = np.mean(late, axis=0) if late else start
    return Coefficients(average, average)


def logistic_prediction(rounds: Rounds, *, n_iter: int, ridge: float) -> Coefficients:
    """Return coefficients of log-odds for predictions: a shrunken start, then preconditioned gradient steps."""
    start, moment, scale, _ = shrunken_start(rounds, ridge)
    a, _ = weights_of(rounds.bound, intercept=rounds.intercept)
    # The least-squares fit of labels -1 and 1 is half the Taylor solution; curvature is a quarter of the moment.
    units = LOGISTIC_UNITS[0], logistic_unit
    return _descended(rounds, 2 * start / a, moment / 4, scale / 4, n_iter=n_iter, units=units, ridge=ridge)
