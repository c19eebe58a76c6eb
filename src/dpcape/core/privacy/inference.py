r"""Bounds on what an adversary can infer about one record: tests, and guesses between two candidates.

A test that distinguishes a record from its replacement has hits :math:`\le \min_\epsilon(e^\epsilon f +
\delta(\epsilon))` at a rate of false alarms ``f``. For a mu-GDP view this is :math:`\Phi(\Phi^{-1}(f) + \mu)` (Dong,
Roth & Su 2022, theorem 2.6 and corollary 2.13), which is far below the bound that one pair (epsilon, delta) gives. A
guess between two equally likely candidates is right with probability at most :math:`\Phi(\mu / 2)`. These bounds hold
on average over all outcomes, without an exception of probability delta. A bound on the posterior odds after *every*
outcome would hold for delta = 0 only, and is not given here.
"""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri

from dpcape.core.errors import InvalidParameter

# Integer noise turns hits into e^gap hits + tail (docs/noise.md); gaps stay below 5e-7, tails far below 1e-7.
_INTEGER_SLACK = 1e-6


def most_hits(false_alarms: float, *, epsilon: float, delta: float, mu: float = math.inf) -> float:
    """Return the largest detection rate of any test for one record.

    Parameters
    ----------
    false_alarms : float
        Rate at which the test reports a record that is not there, 0 to 1.
    epsilon, delta : float
        The guarantee.
    mu : float
        The mu of the Gaussian view behind the guarantee; infinite to use only (epsilon, delta).

    Examples
    --------
    >>> round(most_hits(0.05, epsilon=1.0, delta=1e-5, mu=0.268051), 4)
    0.0843
    >>> round(most_hits(0.05, epsilon=1.0, delta=1e-5), 4)
    0.1359
    """
    if not 0 <= false_alarms <= 1:
        raise InvalidParameter("false_alarms", "be between 0 and 1", repr(false_alarms), "Pass a rate.")
    _check(epsilon, delta)
    # e^epsilon overflows where the bound is void anyway.
    by_pair = 1.0 if epsilon > 700 else min(math.exp(epsilon) * false_alarms + delta, 1.0)
    # The same with the roles of record and replacement exchanged.
    by_pair = min(by_pair, 1.0 - math.exp(-epsilon) * (1.0 - delta - false_alarms))
    if not (0 < mu < math.inf) or false_alarms in (0.0, 1.0):
        return by_pair
    quantile = float(ndtri(false_alarms))
    # The tangent's epsilon: the tail of integer noise was bounded up to the guarantee's epsilon, not beyond.
    if -quantile * mu - mu * mu / 2 > epsilon:
        return by_pair
    return min(by_pair, float(ndtr(quantile + mu)) + _INTEGER_SLACK)


def most_right(*, epsilon: float, delta: float, mu: float = math.inf) -> float:
    """Return the largest probability of a correct guess between two equally likely candidates for one record.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee.
    mu : float
        The mu of the Gaussian view behind the guarantee; infinite to use only (epsilon, delta).

    Examples
    --------
    >>> round(most_right(epsilon=1.0, delta=1e-5, mu=0.268051), 4)
    0.5533
    >>> round(most_right(epsilon=1.0, delta=1e-5), 4)
    0.7311
    """
    _check(epsilon, delta)
    by_pair = (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
    if not 0 < mu < math.inf:
        return min(by_pair, 1.0)
    return min(by_pair, float(ndtr(mu / 2)) + _INTEGER_SLACK / 2, 1.0)


def _check(epsilon: float, delta: float) -> None:
    """Refuse figures that are not a guarantee: their bounds would mean nothing."""
    if not epsilon >= 0 or not 0 <= delta <= 1:
        must = "be at least 0 and delta between 0 and 1"
        raise InvalidParameter("epsilon", must, f"{epsilon!r} and {delta!r}", "Take them from a guarantee.")
