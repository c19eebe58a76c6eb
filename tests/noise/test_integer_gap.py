"""docs/noise.md, section 3, checked by brute force: exact laws of small views against the ideal Gaussian."""

from __future__ import annotations

import itertools
import math
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_ndtr, ndtr

from dpcape.core.errors import InvalidParameter
from dpcape.core.noise import CUTOFF
from dpcape.core.privacy import integer_gap
from dpcape.core.privacy.integer_gap import delta_tail, epsilon_gap, ideal_delta

EPSILONS = np.array([0.0, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 4.0])


def ideal_deltas(epsilons, mu):
    """Exact delta of a mu-GDP Gaussian mechanism."""
    return np.exp(log_ndtr(-epsilons / mu + mu / 2)) - np.exp(epsilons + log_ndtr(-epsilons / mu - mu / 2))


def law(scale, reach):
    """The discrete Gaussian on -reach .. reach."""
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    return weights / weights.sum()


@lru_cache
def cape_view(n_honest, own, shared):
    """Exact law of (draw_1 + own_1, ..., draw_h + own_h, sum of draws) by summing over all draws."""
    draw_reach, reach = math.ceil(9 * shared), math.ceil(9 * math.hypot(own, shared))
    draws, releases = np.arange(-draw_reach, draw_reach + 1), np.arange(-reach, reach + 1)
    own_law = law(own, reach + draw_reach)
    site = law(shared, draw_reach) * own_law[releases[:, None] - draws + reach + draw_reach]
    view = site
    for _ in range(n_honest - 1):
        n_sums = view.shape[-1]
        larger = np.zeros((*view.shape[:-1], releases.size, n_sums + 2 * draw_reach))
        for i in range(draws.size):
            larger[..., i : i + n_sums] += view[..., None, :] * site[:, i][:, None]
        view = larger
    return view


def cape_covariance(n_honest, own, shared):
    covariance = np.diag([own**2 + shared**2] * n_honest + [n_honest * shared**2]).astype(float)
    covariance[:-1, -1] = covariance[-1, :-1] = shared**2
    return covariance


def deltas(view, shift, epsilons):
    """Exact delta of moving the first row by ``shift`` steps, the worse of both directions."""
    moved = np.zeros_like(view)
    moved[shift:] = view[:-shift]
    pairs = ((view, moved), (moved, view))
    return np.array([max(np.maximum(p - math.exp(e) * q, 0.0).sum() for p, q in pairs) for e in epsilons])


def grid(shape):
    return np.stack(np.meshgrid(*[np.arange(n) - n // 2 for n in shape], indexing="ij"), axis=-1)


CAPE = [(1, 3.0, 3.0, 3), (2, 2.0, 2.0, 2), (2, 3.0, 3.0, 4), (2, 1.5, 3.0, 2), (3, 1.0, 1.0, 1)]


@pytest.mark.parametrize(("n_honest", "own", "shared", "shift"), CAPE)
def test_the_cape_view_is_a_lattice_gaussian(n_honest, own, shared, shift):
    """Section 3.2: the law is the Gaussian density at the integers, up to the kernel lattice's ripple."""
    view = cape_view(n_honest, own, shared)
    inverse = np.linalg.inv(cape_covariance(n_honest, own, shared))
    points = grid(view.shape)
    form = np.einsum("...i,ij,...j", points, inverse, points)
    near = form < 40.0
    logs = np.log(view[near]) + 0.5 * form[near]
    spread = logs.max() - logs.min()
    assert spread <= (n_honest - 1) * integer_gap._log_theta_ratio(own) + 1e-9


def test_the_ripple_is_really_there():
    """At one step the law is visibly not a lattice Gaussian, and the bound still holds."""
    view = cape_view(2, 1.0, 1.0)
    inverse = np.linalg.inv(cape_covariance(2, 1.0, 1.0))
    points = grid(view.shape)
    form = np.einsum("...i,ij,...j", points, inverse, points)
    near = form < 20.0
    logs = np.log(view[near]) + 0.5 * form[near]
    assert 0.01 < logs.max() - logs.min() <= integer_gap._log_theta_ratio(1.0)


@pytest.mark.parametrize(("n_honest", "own", "shared"), [(1, 3.0, 3.0), (2, 2.0, 2.0), (2, 1.0, 4.0)])
def test_a_rounded_gaussian_stays_close_to_the_density(n_honest, own, shared):
    """Section 3.3: -tr / 24 <= log(rounded mass / density) <= |inverse y|^2 / 24, by quadrature."""
    covariance = cape_covariance(n_honest, own, shared)
    inverse = np.linalg.inv(covariance)
    nodes, weights = np.polynomial.legendre.leggauss(12)
    cell = np.array(list(itertools.product(nodes / 2, repeat=n_honest + 1)))
    mass = np.prod(list(itertools.product(weights / 2, repeat=n_honest + 1)), axis=1)
    points = grid((13,) * (n_honest + 1)).reshape(-1, n_honest + 1) * max(1, int(own))
    for point in points[:: max(1, len(points) // 300)]:
        pull = inverse @ point
        values = np.exp(-cell @ pull - 0.5 * np.einsum("ki,ij,kj->k", cell, inverse, cell))
        ratio = math.log(mass @ values)
        assert -np.trace(inverse) / 24 - 1e-12 <= ratio <= pull @ pull / 24 + 1e-12


def test_the_same_in_one_dimension_with_the_exact_mass():
    for scale in (1.0, 3.0, 30.0):
        k = np.arange(0, int(8 * scale))
        mass = ndtr((-k + 0.5) / scale) - ndtr((-k - 0.5) / scale)
        density = np.exp(-0.5 * (k / scale) ** 2) / (scale * math.sqrt(2 * math.pi))
        ratios = np.log(mass / density)
        assert (ratios >= -1 / (24 * scale**2) - 1e-9).all()
        assert (ratios <= (k / scale**2) ** 2 / 24 + 1e-9).all()


@pytest.mark.parametrize("n_honest", [1, 2, 3, 10, 200])
def test_the_least_eigenvalue(n_honest):
    """Section 3.4: for any scales not below own_steps, whatever their order."""
    rng = np.linspace(1.0, 7.0, n_honest)
    for own, shared in (
        (np.ones(n_honest), np.ones(n_honest)),
        (rng, rng[::-1] * 3),
        (np.ones(n_honest), rng * 9),
    ):
        covariance = np.diag([*(own**2 + shared**2), np.sum(shared**2)])
        covariance[:-1, -1] = covariance[-1, :-1] = shared**2
        least = np.linalg.eigvalsh(covariance)[0]
        assert least >= integer_gap._LEAST_EIGENVALUE - 1e-9
    exact = 2 * n_honest / (n_honest + 2 + math.sqrt(n_honest**2 + 4))
    equal = np.linalg.eigvalsh(cape_covariance(n_honest, 1.0, 1.0))[0]
    assert equal == pytest.approx(exact, abs=1e-9)
    assert n_honest > 1 or equal == pytest.approx(integer_gap._LEAST_EIGENVALUE, abs=1e-12)


def bound(epsilons, mu, *, own, n_sites, tail_exponent):
    """What the product promises for the integer view, at ``epsilon + gap`` for each ideal epsilon."""
    gap = epsilon_gap(own_steps=own, n_sites=n_sites, n_coordinates=1, tail_exponent=tail_exponent)
    tails = [delta_tail(n_draws=2 * n_sites, epsilon=e + gap, tail_exponent=tail_exponent) for e in epsilons]
    return gap, math.exp(gap) * ideal_deltas(epsilons, mu) + np.array(tails)


@pytest.mark.parametrize(("n_honest", "own", "shared", "shift"), CAPE)
@pytest.mark.parametrize("tail_exponent", [3.0, 10.0, 20.0, 256.0])
def test_the_promise_holds_for_cape(n_honest, own, shared, shift, tail_exponent):
    mu = shift * math.sqrt(np.linalg.inv(cape_covariance(n_honest, own, shared))[0, 0])
    gap, promised = bound(EPSILONS, mu, own=own, n_sites=n_honest, tail_exponent=tail_exponent)
    assert (deltas(cape_view(n_honest, own, shared), shift, EPSILONS + gap) <= promised).all()


@pytest.mark.parametrize(("n_honest", "own", "shared", "shift"), CAPE)
@pytest.mark.parametrize("radius", [0.5, 1.0, 2.0, 4.0])
def test_the_sharp_form_of_the_theorem(n_honest, own, shared, shift, radius):
    """Section 3.3 with the true trace, the true tail and any radius, before anything is simplified."""
    view, covariance = cape_view(n_honest, own, shared), cape_covariance(n_honest, own, shared)
    inverse = np.linalg.inv(covariance)
    mu = shift * math.sqrt(inverse[0, 0])
    ripple = (n_honest - 1) * integer_gap._log_theta_ratio(own)
    head = np.trace(inverse) / 24 + ripple
    # The rounded law is at most exp(|pull|^2 / 24 + ripple) times the lattice one.
    pull = np.sum((grid(view.shape) @ inverse) ** 2, axis=-1)
    tail = (view * np.exp(pull / 24 + ripple))[pull > radius**2].sum()
    gap = head + radius**2 / 24
    promised = math.exp(head) * (ideal_deltas(EPSILONS, mu) + np.exp(EPSILONS) * tail)
    assert (deltas(view, shift, EPSILONS + gap) <= promised).all()


@pytest.mark.parametrize("n_honest", [1, 2, 3, 5])
@pytest.mark.parametrize("own", [3.0, 10.0, 29.845])
@pytest.mark.parametrize("steps", [0.1, 0.27, 1.0])
def test_the_promise_holds_for_sums_and_single_releases(n_honest, own, steps):
    """SecureSum (one row: the sum of the own noise) and Independent (one site)."""
    single = law(own, math.ceil(10 * own))
    total = single
    for _ in range(n_honest - 1):
        total = np.convolve(total, single)
    scale = own * math.sqrt(n_honest)
    shift = max(1, round(steps * scale))
    for tail_exponent in (5.0, 20.0):
        gap, promised = bound(EPSILONS, shift / scale, own=own, n_sites=n_honest, tail_exponent=tail_exponent)
        assert (deltas(total, shift, EPSILONS + gap) <= promised).all()


def test_two_coordinates_and_two_adaptive_releases():
    """The second shift depends on the first release; both count as coordinates of one view."""
    own, first_shift, n = 4.0, 3, 81
    single = law(own, n // 2)
    joint = single[:, None] * single[None, :]
    # With the neighbour, the second release moves by 2 or 5 steps, as the first was even or odd.
    moved = np.zeros_like(joint)
    for i in range(first_shift, n):
        second = 2 if i % 2 else 5
        moved[i, second:] = single[i - first_shift] * single[:-second]
    mu = math.hypot(first_shift, 5) / own
    for tail_exponent in (5.0, 20.0):
        gap = epsilon_gap(own_steps=own, n_sites=1, n_coordinates=2, tail_exponent=tail_exponent)
        for epsilon in EPSILONS:
            tail = delta_tail(n_draws=2, epsilon=epsilon + gap, tail_exponent=tail_exponent)
            promised = math.exp(gap) * ideal_deltas(epsilon, mu) + tail
            assert np.maximum(joint - math.exp(epsilon + gap) * moved, 0.0).sum() <= promised
            assert np.maximum(moved - math.exp(epsilon + gap) * joint, 0.0).sum() <= promised


def test_the_bare_gaussian_figure_would_be_false():
    """Scale 29.845, shift 8, epsilon 1: this is why a gap is printed at all. Figures from 40-digit arithmetic."""
    single, mu = law(29.845, 400), 8 / 29.845
    ideal = ideal_deltas(np.array([1.0]), mu)[0]
    assert ideal == pytest.approx(1.0000295e-5, rel=1e-6)
    assert deltas(single, 8, [1.0])[0] == pytest.approx(1.0005408e-5, rel=1e-6)


def cut_law_delta(epsilon, mu, cutoff):
    """Exact delta of a Gaussian release, cut off at ``cutoff`` scales, shifted by mu scales.

    The density ratio exceeds exp(epsilon) left of mu/2 - epsilon/mu, and is infinite left of mu - cutoff.
    """
    inside = ndtr(cutoff) - ndtr(-cutoff)
    edge = max(mu / 2 - epsilon / mu, mu - cutoff)
    mass, other = ndtr(edge) - ndtr(-cutoff), max(0.0, ndtr(edge - mu) - ndtr(-cutoff))
    return (mass - math.exp(epsilon) * other) / inside


def test_why_the_cut_off_is_not_twelve():
    """At epsilon 100 and delta 1e-5 a cut at 12 scales excludes the neighbour in 7 % of all runs."""
    low, high = 1.0, 30.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if ideal_deltas(100.0, middle) < 1e-5 else (low, middle)
    mu = low
    assert ideal_deltas(100.0, mu) == pytest.approx(1e-5, rel=1e-3)
    assert cut_law_delta(100.0, mu, 12.0) > 0.05
    assert cut_law_delta(100.0, mu, CUTOFF) <= 1.001e-5
    assert delta_tail(n_draws=10**12, epsilon=100.0) < 1e-60


@settings(max_examples=200, deadline=None)
@given(
    own=st.floats(1.0, 2.0**50),
    n_sites=st.integers(1, 300),
    size=st.integers(1, 10**7),
    more=st.floats(1.01, 50.0),
)
def test_the_gap_is_monotone_and_covers_parts(own, n_sites, size, more):
    whole = epsilon_gap(own_steps=own, n_sites=n_sites, n_coordinates=2 * size)
    half = epsilon_gap(own_steps=own, n_sites=n_sites, n_coordinates=size)
    assert half <= whole <= 2 * half  # adding up release by release is on the safe side
    assert epsilon_gap(own_steps=own * more, n_sites=n_sites, n_coordinates=size) < half
    assert epsilon_gap(own_steps=own, n_sites=n_sites + 1, n_coordinates=size) > half


@settings(max_examples=200, deadline=None)
@given(n_draws=st.integers(0, 10**15), epsilon=st.floats(0.0, 1e6))
def test_the_tail_is_a_probability_and_grows(n_draws, epsilon):
    tail = delta_tail(n_draws=n_draws, epsilon=epsilon)
    assert 0.0 <= tail <= 1.0
    assert delta_tail(n_draws=2 * n_draws + 1, epsilon=epsilon) >= tail
    assert delta_tail(n_draws=n_draws, epsilon=epsilon + 1.0) >= tail


def test_figures():
    """The formulas of section 3.5 written out, with ten sites and a 100 x 100 second moment."""
    rows, eigenvalue = 12 * 5050, 0.3819660112501051 * 2.0**48
    expected = (rows + (math.sqrt(rows) * (1 + 0.5 / math.sqrt(eigenvalue)) + math.sqrt(512)) ** 2) / (24 * eigenvalue)
    assert epsilon_gap(own_steps=2.0**24, n_sites=10, n_coordinates=5050) == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(5.16e-11, rel=1e-2)
    # The event that the view's noise is large outweighs the cut-off by far.
    assert delta_tail(n_draws=10**6, epsilon=1.0) == pytest.approx(math.exp(-255), rel=1e-12)
    assert delta_tail(n_draws=10**6, epsilon=1.0, tail_exponent=1000.0) == pytest.approx(
        2e6 * math.exp(-512) * (1 + math.e), rel=1e-12
    )


def test_the_ideal_delta_undoes_the_cost():
    gap = epsilon_gap(own_steps=2.0**24, n_sites=10, n_coordinates=10**6)
    ideal = ideal_delta(1e-5, epsilon=1.0, gap=gap, n_draws=10**7)
    assert ideal < 1e-5
    assert math.exp(gap) * ideal + delta_tail(n_draws=10**7, epsilon=1.0) == pytest.approx(1e-5, rel=1e-15)


@pytest.mark.parametrize(("delta", "epsilon"), [(1e-5, 300.0), (0.0, 1.0), (2.0, 1.0), (float("nan"), 1.0)])
def test_what_cannot_be_promised_is_refused(delta, epsilon):
    with pytest.raises(InvalidParameter, match=r"delta must exceed .* larger delta"):
        ideal_delta(delta, epsilon=epsilon, gap=0.0, n_draws=10)


@pytest.mark.parametrize("own_steps", [0.5, 0.0, -1.0, float("nan"), float("inf")])
def test_coarse_grids_are_refused(own_steps):
    with pytest.raises(InvalidParameter, match="own_steps must be at least 1 grid step"):
        epsilon_gap(own_steps=own_steps, n_sites=3, n_coordinates=1)


def test_empty_studies_are_refused():
    for n_sites, n_coordinates in ((0, 1), (1, 0)):
        with pytest.raises(InvalidParameter, match="n_sites and n_coordinates must be at least 1"):
            epsilon_gap(own_steps=9.0, n_sites=n_sites, n_coordinates=n_coordinates)
    for n_draws, epsilon in ((-1, 1.0), (1, -1.0), (1, float("nan"))):
        with pytest.raises(InvalidParameter, match="n_draws and epsilon must not be negative"):
            delta_tail(n_draws=n_draws, epsilon=epsilon)
