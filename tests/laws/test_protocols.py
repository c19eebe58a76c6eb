"""What must hold for every protocol: exact zero sums, views that are true, settings that travel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from dpcape import Cape, Dealer, Exact, Federation, Independent, Replay, SecureSum, in_process, rows
from dpcape.core.errors import InvalidParameter, ProtocolError
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import ProtocolSettings
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.protocols.registry import from_settings
from dpcape.core.secure_sum.fixed_point import zero_sum_share
from dpcape.core.statistic import Statistic
from dpcape.core.totals import released_total
from dpcape.federation.allowance import Allowance
from dpcape.statistics.moments import first_moments, second_moment

ALPHA = 1e-6
PROTOCOLS = [
    Independent(),
    Cape(n_colluding=1),
    Cape(n_colluding=0, minimum_sites=3, cancelling_ratio=1.0),
    SecureSum(n_colluding=1),
    SecureSum(n_colluding=0, minimum_sites=3),
    Dealer(n_colluding=2),
    Exact(),
]
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS, ids=repr)
NAMES = ("ava", "bob", "cid", "dot")


def tables(sizes: tuple[int, ...], width: int = 3, seed: int = 1) -> dict[str, NDArray[np.float64]]:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=(size, width)) for name, size in zip(NAMES, sizes, strict=True)}


def federation_of(
    protocol: Protocol, data: Mapping[str, NDArray[np.float64]], *, seed: int = 1, weights: Any = None
) -> Federation:
    records = {name: rows(table, bound=1.0) for name, table in data.items()}
    return Federation(in_process(records, noise=Replay(seed)), protocol=protocol, weights=weights)


def own_noise(plan: ReleaseNoise, site: str, size: int, seed: int) -> NDArray[np.int64]:
    source = Replay(seed).child(site, "allowance", 0).child("own", 0)
    return source.integer_gaussian(plan.own_steps(site), size)


def weighted_steps(
    statistic: Statistic, table: NDArray[np.float64], plan: ReleaseNoise, coefficient: float
) -> NDArray[np.int64]:
    total = released_total(statistic, rows(table, bound=1.0)) * coefficient
    return np.rint(total / plan.step).astype(np.int64)


# The zero sum.


@each_protocol
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    st.integers(0, 10**6),
    st.tuples(*[st.integers(1, 40)] * 4),
    st.none() | st.tuples(*[st.floats(0.1, 1.0)] * 4),
    st.floats(0.01, 100),
)
def test_the_result_is_the_exact_mean_plus_own_noise(
    protocol: Protocol, seed: int, sizes: tuple[int, ...], weights: tuple[float, ...] | None, epsilon: float
) -> None:
    """To the last integer: nothing of the cancelling noise is left in the sum."""
    data = tables(sizes)
    total_weight = math.fsum(weights or ())
    shares = {name: w / total_weight for name, w in zip(NAMES, weights, strict=True)} if weights else None
    federation = federation_of(protocol, data, seed=seed, weights=shares)
    private = federation.allow(epsilon, 1e-5)
    statistic = second_moment(federation.facts)
    mean = private.mean(statistic)
    plan, terms = private._plans[0], private._terms
    total = np.zeros(statistic.released_size, dtype=np.int64)
    for name in NAMES:
        total += weighted_steps(statistic, data[name], plan, terms.coefficient(name))
        if protocol.name != "exact":
            total += own_noise(plan, name, statistic.released_size, seed)
    expected = statistic.unpack(total[:-1].astype(float) * (plan.step / terms.divisor(NAMES)))
    np.testing.assert_array_equal(mean, expected)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 12), st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=4))
def test_shares_of_the_agreed_sum_add_to_it(n_sites: int, agreed: list[int]) -> None:
    total = np.array(agreed, dtype=np.int64)
    shares = [zero_sum_share(total, n_sites, rank=rank) for rank in range(n_sites)]
    assert sum(int(share[0]) for share in shares) == agreed[0]
    assert max(int(share[0]) for share in shares) - min(int(share[0]) for share in shares) <= 1


def natural_mean(data: Mapping[str, NDArray[np.float64]], weights: Mapping[str, float] | None) -> NDArray[np.float64]:
    means, sizes = {}, {}
    for name, table in data.items():
        clipped = table * np.minimum(1, 1 / np.linalg.norm(table, axis=1, keepdims=True))
        means[name], sizes[name] = clipped.T @ clipped / len(clipped), len(clipped)
    total = sum(sizes.values())
    return sum((weights[name] if weights else sizes[name] / total) * means[name] for name in data)


@each_protocol
@pytest.mark.parametrize("weights", [None, {"ava": 0.4, "bob": 0.3, "cid": 0.2, "dot": 0.1}], ids=["sizes", "weights"])
def test_as_noise_vanishes_the_result_is_the_exact_mean(protocol: Protocol, weights: dict[str, float] | None) -> None:
    data = tables((20, 400, 60, 100))
    exact = natural_mean(data, weights)
    errors = []
    for epsilon in (0.5, 20.0, 150.0):
        federation = federation_of(protocol, data, weights=weights)
        private = federation.allow(epsilon, 1e-3)
        mean = private.mean(second_moment(federation.facts))
        scale = private.releases[0].scale
        errors.append(float(np.abs(mean - exact).max()))
        # Six entries, six standard deviations: a false alarm has probability 1.2e-8 per setting.
        # Rows move by sqrt(3)/2 steps of 2^-20 on the grid, and products of two by twice that.
        assert errors[-1] <= 6 * scale + 2e-6
    if protocol.name == "exact":
        assert max(errors) < 2e-6
    else:
        assert errors[2] < errors[0] / 20


# Views against what is really released.


class Opened:
    """What the aggregator of a real in-process run holds, coordinate by coordinate, statistics taken off."""

    def __init__(self, protocol: Protocol, *, width: int, seed: int = 3) -> None:
        self.releases: dict[str, NDArray[np.int64]] = {}
        self.sums: dict[str, NDArray[np.int64]] = {}
        data = tables((2, 2, 2, 2), width=width)
        federation = federation_of(protocol, data, seed=seed)
        private: Allowance = federation.allow(1.0, 1e-5)
        private._coordinator.on_read = self._keep
        statistic = first_moments(federation.facts)
        private.mean(statistic)
        self.plan, self.size = private._plans[0], statistic.released_size
        self.exact = {name: weighted_steps(statistic, data[name], self.plan, 1.0) for name in NAMES}
        self.draws = {name: self._draw(name, seed) for name in NAMES} if protocol.name == "cape" else {}

    def _keep(self, what: str, site: str, vector: NDArray[np.int64]) -> None:
        if what == "release":
            self.releases[site] = vector
        else:
            self.sums[what] = vector

    def _draw(self, name: str, seed: int) -> NDArray[np.int64]:
        source = Replay(seed).child(name, "allowance", 0).child("draw", 0, 0)
        return source.integer_gaussian(self.plan.shared_steps(name), self.size)

    def noise(self, name: str) -> NDArray[np.float64]:
        """Noise of a site's opened release, in units of the statistic."""
        return (self.releases[name] - self.exact[name]) * self.plan.step


def covariance_p_value(rows_: NDArray[np.float64], view: AdversaryView, factor: float = 1.0) -> float:
    """Test every entry of the covariance of rows (one column per coordinate) against the view; Bonferroni."""
    expected = factor**2 * (view.mixing * view.variances) @ view.mixing.T
    n = rows_.shape[1]
    found = rows_ @ rows_.T / n
    diagonal = np.diagonal(expected)
    spread = np.sqrt((np.outer(diagonal, diagonal) + expected**2) / n)
    z = np.abs(found - expected) / spread
    return float(min(1.0, expected.size * 2 * stats.norm.sf(z.max())))


def check_with_teeth(rows_: NDArray[np.float64], view: AdversaryView) -> None:
    assert covariance_p_value(rows_, view) > ALPHA
    for wrong in (0.9, 1.1):
        assert covariance_p_value(rows_, view, wrong) < ALPHA


def scales(plan: ReleaseNoise) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.array([plan.own_scales[n] for n in NAMES]), np.array([plan.shared_scales[n] for n in NAMES])


@pytest.mark.parametrize("ratio", [1.0, 100.0])
@pytest.mark.parametrize("colluding", [(), ("dot",), ("ava", "cid")], ids=str)
def test_the_view_of_cape_is_what_the_aggregator_holds(ratio: float, colluding: tuple[str, ...]) -> None:
    protocol = Cape(n_colluding=2, cancelling_ratio=ratio)
    held = Opened(protocol, width=10_000)
    honest = [index for index, name in enumerate(NAMES) if name not in colluding]
    own, shared = scales(held.plan)
    view = protocol.view(4, honest=honest, own_scales=own, shared_scales=shared)
    draws = {name: draw * held.plan.step for name, draw in held.draws.items()}
    rows_ = [held.noise(NAMES[index]) for index in honest]
    rows_ += [sum(draws.values()), *(draws[name] for name in NAMES if name in colluding)]
    check_with_teeth(np.array(rows_), view)


def test_the_view_of_a_dealer_is_what_the_aggregator_holds() -> None:
    protocol = Dealer(n_colluding=1, cancelling_ratio=2.0)
    held = Opened(protocol, width=10_000)
    own, shared = scales(held.plan)
    view = protocol.view(4, own_scales=own, shared_scales=shared)
    # The last row, the sum of draws, stays with the dealer.
    told = AdversaryView(shift=view.shift[:4], mixing=view.mixing[:4], variances=view.variances)
    check_with_teeth(np.array([held.noise(name) for name in NAMES]), told)
    np.testing.assert_allclose(told.exposures(), view.exposures(), rtol=1e-12)


def test_the_view_of_a_secure_sum_is_what_the_aggregator_holds() -> None:
    protocol = SecureSum(n_colluding=1)
    held = Opened(protocol, width=10_000)
    own, shared = scales(held.plan)
    noise = (held.sums["sum"] - sum(held.exact.values())) * held.plan.step
    check_with_teeth(noise[None, :], protocol.view(4, own_scales=own, shared_scales=shared))


def test_the_view_of_independent_noise_is_what_the_aggregator_holds() -> None:
    held = Opened(Independent(), width=10_000)
    own, shared = scales(held.plan)
    view = Independent().view(4, own_scales=own, shared_scales=shared)
    check_with_teeth(np.array([held.noise(name) for name in NAMES]), view)


# Settings.


@each_protocol
def test_settings_travel(protocol: Protocol) -> None:
    for n_sites in (4, 5):
        sent = protocol.settings(n_sites)
        received = msgspec.msgpack.decode(msgspec.msgpack.encode(sent), type=ProtocolSettings)
        assert received == sent
        again = from_settings(received)
        assert type(again) is type(protocol)
        assert again.settings(n_sites) == sent
        assert again.n_honest(n_sites) == protocol.n_honest(n_sites)
        assert again.adversary() == protocol.adversary()


def test_unknown_protocols_are_refused() -> None:
    with pytest.raises(ProtocolError, match="one of"):
        from_settings(ProtocolSettings(name="blockchain"))


@pytest.mark.parametrize(
    ("protocol", "n_sites", "why"),
    [
        (Cape(n_colluding=0), 2, "at least 3 sites"),
        (SecureSum(n_colluding=0), 2, "at least 3 sites"),
        (Cape(n_colluding=3), 4, "use Independent"),
        (Cape(n_colluding=-1), 4, "n_colluding"),
        (Cape(n_colluding=True), 4, "n_colluding"),
        (Cape(n_colluding=1.0), 4, "n_colluding"),
        (Cape(n_colluding=0, minimum_sites=2), 4, "two different survivor sets"),
        (Cape(n_colluding=3, minimum_sites=6), 10, "two different survivor sets"),
        (Cape(n_colluding=0, minimum_sites=5), 4, "between 3 and 4"),
        (SecureSum(n_colluding=0, minimum_sites=3.0), 4, "whole number"),
        (Cape(n_colluding=0, cancelling_ratio=0.0), 4, "cancelling_ratio"),
        (Cape(n_colluding=0, cancelling_ratio=math.nan), 4, "cancelling_ratio"),
        (Dealer(n_colluding=4), 4, "n_colluding"),
        (Dealer(n_colluding=0), 1, "at least 2 sites"),
        (Independent(minimum_sites=5), 4, "minimum_sites"),
        (Independent(minimum_sites=0), 4, "minimum_sites"),
    ],
    ids=str,
)
def test_infeasible_settings_say_why(protocol: Protocol, n_sites: int, why: str) -> None:
    with pytest.raises(InvalidParameter, match=why):
        protocol.settings(n_sites)


@pytest.mark.parametrize(
    ("n_sites", "n_colluding", "minimum_sites", "n_honest"),
    [(10, 3, 7, 4), (10, 3, None, 7), (3, 0, None, 3), (4, 2, None, 2)],
)
def test_honest_sites_are_those_that_must_finish_less_the_colluders(
    n_sites: int, n_colluding: int, minimum_sites: int | None, n_honest: int
) -> None:
    for kind in (Cape, SecureSum):
        assert kind(n_colluding=n_colluding, minimum_sites=minimum_sites).n_honest(n_sites) == n_honest
