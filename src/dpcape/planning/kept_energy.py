r"""Expected captured energy of noisy principal components for a known spectrum: a large-matrix formula.

A is symmetric with eigenvalues a_j, W isotropic symmetric noise of scale sigma (off-diagonal variance s^2 = sigma^2/2).
The resolvent of A + W is close to the diagonal matrix 1/(w - a_j) in A's eigenvectors, where
:math:`z = w + s^2 m(w)` and :math:`m(w) = \sum_j 1/(w - a_j)` (Pastur 1972; Bun, Allez, Bouchaud and Potters 2016). On
the edge of the spectrum w = u + iv has :math:`s^2 \sum_j 1/|w - a_j|^2 = 1`, or v = 0 inside a gap. Integrating around
all eigenvalues above the point that belongs to u, with theta_j = arg(w - a_j),

.. math:: \pi N = \sum_j \theta_j + \tfrac{s^2}{2} \Im m^2, \qquad
   \pi E = \sum_j a_j \theta_j + s^2 \Im(\tfrac{1}{2} w m^2 - D m)
           - \tfrac{s^2}{2} \sum_{jk} \frac{\theta_j - \theta_k}{a_j - a_k}

are the number of those eigenvalues and the energy tr(PA) their eigenvectors keep. In a gap E is the sum of the kept
a_i minus s^2 / (a_i - a_j) over all pairs: second-order perturbation theory.
"""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import FloatArray

# Beyond this many values (or 16 more than are kept), neighbours are averaged in blocks that grow by this factor.
_SINGLE, _GROWTH = 48, 0.15
_HALVINGS = 100
# Tolerance for treating the eigenvalue count in a spectral gap as an integer.
_PLATEAU = 1e-12


def kept_energy(spectrum: FloatArray, n_components: int, scale: float) -> float:
    """Return the expected share of the best energy that ``n_components`` noisy components keep.

    Parameters
    ----------
    spectrum : array of shape (D,)
        Eigenvalues in descending order, nonnegative.
    n_components : int
        Number of components.
    scale : float
        Standard deviation of the noise on the diagonal.

    Examples
    --------
    >>> kept_energy(np.array([1.0, 0.5, 0.0]), 1, 0.0)
    1.0
    >>> 0.97 < kept_energy(np.array([1.0, 0.5, 0.0]), 1, 0.1) < 1
    True
    """
    best = float(spectrum[:n_components].sum())
    if scale == 0 or n_components == spectrum.size or best <= 0:
        return 1.0
    values, counts = grouped(spectrum, max(_SINGLE, n_components + 16))
    variance = scale**2 / 2
    u, v = _edge(values, counts, variance, n_components)
    least = n_components * float(spectrum.mean()) / best
    return min(1.0, max(least, _energy(values, counts, variance, u, v) / best))


def grouped(spectrum: FloatArray, single: int) -> tuple[FloatArray, FloatArray]:
    """Return the values with their multiplicities, small values averaged in blocks."""
    values, counts = [float(value) for value in spectrum[:single]], [1.0] * min(single, spectrum.size)
    start = single
    while start < spectrum.size:
        block = spectrum[start : start + math.ceil(start * _GROWTH)]
        values.append(float(block.sum()) / block.size)
        counts.append(float(block.size))
        start += block.size
    return np.array(values), np.array(counts)


def _edge(values: FloatArray, counts: FloatArray, variance: float, wanted: int) -> tuple[float, float]:
    """Return w = u + iv above which ``wanted`` eigenvalues lie."""
    reach = math.sqrt(variance * float(counts.sum()))
    low, high = float(values.min()) - 2 * reach, float(values.max()) + 2 * reach
    for _ in range(_HALVINGS):
        u = (low + high) / 2
        if u in (low, high):
            break
        v = _height(values, counts, variance, u)
        if _number(values, counts, variance, u, v) >= wanted - _PLATEAU:
            low = u
        else:
            high = u
    return low, _height(values, counts, variance, low)


def _height(values: FloatArray, counts: FloatArray, variance: float, u: float) -> float:
    """Return v with variance sum 1/((u - a)^2 + v^2) = 1, or 0 in a gap.

    The sum is decreasing and convex in v^2, so Newton's steps from below never pass the root. No single term may exceed
    one, which gives the starting point.
    """
    squares, weights = (u - values) ** 2, counts * variance
    square = max(0.0, float(np.max(weights - squares)))
    for _ in range(_HALVINGS):
        terms = weights / np.maximum(squares + square, 1e-300)
        excess = float(terms.sum()) - 1
        step = excess / float(np.sum(terms / np.maximum(squares + square, 1e-300)))
        if excess <= 0 or square + step == square:
            break
        square += step
    return math.sqrt(square)


def _number(values: FloatArray, counts: FloatArray, variance: float, u: float, v: float) -> float:
    real, imaginary = _resolvent(values, counts, u, v)
    return (float(counts @ np.arctan2(v, u - values)) + variance * real * imaginary) / math.pi


def _energy(values: FloatArray, counts: FloatArray, variance: float, u: float, v: float) -> float:
    real, imaginary = _resolvent(values, counts, u, v)
    square = (real * real - imaginary * imaginary, 2 * real * imaginary)
    own = float((counts * values) @ np.arctan2(v, u - values))
    straight = (u * square[1] + v * square[0]) / 2 - float(counts.sum()) * imaginary
    return (own + variance * straight - variance / 2 * _pairs(values, counts, u, v)) / math.pi


def _resolvent(values: FloatArray, counts: FloatArray, u: float, v: float) -> tuple[float, float]:
    """Return real and imaginary part of m(w)."""
    lengths = np.maximum((u - values) ** 2 + v * v, 1e-300)
    return float(np.sum(counts * (u - values) / lengths)), -float(np.sum(counts * v / lengths))


def _pairs(values: FloatArray, counts: FloatArray, u: float, v: float) -> float:
    """Return the sum of (theta_j - theta_k) / (a_j - a_k), with the derivative of theta where values are equal."""
    gaps = values[:, None] - values
    products = (u - values)[:, None] * (u - values) + v * v
    # The angle between the two, computed directly to avoid cancellation.
    angles = np.arctan2(v * gaps, products)
    equal = gaps == 0
    ratios = np.where(equal, v / np.maximum(products, 1e-300), angles / np.where(equal, 1.0, gaps))
    return float(counts @ ratios @ counts)
