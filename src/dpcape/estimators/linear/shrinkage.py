"""Solution of noisy normal equations by cleaned eigenvalues and shrinkage.

A released moment is the true one plus isotropic symmetric noise of known scale. Inverting it directly amplifies noise
in the directions of its smallest eigenvalues, which noise makes small, zero or negative. Two corrections use what is
known about the noise.

*Eigenvalues.* In an eigenvector v of the noisy matrix, the energy v'Av of the true one is estimated by l - 2
s^2 g(l), where s is the root mean square eigenvalue of the noise and g the mean of 1/(l - l_j) over the other
eigenvalues (Bun, Allez, Bouchaud and Potters 2016, IEEE Trans. Inf. Theory 62, section IV.B). It is floored
at scale sqrt(D), below which noise hides it.

*Right-hand side.* Its coordinates are shrunk as a Gaussian prior of common variance on the coefficients
would, the variance estimated by maximum likelihood from the released numbers alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpcape.core.arrays import FloatArray

# Eigenvalues below this share of the largest are rounding, not information.
_RANK_TOLERANCE = 1e-10
# Half the 95% quantile of chi-square with one degree of freedom: a likelihood interval.
_LIKELIHOOD_DROP = 1.92
# Least eigenvalue assumed for a direction hidden by noise, in units of the noise, when intervals are computed.
_FAINTEST = 0.1


@dataclass(frozen=True)
class Solution:
    """Coefficients and their uncertainty due to noise.

    Attributes
    ----------
    coefficients : array of shape (D,)
        Shrunken solution.
    noise_covariance : array of shape (D, D)
        Covariance of the coefficients due to noise and shrinkage, given what was released.
    response : array of shape (D, D)
        Matrix that maps the right-hand side to the coefficients.
    energy : float
        Quadratic form of the coefficients in the cleaned moment.
    """

    coefficients: FloatArray
    noise_covariance: FloatArray
    response: FloatArray
    energy: float


def cleaned_eigenvalues(values: FloatArray, scale: float) -> FloatArray:
    """Return the energies of the noise-free matrix in the eigenvectors of the noisy one.

    Parameters
    ----------
    values : array of shape (D,)
        Eigenvalues of the noisy matrix.
    scale : float
        Standard deviation of the noise on the diagonal; off it, scale / sqrt(2).
    """
    if scale == 0:
        return values
    spread = scale * math.sqrt(values.size / 2)
    gaps = values[:, np.newaxis] - values
    # The imaginary part keeps close pairs from blowing up; spread / sqrt(D) is their mean distance.
    width = spread / math.sqrt(values.size)
    pull = (gaps / (gaps**2 + width**2)).mean(axis=1)
    cleaned: FloatArray = values - 2 * spread**2 * pull
    return cleaned


def shrunken_solution(
    moment: FloatArray, cross: FloatArray, *, scale: float, cross_scale: float, ridge: float = 0.0
) -> Solution:
    """Return the shrunken minimiser of w'(A + ridge I)w - 2 c'w for a noisy moment A and right-hand side c.

    Parameters
    ----------
    moment : array of shape (D, D)
        A as released; it may be indefinite or rank-deficient.
    cross : array of shape (D,)
        c as released.
    scale : float
        Standard deviation of the noise on the diagonal of A; 0 for an exact matrix.
    cross_scale : float
        Standard deviation of the noise on each entry of c.
    ridge : float
        Weight of the squared norm of w.
    """
    values, vectors = np.linalg.eigh(moment)
    cleaned = cleaned_eigenvalues(values, scale)
    heights = vectors.T @ cross
    curvature = np.maximum(cleaned, scale * math.sqrt(values.size))
    keep = curvature > _RANK_TOLERANCE * max(float(curvature.max(initial=0.0)), 1e-300)
    curvature = np.where(keep, curvature, 1.0)
    shrinkage, hidden = np.ones_like(values), np.zeros_like(values)
    if cross_scale > 0:
        best, _ = _prior_variance(heights, curvature, cross_scale)
        shrinkage = 1 - cross_scale**2 / (best * curvature**2 + cross_scale**2)
        hidden = _hidden_variance(heights, cleaned, scale=scale, cross_scale=cross_scale)
    gains = shrinkage * keep / (curvature + ridge)
    return Solution(
        coefficients=vectors @ (gains * heights),
        noise_covariance=(vectors * hidden) @ vectors.T,
        response=(vectors * gains) @ vectors.T,
        energy=float(np.sum(curvature * (gains * heights) ** 2)),
    )


def _hidden_variance(heights: FloatArray, cleaned: FloatArray, *, scale: float, cross_scale: float) -> FloatArray:
    """Return a conservative variance of each coefficient due to noise and shrinkage."""
    # Below the floor individual values are noise, but their mean is not: it replaces each of them.
    faint = cleaned <= scale * math.sqrt(cleaned.size)
    mean = float(cleaned[faint].mean()) if faint.any() else 0.0
    curvature = np.where(faint, max(mean, _FAINTEST * scale), cleaned)
    _, likely = _prior_variance(heights, curvature, cross_scale)
    # Noise on the moment acts through the coefficients, whose squared norm is about D times their variance.
    noise = cross_scale**2 + 0.5 * scale**2 * cleaned.size * likely
    _, likely = _prior_variance(heights, curvature, math.sqrt(noise))
    return likely * noise / (likely * curvature**2 + noise)


def _prior_variance(heights: FloatArray, curvature: FloatArray, cross_scale: float) -> tuple[float, float]:
    """Return the most likely variance of the coefficients, and the largest one within a likelihood interval.

    Heights are normal with variance v curvature^2 + cross_scale^2. The larger value prevents overconfidence.
    """
    # From "all hidden" to "nothing hidden", in units of the noise at the strongest direction.
    unit = (cross_scale / float(curvature.max())) ** 2
    grid = unit * np.concatenate([[0.0], np.logspace(-6, 16, 441)])
    variances = grid[:, np.newaxis] * curvature**2 + cross_scale**2
    fit = -0.5 * np.sum(np.log(variances) + heights**2 / variances, axis=1)
    best = int(np.argmax(fit))
    likely = int(np.flatnonzero(fit >= fit[best] - _LIKELIHOOD_DROP)[-1])
    return float(grid[best]), float(grid[likely])
