"""Solvers by rounds of scores and curvature: Newton steps, the last of which gives confidence sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from dpcape.analyses.regression import LOGISTIC_SHARES, RATE_SHARES
from dpcape.core.arrays import FloatArray
from dpcape.estimators.linear.count_shifts import SlopeShift, count_shift, slope_shift
from dpcape.estimators.linear.effect_sets import NormalEquations, effect_sets
from dpcape.estimators.linear.gamma_ratios import RatioFigures, gamma_shift, ratio_figures
from dpcape.estimators.linear.regression_rounds import Asked, Coefficients, Rounds, shrunken_start, weights_of
from dpcape.statistics.count_residuals import LARGEST_RESIDUAL
from dpcape.statistics.family_scores import CLASS_SCORE_WEIGHT, LARGEST_EXCESS, RatioScoreMeans
from dpcape.statistics.regression_rounds import regressor_bound

_ONE_SIDED = 1.645
# Largest change of log-odds that one round may make, in the mean over records.
_LONGEST_CHANGE = 4.0
# Inflation of the model's sampling variance of scores, for what one Newton step leaves out.
_SCORE_SPREAD = 1.1
# Inflation factor for the estimated overdispersion.
_HIDDEN_EXCESS = 1.5
# Overdispersion of the scores above which the Poisson model is rejected: its intervals are then unbounded.
_MOST_DISPERSION = 1.15
# Lower bound on the derivative of the ratio scores before the last round.
_LEAST_UNCUT = 0.5
# How far the interval of a log-odds ratio is extended for the curvature that one step leaves out.
_OTHER_CURVATURE, _MOST_CURVATURE = 0.1, 5.0
# Upper bound on the change in log-odds of the records that determine the curvature, in root mean squares of it.
_TYPICAL = 2.0


@dataclass(frozen=True)
class ScoreRound:
    """One round of scores and curvature.

    Attributes
    ----------
    equations : NormalEquations
        Equations for the change of coefficients.
    unit : float
        What their solution is multiplied by.
    spread : float
        By how much the sampling variance of scores may exceed that of the model; infinite if the model is refuted.
    bowl : (p, p) array
        Matrix whose quadratic form is about the mean square change of the linear predictor.
    weight : float
        Curvature of the loss, in units of the matrix of the equations.
    slack : float
        By how much the unit may be wrong, as a factor of at least 1.
    caution : float
        Part of a step that is taken before the last round.
    constants : tuple of int
        Places of the coefficients of constants.
    """

    equations: NormalEquations
    unit: float
    spread: float
    bowl: FloatArray
    weight: float = 1.0
    slack: float = 1.0
    caution: float = 1.0
    constants: tuple[int, ...] = (0,)

    def limited(self, change: FloatArray) -> FloatArray:
        """Return a change of coefficients that changes the predictor by at most the largest step, in mean square."""
        mean_square = max(float(change @ self.bowl @ change), 0.0)
        return change * min(1.0, _LONGEST_CHANGE / max(math.sqrt(mean_square), 1e-300))

    def narrowed(self, asked: Asked, current: FloatArray) -> ScoreRound:
        """Return the round with penalties, and without the coefficient that is known."""
        moment, cross = self.equations.moment, self.equations.cross
        if asked.penalties is not None:
            penalties = asked.penalties / self.weight
            moment, cross = moment + np.diag(penalties), cross - penalties * current / self.unit
        free = asked.free(len(current))
        equations = replace(self.equations, moment=moment[np.ix_(free, free)], cross=cross[free])
        return replace(self, equations=equations, bowl=self.bowl[np.ix_(free, free)])


def logistic_inference(rounds: Rounds, asked: Asked) -> Coefficients:
    """Return log-odds with confidence sets: Newton rounds, the last of which gives the set."""
    reach = regressor_bound(rounds.bound, rounds.intercept)
    # A release has (reach / 4) times the score: its noise is that of an off-diagonal entry times this.
    unit = 4 * math.sqrt(2) / reach

    def ask(at: FloatArray) -> ScoreRound:
        scores = rounds.mean("logistic_scores", coefficients=at)
        equations = NormalEquations(
            scores.curvature, scores.score / unit, 0.0, rounds.scale, rounds.share, variance=1 / unit**2
        )
        # The curvature is at most a quarter of the moment.
        return ScoreRound(equations, unit, _SCORE_SPREAD, 4 * scores.curvature)

    start = np.zeros(rounds.n_coefficients)
    return _by_scores(rounds, ask, start, len(LOGISTIC_SHARES), asked)


def count_inference(rounds: Rounds, asked: Asked, *, most: float) -> Coefficients:
    """Return coefficients of the logarithm of a rate with confidence sets, for counts up to ``most``.

    A moment gives a start. Scores are bounded, and have mean zero under the Poisson model; where counts vary more than
    it says, by the released squared length of the scores, intervals are wider, and allow for what clipping does then.
    """
    start, moment, level = _rate_start(rounds, most)
    ratio, curvature = math.inf, moment
    # A release has sqrt(2) reach / K times the score.
    unit = LARGEST_RESIDUAL / regressor_bound(rounds.bound, rounds.intercept)

    def ask(at: FloatArray) -> ScoreRound:
        nonlocal ratio, curvature
        scores = rounds.mean("count_scores", coefficients=at, level=level)
        curvature = scores.curvature
        equations = NormalEquations(
            scores.curvature, scores.score / unit, 0.0, rounds.scale, rounds.share, variance=1 / unit**2
        )
        spread, ratio = _dispersion(scores.square, scores.curvature, rounds.scale)
        # The derivative of the mean score is sqrt(level) times the curvature.
        return ScoreRound(equations, unit / math.sqrt(level), _SCORE_SPREAD * spread, moment, weight=level)

    estimates = _by_scores(rounds, ask, start, len(RATE_SHARES), asked)
    # Overdispersed counts are skewed: their clipped residuals underestimate their means, by different amounts at
    # different rates.
    b = weights_of(rounds.bound, intercept=True)[1]
    shift = slope_shift(ratio, level, math.sqrt(_predictor_spread(estimates.values, moment, b)))
    estimates = _with_shift(estimates, shift, asked, curvature, rounds.scale, b)
    return _with_constant(estimates, (0.0, 0.0, count_shift(ratio, level)), b)


def ratio_inference(rounds: Rounds, asked: Asked, *, most: float) -> Coefficients:
    """Return coefficients of the logarithm of a positive mean with confidence sets, for responses up to ``most``.

    Responses are cut off at 2.5 times their mean. If what they vary around it does not depend on the features, slopes
    stay right; the constant is moved by what a gamma distribution of the released spread loses.
    """
    start, _, _ = _rate_start(rounds, most)
    unit = LARGEST_EXCESS / regressor_bound(rounds.bound, rounds.intercept)
    seen = RatioFigures(1.0, 1.0, 0.0, 0.0)

    def ask(at: FloatArray) -> ScoreRound:
        nonlocal seen
        scores: RatioScoreMeans = rounds.mean("ratio_scores", coefficients=at)
        reach = regressor_bound(rounds.bound, rounds.intercept)
        seen = ratio_figures(scores, rounds.scale, rounds.share, reach)
        equations = NormalEquations(
            scores.moment,
            scores.score / unit,
            0.0,
            rounds.scale,
            rounds.share,
            variance=(seen.square + seen.square_error) / unit**2,
        )
        least = seen.uncut - seen.uncut_error
        return ScoreRound(
            equations,
            unit / seen.uncut,
            _SCORE_SPREAD,
            scores.moment,
            weight=seen.uncut,
            slack=seen.uncut / least if least > 0 else math.inf,
            caution=min(1.0, seen.uncut / _LEAST_UNCUT),
        )

    estimates = _by_scores(rounds, ask, start, len(RATE_SHARES), asked)
    own, least, largest = (gamma_shift(square) for square in seen.squares(estimates.typical))
    return _with_constant(estimates, (own, least, largest), weights_of(rounds.bound, intercept=True)[1])


def _with_constant(estimates: Coefficients, shifts: tuple[float, float, float], b: float) -> Coefficients:
    """Return coefficients whose constant is moved by the first shift, and its interval by the others."""
    own, least, most = shifts
    values, shrunken = estimates.values.copy(), estimates.shrunken.copy()
    values[0], shrunken[0] = values[0] + own / b, shrunken[0] + own / b
    if estimates.ends is None:
        return replace(estimates, values=values, shrunken=shrunken)
    inner, p = estimates.ends, len(values)

    def ends(quantile: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        low, high = (each.copy() for each in inner(quantile))
        for end, shift in ((low, least), (high, most)):
            end[..., 0] += shift / b
            end[..., p:] += shift
        return low, high

    assert estimates.quantile is not None
    low, high = ends(estimates.quantile)
    noise = estimates.noise
    if noise is not None and own:
        # The shift follows from a released spread, whose noise is not linear in it.
        noise = noise.copy()
        noise[[0, *range(p, len(noise))]] = math.nan
    return replace(estimates, values=values, shrunken=shrunken, low=low, high=high, ends=ends, noise=noise)


def _with_shift(
    estimates: Coefficients, shift: SlopeShift, asked: Asked, curvature: FloatArray, scale: float, b: float
) -> Coefficients:
    """Return coefficients with intervals that allow for a shift of the linear predictor that depends on it.

    Coefficients are off by the weighted regression of the shift on the row. Its part in proportion to the predictor,
    around the mean of it, multiplies every slope, and moves a constant in proportion to its way from that mean; a known
    coefficient has none to multiply, so that its column goes over to others as far as they correlate. What is left
    moves a coefficient by at most its root mean square times the standard deviation that the coefficient would have
    with errors of unit size: Cauchy and Schwarz. The same holds for constants at other places.
    """
    if estimates.ends is None:
        return estimates
    inner, p = estimates.ends, len(estimates.values)
    free, weight = asked.free(p), max(float(curvature[0, 0]), 1e-12)
    lengths, vectors = np.linalg.eigh(curvature[np.ix_(free, free)])
    # A direction that noise hides has no interval.
    inverse = (vectors / np.maximum(lengths, max(scale * math.sqrt(2 * len(free)), 1e-12))) @ vectors.T
    rows = np.eye(len(free)) if asked.direction is None else np.vstack([np.eye(len(free)), asked.direction[..., free]])
    more = shift.rest / b * np.sqrt(weight * np.einsum("ij,jk,ik->i", rows, inverse, rows))
    gone = rows[:, 0] * -float(curvature[0] @ estimates.values) / weight
    if asked.fixed is not None:
        position, known = asked.fixed
        gone = gone + known * (rows @ inverse @ curvature[free, position])
    positions = np.append(free, p + np.arange(len(rows) - len(free)))

    def ends(quantile: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        low, high = (each.copy() for each in inner(quantile))
        for end, sign in ((low, -1), (high, 1)):
            end[..., positions] += sign * (shift.part * np.abs(end[..., positions] + gone) + more)
        return low, high

    assert estimates.quantile is not None
    low, high = ends(estimates.quantile)
    return replace(estimates, low=low, high=high, ends=ends)


def class_inference(rounds: Rounds, asked: Asked, *, n_classes: int) -> Coefficients:
    """Return log-odds of all classes but the first, one block after the other, with confidence sets."""
    unit = math.sqrt(2) / (CLASS_SCORE_WEIGHT * regressor_bound(rounds.bound, rounds.intercept))
    width = rounds.n_coefficients
    constants = tuple(range(0, width * (n_classes - 1), width))

    def ask(at: FloatArray) -> ScoreRound:
        scores = rounds.mean("class_scores", coefficients=at)
        equations = NormalEquations(
            scores.curvature, scores.score / unit, 0.0, rounds.scale, rounds.share, variance=1 / unit**2
        )
        return ScoreRound(equations, unit, _SCORE_SPREAD, 4 * scores.curvature, constants=constants)

    start = np.zeros(width * (n_classes - 1))
    return _by_scores(rounds, ask, start, len(LOGISTIC_SHARES), asked)


def _rate_start(rounds: Rounds, most: float) -> tuple[FloatArray, FloatArray, float]:
    """Return coefficients to start from, the moment of v, and a typical rate, from one release.

    For elliptical features the least-squares slope of a count is its mean times that of the logarithm of the rate.
    """
    start, moment, scale, _ = shrunken_start(rounds, 0.0)
    a, b = weights_of(rounds.bound, intercept=True)
    weight = float(moment[0, 0])
    mean = most / 2 * (1 + b * float(start @ moment[:, 0]) / (weight * a))
    noise = most / 2 * scale / math.sqrt(2) * b / (weight * a)
    level = max(mean, 2 * noise, 1e-4 * most)
    slopes = np.append(0.0, most / (2 * a) * start[1:] / level)
    row = b * moment[0] / weight
    spread = _predictor_spread(slopes, moment, b)
    slopes *= min(1.0, 1 / max(math.sqrt(spread), 1e-300))
    slopes[0] = (math.log(level) - float(slopes @ row) - min(spread, 1.0) / 2) / b
    return slopes, moment, level


def _predictor_spread(coefficients: FloatArray, moment: FloatArray, b: float) -> float:
    """Return the variance of the linear predictor over records, from the moment of v."""
    weight = float(moment[0, 0])
    slopes = np.append(0.0, coefficients[1:])
    row = b * moment[0] / weight
    return max(float(slopes @ moment @ slopes) / (weight / b**2) - float(slopes @ row) ** 2, 0.0)


def _dispersion(square: float, curvature: FloatArray, scale: float) -> tuple[float, float]:
    """Return upper estimates of how much scores vary, in units of the model's variance: at least 1, and as released.

    The first is infinite if they vary more than the model allows, whatever the noise is. Clipping hides a part of the
    overdispersion, so the estimated excess is inflated.
    """
    trace, noise = float(np.trace(curvature)), _ONE_SIDED * scale * math.sqrt(len(curvature))
    own = _ONE_SIDED * scale * LARGEST_RESIDUAL**2
    ratio = (square + own) / (trace - noise) if trace > noise else math.inf
    if trace + noise > 0 and (square - own) / (trace + noise) > _MOST_DISPERSION:
        return math.inf, ratio
    if trace <= noise:
        return LARGEST_RESIDUAL**2, ratio
    return 1 + _HIDDEN_EXCESS * max(ratio - 1, 0.0), ratio


def _by_scores(
    rounds: Rounds, ask: Callable[[FloatArray], ScoreRound], start: FloatArray, n_rounds: int, asked: Asked
) -> Coefficients:
    """Take Newton steps, and return the coefficients of the last one with confidence sets."""
    current, free = asked.with_fixed(start), asked.free(len(start))
    for _ in range(n_rounds - 1):
        step = ask(current).narrowed(asked, current)
        current = current.copy()
        current[free] += step.caution * step.limited(step.unit * step.equations.ridge)
    step = ask(current).narrowed(asked, current)
    equations, fits = step.equations, math.isfinite(step.spread) and math.isfinite(step.slack)
    quantile, spread = float(ndtri(0.5 + asked.confidence / 2)), step.spread if fits else 1.0
    direction = None if asked.direction is None else np.atleast_2d(asked.direction)[:, free]
    sets = effect_sets(equations, quantile=quantile, spread=spread, direction=direction)
    change = step.unit * sets.coefficients
    penalty = equations.scale * (math.sqrt(2 * len(change)) + 4)
    values, shrunken = current.copy(), current.copy()
    values[free] += change
    shrunken[free] += step.limited(step.unit * equations.shrunken(penalty))
    if asked.penalties is not None:
        return Coefficients(values, values, typical=_typical_change(rounds, step, change), fits=fits)
    wider = _left_out(rounds, step, change, direction)

    def ends(quantile: float | FloatArray) -> tuple[FloatArray, FloatArray]:
        if not fits:
            unknown = np.full((*np.shape(quantile), len(wider)), math.inf)
            return asked.ends(current, -unknown, unknown)
        at_quantile = effect_sets(equations, quantile=quantile, spread=step.spread, direction=direction)
        low, high = step.unit * at_quantile.low, step.unit * at_quantile.high
        low, high = np.minimum(low * step.slack, low / step.slack), np.maximum(high * step.slack, high / step.slack)
        return asked.ends(current, low - wider, high + wider)

    low, high = ends(quantile)
    typical = _typical_change(rounds, step, change)
    noise = asked.placed(step.unit * sets.noise, len(start))
    return Coefficients(
        values, shrunken, low, high, ends=ends, fits=fits, typical=typical, quantile=quantile, noise=noise
    )


def _left_out(rounds: Rounds, step: ScoreRound, change: FloatArray, direction: FloatArray | None) -> FloatArray:
    """Return by how much intervals are extended for what the last step leaves out."""
    # Log-odds between two classes change by at most |x| |b_j - b_k| <= sqrt(2) |x| |b|, and by |x| |b| with one block
    # b.
    reach = regressor_bound(rounds.bound, rounds.intercept) * math.sqrt(2 if len(step.constants) > 1 else 1)
    length = float(np.linalg.norm(change))
    bend = min(reach * length, _TYPICAL * _typical_change(rounds, step, change), _MOST_CURVATURE)
    along = np.abs(change if direction is None else np.append(change, direction @ change))
    # A few records, such as a rare group, may determine a coefficient; their log-odds change more than is typical.
    own = np.maximum(bend, np.minimum(reach * along, _MOST_CURVATURE))
    return _missed(own) * along + _OTHER_CURVATURE * bend * length


def _missed(change: FloatArray) -> FloatArray:
    """Return what one step misses of its own coefficient, relative to the step, where log-odds change by this much.

    Along the way the curvature falls by a factor of at most exp(-change) (self-concordance: F. Bach, Electronic Journal
    of Statistics 4, 2010), so its inverse is on average at most (exp(change) - 1) / change times that of the step.
    """
    positive: FloatArray = np.maximum(change, 1e-9)
    return np.expm1(positive) / positive - 1


def _typical_change(rounds: Rounds, step: ScoreRound, change: FloatArray) -> float:
    """Return the root mean square change of the linear predictor over records, each with its weight in the curvature.

    What one step leaves out is the mean of p (1 - p) (1 - 2 p) (v.d)^2 v / 2: at most a mean of |v.d|, by the weights
    p (1 - p) of the curvature, times what the step has. Both parts of the ratio err on the larger side of their noise.
    Without a constant the weights are not known: infinite. It says nothing of a coefficient that few records determine.
    """
    equations = step.equations
    _, b = weights_of(rounds.bound, intercept=rounds.intercept)
    weight = _weight_along(step, change) - _ONE_SIDED * equations.scale
    if b == 0 or weight <= 0:
        return math.inf
    bent = float(change @ equations.moment @ change) + _ONE_SIDED * equations.scale * float(change @ change)
    return b * math.sqrt(max(bent, 0.0) / weight)


def _weight_along(step: ScoreRound, change: FloatArray) -> float:
    """Return the curvature of the constants along the classes whose log-odds change, at most that of any of them.

    If the first class is rare, the log-odds of all others change together, and few records have a weight there.
    """
    constants = np.array(step.constants)
    inner = step.equations.moment[np.ix_(constants, constants)]
    least = float(np.diagonal(inner).min())
    if len(constants) == 1 or not change.any():
        return least
    along = np.linalg.svd(change.reshape(len(constants), -1))[0][:, 0]
    return min(least, float(along @ inner @ along))
