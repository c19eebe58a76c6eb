"""CAPE as published (dissertation, chapter 3): the printed guarantee and the true one.

``tau`` is the papers' standard deviation of a site's total noise: a draw of variance tau^2 whose mean over the sites is
subtracted, and own noise of variance tau^2 / S. ``kappa`` is the factor by which a site is more exposed than tau
suggests: mu^2 = kappa (sensitivity / tau)^2. A single Gaussian release has kappa 1.
"""

from __future__ import annotations

import math

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.privacy.gaussian import delta_of
from dpcape.core.protocols.zero_sum import zero_sum_view


def assumed_colluding(n_sites: int) -> int:
    """Return the number of colluding sites that theorem 3.1 is stated for: ceil(S / 3) - 1."""
    return math.ceil(n_sites / 3) - 1


def theorem_kappa(n_sites: int, n_colluding: int) -> float:
    """Return kappa as printed in eq. 3.4; it can be negative."""
    s, c = n_sites, n_colluding
    honest = s - c
    return s / (1 + s) * ((honest + 2) / honest + 9 * c**2 / honest / (s * (1 + s) - 3 * c**2))


def true_kappa(n_sites: int, n_colluding: int) -> float:
    """Return kappa against the aggregator and ``n_colluding`` sites, from everything they see."""
    own, shared = published_split(n_sites)
    view = zero_sum_view(n_sites, range(n_sites - n_colluding), own, shared)
    return float(view.exposures()[0] ** 2)


def cape_exposure(n_sites: int, n_colluding: int) -> float:
    """Return the ratio of mu to sensitivity / tau: the square root of `true_kappa`; 1 for a single site."""
    return math.sqrt(true_kappa(n_sites, n_colluding)) if n_sites > 1 else 1.0


def published_split(n_sites: int) -> tuple[FloatArray, FloatArray]:
    """Return the scales of own and cancelling noise for tau = 1."""
    return np.full(n_sites, n_sites**-0.5), np.ones(n_sites)


def theorem_delta(epsilon: float, mu: float) -> float:
    """Return delta as printed in theorem 3.1 for sigma_z = mu; negative if epsilon is below mu_z = mu^2 / 2."""
    edge = epsilon - mu**2 / 2
    return 2 * mu / edge * math.exp(-((edge / mu) ** 2) / 2) / math.sqrt(2 * math.pi)


def theorem_scale(epsilon: float, delta: float, *, n_sites: int, n_colluding: int) -> float:
    """Return the smallest tau, per unit of sensitivity, for which theorem 3.1 claims (epsilon, delta)."""
    kappa = theorem_kappa(n_sites, n_colluding)
    low, high = 0.0, math.sqrt(2 * epsilon)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if theorem_delta(epsilon, middle) <= delta else (low, middle)
    return math.sqrt(kappa) / low


def true_delta(epsilon: float, tau: float, *, n_sites: int, n_colluding: int) -> float:
    """Return the delta that noise of scale ``tau`` per unit of sensitivity really provides."""
    return delta_of(epsilon, math.sqrt(true_kappa(n_sites, n_colluding)) / tau)
