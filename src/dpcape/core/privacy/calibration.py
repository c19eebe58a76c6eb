"""Calibration: the noise of one release, from the guarantee it must give.

The same function runs at the coordinator and at every site; a site refuses a request whose noise differs from its own
calculation. Only the view determines the scales: exposure is inversely proportional to noise, so one evaluation of the
worst view fixes the factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol as Interface

import msgspec
import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape.core.errors import InvalidParameter, ViewUnprotected
from dpcape.core.noise import LARGEST_SCALE
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.gaussian import mu_of
from dpcape.core.privacy.integer_gap import CUTOFF, delta_tail, epsilon_gap
from dpcape.core.privacy.terms import DELTA_RESERVE, Terms, epsilon_reserve, tail_reserve
from dpcape.core.secure_sum.fixed_point import SHORT_BYTES, WORD_BYTES

# own_scale is at least 2^24 grid steps (docs/decisions/0003), 2^30 where the 64-bit range has room.
_COARSEST, _USUAL, _FINEST = 24, 30, 44
_RANGE = 2.0**62
# Rounding bounds are relative: they hold only while totals neither overflow nor lose digits to underflow.
_SMALLEST_DIAMETER, _LARGEST_DIAMETER = 2.0**-700, 2.0**700


class Released(Interface):
    """Interface of a statistic, built or planned, as calibration needs it."""

    @property
    def name(self) -> str:
        """Name of the statistic in messages."""

    @property
    def released_size(self) -> int:
        """Length of the vector that leaves a site."""

    @property
    def diameter(self) -> float:
        """Largest distance between the contributions of two units."""

    @property
    def radius(self) -> float:
        """Largest length of one unit's contribution."""

    def rounding(self, n_records: int) -> float:
        """Return a bound on the floating-point error of a total."""

    def sensitivity(self, n_records: int) -> float:
        """Return how far replacing one unit moves the computed total."""


class Scheme(Interface):
    """Interface of a protocol, as calibration needs it."""

    def n_honest(self, n_sites: int) -> int:
        """Return the least number of honest sites among those that finish."""

    def unit_scales(self, demands: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return own and shared scales up to one common factor, for ``demands`` = sensitivity / mu per site."""

    def cover(self, own_scales: FloatArray, shared_scales: FloatArray) -> FloatArray:
        """Return how much each site's noise protects the others."""

    def view(
        self, n_sites: int, *, honest: Sequence[int] | None, own_scales: FloatArray, shared_scales: FloatArray
    ) -> AdversaryView:
        """Return what the aggregator and all sites outside ``honest`` see together."""

    def exposure(self, site: int, honest: Sequence[int], own_scales: FloatArray, shared_scales: FloatArray) -> float:
        """Return the exposure of ``site`` in that view."""


class ReleaseNoise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Noise of one release; scales are standard deviations in units of a site's weighted total.

    Attributes
    ----------
    step : float
        Grid step, a power of two.
    output_sensitivities : dict of str to float
        How far replacing one unit of a site moves the sum, rounding included.
    own_scales, shared_scales : dict of str to float
        Scale of each site's own noise, and of its draw of cancelling noise before the mean is removed.
    mus : dict of str to float
        The mu of the release for each site, against the worst coalition.
    gap, tail : float
        What integer noise adds to epsilon and delta (docs/noise.md).
    word_bytes : int
        Bytes of each masked word on the wire: 6 where every sum is known to fit into 48 bits, otherwise 8.
    """

    step: float
    output_sensitivities: dict[str, float]
    own_scales: dict[str, float]
    shared_scales: dict[str, float]
    mus: dict[str, float]
    gap: float
    tail: float
    word_bytes: int = WORD_BYTES

    def own_steps(self, site: str) -> float:
        """Return the scale of the site's own noise, in grid steps."""
        return self.own_scales[site] / self.step

    def shared_steps(self, site: str) -> float:
        """Return the scale of the site's draw of cancelling noise, in grid steps."""
        return self.shared_scales[site] / self.step

    def agrees_with(self, other: ReleaseNoise) -> bool:
        """Return whether another party computed the same noise, up to rounding in its linear algebra.

        A site uses its own result in any case, so the tolerance costs no privacy; the grid must be the same.
        """
        mine, others = (msgspec.structs.astuple(plan)[1:] for plan in (self, other))
        return (self.step, self.word_bytes) == (other.step, other.word_bytes) and all(
            _are_close(own, their) for own, their in zip(mine, others, strict=True)
        )

    def sum_scale(self, survivors: Sequence[str]) -> float:
        """Return the scale of the noise in the sum over ``survivors``: own noise only, the rest cancels."""
        return math.hypot(*(self.own_scales[site] for site in survivors))


def _are_close(own: float | dict[str, float], their: float | dict[str, float]) -> bool:
    if isinstance(own, dict) and isinstance(their, dict):
        # Fast path: the values are nearly always bitwise equal.
        return own == their or (own.keys() == their.keys() and all(_are_close(own[key], their[key]) for key in own))
    return math.isclose(own, their, rel_tol=1e-9)  # type: ignore[arg-type]  # both are floats here


def target_mus(terms: Terms) -> dict[str, float]:
    """Return each site's total mu, after the reserve for integer noise."""
    mus = {
        epsilon: mu_of(epsilon - epsilon_reserve(epsilon), terms.delta * (1 - DELTA_RESERVE))
        for epsilon in set(terms.epsilons.values())
    }
    return {site: mus[epsilon] for site, epsilon in terms.epsilons.items()}


def worst_exposures(
    scheme: Scheme, own_scales: FloatArray, shared_scales: FloatArray, *, n_honest: int | None = None
) -> FloatArray:
    """Return each site's exposure against the worst coalition and the fewest survivors.

    ``n_honest`` is the number of honest sites that finish; None for the least that the scheme allows.

    A site that colludes, or that drops out and is corrected for, no longer covers the rest. The worst case for a site
    is to be left with the others whose noise covers least (checked against all coalitions in ``tests/privacy``).
    """
    n_sites = own_scales.size
    n_honest = scheme.n_honest(n_sites) if n_honest is None else n_honest
    order = np.lexsort((np.arange(n_sites), scheme.cover(own_scales, shared_scales)))
    least = [int(site) for site in order[:n_honest]]
    covered = set(least)
    # Sites with the same noise are left with others of the same noise: those that cover least, or all but one of them.
    seen: dict[tuple[float, float, bool], float] = {}
    keys = [
        (own, shared, site in covered)
        for site, (own, shared) in enumerate(zip(own_scales.tolist(), shared_scales.tolist(), strict=True))
    ]
    for site, key in enumerate(keys):
        if key not in seen:
            honest = least if key[-1] else [site, *least[: n_honest - 1]]
            seen[key] = scheme.exposure(site, honest, own_scales, shared_scales)
    return np.array([seen[key] for key in keys])


def calibrate(scheme: Scheme, sensitivities: FloatArray, mus: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return own scales, shared scales and each site's resulting mu (at most the one requested)."""
    demands = sensitivities / mus
    own, shared = scheme.unit_scales(demands)
    exposures = worst_exposures(scheme, own, shared)
    if not np.isfinite(exposures).all():
        why = "the adversary could remove all noise covering some site"
        raise ViewUnprotected("Calibration failed", why, "Lower n_colluding, raise minimum_sites, or use SecureSum.")
    # The tiny factor keeps rounding on the private side.
    factor = float(np.max(exposures * demands)) * (1 + 1e-12)
    return own * factor, shared * factor, sensitivities * exposures / factor


class NoisePlans:
    """The noise of an allowance's releases, computed once for all that is the same.

    A plan is a pure function of public numbers. Rounds of a study, its sites where they share a process, and studies
    with the same numbers have the same plans.

    Parameters
    ----------
    terms : Terms
        Public terms of the allowance.
    scheme : Scheme
        The protocol.
    """

    def __init__(self, terms: Terms, scheme: Scheme) -> None:
        self._terms, self._scheme = terms, scheme
        # Everything of terms and protocol that the noise of a release depends on.
        numbers = (terms.epsilons, terms.n_records, terms.weights)
        own = tuple(sorted((name, repr(value)) for name, value in getattr(scheme, "__dict__", {}).items()))
        fixed = (type(scheme), own, terms.settings, terms.delta, len(terms.shares))
        self._common = (*fixed, *(frozenset(entry.items()) for entry in numbers))

    def plan(self, release: int, statistic: Released) -> ReleaseNoise:
        """Return what :func:`plan_release` returns."""
        _check_diameter(statistic)
        key = (self._common, self._terms.shares[release], *_extent(statistic, self._terms))
        noise = _KNOWN.get(key)
        if noise is None:
            noise = plan_release(self._terms, release, statistic, self._scheme)
            if len(_KNOWN) >= _MOST_KNOWN:
                _KNOWN.clear()
            _KNOWN[key] = noise
        return noise


# Plans by all numbers they follow from; nothing in them depends on records.
_KNOWN: dict[tuple[object, ...], ReleaseNoise] = {}
_MOST_KNOWN = 1024


def _extent(statistic: Released, terms: Terms) -> tuple[object, ...]:
    """Return everything of a statistic that its noise depends on, and its name for messages."""
    sizes = sorted(set(terms.n_records.values()))
    bounds = [(statistic.sensitivity(size), statistic.rounding(size)) for size in sizes]
    return (statistic.name, statistic.released_size, statistic.diameter, statistic.radius, *bounds)


def noise_ratio(scheme: Scheme, n_sites: int) -> float:
    """Return the noise in the total of ``n_sites`` sites, relative to that of one holder of all records.

    All sites have the same mu and finish.
    """
    own, _, _ = calibrate(scheme, np.ones(n_sites), np.ones(n_sites))
    return float(np.sqrt(np.sum(own**2)))


def plan_release(terms: Terms, release: int, statistic: Released, scheme: Scheme) -> ReleaseNoise:
    """Return the noise of release number ``release``; a pure function of public facts."""
    _check_diameter(statistic)
    sites = terms.sites
    if not terms.epsilons:
        return _plan_without_noise(terms, statistic)
    share = terms.shares[release]
    targets = target_mus(terms)
    mus = np.array([targets[site] for site in sites]) * math.sqrt(share)
    by_size = {size: statistic.sensitivity(size) for size in set(terms.n_records.values())}
    exact = np.array([terms.coefficient(site) * by_size[terms.n_records[site]] for site in sites])
    own, shared, _ = calibrate(scheme, exact, mus)
    step = _grid_step(terms, statistic, own, shared)
    # Rounding a total to the grid moves each coordinate by at most half a step: one step between two totals.
    sensitivities = exact + step * math.sqrt(statistic.released_size)
    own, shared, spent = calibrate(scheme, sensitivities, mus)
    needed = _range_needed(terms, statistic, own, shared)
    if not _fits(needed, own, shared, step, slack=2.0):
        raise _does_not_fit(statistic, needed, own)
    n_draws = (2 if shared.any() else 1) * len(sites) * statistic.released_size
    tail = delta_tail(n_draws=n_draws, epsilon=max(terms.epsilons.values()))
    if tail > tail_reserve(terms.delta) / len(terms.shares):
        must = "leave room for the cut-off of integer noise"
        got = f"epsilon {max(terms.epsilons.values()):g} and delta {terms.delta:g} over {len(terms.shares)} release(s)"
        raise InvalidParameter("epsilon and delta", must, got, "Ask for a smaller epsilon or a larger delta.")
    return ReleaseNoise(
        step=step,
        output_sensitivities=dict(zip(sites, sensitivities.tolist(), strict=True)),
        own_scales=dict(zip(sites, own.tolist(), strict=True)),
        shared_scales=dict(zip(sites, shared.tolist(), strict=True)),
        mus=dict(zip(sites, spent.tolist(), strict=True)),
        gap=_gap(statistic.released_size, own, shared, step),
        tail=tail,
        word_bytes=_word_bytes(needed / step),
    )


def _check_diameter(statistic: Released) -> None:
    """Refuse a statistic whose totals a double-precision number may not hold with all its digits."""
    # Negated, because NaN compares false: this way NaN is refused.
    if not _SMALLEST_DIAMETER <= statistic.diameter <= _LARGEST_DIAMETER:
        raise InvalidParameter(
            f"The diameter of the release {statistic.name!r}",
            f"be between {_SMALLEST_DIAMETER:.0e} and {_LARGEST_DIAMETER:.0e}",
            f"{statistic.diameter:g}",
            "Choose a bound or a clip nearer to one.",
        )


def _gap(size: int, own: FloatArray, shared: FloatArray, step: float) -> float:
    # The draw with the smallest scale decides: with a small cancelling ratio that is the shared one.
    finest = float(np.min([*own, *shared[shared > 0]]))
    return epsilon_gap(own_steps=finest / step, n_sites=own.size, n_coordinates=size)


def _fits(needed: float, own: FloatArray, shared: FloatArray, step: float, slack: float = 1.0) -> bool:
    """Return whether sums fit into 64 bits and every draw into the sampler's range."""
    largest = max(float(own.max()), float(shared.max()))
    return needed / step < slack * _RANGE and largest / step <= slack * LARGEST_SCALE / 2


def _word_bytes(steps: float) -> int:
    """Return the bytes of a masked word for sums of up to `steps` in absolute value, with a factor of two to spare."""
    return SHORT_BYTES if 2.0 * steps < 2.0 ** (8 * SHORT_BYTES - 1) else WORD_BYTES


def _grid_step(terms: Terms, statistic: Released, own: FloatArray, shared: FloatArray) -> float:
    """Return the grid step: a power of two, fine enough for the gap and coarse enough for 64 bits."""
    smallest = math.floor(math.log2(float(own.min())))
    allowed = epsilon_reserve(min(terms.epsilons.values())) / len(terms.shares)
    needed = _range_needed(terms, statistic, own, shared)
    for exponent in (*range(_USUAL, _FINEST + 1), *range(_USUAL - 1, _COARSEST - 1, -1)):
        step: float = 2.0 ** (smallest - exponent)
        if _fits(needed, own, shared, step) and _gap(statistic.released_size, own, shared, step) <= allowed:
            return step
    raise _does_not_fit(statistic, needed, own)


def _does_not_fit(statistic: Released, needed: float, own: FloatArray) -> InvalidParameter:
    return InvalidParameter(
        f"The release {statistic.name!r}",
        f"fit into 64-bit integers on a grid of at least 2^{_COARSEST} steps per own_scale",
        f"sums of up to {needed:.3g} under noise of {float(own.min()):.3g} to {float(own.max()):.3g}",
        "Change epsilon or delta, make fewer releases, use fewer records, or make the sites' sizes more equal.",
    )


def _range_needed(terms: Terms, statistic: Released, own: FloatArray, shared: FloatArray) -> float:
    """Return the largest absolute value a sum over all sites can take."""
    largest = {n: n * statistic.radius + statistic.rounding(n) for n in set(terms.n_records.values())}
    totals = math.fsum(terms.coefficient(site) * largest[terms.n_records[site]] for site in terms.sites)
    return totals + CUTOFF * float(own.sum() + 2 * shared.sum())


def _plan_without_noise(terms: Terms, statistic: Released) -> ReleaseNoise:
    sites = terms.sites
    zeros = np.zeros(len(sites))
    needed = _range_needed(terms, statistic, zeros, zeros)
    return ReleaseNoise(
        step=2.0 ** (math.ceil(math.log2(max(needed, 1e-300))) - 52),
        output_sensitivities=dict.fromkeys(sites, statistic.diameter),
        own_scales=dict.fromkeys(sites, 0.0),
        shared_scales=dict.fromkeys(sites, 0.0),
        mus=dict.fromkeys(sites, math.inf),
        gap=0.0,
        tail=0.0,
    )
