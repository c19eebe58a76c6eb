r"""The privacy cost of integer noise compared with the ideal Gaussian. The formulas are proved in ``docs/noise.md``.

If a protocol's view with ideal Gaussian noise is (epsilon, delta)-private, then the same view with discrete
Gaussians on the grid is private with

.. math:: \epsilon + gap, \qquad e^{gap}\,\delta + tail.

The gap is about ``rows / (4.6 own_steps^2)``: 5e-11 for a 100 x 100 second moment of ten sites at 2^24 steps.
"""

from __future__ import annotations

import math

from dpcape.core.errors import InvalidParameter
from dpcape.core.noise import CUTOFF

__all__ = ["CUTOFF", "TAIL_EXPONENT", "delta_tail", "epsilon_gap", "ideal_delta"]

TAIL_EXPONENT = 256.0
"""The bound on the view's noise fails with probability exp(-TAIL_EXPONENT), which `delta_tail` includes."""

# Smallest eigenvalue of M M' over all views (docs/noise.md, section 3.4): CAPE with one honest site.
_LEAST_EIGENVALUE = (3.0 - math.sqrt(5.0)) / 2.0


def epsilon_gap(*, own_steps: float, n_sites: int, n_coordinates: int, tail_exponent: float = TAIL_EXPONENT) -> float:
    """Return what the grid adds to epsilon.

    Parameters
    ----------
    own_steps : float
        Smallest standard deviation of any draw (own or shared noise, any coordinate, any release), in grid steps; at
        least 1.
    n_sites : int
        Number of sites, honest or not.
    n_coordinates : int
        Number of coordinates released, added up over all releases that the epsilon covers.
    tail_exponent : float
        Trade between the gap and `delta_tail`; both must be given the same value.

    Returns
    -------
    float
        An upper bound for CAPE, the secure sum and independent noise alike (docs/noise.md, section 3.5).
    """
    _check(own_steps=own_steps, n_sites=n_sites, n_coordinates=n_coordinates)
    # Per coordinate: the releases, the sum of the survivors' draws, the sum of the dropped sites' draws.
    n_rows = (n_sites + 2) * n_coordinates
    eigenvalue = _LEAST_EIGENVALUE * own_steps**2
    norm = math.sqrt(n_rows) * (1.0 + 0.5 / math.sqrt(eigenvalue)) + math.sqrt(2.0 * tail_exponent)
    return (n_rows + norm**2) / (24.0 * eigenvalue) + n_rows * _log_theta_ratio(own_steps)


def delta_tail(*, n_draws: int, epsilon: float, tail_exponent: float = TAIL_EXPONENT) -> float:
    """Return what the cut-off of the draws and the bound on the view's noise add to delta.

    Parameters
    ----------
    n_draws : int
        Number of discrete Gaussians drawn by all sites over all releases.
    epsilon : float
        The epsilon that is printed, gap included.
    tail_exponent : float
        As given to `epsilon_gap`.
    """
    if n_draws < 0 or not epsilon >= 0.0:
        got = f"{n_draws!r} and {epsilon!r}"
        raise InvalidParameter("n_draws and epsilon", "not be negative", got, "Take them from the study.")
    # Event probabilities are moved to the neighbour's side, which multiplies them by exp(epsilon).
    cut = math.log(max(n_draws, 1)) + math.log(2.0) - CUTOFF**2 / 2.0
    exponents = (epsilon - tail_exponent, cut, epsilon + cut)
    return min(1.0, sum(math.exp(min(exponent, 0.0)) for exponent in exponents))


def ideal_delta(delta: float, *, epsilon: float, gap: float, n_draws: int) -> float:
    """Return the delta for which to calibrate the ideal view, so that the integer view has (epsilon, delta).

    With it, a calibration for (epsilon, delta) reads ``mu_of(epsilon - gap, ideal_delta(delta, ...))``.

    Parameters
    ----------
    delta, epsilon : float
        The guarantee to be printed.
    gap : float
        Result of `epsilon_gap`.
    n_draws : int
        As in `delta_tail`.
    """
    ideal = (delta - delta_tail(n_draws=n_draws, epsilon=epsilon)) * math.exp(-gap)
    if not 0.0 < ideal < 1.0:
        got, remedy = f"{delta!r} at epsilon {epsilon!r}", "Use a smaller epsilon or a larger delta."
        raise InvalidParameter("delta", "exceed the cost of the noise's cut-off and be below 1", got, remedy)
    return ideal


def _log_theta_ratio(own_steps: float) -> float:
    """Bound log(max / min) of one shifted sum of a Gaussian over the integers, variance own_steps^2 / 4."""
    decay = math.exp(-0.5 * (math.pi * own_steps) ** 2)
    ripple = 2.0 * decay / (1.0 - decay)
    return math.log1p(ripple) - math.log1p(-ripple)


def _check(*, own_steps: float, n_sites: int, n_coordinates: int) -> None:
    """Refuse sizes for which the bound is not proved."""
    if not 1.0 <= own_steps < math.inf:
        raise InvalidParameter("own_steps", "be at least 1 grid step and finite", repr(own_steps), "Use a finer grid.")
    if n_sites < 1 or n_coordinates < 1:
        got, remedy = f"{n_sites!r} and {n_coordinates!r}", "Count the sites and coordinates of the study."
        raise InvalidParameter("n_sites and n_coordinates", "be at least 1", got, remedy)
