"""dp-accounting's privacy loss distributions as an oracle: another code base, another method, the same figures."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant

from dpcape import Cape, Federation, Independent, SecureSum, in_process, rows
from dpcape.core.privacy.gaussian import compose, delta_of, epsilon_of, mu_of
from dpcape.statistics.moments import first_moments, second_moment

# The oracle discretises losses and rounds towards more privacy loss: it may be above the exact value by this much.
INTERVAL = 1e-4


def oracle(mus: list[tuple[float, int]]) -> PLDAccountant:
    """Return an accountant of Gaussian releases, (mu, how many)."""
    accountant = PLDAccountant(value_discretization_interval=INTERVAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mu, count in mus:
            accountant.compose(SelfComposedDpEvent(GaussianDpEvent(1 / mu), count))
    return accountant


@pytest.mark.parametrize(("mu", "count"), [(0.268051123, 1), (0.1, 4), (0.5, 3), (1.5, 1), (0.05, 100)])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-8])
def test_epsilon_of_composed_gaussians(mu: float, count: int, delta: float) -> None:
    exact = epsilon_of(delta, compose([mu] * count))
    found = oracle([(mu, count)]).get_epsilon(delta)
    assert exact <= found + 1e-9
    assert found <= exact + 2 * INTERVAL * math.sqrt(count) + 1e-3 * exact


@pytest.mark.parametrize(("k", "mu"), [(2, 0.3), (5, 0.1), (40, 0.02)])
def test_a_subject_with_k_records_has_k_times_a_records_mu(k: int, mu: float) -> None:
    """Its records move one view by k mu; k views moved by mu each would be sqrt(k) mu."""
    assert epsilon_of(1e-5, k * mu) == pytest.approx(oracle([(k * mu, 1)]).get_epsilon(1e-5), rel=2e-3)
    assert epsilon_of(1e-5, compose([mu] * k)) < 0.9 * epsilon_of(1e-5, k * mu)


def test_delta_of_mixed_gaussians() -> None:
    parts = [(0.3, 2), (0.7, 1), (0.1, 10)]
    mu = compose([mu for mu, count in parts for _ in range(count)])
    accountant = oracle(parts)
    for epsilon in (0.5, 1.0, 3.0, 6.0):
        assert delta_of(epsilon, mu) == pytest.approx(accountant.get_delta(epsilon), rel=2e-2)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-5), (1.0, 1e-5), (5.0, 1e-6)])
def test_calibrated_scale(epsilon: float, delta: float) -> None:
    found = oracle([(mu_of(epsilon, delta), 1)]).get_epsilon(delta)
    assert found == pytest.approx(epsilon, rel=2e-3)


@pytest.mark.parametrize(
    "protocol", [Independent(), Cape(n_colluding=1), SecureSum(n_colluding=1)], ids=lambda p: p.name
)
def test_the_guarantee_of_a_whole_allowance(protocol: Independent | Cape | SecureSum) -> None:
    """Two different releases of unequal shares: what is printed agrees with the oracle on the plans' own mu."""
    data = np.full((50, 3), 0.1)
    federation = Federation(in_process({name: rows(data, bound=1.0) for name in "abcd"}), protocol=protocol)
    private = federation.allow(2.0, 1e-5, shares=(0.3, 0.7))
    private.mean(first_moments(federation.facts))
    private.mean(second_moment(federation.facts))
    guarantee = private.guarantee()
    parts = [(release.mus["a"], 1) for release in private.releases]
    found = oracle(parts).get_epsilon(1e-5)
    assert guarantee.sites["a"].epsilon == pytest.approx(found, rel=2e-3)
    assert guarantee.epsilon <= 2.0
    assert guarantee.epsilon == pytest.approx(2.0, rel=1e-5)
