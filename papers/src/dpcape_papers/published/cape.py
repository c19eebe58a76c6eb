"""CAPE as published (dissertation, chapter 3): the printed guarantee beside the true one.

``tau`` is the papers' standard deviation of a site's whole noise: a draw of variance tau^2 whose mean over the sites is
removed, and own noise of variance tau^2 / S. ``kappa`` says how much more exposed a site is than tau against its
sensitivity suggests: mu^2 = kappa (sensitivity / tau)^2, and 1 would be what a lone Gaussian release gives.
"""

from __future__ import annotations

import math

import numpy as np

from dpcape.arrays import FloatArray
from dpcape.privacy.gaussian import delta_of
from dpcape.protocols.zero_sum import zero_sum_view


def assumed_colluding(n_sites: int) -> int:
    """Return the number of colluding sites that theorem 3.1 is stated for: ceil(S / 3) - 1."""
    return math.ceil(n_sites / 3) - 1


def theorem_kappa(n_sites: int, n_colluding: int) -> float:
    """Return kappa as eq. 3.4 has it; it can be negative."""
    s, c = n_sites, n_colluding
    honest = s - c
    return s / (1 + s) * ((honest + 2) / honest + 9 * c**2 / honest / (s * (1 + s) - 3 * c**2))


def true_kappa(n_sites: int, n_colluding: int) -> float:
    """Return kappa against the aggregator and ``n_colluding`` sites, from the view itself."""
    own, shared = published_split(n_sites)
    view = zero_sum_view(n_sites, range(n_sites - n_colluding), own, shared)
    return float(view.exposures()[0] ** 2)


def cape_exposure(n_sites: int, n_colluding: int) -> float:
    """Return by how much mu exceeds sensitivity / tau: the root of `true_kappa`; 1 for a single site."""
    return math.sqrt(true_kappa(n_sites, n_colluding)) if n_sites > 1 else 1.0


def published_split(n_sites: int) -> tuple[FloatArray, FloatArray]:
    """Return own and shared scales for tau = 1."""
    return np.full(n_sites, n_sites**-0.5), np.ones(n_sites)


def theorem_delta(epsilon: float, mu: float) -> float:
    """Return delta as theorem 3.1 prints it for sigma_z = mu; negative where epsilon is below mu_z = mu^2 / 2."""
    edge = epsilon - mu**2 / 2
    return 2 * mu / edge * math.exp(-((edge / mu) ** 2) / 2) / math.sqrt(2 * math.pi)


def theorem_scale(epsilon: float, delta: float, *, n_sites: int, n_colluding: int) -> float:
    """Return the smallest tau, per unit of sensitivity, for which theorem 3.1 promises (epsilon, delta)."""
    kappa = theorem_kappa(n_sites, n_colluding)
    low, high = 0.0, math.sqrt(2 * epsilon)
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if theorem_delta(epsilon, middle) <= delta else (low, middle)
    return math.sqrt(kappa) / low


def true_delta(epsilon: float, tau: float, *, n_sites: int, n_colluding: int) -> float:
    """Return the delta that noise of scale ``tau`` per unit of sensitivity really gives."""
    return delta_of(epsilon, math.sqrt(true_kappa(n_sites, n_colluding)) / tau)
