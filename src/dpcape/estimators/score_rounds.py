"""Solvers by rounds of scores and curvature: Newton steps, the last of which gives confidence sets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpcape.analyses.regression import COUNT_SHARES, LOGISTIC_SHARES
from dpcape.arrays import FloatArray
from dpcape.estimators.regression_rounds import Coefficients, Rounds, shrunken_start, weights_of
from dpcape.formula import computed
from dpcape.postprocessing.effect_sets import NormalEquations, effect_sets
from dpcape.statistics.count_residuals import LARGEST_RESIDUAL
from dpcape.statistics.regression_rounds import regressor_bound

_ONE_SIDED = 1.645
# Largest change of log-odds that one round may make, in the mean over records.
_LONGEST_CHANGE = 4.0
# The sampling variance of scores is that of the model, and a little more for what one step leaves out.
_SCORE_SPREAD = 1.1
# What counts vary more than the Poisson model says is multiplied by this.
_HIDDEN_EXCESS = 1.5
# Scores that vary more than this times what the Poisson model says refute it: nothing is said of its coefficients.
_MOST_DISPERSION = 1.15
# How far the interval of a log-odds ratio is extended for the curvature that one step leaves out.
_OTHER_CURVATURE, _MOST_CURVATURE = 0.1, 5.0
# Log-odds of the records that bend the curvature change by this many times their root mean square, or less.
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
    """

    equations: NormalEquations
    unit: float
    spread: float
    bowl: FloatArray

    def limited(self, change: FloatArray) -> FloatArray:
        """Return a change of coefficients that changes the predictor by at most the largest step, in mean square."""
        mean_square = max(float(change @ self.bowl @ change), 0.0)
        return change * min(1.0, _LONGEST_CHANGE / max(math.sqrt(mean_square), 1e-300))


def logistic_inference(rounds: Rounds, *, confidence: float, direction: FloatArray | None = None) -> Coefficients:
    """Return log-odds with confidence sets: Newton rounds, the last of which gives the set."""
    reach = computed(regressor_bound(rounds.bound, rounds.intercept))
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
    return _by_scores(rounds, ask, start, len(LOGISTIC_SHARES), confidence=confidence, direction=direction)


def count_inference(
    rounds: Rounds, *, most: float, confidence: float, direction: FloatArray | None = None
) -> Coefficients:
    """Return coefficients of the logarithm of a rate with confidence sets, for counts up to ``most``.

    A moment gives a start. Scores are bounded, and have mean zero under the Poisson model; where counts vary more than
    it says, by the released squared length of the scores, intervals are wider.
    """
    start, moment, level = _count_start(rounds, most)
    # A release has sqrt(2) reach / K times the score.
    unit = LARGEST_RESIDUAL / computed(regressor_bound(rounds.bound, rounds.intercept))

    def ask(at: FloatArray) -> ScoreRound:
        scores = rounds.mean("count_scores", coefficients=at, level=level)
        equations = NormalEquations(
            scores.curvature, scores.score / unit, 0.0, rounds.scale, rounds.share, variance=1 / unit**2
        )
        spread = _SCORE_SPREAD * _dispersion(scores.square, scores.curvature, rounds.scale)
        # The derivative of the mean score is sqrt(level) times the curvature.
        return ScoreRound(equations, unit / math.sqrt(level), spread, moment)

    return _by_scores(rounds, ask, start, len(COUNT_SHARES), confidence=confidence, direction=direction)


def _count_start(rounds: Rounds, most: float) -> tuple[FloatArray, FloatArray, float]:
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
    spread = max(float(slopes @ moment @ slopes) / (weight / b**2) - float(slopes @ row) ** 2, 0.0)
    slopes *= min(1.0, 1 / max(math.sqrt(spread), 1e-300))
    slopes[0] = (math.log(level) - float(slopes @ row) - min(spread, 1.0) / 2) / b
    return slopes, moment, level


def _dispersion(square: float, curvature: FloatArray, scale: float) -> float:
    """Return an upper estimate of how much scores vary, in units of the model's variance; at least 1.

    It is infinite if they vary more than the model allows, whatever the noise is. Clipped residuals hide a part of what
    counts vary more, so an excess is multiplied.
    """
    whole, noise = float(np.trace(curvature)), _ONE_SIDED * scale * math.sqrt(len(curvature))
    own = _ONE_SIDED * scale * LARGEST_RESIDUAL**2
    if whole + noise > 0 and (square - own) / (whole + noise) > _MOST_DISPERSION:
        return math.inf
    if whole <= noise:
        return LARGEST_RESIDUAL**2
    return 1 + _HIDDEN_EXCESS * max((square + own) / (whole - noise) - 1, 0.0)


def _by_scores(
    rounds: Rounds,
    ask: Callable[[FloatArray], ScoreRound],
    start: FloatArray,
    n_rounds: int,
    *,
    confidence: float,
    direction: FloatArray | None,
) -> Coefficients:
    """Take Newton steps, and return the coefficients of the last one with confidence sets."""
    reach, current = computed(regressor_bound(rounds.bound, rounds.intercept)), start
    for _ in range(n_rounds - 1):
        step = ask(current)
        current = current + step.limited(step.unit * step.equations.ridge)
    step = ask(current)
    equations, unit = step.equations, step.unit
    quantile = float(ndtri(0.5 + confidence / 2))
    fits = math.isfinite(step.spread)
    sets = effect_sets(equations, quantile=quantile, spread=step.spread if fits else 1.0, direction=direction)
    change = unit * sets.coefficients
    length = float(np.linalg.norm(change))
    bend = min(reach * length, _TYPICAL * _typical_change(rounds, equations, change), _MOST_CURVATURE)
    along = np.abs(change if direction is None else np.append(change, direction @ change))
    # Few records may determine a coefficient, as those of a rare group do: theirs change by more than is typical.
    own = np.maximum(bend, np.minimum(reach * along, _MOST_CURVATURE))
    wider = _missed(own) * along + _OTHER_CURVATURE * bend * length
    centre = current if direction is None else np.append(current, direction @ current)

    def ends(quantile: float) -> tuple[FloatArray, FloatArray]:
        if not fits:
            return np.full_like(centre, -math.inf), np.full_like(centre, math.inf)
        found = effect_sets(equations, quantile=quantile, spread=step.spread, direction=direction)
        return centre + unit * found.low - wider, centre + unit * found.high + wider

    penalty = equations.scale * (math.sqrt(2 * len(current)) + 4)
    shrunken = current + step.limited(unit * equations.shrunken(penalty))
    low, high = ends(quantile)
    return Coefficients(current + change, shrunken, low, high, ends=ends, fits=fits)


def _missed(change: FloatArray) -> FloatArray:
    """Return what one step misses of its own coefficient, relative to the step, where log-odds change by this much.

    Along the way the curvature falls by a factor of at most exp(-change) (self-concordance: F. Bach, Electronic Journal
    of Statistics 4, 2010), so its inverse is on average at most (exp(change) - 1) / change times that of the step.
    """
    kept: FloatArray = np.maximum(change, 1e-9)
    return np.expm1(kept) / kept - 1


def _typical_change(rounds: Rounds, equations: NormalEquations, change: FloatArray) -> float:
    """Return the root mean square change of log-odds over records, each with its weight in the curvature.

    What one step leaves out is the mean of p (1 - p) (1 - 2 p) (v.d)^2 v / 2: at most a mean of |v.d|, by the weights
    p (1 - p) of the curvature, times what the step has. Both parts of the ratio err on the larger side of their noise.
    Without a constant the weights are not known: infinite. It says nothing of a coefficient that few records determine.
    """
    _, b = weights_of(rounds.bound, intercept=rounds.intercept)
    weight = float(equations.moment[0, 0]) - _ONE_SIDED * equations.scale
    if b == 0 or weight <= 0:
        return math.inf
    bent = float(change @ equations.moment @ change) + _ONE_SIDED * equations.scale * float(change @ change)
    return b * math.sqrt(max(bent, 0.0) / weight)
