r"""Exact (epsilon, delta) of a Gaussian release with parameter mu.

A view that a record can move by ``mu`` standard deviations is ``mu``-Gaussian differentially private (Dong, Roth & Su
2022), and :math:`\delta(\epsilon) = \Phi(-\epsilon/\mu + \mu/2) - e^{\epsilon}\Phi(-\epsilon/\mu - \mu/2)`
(Balle & Wang 2018, theorem 8). The inverses are pushed to the private side: ``epsilon_of`` never returns too little,
``mu_of`` never too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache

from scipy.special import erfcx, log_ndtr, ndtr

from dpcape.errors import InvalidParameter

_ROOT_HALF_PI = math.sqrt(math.pi / 2)
# The closed form is good to about 1e-13 relative for epsilons of 1e-3 and more; inverses step this much further
# towards privacy. Below, cancellation costs digits (3e-12 of delta at 1e-4, 5e-7 at 1e-9), which DELTA_RESERVE covers.
_SAFETY = 1e-12


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
    if x > 0:
        # With the Mills ratio R, both terms share the factor phi(x): no overflow, little cancellation.
        density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return density * (_mills_ratio(x) - _mills_ratio(x + mu))
    return max(0.0, float(ndtr(-x)) - math.exp(epsilon + float(log_ndtr(-x - mu))))


def epsilon_of(delta: float, mu: float) -> float:
    """Return the smallest epsilon for which a ``mu``-GDP view is (epsilon, delta)-private.

    Examples
    --------
    >>> round(epsilon_of(1e-5, 1.0), 6)
    4.377178
    """
    _require_delta(delta)
    _require(mu >= 0, "mu", "a number that is not negative", mu)
    if math.isinf(mu):
        return math.inf
    if delta_of(0.0, mu) <= delta:
        return 0.0
    # Gaussian tail bound: always enough.
    upper = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    root = _bisect(lambda epsilon: delta_of(epsilon, mu) <= delta, 0.0, upper * (1 + 1e-9))
    return root * (1 + _SAFETY)


# Every round of a study asks for the same few values, at every site.
@lru_cache(maxsize=1024)
def mu_of(epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-private.

    Examples
    --------
    >>> round(mu_of(1.0, 1e-5), 9)
    0.268051123
    """
    _require(epsilon > 0 and math.isfinite(epsilon), "epsilon", "a positive finite number", epsilon)
    _require_delta(delta)
    upper = 1.0
    while delta_of(epsilon, upper) <= delta:
        upper *= 2
    root = -_bisect(lambda negative: delta_of(epsilon, -negative) <= delta, -upper, 0.0)
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


def _mills_ratio(x: float) -> float:
    """(1 - Phi(x)) / phi(x)."""
    return _ROOT_HALF_PI * float(erfcx(x / math.sqrt(2)))


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
    _require(0 < delta < 1, "delta", "strictly between 0 and 1", delta)


def _require(condition: bool, subject: str, requirement: str, value: float) -> None:
    if not condition:
        raise InvalidParameter(f"{subject} must be {requirement}; got {value!r}.")
