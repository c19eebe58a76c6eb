"""A delta for every site (dissertation, section 3.3.7), restated at one delta for all."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.gaussian import epsilon_of, mu_of
from dpcape.core.privacy.terms import DELTA_RESERVE, epsilon_reserve, printed_epsilon, tail_reserve

# Shares by which mu is lowered until the reserve for integer noise fits into the site's own pair as well.
_LOWERED = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


def at_one_delta(pairs: Mapping[str, tuple[float, float]]) -> tuple[dict[str, float], float]:
    """Return epsilons for all sites at the smallest of their deltas, which give every site its own pair.

    A view that is mu-GDP up to (gap, tail) has, at every delta at once, the epsilon of ``printed_epsilon``: one pair of
    the curve takes nothing from another. A site that asks for (1, 1e-4) is given an epsilon at 1e-6 whose mu, less the
    reserves by which integer noise is drawn at 1e-6, has at most epsilon 1 at 1e-4; so it has both pairs. Its mu is
    never above that of its own pair, whatever the other sites ask for.

    Parameters
    ----------
    pairs : mapping
        Epsilon and delta of every site.

    Examples
    --------
    >>> from dpcape.core.privacy import at_one_delta
    >>> epsilon, delta = at_one_delta({"lyon": (1.0, 1e-6), "oslo": (1.0, 1e-4)})
    >>> delta, {site: round(value, 3) for site, value in epsilon.items()}
    (1e-06, {'lyon': 1.0, 'oslo': 1.357})

    An analysis does it for you: ``PCA(3, epsilon=1.0, delta={"lyon": 1e-6, "oslo": 1e-4})``.
    """
    if not pairs:
        raise InvalidParameter("pairs", "have an epsilon and a delta per site", "none", "Write {'lyon': (1.0, 1e-6)}.")
    for site, (epsilon, delta) in pairs.items():
        if not 0 < epsilon < math.inf or not 0 < delta < 1:
            must, got = "be a finite epsilon above 0 and a delta between 0 and 1", f"({epsilon}, {delta})"
            raise InvalidParameter(f"The pair of {site!r}", must, got, "Write for example (1.0, 1e-6).")
    least = min(delta for _, delta in pairs.values())
    return {site: _restated(*pair, least) for site, pair in pairs.items()}, least


def _restated(epsilon: float, delta: float, least: float) -> float:
    """Return the epsilon at ``least`` whose noise is private for (epsilon, delta) as well."""
    if delta == least:
        return epsilon
    mu = mu_of(epsilon, delta)
    for lowered in _LOWERED:
        restated = epsilon_of(least, mu * (1 - lowered))
        if own_epsilon(restated, least, delta) <= epsilon:
            return restated
    remedy = "Ask for a larger epsilon, or deltas that differ less."
    raise InvalidParameter(f"({epsilon}, {delta})", f"be restated at delta {least}, and cannot be", remedy=remedy)


def own_epsilon(epsilon: float, delta: float, own_delta: float) -> float:
    """Return the epsilon at ``own_delta`` of noise that was calibrated to (epsilon, delta), integer noise counted."""
    gap = epsilon_reserve(epsilon)
    mu = mu_of(epsilon - gap, delta * (1 - DELTA_RESERVE))
    return printed_epsilon(own_delta, mu, gap=gap, tail=tail_reserve(delta))
