"""What many noisy releases cost in all: the dissertation's accountants (section 6.3) beside the exact figure.

``mu`` is sensitivity over scale of one release; every function returns the epsilon of ``n_releases`` of them together
at ``delta``. For comparison only: guarantees use `dpcape.privacy`.
"""

from __future__ import annotations

import math

from dpcape.privacy.gaussian import epsilon_of


def exact_epsilon(mu: float, n_releases: int, delta: float) -> float:
    """Return the smallest epsilon there is: squares of mu add, and the Gaussian formula is exact."""
    return epsilon_of(delta, mu * math.sqrt(n_releases))


def basic_epsilon(mu: float, n_releases: int, delta: float) -> float:
    """Return what theorem 6.1 gives: epsilons and deltas add; each release by the classical Gaussian mechanism."""
    return n_releases * classical_epsilon(mu, delta / n_releases)


def advanced_epsilon(mu: float, n_releases: int, delta: float) -> float:
    """Return what strong composition gives, half of delta for the releases, half for the composition.

    References
    ----------
    C. Dwork and A. Roth, *The algorithmic foundations of differential privacy*, 2014, theorem 3.20.
    """
    each = classical_epsilon(mu, delta / (2 * n_releases))
    return each * math.sqrt(2 * n_releases * math.log(2 / delta)) + n_releases * each * math.expm1(each)


def classical_epsilon(mu: float, delta: float) -> float:
    """Return epsilon of eq. 2.1 for one release; proved below 1 only, and false from about 6 on."""
    return mu * math.sqrt(2 * math.log(1.25 / delta))


def renyi_epsilon(mu: float, n_releases: int, delta: float) -> float:
    """Return what Rényi composition gives with propositions 6.3 to 6.5 at the best order (eq. 6.10)."""
    total = n_releases * mu**2
    order = 1 + math.sqrt(2 * math.log(1 / delta) / total)
    return order * total / 2 + math.log(1 / delta) / (order - 1)


def printed_renyi_epsilon(scale: float, n_releases: int, delta: float) -> float:
    """Return what section 6.3.1 prints: `renyi_epsilon` with sensitivity 1, whatever the sensitivity is."""
    return renyi_epsilon(1 / scale, n_releases, delta)
