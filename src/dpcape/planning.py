"""What a study would cost and how noisy it would be, from public numbers alone. Nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpcape.errors import InvalidParameter
from dpcape.facts import Facts
from dpcape.privacy.calibrate import Plan, plan_release, worst_exposures
from dpcape.privacy.gaussian import epsilon_of, mu_of
from dpcape.privacy.terms import Terms, check_terms
from dpcape.protocols import Cape, Dealer, Independent, Protocol, SecureSum
from dpcape.statistics import Statistic, centred_moments, first_moments, second_moment

PROTOCOLS = ("cape", "secure-sum", "independent", "dealer")
ANALYSES = ("mean", "pca", "cca", "centred-pca")


def make_protocol(
    name: str, *, n_colluding: int, minimum_sites: int | None = None, cancelling_ratio: float = 100.0
) -> Protocol:
    """Return the protocol of this command-line name."""
    if name == "cape":
        return Cape(n_colluding=n_colluding, minimum_sites=minimum_sites, cancelling_ratio=cancelling_ratio)
    if name == "secure-sum":
        return SecureSum(n_colluding=n_colluding, minimum_sites=minimum_sites)
    if name == "independent":
        return Independent(minimum_sites=minimum_sites)
    if name == "dealer":
        if minimum_sites is not None:
            raise InvalidParameter("minimum_sites must be left out for dealer: all sites must finish.")
        return Dealer(n_colluding=n_colluding, cancelling_ratio=cancelling_ratio)
    raise InvalidParameter(f"protocol must be one of {', '.join(PROTOCOLS)}; got {name!r}.")


def statistic_of(analysis: str, widths: Sequence[int], bounds: Sequence[float]) -> Statistic:
    """Return the statistic an analysis releases, for records of these public dimensions."""
    if analysis not in ANALYSES:
        raise InvalidParameter(f"analysis must be one of {', '.join(ANALYSES)}; got {analysis!r}.")
    if any(width < 1 for width in widths) or any(not bound > 0 for bound in bounds):
        raise InvalidParameter("features and bound must be positive.")
    facts = Facts(
        kind="views" if analysis == "cca" else "rows",
        unit="record",
        n_records=1,
        widths=tuple(widths),
        bounds=tuple(bounds),
    )
    if analysis == "mean":
        return first_moments(facts)
    return centred_moments(facts) if analysis == "centred-pca" else second_moment(facts)


def equal_sites(n_records: int, n_sites: int) -> dict[str, int]:
    """Split ``n_records`` over ``n_sites`` as evenly as whole numbers allow."""
    if n_sites < 1 or n_records < n_sites:
        raise InvalidParameter(f"records must be at least one per site; got {n_records} for {n_sites} sites.")
    small, more = divmod(n_records, n_sites)
    digits = len(str(n_sites))
    return {f"site-{index + 1:0{digits}}": small + (index < more) for index in range(n_sites)}


def plan_study(
    *,
    statistic: Statistic,
    sizes: dict[str, int],
    protocol: Protocol,
    epsilon: float,
    delta: float,
) -> dict[str, Any]:
    """Return scales, mu and guarantee of a one-release study.

    ``own_scale`` and ``shared_scale`` are standard deviations of the noise on one site's own mean (of the smallest
    site), ``aggregate_scale`` of the noise on the mean over all sites, ``pooled_scale`` what pooled data would need
    for the same guarantee; each at an entry of multiplicity one, such as the diagonal of a matrix.
    """
    terms = _terms(statistic, sizes, protocol, epsilon, delta)
    plan = plan_release(terms, 0, statistic, protocol)
    total = terms.total_records
    smallest = min(sizes, key=lambda site: (sizes[site], site))
    mu = max(plan.mus.values())
    pooled = statistic.diameter / (mu_of(epsilon, delta) * total)
    aggregate = plan.sum_scale(terms.sites) / total
    return {
        "protocol": protocol.name,
        "n_sites": len(sizes),
        "n_colluding": terms.settings.n_colluding,
        "minimum_sites": terms.settings.minimum_sites,
        "n_records": total,
        "epsilon": epsilon,
        "delta": delta,
        "mu": mu,
        "sensitivity": statistic.diameter / sizes[smallest],
        "own_scale": plan.own_scales[smallest] / sizes[smallest],
        "shared_scale": plan.shared_scales[smallest] / sizes[smallest],
        "aggregate_scale": aggregate,
        "aggregate_scale_at_minimum": _fewest_scale(terms, plan),
        "pooled_scale": pooled,
        "noise_ratio": aggregate / pooled,
        "entries": statistic.size,
        "megabytes_per_site": round(8e-6 * statistic.size * (1 if protocol.name == "independent" else 2), 3),
        "against": protocol.adversary(),
        "assumptions": list(protocol.assumptions()),
    }


def account(
    *,
    protocol: Protocol,
    n_sites: int,
    sensitivity: float,
    own_scale: float,
    shared_scale: float,
    delta: float,
) -> dict[str, Any]:
    """Return mu and epsilon of given scales: what somebody's noise really gives, whatever it was sold as."""
    if not (sensitivity > 0 and own_scale >= 0 and shared_scale >= 0):
        raise InvalidParameter("sensitivity must be positive, own_scale and shared_scale not negative.")
    protocol.settings(n_sites)
    own, shared = np.full(n_sites, float(own_scale)), np.full(n_sites, float(shared_scale))
    if protocol.name in ("independent", "secure-sum") and shared_scale > 0:
        raise InvalidParameter(f"shared_scale must be 0 for {protocol.name}; got {shared_scale!r}.")
    exposure = float(np.max(worst_exposures(protocol, own, shared)))
    mu = sensitivity * exposure
    epsilon = epsilon_of(delta, mu)
    return {
        "protocol": protocol.name,
        "n_sites": n_sites,
        "n_colluding": protocol.settings(n_sites).n_colluding,
        "minimum_sites": protocol.settings(n_sites).minimum_sites,
        "sensitivity": sensitivity,
        "own_scale": own_scale,
        "shared_scale": shared_scale,
        "delta": delta,
        "exposure": exposure if math.isfinite(exposure) else None,
        "mu": mu if math.isfinite(mu) else None,
        "epsilon": epsilon if math.isfinite(epsilon) else None,
        "aggregate_scale": own_scale / math.sqrt(n_sites),
        "against": protocol.adversary(),
    }


def _terms(statistic: Statistic, sizes: dict[str, int], protocol: Protocol, epsilon: float, delta: float) -> Terms:
    terms = Terms(
        allowance="plan",
        settings=protocol.settings(len(sizes)),
        epsilons=dict.fromkeys(sizes, float(epsilon)),
        delta=float(delta),
        shares=(1.0,),
        n_records=sizes,
        weights={},
        facts=statistic.facts,
    )
    check_terms(terms)
    return terms


def _fewest_scale(terms: Terms, plan: Plan) -> float:
    """Noise on the mean when only the smallest ``minimum_sites`` sites finish."""
    fewest = sorted(terms.sites, key=lambda site: (terms.n_records[site], site))[: terms.settings.minimum_sites]
    return plan.sum_scale(fewest) / terms.divisor(tuple(fewest))
