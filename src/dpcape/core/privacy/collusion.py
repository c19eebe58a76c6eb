"""The guarantee when fewer, or more, sites collude than it was calibrated for.

Up to the agreed number, the adversary's view is the protocol's own, with fewer rows. Beyond it, only one thing is
assumed: a site's messages carry its own noise, which never leaves the site by itself. The figure for more colluders
therefore counts only each site's own noise, not masks or cancelling noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpcape.core.privacy.calibration import ReleaseNoise, Scheme, target_mus, worst_exposures
from dpcape.core.privacy.gaussian import compose
from dpcape.core.privacy.ledger import Charge, spent_epsilon
from dpcape.core.privacy.terms import Terms, epsilon_reserve, tail_reserve


def epsilons_by_colluders(terms: Terms, scheme: Scheme, plans: Sequence[ReleaseNoise]) -> tuple[float, ...]:
    """Return the epsilon of the least protected site, against the aggregator and 0, 1, ... of the other sites.

    The last entry is for all other sites together. The result is empty without noise or without releases.

    Parameters
    ----------
    terms : Terms
        Terms of the allowance.
    scheme : Scheme
        The protocol.
    plans : sequence of ReleaseNoise
        The releases made so far; the remaining ones count as exposed as the worst of these.
    """
    if not terms.epsilons or not plans:
        return ()
    n_sites, agreed = len(terms.sites), terms.settings.n_colluding
    least = scheme.n_honest(n_sites) + agreed
    honest = [max(1, least - colluding) if colluding <= agreed else 0 for colluding in range(n_sites)]
    epsilons = {count: _worst_epsilon(terms, scheme, plans, count) for count in set(honest)}
    return tuple(epsilons[count] for count in honest)


def _worst_epsilon(terms: Terms, scheme: Scheme, plans: Sequence[ReleaseNoise], n_honest: int) -> float:
    """Return the worst site's epsilon if this many honest sites finish; 0 counts only the site's own noise."""
    exposed = [_mus(terms, scheme, plan, n_honest) for plan in plans]
    unused = math.sqrt(math.fsum(terms.shares[len(plans) :]))
    targets = target_mus(terms)
    # Epsilon grows with mu: of sites with the same reserve, the one with the largest mu decides.
    largest: dict[float, float] = {}
    for index, site in enumerate(terms.sites):
        growth = max(float(mus[index]) / plan.mus[site] for mus, plan in zip(exposed, plans, strict=True))
        mu = compose([*(float(mus[index]) for mus in exposed), max(1.0, growth) * targets[site] * unused])
        gap = epsilon_reserve(terms.epsilons[site])
        largest[gap] = max(mu, largest.get(gap, 0.0))
    tail, n_releases = tail_reserve(terms.delta), len(terms.shares)
    return max(spent_epsilon([Charge("", mu, gap, tail, n_releases)], terms.delta) for gap, mu in largest.items())


def _mus(
    terms: Terms, scheme: Scheme, plan: ReleaseNoise, n_honest: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    own = np.array([plan.own_scales[site] for site in terms.sites])
    shared = np.array([plan.shared_scales[site] for site in terms.sites])
    sensitivities = np.array([plan.output_sensitivities[site] for site in terms.sites])
    exposures = worst_exposures(scheme, own, shared, n_honest=n_honest) if n_honest else 1.0 / own
    result: np.ndarray[tuple[int], np.dtype[np.float64]] = sensitivities * exposures
    return result
