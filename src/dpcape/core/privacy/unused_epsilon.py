"""Unused epsilon: shared noise is set by the smallest epsilon, so a larger one at a single site gains nothing."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import msgspec
import numpy as np

from dpcape.core.errors import UtilityWarning
from dpcape.core.privacy.calibration import Scheme, calibrate, target_mus
from dpcape.core.privacy.gaussian import epsilon_of
from dpcape.core.privacy.terms import Terms

# A site that spends less than this share of its epsilon is named; weights are proposed if they save as much noise.
_USED = 0.95


@dataclass(frozen=True)
class Unused:
    """Epsilons that a study does not use.

    Attributes
    ----------
    spent : dict of str to float
        Epsilon that the noise amounts to, for each site that allowed more.
    weights : dict of str to float
        Weights of all sites under which every site uses its epsilon; empty if they would not lower the noise.
    less_noise : float
        Noise in the mean under these weights, relative to the noise without them.
    """

    spent: dict[str, float]
    weights: dict[str, float]
    less_noise: float = 1.0


def unused_epsilons(terms: Terms, scheme: Scheme) -> Unused:
    """Return which sites allow more epsilon than the noise uses, and weights that would use it.

    A site's mu is proportional to its factor in the weighted total. Where the noise covers all sites alike, every mu is
    reached if factors are proportional to mu: weights to mu times the number of records.
    """
    if len(set(terms.epsilons.values())) < 2:
        return Unused({}, {})
    targets = target_mus(terms)
    reached, noise = _reached(terms, scheme, targets)
    spent = {site: epsilon_of(terms.delta, reached[site]) for site in terms.sites}
    spent = {site: epsilon for site, epsilon in spent.items() if epsilon < _USED * terms.epsilons[site]}
    if not spent:
        return Unused({}, {})
    products = {site: terms.n_records[site] * targets[site] for site in terms.sites}
    total = math.fsum(products.values())
    weights = _rounded({site: product / total for site, product in products.items()})
    _, less = _reached(msgspec.structs.replace(terms, weights=weights), scheme, targets)
    return Unused(spent, weights, less / noise) if less < _USED * noise else Unused(spent, {})


def warn_of_unused(terms: Terms, scheme: Scheme) -> None:
    """Warn of epsilon that does not lower the noise."""
    unused = unused_epsilons(terms, scheme)
    if unused.spent:
        warnings.warn(unused_text(terms, unused), UtilityWarning, stacklevel=3)


def unused_text(terms: Terms, unused: Unused) -> str:
    """Return what is unused, and the weights that would use it, in words."""
    allowed = ", ".join(
        # Rounded up.
        f"{site} {terms.epsilons[site]:g} (uses {math.ceil(spent * 1000 - 1e-6) / 1000:g})"
        for site, spent in unused.spent.items()
    )
    text = (
        f"The epsilon of some sites brings nothing: {allowed}. The noise covers all sites together, so the smallest "
        "epsilon sets it."
    )
    if not unused.weights:
        return f"{text} Lower these epsilons to what they use."
    weights = ", ".join(f"{site!r}: {weight:g}" for site, weight in unused.weights.items())
    return (
        f"{text} Lower these epsilons to what they use; or, if a mean that counts these sites more is what you want, "
        f"set weights to {{{weights}}}, with {unused.less_noise:.2f} times the noise."
    )


def _rounded(weights: dict[str, float]) -> dict[str, float]:
    """Return weights of four decimals that add to one, so that they can be copied; a tiny one stays as it is."""
    n_steps = 10_000
    steps = {site: round(weight * n_steps) for site, weight in weights.items()}
    largest = max(steps, key=lambda site: steps[site])
    steps[largest] += n_steps - sum(steps.values())
    return {site: step / n_steps for site, step in steps.items()} if min(steps.values()) > 0 else weights


def _reached(terms: Terms, scheme: Scheme, targets: dict[str, float]) -> tuple[dict[str, float], float]:
    """Return each site's mu for a statistic of diameter one, and the noise in the weighted mean."""
    sites = terms.sites
    factors = np.array([terms.coefficient(site) for site in sites])
    own, _, spent = calibrate(scheme, factors, np.array([targets[site] for site in sites]))
    return dict(zip(sites, spent.tolist(), strict=True)), float(np.sqrt(np.sum(own**2))) / terms.divisor(sites)
