"""Privacy loss and noise of a study, from public numbers only. Nothing is spent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, cast

import numpy as np

from dpcape.analyses.release import EXACT
from dpcape.core.errors import InvalidParameter
from dpcape.core.privacy.calibration import ReleaseNoise, worst_exposures
from dpcape.core.privacy.gaussian import compose, epsilon_of, mu_of
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.protocol import Protocol
from dpcape.guarantee.guarantee import ONE_SITE_EACH
from dpcape.planning.consortium import Consortium
from dpcape.planning.planned import PlannedRelease, plans_of, releases_of


class _Scales(TypedDict):
    """Numbers that a release and the first release of a study have in common."""

    sensitivity: float
    own_scale: float
    shared_scale: float
    aggregate_scale: float
    aggregate_scale_at_minimum: float
    pooled_scale: float
    noise_ratio: float
    entries: int
    known: NotRequired[str]


class ReleaseNumbers(_Scales):
    """Numbers of one planned release; scales are standard deviations of noise.

    Attributes
    ----------
    statistic : str
        Name of the statistic.
    times : int
        How many times it is released.
    share : float
        Share of mu^2, each time.
    mu : float
        Largest mu over all sites.
    sensitivity : float
        Sensitivity of the smallest site's mean.
    own_scale : float
        Scale of own noise on the smallest site's mean.
    shared_scale : float
        Scale of the cancelling draw on the smallest site's mean.
    aggregate_scale : float
        Scale on the mean over all sites.
    aggregate_scale_at_minimum : float
        The same when only the smallest ``minimum_sites`` sites finish.
    pooled_scale : float
        Scale that pooled data would need.
    noise_ratio : float
        ``aggregate_scale`` divided by ``pooled_scale``.
    entries : int
        How many numbers are released.
    known : str
        "relative" or "at most" if the scales are not exact; otherwise absent.
    """

    statistic: str
    times: int
    share: float
    mu: float


class StudyNumbers(_Scales):
    """Numbers of a planned study.

    From ``sensitivity`` to ``known`` they are those of the first release, as in :class:`ReleaseNumbers`.

    Attributes
    ----------
    protocol : str
        Name of the protocol.
    n_sites : int
        Number of sites.
    n_colluding : int
        Number of sites that may collude.
    minimum_sites : int
        Number of sites that must finish.
    n_records : int
        Number of records, over all sites.
    epsilon : float
        Privacy parameter epsilon.
    delta : float
        Privacy parameter delta.
    mu : float
        Largest mu over all sites, of all releases together.
    sensitivity, own_scale, shared_scale, aggregate_scale, aggregate_scale_at_minimum : float
        Of the first release.
    pooled_scale, noise_ratio : float
        Of the first release.
    entries : int
        How many numbers the first release contains.
    known : str
        "relative" or "at most" if the scales are not exact; otherwise absent.
    n_releases : int
        Number of releases.
    releases : list of ReleaseNumbers
        Each release; absent if there is only one.
    megabytes_per_site : float
        Data sent by each site, in megabytes.
    against : str
        The adversary, in words.
    assumptions : list of str
        Assumptions of the guarantee.
    """

    protocol: str
    n_sites: int
    n_colluding: int
    minimum_sites: int
    n_records: int
    epsilon: float
    delta: float
    mu: float
    n_releases: int
    releases: NotRequired[list[ReleaseNumbers]]
    megabytes_per_site: float
    against: str
    assumptions: list[str]


class AccountedScales(TypedDict):
    """Guarantee that given noise scales provide.

    Attributes
    ----------
    protocol : str
        Name of the protocol.
    n_sites : int
        Number of sites.
    n_colluding : int
        Number of sites that may collude.
    minimum_sites : int
        Number of sites that must finish.
    sensitivity : float
        Sensitivity of one site's statistic.
    own_scale : float
        Scale of a site's own noise.
    shared_scale : float
        Scale of a site's cancelling draw.
    delta : float
        Privacy parameter delta.
    exposure : float or None
        Mu per unit of sensitivity; None for infinity.
    mu : float or None
        Parameter mu; None for infinity.
    epsilon : float or None
        Epsilon at ``delta``; None for infinity.
    aggregate_scale : float
        Scale on the mean over all sites.
    against : str
        The adversary, in words.
    """

    protocol: str
    n_sites: int
    n_colluding: int
    minimum_sites: int
    sensitivity: float
    own_scale: float
    shared_scale: float
    delta: float
    exposure: float | None
    mu: float | None
    epsilon: float | None
    aggregate_scale: float
    against: str


def equal_sites(n_records: int, n_sites: int) -> dict[str, int]:
    """Return the sizes of sites that share ``n_records`` as evenly as possible."""
    if n_sites < 1 or n_records < n_sites:
        raise InvalidParameter("records", "be at least one per site", f"{n_records} records for {n_sites} sites")
    small, more = divmod(n_records, n_sites)
    digits = len(str(n_sites))
    return {f"site-{index + 1:0{digits}}": small + (index < more) for index in range(n_sites)}


def plan_study(
    *, releases: Sequence[PlannedRelease], sizes: Mapping[str, int], protocol: Protocol, epsilon: float, delta: float
) -> StudyNumbers:
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
    entries = sum(entry.times * entry.statistic.released_size for entry in planned)
    numbers = {
        "protocol": protocol.name,
        "n_sites": len(sizes),
        "n_colluding": terms.settings.n_colluding,
        "minimum_sites": terms.settings.minimum_sites,
        "n_records": terms.total_records,
        "epsilon": epsilon,
        "delta": delta,
        "mu": max(mus.values()),
        **{name: value for name, value in first.items() if name not in ("statistic", "times", "mu", "share")},
        "n_releases": len(terms.shares),
        **({"releases": list(map(_release_entry, planned, plans, [terms] * len(plans)))} if len(planned) > 1 else {}),
        "megabytes_per_site": round(8e-6 * entries * protocol.vectors, 3),
        "against": protocol.adversary(),
        "assumptions": [ONE_SITE_EACH, *protocol.assumptions()],
    }
    return cast("StudyNumbers", numbers)


def plan_of(
    variant: str,
    widths: Sequence[int],
    bounds: Sequence[float],
    consortium: Consortium,
    options: Mapping[str, object] | None = None,
) -> StudyNumbers:
    """Return scales, mu and guarantee of an analysis, such as "pca", of records of these dimensions."""
    return plan_study(
        releases=releases_of(variant, widths, bounds, options, setting=consortium),
        sizes=consortium.sizes,
        protocol=consortium.protocol,
        epsilon=consortium.epsilon,
        delta=consortium.delta,
    )


def aggregate_scales(releases: Sequence[PlannedRelease], terms: Terms, protocol: Protocol) -> list[float]:
    """Return the noise scale on the mean over all sites, per release."""
    return [plan.sum_scale(terms.sites) / terms.divisor(terms.sites) for plan in plans_of(releases, terms, protocol)]


def _repeated(releases: Sequence[PlannedRelease], values: Sequence[float]) -> list[float]:
    return [value for entry, value in zip(releases, values, strict=True) for _ in range(entry.times)]


def _release_entry(release: PlannedRelease, plan: ReleaseNoise, terms: Terms) -> ReleaseNumbers:
    """Return the numbers of one release, for the smallest site and for the mean over all sites."""
    sizes, statistic = terms.n_records, release.statistic
    smallest = min(sizes, key=lambda site: (sizes[site], site))
    total, epsilon = terms.total_records, max(terms.epsilons.values())
    pooled = statistic.diameter / (mu_of(epsilon, terms.delta) * math.sqrt(release.share) * total)
    aggregate = plan.sum_scale(terms.sites) / total
    numbers: ReleaseNumbers = {
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
        "entries": statistic.released_size,
    }
    if release.known != EXACT:
        numbers["known"] = release.known
    return numbers


def account(
    *, protocol: Protocol, n_sites: int, sensitivity: float, own_scale: float, shared_scale: float, delta: float
) -> AccountedScales:
    """Return the guarantee that given noise scales provide, whatever was claimed for them."""
    if not (sensitivity > 0 and own_scale >= 0 and shared_scale >= 0):
        raise InvalidParameter(
            "sensitivity",
            "be positive, and own_scale and shared_scale nonnegative",
            f"{sensitivity!r}, {own_scale!r} and {shared_scale!r}",
        )
    protocol.settings(n_sites)
    own, shared = np.full(n_sites, float(own_scale)), np.full(n_sites, float(shared_scale))
    if shared_scale > 0 and not protocol.shares_noise:
        raise InvalidParameter(
            "shared_scale", f"be 0 for {protocol.name}, which has no cancelling noise", repr(shared_scale)
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
