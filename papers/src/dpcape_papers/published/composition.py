"""The total epsilon of many noisy releases, by the dissertation's accountants (section 6.3) and exactly.

``mu`` is the sensitivity of one release divided by its noise scale. Functions with ``n_releases`` return the epsilon of
that many releases together at ``delta``. For comparison only: guarantees use `dpcape.core.privacy`.
"""

from __future__ import annotations

import math

from dpcape.core.privacy.gaussian import epsilon_of


def exact_epsilon(mu: float, n_releases: int, delta: float) -> float:
    """Return the smallest possible epsilon: squares of mu add up, and the Gaussian formula is exact."""
    return epsilon_of(delta, mu * math.sqrt(n_releases))


def basic_epsilon(mu: float, n_releases: int, delta: float) -> float:
    """Return the epsilon of theorem 6.1: epsilons and deltas of classical Gaussian mechanisms add up."""
    return n_releases * classical_epsilon(mu, delta / n_releases)


def advanced_epsilon(mu: float, n_releases: int, delta: float) -> float:
    """Return the epsilon of strong composition, with half of delta for the releases and half for the composition.

    References
    ----------
    C. Dwork and A. Roth, *The algorithmic foundations of differential privacy*, 2014, theorem 3.20.
    """
    each = classical_epsilon(mu, delta / (2 * n_releases))
    return each * math.sqrt(2 * n_releases * math.log(2 / delta)) + n_releases * each * math.expm1(each)


def classical_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon of eq. 2.1 for one release; proved only below 1, and false from about 6."""
    return mu * math.sqrt(2 * math.log(1.25 / delta))


def renyi_epsilon(mu: float, n_releases: int, delta: float) -> float:
    """Return the epsilon of Rényi composition by propositions 6.3 to 6.5 at the best order (eq. 6.10)."""
    total = n_releases * mu**2
    order = 1 + math.sqrt(2 * math.log(1 / delta) / total)
    return order * total / 2 + math.log(1 / delta) / (order - 1)


def printed_renyi_epsilon(scale: float, n_releases: int, delta: float) -> float:
    """Return the epsilon printed in section 6.3.1: `renyi_epsilon` for sensitivity 1, whatever the true sensitivity."""
    return renyi_epsilon(1 / scale, n_releases, delta)
