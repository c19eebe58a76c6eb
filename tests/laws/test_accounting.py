"""What must hold for (epsilon, delta) and mu, for views, for calibration, and for ledgers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import mpmath
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape import Cape, Dealer, Exact, Independent, Ledger, SecureSum, rows
from dpcape.core.errors import InvalidParameter, LedgerRefused, ProtocolError, ViewUnprotected
from dpcape.core.noise import LARGEST_SCALE
from dpcape.core.privacy.calibration import NoisePlans, calibrate, plan_release, target_mus, worst_exposures
from dpcape.core.privacy.collusion import epsilons_by_colluders
from dpcape.core.privacy.gaussian import compose, delta_of, epsilon_of, mu_of, zcdp_delta_of
from dpcape.core.privacy.integer_gap import CUTOFF, delta_tail, epsilon_gap
from dpcape.core.privacy.ledger import Charge
from dpcape.core.privacy.terms import Terms, check_terms, epsilon_reserve, printed_epsilon, tail_reserve
from dpcape.core.protocols.protocol import Protocol
from dpcape.pages.numbers import round_up
from dpcape.statistics.moments import SecondMoment, first_moments, second_moment

EPSILONS = [1e-3, 1e-2, 0.1, 0.5, 1.0, 3.0, 10.0, 30.0, 100.0]
DELTAS = [1e-12, 1e-9, 1e-6, 1e-5, 1e-3, 1e-2, 0.1]
GRID = list(itertools.product(EPSILONS, DELTAS))

epsilons = st.floats(1e-3, 100)
deltas = st.floats(-12, -1).map(lambda exponent: 10.0**exponent)
mus = st.floats(1e-4, 20)
law = settings(max_examples=60, deadline=None, derandomize=True)


def reference_delta(epsilon: float, mu: float) -> Any:
    """Return delta to 60 digits."""
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(-e / m + m / 2) - mpmath.exp(e) * mpmath.ncdf(-e / m - m / 2)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_calibration_is_never_on_the_weaker_side(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert reference_delta(epsilon, mu) <= delta
    # Nor does it waste: one part in 1e10 more would be too much.
    assert reference_delta(epsilon, mu * (1 + 1e-10)) > delta


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_epsilon_is_never_understated(epsilon: float, delta: float) -> None:
    for factor in (1.0, 0.5, 2.0):
        mu = mu_of(epsilon, delta) * factor
        found = epsilon_of(delta, mu)
        assert reference_delta(found, mu) <= delta
        if found > 0:
            assert reference_delta(found * (1 - 1e-9), mu) > delta


@law
@given(epsilons, mus)
def test_delta_is_right(epsilon: float, mu: float) -> None:
    exact = reference_delta(epsilon, mu)
    # The largest error is that of a difference of Mills ratios at small mu.
    assert abs(delta_of(epsilon, mu) - exact) <= 1e-10 * exact + 1e-300


@law
@given(deltas, mus, st.floats(1.0, 2.0))
def test_epsilon_grows_with_mu_and_falls_with_delta(delta: float, mu: float, factor: float) -> None:
    assert epsilon_of(delta, mu * factor) >= epsilon_of(delta, mu) * (1 - 1e-11)
    assert epsilon_of(min(delta * factor, 0.5), mu) <= epsilon_of(delta, mu) * (1 + 1e-11)


@law
@given(epsilons, deltas, st.floats(1.0, 2.0))
def test_mu_grows_with_epsilon_and_delta(epsilon: float, delta: float, factor: float) -> None:
    assert mu_of(epsilon * factor, delta) >= mu_of(epsilon, delta) * (1 - 1e-11)
    assert mu_of(epsilon, min(delta * factor, 0.5)) >= mu_of(epsilon, delta) * (1 - 1e-11)


@law
@given(st.lists(st.floats(0, 10), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_composition_commutes_and_adds_squares(parts: list[float], random: Any) -> None:
    shuffled = list(parts)
    random.shuffle(shuffled)
    assert compose(parts) == compose(shuffled)
    cut = len(parts) // 2
    assert compose([compose(parts[:cut]), compose(parts[cut:])]) == pytest.approx(compose(parts), rel=1e-14, abs=1e-150)


@law
@given(epsilons, deltas)
def test_zcdp_never_promises_more_than_the_exact_figure(epsilon: float, delta: float) -> None:
    mu = mu_of(epsilon, delta)
    assert zcdp_delta_of(epsilon, mu**2 / 2) >= delta * (1 - 1e-6)


def test_limits() -> None:
    assert delta_of(1.0, 0.0) == 0.0
    assert delta_of(math.inf, 3.0) == 0.0
    assert delta_of(1.0, math.inf) == 1.0
    assert epsilon_of(1e-5, math.inf) == math.inf
    assert epsilon_of(0.5, 0.1) == 0.0
    for wrong in (-1.0, math.nan):
        with pytest.raises(InvalidParameter):
            delta_of(wrong, 1.0)
        with pytest.raises(InvalidParameter):
            delta_of(1.0, wrong)
    for wrong in (0.0, -1.0, 1.0, math.nan):
        with pytest.raises(InvalidParameter):
            epsilon_of(wrong, 1.0)
    for wrong in (0.0, math.inf, math.nan):
        with pytest.raises(InvalidParameter):
            mu_of(wrong, 1e-5)
    for wrong in (0.0, -1.0, 1.0, 2.0, math.nan):
        with pytest.raises(InvalidParameter):
            mu_of(1.0, wrong)


# Worst coalitions.


def all_protocols(n_sites: int) -> Iterator[Protocol]:
    yield Independent()
    for n_colluding in range(n_sites):
        if n_sites >= 2:
            yield Dealer(n_colluding=n_colluding, cancelling_ratio=3.0)
        if n_sites < 3 or n_colluding > n_sites - 2:
            continue
        for least in range(max(3, (n_sites + n_colluding) // 2 + 1), n_sites + 1):
            yield Cape(n_colluding=n_colluding, minimum_sites=least, cancelling_ratio=1.5)
            yield SecureSum(n_colluding=n_colluding, minimum_sites=least)


def honest_survivors(protocol: Protocol, n_sites: int) -> Iterator[Sequence[int]]:
    """All sets that may remain: any colluders within the number, any drop-outs within the minimum."""
    agreed = protocol.settings(n_sites)
    for n_survivors in range(agreed.minimum_sites, n_sites + 1):
        for survivors in itertools.combinations(range(n_sites), n_survivors):
            for n_colluding in range(agreed.n_colluding + 1):
                for colluders in itertools.combinations(range(n_sites), n_colluding):
                    yield [site for site in survivors if site not in colluders]


@pytest.mark.parametrize("n_sites", [1, 2, 3, 4, 5, 6])
def test_the_worst_coalition_is_the_worst_of_all(n_sites: int) -> None:
    generator = np.random.default_rng(n_sites)
    for protocol in all_protocols(n_sites):
        own = generator.uniform(0.5, 2.0, n_sites)
        shared = own * generator.uniform(0.5, 4.0, n_sites)
        found = worst_exposures(protocol, own, shared)
        worst = np.zeros(n_sites)
        for honest in honest_survivors(protocol, n_sites):
            view = protocol.view(n_sites, honest=honest, own_scales=own, shared_scales=shared)
            exposures = np.zeros(n_sites)
            exposures[list(honest)] = view.exposures()[list(honest)]
            worst = np.maximum(worst, exposures)
        np.testing.assert_allclose(found, worst, rtol=1e-9, err_msg=repr(protocol))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(3, 7), st.data())
def test_calibration_gives_every_site_what_it_asked(n_sites: int, data: st.DataObject) -> None:
    sizes = st.lists(st.floats(0.1, 10), min_size=n_sites, max_size=n_sites)
    sensitivities, wanted = np.array(data.draw(sizes)), np.array(data.draw(sizes))
    for protocol in (Independent(), Cape(n_colluding=1), SecureSum(n_colluding=1), Dealer(n_colluding=1)):
        own, shared, mus = calibrate(protocol, sensitivities, wanted)
        assert (mus <= wanted * (1 + 1e-13)).all()
        assert mus.max() > 0
        again = sensitivities * worst_exposures(protocol, own, shared)
        np.testing.assert_allclose(again, mus, rtol=1e-11)
        # Somebody is at the limit: no noise is wasted on all.
        assert (mus / wanted).max() == pytest.approx(1, rel=1e-9)


def test_a_view_that_shows_a_record_is_refused() -> None:
    with pytest.raises(ViewUnprotected):
        calibrate(Exact(), np.ones(3), np.ones(3))


# Plans.


def terms_of(
    protocol: Protocol,
    *,
    sites: Sequence[int] = (100, 100, 100),
    epsilon: float = 1.0,
    delta: float = 1e-5,
    shares: tuple[float, ...] = (1.0,),
    weights: Sequence[float] = (),
    width: int = 4,
) -> Terms:
    names = [f"site{index}" for index in range(len(sites))]
    terms = Terms(
        allowance="a",
        settings=protocol.settings(len(sites)),
        epsilons=dict.fromkeys(names, epsilon),
        delta=delta,
        shares=shares,
        n_records=dict(zip(names, sites, strict=True)),
        weights=dict(zip(names, weights, strict=True)) if weights else {},
        facts=rows(np.zeros((1, width)), bound=1.0).facts().shape_facts(),
    )
    check_terms(terms, adds_noise=protocol.adds_noise)
    return terms


class LargeStatistic(SecondMoment):
    """As long as no array could be; plans need only its size."""

    released_size = 10**11


protocols = st.sampled_from(
    [
        Independent(),
        Cape(n_colluding=1),
        Cape(n_colluding=0, minimum_sites=3, cancelling_ratio=1e-3),
        Cape(n_colluding=1, minimum_sites=3, cancelling_ratio=1e6),
        SecureSum(n_colluding=2),
        Dealer(n_colluding=3, cancelling_ratio=0.01),
    ]
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.sampled_from([Cape(n_colluding=0), Dealer(n_colluding=0), SecureSum(n_colluding=0), Independent()]), st.data()
)
def test_closed_forms_of_exposures_are_those_of_the_view(protocol: Protocol, data: st.DataObject) -> None:
    """Unequal scales, colluders and drop-outs: whoever is not among the honest survivors covers nobody."""
    n_sites = data.draw(st.integers(2, 9))
    scales = st.lists(st.floats(-2, 2).map(lambda power: 10.0**power), min_size=n_sites, max_size=n_sites)
    own, shared = np.array(data.draw(scales)), np.array(data.draw(scales))
    shared *= data.draw(st.sampled_from([0.0, 1.0]))
    honest = data.draw(st.lists(st.integers(0, n_sites - 1), min_size=1, max_size=n_sites, unique=True))
    view = protocol.view(n_sites, honest=honest, own_scales=own, shared_scales=shared).exposures()
    for site in honest:
        assert protocol.exposure(site, honest, own, shared) == pytest.approx(view[site], rel=1e-9)


@pytest.mark.parametrize("size", [1e-120, 1e-80, 1e80, 1e120])
@pytest.mark.parametrize("protocol", [Cape(n_colluding=1), SecureSum(n_colluding=1), Independent()])
def test_closed_forms_hold_for_the_smallest_and_largest_bounds(protocol: Protocol, size: float) -> None:
    """Noise of third moments is up to the cube of a bound; the product of two of its squares is out of range."""
    own, shared, honest = np.array([1.0, 2.0, 3.0, 1.0]) * size, np.array([20.0, 30.0, 40.0, 20.0]) * size, [0, 1, 3]
    view = protocol.view(4, honest=honest, own_scales=own, shared_scales=shared).exposures()
    assert np.isfinite(protocol.cover(own, shared)).all()
    for site in honest:
        assert protocol.exposure(site, honest, own, shared) == pytest.approx(view[site], rel=1e-9)


def test_closed_forms_know_when_nothing_protects() -> None:
    none, some = np.zeros(3), np.ones(3)
    assert math.isinf(SecureSum(n_colluding=0).exposure(0, [0, 1], none, none))
    # The sum of the draws is known: without own noise, the draws alone hide nothing about the sum.
    for own, shared in ((none, some), (none, none)):
        cape = Cape(n_colluding=0)
        assert math.isinf(cape.exposure(0, [0, 1, 2], own, shared))
        assert np.isinf(cape.view(3, own_scales=own, shared_scales=shared).exposures()).all()


def test_remembered_plans_are_those_of_the_release_they_are_asked_for() -> None:
    protocol = Cape(n_colluding=1, minimum_sites=3)
    terms = terms_of(protocol, sites=[10, 10, 500, 70], epsilon=1.0, delta=1e-5, shares=(0.2, 0.2, 0.5, 0.1))
    wider = msgspec.structs.replace(terms.facts, bounds=(3.0,))
    statistics = [second_moment(terms.facts), second_moment(wider), first_moments(terms.facts)]
    plans = NoisePlans(terms, protocol)
    for statistic, release in [*itertools.product(statistics, range(4))] * 2:
        assert plans.plan(release, statistic) == plan_release(terms, release, statistic, protocol)
    assert plans.plan(0, statistics[0]) is plans.plan(1, second_moment(terms.facts))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(protocols, st.floats(1e-3, 100), deltas, st.data())
def test_every_plan_keeps_its_promises(protocol: Protocol, epsilon: float, delta: float, data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 10**6), min_size=4, max_size=4))
    raw = np.array(data.draw(st.lists(st.floats(0.05, 1), min_size=4, max_size=4)))
    weights = tuple(raw / raw.sum()) if data.draw(st.booleans()) else ()
    n_releases = data.draw(st.integers(1, 4))
    terms = terms_of(
        protocol, sites=sizes, epsilon=epsilon, delta=delta, shares=(1 / n_releases,) * n_releases, weights=weights
    )
    statistic = second_moment(terms.facts)
    plan = plan_release(terms, 0, statistic, protocol)
    own = np.array([plan.own_scales[site] for site in terms.sites])
    shared = np.array([plan.shared_scales[site] for site in terms.sites])
    # The grid: fine enough for the gap, coarse enough for the sampler and for 64 bits.
    assert math.log2(plan.step) == round(math.log2(plan.step))
    drawn = [*own, *shared[shared > 0]]
    assert own.min() / plan.step >= 2**24
    assert max(drawn) / plan.step <= LARGEST_SCALE
    largest = sum(
        terms.coefficient(site) * terms.n_records[site] * statistic.radius for site in terms.sites
    ) + CUTOFF * (own.sum() + 2 * shared.sum())
    assert largest / plan.step < 2**63
    # The gap is that of the finest draw, and all releases together stay within the reserve.
    assert plan.gap >= epsilon_gap(own_steps=min(drawn) / plan.step, n_sites=4, n_coordinates=statistic.released_size)
    assert plan.gap * n_releases <= epsilon_reserve(epsilon)
    n_draws = 2 * 4 * statistic.released_size
    assert plan.tail * n_releases <= tail_reserve(delta)
    assert plan.tail >= delta_tail(n_draws=n_draws if shared.any() else n_draws // 2, epsilon=epsilon)
    # Sensitivities include rounding, and mu follows from them and from the scales of the plan alone.
    for index, site in enumerate(terms.sites):
        least = terms.coefficient(site) * statistic.diameter + plan.step * math.sqrt(statistic.released_size)
        assert plan.output_sensitivities[site] >= least
        exposure = worst_exposures(protocol, own, shared)[index]
        assert plan.mus[site] == pytest.approx(exposure * plan.output_sensitivities[site], rel=1e-9)
    # What will be printed: never more than was asked.
    for site in terms.sites:
        total = compose([plan.mus[site]] * n_releases)
        printed = printed_epsilon(delta, total, gap=n_releases * plan.gap, tail=n_releases * plan.tail)
        assert printed <= epsilon * (1 + 1e-12)
        with_reserve = printed_epsilon(delta, total, gap=epsilon_reserve(epsilon), tail=tail_reserve(delta))
        assert printed <= with_reserve <= epsilon


@pytest.mark.parametrize("protocol", [Independent(), SecureSum(n_colluding=1)], ids=lambda p: p.name)
def test_the_site_protected_least_counts_and_so_do_the_reserves(protocol: Protocol) -> None:
    """Where sites ask for different epsilons, the figure for colluders is that of the largest, nothing left out."""
    asked = {"site0": 0.5, "site1": 2.0, "site2": 1.0}
    terms = msgspec.structs.replace(terms_of(protocol), epsilons=asked)
    plan = plan_release(terms, 0, second_moment(terms.facts), protocol)
    printed = [
        printed_epsilon(terms.delta, plan.mus[site], gap=epsilon_reserve(asked[site]), tail=tail_reserve(terms.delta))
        for site in terms.sites
    ]
    found = epsilons_by_colluders(terms, protocol, [plan])
    assert found[terms.settings.n_colluding] == pytest.approx(max(printed), rel=1e-12)
    assert list(found) == sorted(found)


def test_a_statistic_of_very_many_entries_gets_a_finer_grid() -> None:
    """At 2^30 steps the gap of so many entries would exceed what is kept back for it."""
    terms = terms_of(Independent(), epsilon=1e-3, shares=(0.1,) * 10)
    large = LargeStatistic(terms.facts)
    plan = plan_release(terms, 0, large, Independent())
    own = min(plan.own_scales.values())
    reserve = epsilon_reserve(1e-3) / 10
    assert epsilon_gap(own_steps=2.0**31, n_sites=3, n_coordinates=large.released_size) > reserve
    assert own / plan.step > 2**31
    assert epsilon_gap(own_steps=own / plan.step, n_sites=3, n_coordinates=large.released_size) <= plan.gap <= reserve


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_the_reserve_is_enough_and_small(epsilon: float, delta: float) -> None:
    """An ideal (e, d) view is really (e + gap, exp(gap) d + tail): at the largest gap and tail, what was asked."""
    gap, tail = epsilon_reserve(epsilon), tail_reserve(delta)
    mu = target_mus(terms_of(Independent(), epsilon=epsilon, delta=delta))["site0"]
    assert math.exp(gap) * reference_delta(epsilon - gap, mu) + tail <= delta
    assert mu >= mu_of(epsilon, delta) * (1 - 2e-5)


def test_unequal_scales_too_far_apart_for_the_grid_are_refused_before_any_charge() -> None:
    spread = (1e-12, 0.5, 0.5 - 1e-12)
    terms = terms_of(Independent(), weights=spread)
    with pytest.raises(InvalidParameter, match="64-bit"):
        plan_release(terms, 0, second_moment(terms.facts), Independent())


def test_noise_that_outgrows_the_grid_by_its_own_rounding_is_refused() -> None:
    """At epsilon and delta of 1e-12 a step of the grid exceeds the sensitivity, and scales must grow for it."""
    protocol = Cape(n_colluding=0, cancelling_ratio=1e6)
    terms = terms_of(protocol, epsilon=1e-12, delta=1e-12, width=60)
    with pytest.raises(InvalidParameter, match="64-bit"):
        plan_release(terms, 0, second_moment(terms.facts), protocol)


def test_too_small_a_delta_is_refused() -> None:
    terms = terms_of(Independent(), epsilon=240.0, delta=1e-12)
    with pytest.raises(InvalidParameter, match="cut-off"):
        plan_release(terms, 0, second_moment(terms.facts), Independent())


@pytest.mark.parametrize(
    "change",
    [
        {"shares": ()},
        {"shares": (0.5, 0.0)},
        {"shares": (0.7, 0.7)},
        {"shares": (math.nan,)},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": math.nan},
        {"epsilons": {"site0": 1.0}},
        {"epsilons": {"site0": 1.0, "site1": 0.0, "site2": 1.0}},
        {"epsilons": {"site0": 1.0, "site1": math.inf, "site2": 1.0}},
        {"epsilons": {}},
        {"n_records": {"site0": 0, "site1": 5, "site2": 5}},
        {"weights": {"site0": 0.5, "site1": 0.5}},
        {"weights": {"site0": 0.5, "site1": 0.5, "site2": 0.5}},
        {"weights": {"site0": 1.5, "site1": -0.5, "site2": 0.0}},
        {"weights": {"site0": math.nan, "site1": 0.5, "site2": 0.5}},
    ],
)
def test_meaningless_terms_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        check_terms(msgspec.structs.replace(terms_of(Independent()), **change), adds_noise=True)


def test_exact_totals_cannot_carry_an_epsilon() -> None:
    terms = msgspec.structs.replace(terms_of(Independent()), settings=Exact().settings(3))
    with pytest.raises(InvalidParameter, match="exact"):
        check_terms(terms, adds_noise=False)
    check_terms(msgspec.structs.replace(terms, epsilons={}), adds_noise=False)


def test_plans_agree_up_to_rounding_and_no_further() -> None:
    terms = terms_of(Cape(n_colluding=1))
    plan = plan_release(terms, 0, second_moment(terms.facts), Cape(n_colluding=1))

    def with_scales(factor: float) -> Any:
        scales = {site: scale * factor for site, scale in plan.own_scales.items()}
        return msgspec.structs.replace(plan, own_scales=scales)

    assert plan.agrees_with(with_scales(1 + 1e-12))
    for factor in (0.999999, 1.000001, 0.5):
        assert not plan.agrees_with(with_scales(factor))
    assert not plan.agrees_with(msgspec.structs.replace(plan, step=plan.step / 2))
    assert not plan.agrees_with(msgspec.structs.replace(plan, mus={}))


# Ledgers.


def charge(name: str, mu: float = 0.1, n_releases: int = 2) -> Charge:
    return Charge(allowance=name, mu=mu, gap=1e-8, tail=1e-13, n_releases=n_releases)


@pytest.mark.parametrize(("epsilon", "delta"), GRID)
def test_a_study_that_asks_for_the_whole_ceiling_fits_and_nothing_more_does(epsilon: float, delta: float) -> None:
    mu = target_mus(terms_of(Independent(), epsilon=epsilon, delta=delta))["site0"]
    whole = Charge(allowance="a", mu=mu, gap=epsilon_reserve(epsilon), tail=tail_reserve(delta), n_releases=1)
    ledger = Ledger(epsilon=epsilon, delta=delta)
    ledger.charge(whole)
    assert ledger.spent() <= epsilon
    with pytest.raises(LedgerRefused):
        ledger.charge(replace(whole, allowance="b", mu=0.01 * mu))


def test_a_ledger_composes_exactly_and_refuses_the_rest() -> None:
    ledger = Ledger(epsilon=1.0, delta=1e-5)
    limit = mu_of(1.0 - 1e-4, 1e-5 * (1 - 1e-4))
    ledger.charge(charge("a", 0.6 * limit))
    ledger.charge(charge("b", 0.8 * limit))
    assert ledger.spent() == pytest.approx(1.0, abs=2e-4)
    spent = ledger.spent()
    with pytest.raises(LedgerRefused, match="No records were read"):
        ledger.charge(charge("c", 0.05))
    with pytest.raises(LedgerRefused, match="already charged"):
        ledger.charge(charge("a", 1e-9))
    assert ledger.spent() == spent
    assert not ledger.is_charged("c")


def test_what_integer_noise_adds_is_spent_too() -> None:
    """All reserves together: the ideal view must have (epsilon - gaps, (delta - tails) e^-gaps)."""
    charges = [
        Charge(allowance=name, mu=mu, gap=gap, tail=tail, n_releases=1)
        for name, mu, gap, tail in (("a", 0.3, 0.02, 1e-6), ("b", 0.4, 0.05, 3e-6), ("c", 0.0, 0.01, 2e-6))
    ]
    spent = Ledger(charges=charges).spent(1e-5)
    gap, tail = 0.08, 6e-6
    assert math.exp(gap) * reference_delta(spent - gap, 0.5) + tail <= 1e-5
    # Nor more than that.
    assert math.exp(gap) * reference_delta(spent - gap - 1e-9, 0.5) + tail > 1e-5
    assert Ledger(charges=charges).spent(5e-6) == math.inf


def test_a_ledger_says_infinity_where_the_proof_for_integer_noise_ends() -> None:
    """Four studies of epsilon 100 each at delta 1e-12: as ideal Gaussians epsilon 276, beyond what is proved."""
    mu = mu_of(100.0, 1e-12)
    ledger = Ledger()
    for name in "abcd":
        ledger.charge(Charge(allowance=name, mu=mu, gap=5e-7, tail=tail_reserve(1e-12), n_releases=1))
    assert epsilon_of(1e-12, compose([mu] * 4)) > 260
    assert delta_tail(n_draws=1, epsilon=epsilon_of(1e-12, compose([mu] * 4))) > 1e-12
    assert ledger.spent(1e-12) == math.inf
    assert Ledger(charges=ledger.charges[:1]).spent(1e-12) <= 100.0 * (1 + 1e-4)


def test_releases_are_counted_once_and_in_order() -> None:
    ledger = Ledger()
    with pytest.raises(ProtocolError, match="not charged"):
        ledger.next_release("a", 0)
    ledger.charge(charge("a", n_releases=3))
    ledger.next_release("a", 1)
    for again in (0, 1):
        with pytest.raises(ProtocolError, match="happened before"):
            ledger.next_release("a", again)
    ledger.next_release("a", 2)
    with pytest.raises(LedgerRefused, match="its allowance has"):
        ledger.next_release("a", 3)


def test_a_ceiling_needs_both_numbers_and_infinite_mu_is_infinite_spending() -> None:
    for half in ({"epsilon": 1.0}, {"delta": 1e-5}):
        with pytest.raises(InvalidParameter):
            Ledger(**half)
    free = Ledger()
    with pytest.raises(InvalidParameter, match="delta"):
        free.spent()
    assert free.spent(1e-5) == 0.0
    free.charge(charge("a", math.inf))
    assert free.spent(1e-5) == math.inf
    with pytest.raises(LedgerRefused):
        Ledger(epsilon=10.0, delta=1e-5).charge(charge("a", math.inf))


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, math.inf, True, "1", [1.0]])
def test_a_ceiling_that_would_never_refuse_is_refused_itself(epsilon: object) -> None:
    with pytest.raises(InvalidParameter, match="positive finite epsilon"):
        Ledger(epsilon=epsilon, delta=1e-5)


@pytest.mark.parametrize("delta", [0, 1, 2.0, -1e-5, math.nan, True, "1e-5"])
def test_the_delta_of_a_ceiling_lies_between_0_and_1(delta: object) -> None:
    with pytest.raises(InvalidParameter, match="a delta strictly between 0 and 1"):
        Ledger(epsilon=1.0, delta=delta)


def test_a_ceiling_spoilt_later_still_refuses() -> None:
    ledger = Ledger(epsilon=1.0, delta=1e-5)
    ledger.epsilon = math.nan
    with pytest.raises(LedgerRefused):
        ledger.charge(charge("a", 0.1))


# Printing.


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(1e-12, 1e6), st.integers(2, 6))
def test_printed_figures_are_never_too_small(value: float, digits: int) -> None:
    printed = float(round_up(value, digits))
    assert printed >= value * (1 - 2e-13)
    assert printed <= value * (1 + 10.0 ** (1 - digits) * 1.01)
