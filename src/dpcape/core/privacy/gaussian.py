r"""Exact (epsilon, delta) of a Gaussian release with parameter mu.

A view that a record can move by ``mu`` standard deviations is ``mu``-Gaussian differentially private (Dong, Roth & Su
2022), and :math:`\delta(\epsilon) = \Phi(-\epsilon/\mu + \mu/2) - e^{\epsilon}\Phi(-\epsilon/\mu - \mu/2)`
(Balle & Wang 2018, theorem 8). The inverses are pushed to the private side: ``epsilon_of`` never returns too little,
``mu_of`` never too much, for every finite epsilon and every delta from ``SMALLEST_DELTA``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, ndtr

from dpcape.core.errors import InvalidParameter

# Below this delta, densities become subnormal and lose precision.
SMALLEST_DELTA = 1e-300
_ROOT_HALF_PI = math.sqrt(math.pi / 2)
# From this epsilon on, the closed form is good enough to move an inverse by about 2e-13 relative; inverses step this
# much further towards privacy.
_SMALL_EPSILON = 1e-2
_SAFETY = 1e-12
# Below, the difference of two nearly equal numbers costs digits (1e-6 of delta at epsilon 1e-8, everything at 1e-13).
# There delta is an integral of a positive function, good to 5e-13 relative; inverses take this much more.
_SMALL_ERROR = 1e-12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def delta_of(epsilon: float, mu: float) -> float:
    """Return the smallest delta for which a ``mu``-GDP view is (epsilon, delta)-private.

    Parameters
    ----------
    epsilon : float
        Not negative.
    mu : float
        Not negative; infinity means no protection and gives 1.

    Examples
    --------
    >>> f"{delta_of(1.0, 0.5):.6e}"
    '6.829595e-03'
    """
    _require(epsilon >= 0, "epsilon", "a number that is not negative", epsilon)
    _require(mu >= 0, "mu", "a number that is not negative", mu)
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    x = epsilon / mu - mu / 2
    # With the Mills ratio R, both terms share the factor phi(x): no overflow, little cancellation.
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if epsilon < _SMALL_EPSILON and mu < 1:
        return density * _mills_difference(x, mu)
    if x > 0:
        return density * (_mills_ratio(x) - _mills_ratio(x + mu))
    return max(0.0, float(ndtr(-x)) - density * _mills_ratio(x + mu))


# Cached, because sites of the same size and budget have the same mu.
@lru_cache(maxsize=1024)
def epsilon_of(delta: float, mu: float) -> float:
    """Return the smallest epsilon for which a ``mu``-GDP view is (epsilon, delta)-private; never less than it is.

    Parameters
    ----------
    delta : float
        From 1e-300 to below 1.
    mu : float
        Not negative; infinity gives infinity.

    Examples
    --------
    >>> round(epsilon_of(1e-5, 1.0), 6)
    4.377178
    """
    _require_delta(delta)
    _require(mu >= 0, "mu", "a number that is not negative", mu)
    if math.isinf(mu):
        return math.inf
    if _most_delta(0.0, mu) <= delta:
        return 0.0
    # Gaussian tail bound: always enough.
    upper = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    root = _bisect(lambda epsilon: _most_delta(epsilon, mu) <= delta, 0.0, upper * (1 + 1e-9))
    return root * (1 + _SAFETY)


# Cached, because every round at every site asks for the same few values.
@lru_cache(maxsize=1024)
def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-private; never more than it is.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        From 1e-300 to below 1.

    Examples
    --------
    >>> round(mu_of(1.0, 1e-5), 9)
    0.268051123
    """
    _require(epsilon > 0 and math.isfinite(epsilon), "epsilon", "a positive finite number", epsilon)
    _require_delta(delta)
    upper = 1.0
    while _most_delta(epsilon, upper) <= delta:
        upper *= 2
    root = -_bisect(lambda negative: _most_delta(epsilon, -negative) <= delta, -upper, 0.0)
    return root * (1 - _SAFETY)


def compose(mus: Iterable[float]) -> float:
    """Return the mu of several (adaptively chosen) releases together: squares add.

    Examples
    --------
    >>> compose([3.0, 4.0])
    5.0
    """
    return math.sqrt(math.fsum(mu * mu for mu in mus))


def zcdp_delta_of(epsilon: float, rho: float) -> float:
    """Return the delta that rho-zCDP implies at epsilon (Canonne, Kamath & Steinke 2020, corollary 13).

    A cross-check for integer noise; the product prints the exact Gaussian figure plus the counted gap.
    """
    _require(rho > 0, "rho", "a positive number", rho)
    from scipy.optimize import minimize_scalar

    def log_delta(t: float) -> float:
        a = 1 + math.exp(t)
        return (a - 1) * (a * rho - epsilon) + (a - 1) * math.log1p(-1 / a) - math.log(a)

    best = minimize_scalar(log_delta, bounds=(-20.0, 20.0), method="bounded", options={"xatol": 1e-10})
    return min(1.0, math.exp(best.fun))


def _most_delta(epsilon: float, mu: float) -> float:
    """Return a delta that is not below the true one, up to what ``_SAFETY`` covers."""
    delta = delta_of(epsilon, mu)
    if epsilon < _SMALL_EPSILON:
        return delta * (1 + _SMALL_ERROR)
    # Close to 1, delta is accurate to 1e-15 only.
    return delta if delta < 0.5 else delta + 1e-15


def _mills_ratio(x: float) -> float:
    """(1 - Phi(x)) / phi(x)."""
    return _ROOT_HALF_PI * float(erfcx(x / math.sqrt(2)))


def _mills_difference(x: float, mu: float) -> float:
    """R(x) - R(x + mu) for mu below 1, as the integral of -R'(t) = 1 - t R(t), which is positive."""
    points = x + mu / 2 * (1 + _NODES)
    slopes = 1 - points * _ROOT_HALF_PI * erfcx(points / math.sqrt(2))
    return mu / 2 * float(_WEIGHTS @ slopes)


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least point (to a rounding) of ``[low, high]`` from which on ``holds`` is true."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _require_delta(delta: float) -> None:
    _require(0 < delta < 1, "delta", "strictly between 0 and 1", delta, "Write for example 1e-6.")
    remedy = "Below, the formula has no digits left. Choose a larger delta."
    _require(delta >= SMALLEST_DELTA, "delta", f"at least {SMALLEST_DELTA:g}", delta, remedy)


def _require(condition: bool, subject: str, requirement: str, value: float, remedy: str = "") -> None:
    if not condition:
        raise InvalidParameter(subject, f"be {requirement}", repr(value), remedy)
