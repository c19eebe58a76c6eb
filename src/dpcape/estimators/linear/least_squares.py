"""Shrunken least squares from one noisy release, shared by linear and logistic regression."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import UtilityWarning
from dpcape.estimators.estimator import effective_share
from dpcape.estimators.linear.shrinkage import Solution, shrunken_solution
from dpcape.federation.allowance import Allowance
from dpcape.federation.federation import Federation
from dpcape.postprocessing.eigen import noise_norm
from dpcape.statistics.regression_moment import RegressionBlocks, RegressionMoment, regression_moment


@dataclass(frozen=True)
class LeastSquares:
    """Shrunken least-squares fit of responses mapped to [-1, 1].

    Attributes
    ----------
    coefficients : array of shape (D,)
        Coefficients for the mapped response.
    intercept : float
        Intercept for the mapped response.
    covariance : array of shape (D, D)
        Covariance of the coefficients due to sampling, noise and shrinkage.
    intercept_variance : float
        Variance of the intercept.
    variance : float
        Variance of the fitted values around their mean.
    residual : float
        Mean squared residual.
    response_noise : float
        Standard deviation of the noise on the mean response; 0 without an intercept.
    """

    coefficients: FloatArray
    intercept: float
    covariance: FloatArray
    intercept_variance: float
    variance: float
    residual: float
    response_noise: float


def released_fit(
    federation: Federation, private: Allowance, *, intercept: bool, ridge: float
) -> tuple[LeastSquares, RegressionBlocks]:
    """Make the one release and solve it; return the fit and the released blocks."""
    statistic = regression_moment(federation.facts, intercept=intercept)
    blocks: RegressionBlocks = private.mean(statistic)
    release = private.releases[-1]
    _warn_of_noise(release.scale, federation)
    share = effective_share(federation, release.survivors)
    return least_squares(blocks, statistic, scale=release.scale, share=share, ridge=ridge), blocks


def least_squares(
    blocks: RegressionBlocks, statistic: RegressionMoment, *, scale: float, share: float, ridge: float
) -> LeastSquares:
    """Fit the mapped response to the features from a noisy release.

    With an intercept, the model starts from the mean response and the deviation from it is shrunk. The constant enters
    the normal equations as one more feature, so that their noise stays isotropic.
    """
    a, b = statistic.response_weight, statistic.intercept_weight
    offset, first = blocks.response_mean, 1 if b else 0
    # Noise of the cross moment, and of the mean that is subtracted with the offset.
    cross_scale = scale * math.sqrt((1 / a**2 + ((offset / b) ** 2 if b else 0.0)) / 2)
    moment, cross = _normal_equations(blocks, b)
    solution = shrunken_solution(moment, cross, scale=scale, cross_scale=cross_scale, ridge=ridge)
    weights = solution.coefficients[first:]
    unexplained = blocks.response_square - offset**2 - 2 * float(cross @ solution.coefficients) + solution.energy
    # Where noise hides the residual, count the noise instead of zero.
    residual = min(1.0, max(unexplained, 0.0) + scale / a**2)
    covariance = _covariance(solution, moment, share * residual)[first:, first:]
    constant = share * residual + scale**2 / (2 * b**2) * (1 / a**2 + float(weights @ weights)) if b else 0.0
    return LeastSquares(
        coefficients=weights,
        intercept=offset - float(blocks.mean @ weights),
        covariance=covariance,
        intercept_variance=constant + float(blocks.mean @ covariance @ blocks.mean),
        variance=solution.energy,
        residual=residual,
        response_noise=scale / (math.sqrt(2) * a * b) if b else 0.0,
    )


def interval(centre: FloatArray, variance: FloatArray, confidence: float) -> FloatArray:
    """Return the lower and upper end of a normal confidence interval around each entry."""
    half_width = float(ndtri(0.5 + confidence / 2)) * np.sqrt(np.maximum(variance, 0.0))
    return np.stack([centre - half_width, centre + half_width])


def _normal_equations(blocks: RegressionBlocks, b: float) -> tuple[FloatArray, FloatArray]:
    """Return moment and right-hand side for the deviation from the mean response; b is the constant's weight."""
    if b == 0:
        return blocks.moment, blocks.cross
    column = b * blocks.mean[:, np.newaxis]
    moment = np.block([[np.full((1, 1), b * b), column.T], [column, blocks.moment]])
    return moment, np.concatenate([[0.0], blocks.cross - blocks.response_mean * blocks.mean])


def _covariance(solution: Solution, moment: FloatArray, sampling: float) -> FloatArray:
    """Return the covariance due to noise and sampling; negative eigenvalues of the moment count as zero."""
    values, vectors = np.linalg.eigh(moment)
    root = (solution.response @ vectors) * np.sqrt(np.maximum(values, 0.0))
    total: FloatArray = solution.noise_covariance + sampling * (root @ root.T)
    return total


def _warn_of_noise(scale: float, federation: Federation) -> None:
    """Warn when noise exceeds any possible second moment, whatever the records are."""
    if noise_norm(scale, federation.n_features) >= federation.facts.bounds[0] ** 2:
        warnings.warn(
            "The noise exceeds the largest possible second moment, so the fit is close to the constant model. Use more "
            "records, fewer features or a larger epsilon.",
            UtilityWarning,
            stacklevel=2,
        )
