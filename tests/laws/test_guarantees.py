"""What a guarantee says of the result alone, of releases not yet used, and of tests for one record."""

from __future__ import annotations

import itertools
import math

import msgspec
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpcape import Cape, Independent, SecureSum, rows
from dpcape.core.privacy.calibration import NoisePlans, plan_release, target_mus
from dpcape.core.privacy.gaussian import compose, epsilon_of
from dpcape.core.privacy.inference import most_hits
from dpcape.core.privacy.terms import Terms, check_terms, epsilon_reserve, printed_epsilon, tail_reserve
from dpcape.core.protocols.protocol import Protocol
from dpcape.guarantee.guarantee import guarantee_of
from dpcape.statistics.moments import second_moment

SITES = ("lima", "lyon", "oslo", "rome", "tours")
DELTA = 1e-5
PROTOCOLS: list[Protocol] = [
    Independent(minimum_sites=2),
    Independent(),
    Cape(n_colluding=1, minimum_sites=4),
    SecureSum(n_colluding=0, minimum_sites=3),
]


def made_terms(protocol: Protocol, shares: tuple[float, ...] = (1.0,)) -> Terms:
    """Five sites that differ in records, weights and epsilons, so that their noise differs too."""
    terms = Terms(
        allowance="a",
        settings=protocol.settings(5),
        epsilons=dict(zip(SITES, (0.5, 1.0, 2.0, 1.0, 3.0), strict=True)),
        delta=DELTA,
        shares=shares,
        n_records=dict(zip(SITES, (100, 300, 200, 500, 150), strict=True)),
        weights=dict(zip(SITES, (0.1, 0.2, 0.3, 0.25, 0.15), strict=True)),
        facts=rows(np.zeros((1, 4)), bound=1.0).facts().shape_facts(),
    )
    check_terms(terms, adds_noise=protocol.adds_noise)
    return terms


def printed(terms: Terms, site: str, mu: float) -> float:
    return printed_epsilon(DELTA, mu, gap=epsilon_reserve(terms.epsilons[site]), tail=tail_reserve(DELTA))


def test_plans_that_are_kept_are_those_of_their_own_terms() -> None:
    """Whatever differs, a plan is what it would be if nothing were kept."""
    usual = made_terms(PROTOCOLS[2], (0.3, 0.7))
    louder = Cape(n_colluding=1, minimum_sites=4, cancelling_ratio=7.0)
    several: list[tuple[Terms, Protocol]] = [(usual, PROTOCOLS[2]), (usual, louder)]
    changes: list[dict[str, object]] = [
        {"delta": 1e-7},
        {"shares": (0.3, 0.6, 0.1)},
        {"epsilons": dict.fromkeys(SITES, 0.7)},
        {"n_records": dict.fromkeys(SITES, 222)},
        {"weights": {}},
        {"allowance": "b"},
    ]
    several += [(msgspec.structs.replace(usual, **change), PROTOCOLS[2]) for change in changes]
    for terms, protocol in [*several, *reversed(several)]:
        statistic = second_moment(terms.facts)
        for release in (0, 1):
            kept = NoisePlans(terms, protocol).plan(release, statistic)
            assert kept == plan_release(terms, release, statistic, protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=repr)
def test_the_result_alone_is_covered_by_the_own_noise_of_those_who_finish(protocol: Protocol) -> None:
    """Brute force: every set of sites that may finish, and every site in it."""
    terms = made_terms(protocol)
    plan = plan_release(terms, 0, second_moment(terms.facts), protocol)
    worst = max(
        printed(terms, site, plan.output_sensitivities[site] / plan.sum_scale(survivors))
        for count in range(terms.settings.minimum_sites, 6)
        for survivors in itertools.combinations(SITES, count)
        for site in survivors
    )
    assert guarantee_of(terms, protocol, [plan]).epsilon_output_only == pytest.approx(worst, rel=1e-12)


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=repr)
def test_releases_not_yet_used_count_in_full(protocol: Protocol) -> None:
    terms = made_terms(protocol, shares=(0.2, 0.5, 0.3))
    statistic = second_moment(terms.facts)
    plan = plan_release(terms, 0, statistic, protocol)
    found = guarantee_of(terms, protocol, [plan])
    for site in SITES:
        mu = compose([plan.mus[site], target_mus(terms)[site] * math.sqrt(0.8)])
        assert found.sites[site].mu == pytest.approx(mu, rel=1e-12)
        assert found.sites[site].epsilon == pytest.approx(printed(terms, site, mu), rel=1e-12)
        # At least what the other two will really cost.
        later = [plan_release(terms, number, statistic, protocol).mus[site] for number in (1, 2)]
        assert mu >= compose([plan.mus[site], *later]) * (1 - 1e-9)
    assert found.epsilon == max(entry.epsilon for entry in found.sites.values())
    # Against the result alone likewise: nothing of what may still come is left out.
    unused = max(printed(terms, site, target_mus(terms)[site] * math.sqrt(0.8)) for site in SITES)
    assert unused < found.epsilon_output_only <= found.epsilon * (1 + 1e-9)


def test_the_curve_of_tests_is_used_where_integer_noise_was_bounded_and_no_further() -> None:
    """Beyond the guarantee's epsilon the pair counts; below, 1e-6 is kept for integer noise."""
    mu = 1.0
    epsilon = epsilon_of(DELTA, mu)
    rare = 1e-8
    assert -ndtri(rare) * mu - mu**2 / 2 > epsilon
    assert most_hits(rare, epsilon=epsilon, delta=DELTA, mu=mu) == math.exp(epsilon) * rare + DELTA
    for false_alarms in (0.01, 0.05, 0.5):
        best = float(ndtr(ndtri(false_alarms) + mu))
        slack = most_hits(false_alarms, epsilon=epsilon, delta=DELTA, mu=mu) - best
        assert slack == pytest.approx(1e-6, rel=1e-6)
    # Where the pair says more it counts.
    assert most_hits(0.5, epsilon=0.1, delta=0.0, mu=3.0) == pytest.approx(1 - math.exp(-0.1) * 0.5, rel=1e-12)
