"""Privacy loss and noise of a study, from public numbers only. Nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpcape.analyses.release import EXACT
from dpcape.errors import InvalidParameter
from dpcape.guarantee.guarantee import ONE_SITE_EACH
from dpcape.planning.consortium import Consortium
from dpcape.planning.planned import PlannedRelease
from dpcape.privacy.calibration import ReleaseNoise, plan_release, worst_exposures
from dpcape.privacy.gaussian import compose, epsilon_of, mu_of
from dpcape.privacy.terms import Terms
from dpcape.protocols import Protocol


def equal_sites(n_records: int, n_sites: int) -> dict[str, int]:
    """Return the sizes of sites that share ``n_records`` as evenly as possible."""
    if n_sites < 1 or n_records < n_sites:
        raise InvalidParameter(f"records must be at least one per site; got {n_records} records for {n_sites} sites.")
    small, more = divmod(n_records, n_sites)
    digits = len(str(n_sites))
    return {f"site-{index + 1:0{digits}}": small + (index < more) for index in range(n_sites)}


def plan_study(
    *,
    releases: Sequence[PlannedRelease],
    sizes: Mapping[str, int],
    protocol: Protocol,
    epsilon: float,
    delta: float,
) -> dict[str, Any]:
    """Return scales, mu and guarantee of a study of these releases.

    Scales are standard deviations at an entry of multiplicity one, such as the diagonal of a matrix. ``own_scale`` and
    ``shared_scale`` are for the smallest site's own mean, ``aggregate_scale`` for the mean over all sites, and
    ``pooled_scale`` is what pooled data would need for the same guarantee. With several releases they are those of the
    first release, ``mu`` is that of all releases together, and ``releases`` lists each.
    """
    planned = tuple(releases)
    terms = terms_of(planned, sizes, protocol, epsilon, delta)
    plans = plans_of(planned, terms, protocol)
    first = _release_entry(planned[0], plans[0], terms)
    mus = {site: compose(_repeated(planned, [plan.mus[site] for plan in plans])) for site in sizes}
    return {
        "protocol": protocol.name,
        "n_sites": len(sizes),
        "n_colluding": terms.settings.n_colluding,
        "minimum_sites": terms.settings.minimum_sites,
        "n_records": terms.total_records,
        "epsilon": epsilon,
        "delta": delta,
        "mu": max(mus.values()),
        **{name: first[name] for name in first if name not in ("statistic", "times", "mu", "share")},
        "n_releases": len(terms.shares),
        **({"releases": list(map(_release_entry, planned, plans, [terms] * len(plans)))} if len(planned) > 1 else {}),
        "megabytes_per_site": _megabytes(planned, protocol),
        "against": protocol.adversary(),
        "assumptions": [ONE_SITE_EACH, *protocol.assumptions()],
    }


def plans_of(releases: Sequence[PlannedRelease], terms: Terms, protocol: Protocol) -> list[ReleaseNoise]:
    """Return the noise of each release; repeated releases are planned once."""
    starts = [sum(entry.times for entry in releases[:index]) for index in range(len(releases))]
    return [
        plan_release(terms, start, entry.statistic, protocol) for start, entry in zip(starts, releases, strict=True)
    ]


def aggregate_scales(releases: Sequence[PlannedRelease], terms: Terms, protocol: Protocol) -> list[float]:
    """Return the noise scale on the mean over all sites, per release."""
    return [plan.sum_scale(terms.sites) / terms.divisor(terms.sites) for plan in plans_of(releases, terms, protocol)]


def _repeated(releases: Sequence[PlannedRelease], values: Sequence[float]) -> list[float]:
    return [value for entry, value in zip(releases, values, strict=True) for _ in range(entry.times)]


def _release_entry(release: PlannedRelease, plan: ReleaseNoise, terms: Terms) -> dict[str, Any]:
    """Return the numbers of one release, for the smallest site and for the mean over all sites."""
    sizes, statistic = terms.n_records, release.statistic
    smallest = min(sizes, key=lambda site: (sizes[site], site))
    total, epsilon = terms.total_records, max(terms.epsilons.values())
    pooled = statistic.diameter / (mu_of(epsilon, terms.delta) * math.sqrt(release.share) * total)
    aggregate = plan.sum_scale(terms.sites) / total
    return {
        "statistic": statistic.name,
        "times": release.times,
        "share": release.share,
        "mu": max(plan.mus.values()),
        "sensitivity": statistic.diameter / sizes[smallest],
        "own_scale": plan.own_scales[smallest] / sizes[smallest],
        "shared_scale": plan.shared_scales[smallest] / sizes[smallest],
        "aggregate_scale": aggregate,
        "aggregate_scale_at_minimum": _fewest_scale(terms, plan),
        "pooled_scale": pooled,
        "noise_ratio": aggregate / pooled,
        "entries": statistic.size,
        **({} if release.known == EXACT else {"known": release.known}),
    }


def _megabytes(releases: Sequence[PlannedRelease], protocol: Protocol) -> float:
    entries = sum(entry.times * entry.statistic.size for entry in releases)
    return round(8e-6 * entries * protocol.vectors, 3)


def account(
    *,
    protocol: Protocol,
    n_sites: int,
    sensitivity: float,
    own_scale: float,
    shared_scale: float,
    delta: float,
) -> dict[str, Any]:
    """Return the guarantee that given noise scales provide, whatever was claimed for them."""
    if not (sensitivity > 0 and own_scale >= 0 and shared_scale >= 0):
        raise InvalidParameter(
            "sensitivity must be positive, and own_scale and shared_scale nonnegative; "
            f"got {sensitivity!r}, {own_scale!r} and {shared_scale!r}."
        )
    protocol.settings(n_sites)
    own, shared = np.full(n_sites, float(own_scale)), np.full(n_sites, float(shared_scale))
    if shared_scale > 0 and not protocol.shares_noise:
        raise InvalidParameter(
            f"shared_scale must be 0 for {protocol.name}, which has no cancelling noise; got {shared_scale!r}."
        )
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


def terms_of(
    releases: Sequence[PlannedRelease],
    sizes: Mapping[str, int],
    protocol: Protocol,
    epsilon: float,
    delta: float,
    *,
    weights: Mapping[str, float] | None = None,
) -> Terms:
    """Return the terms of a study with these releases at sites of these sizes."""
    shares = _repeated(releases, [entry.share for entry in releases])
    return Consortium(sizes, protocol, epsilon, delta).terms(releases[0].statistic.facts, shares, weights)


def _fewest_scale(terms: Terms, plan: ReleaseNoise) -> float:
    """Return the noise scale on the mean when only the smallest ``minimum_sites`` sites finish."""
    fewest = sorted(terms.sites, key=lambda site: (terms.n_records[site], site))[: terms.settings.minimum_sites]
    return plan.sum_scale(fewest) / terms.divisor(tuple(fewest))
