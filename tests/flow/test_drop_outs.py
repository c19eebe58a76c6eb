"""Sites lost at every stage: the sum is that of the survivors, or there is no result and the charge stands."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcape import PCA, Cape, Dealer, Federation, Independent, SecureSum
from dpcape.core.errors import ProtocolError, SiteLost
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.gaussian import mu_of
from dpcape.federation.allowance import Allowance
from dpcape.statistics.moments import second_moment

from .lines import LosingLine, Loss, exact_steps, example_rows, line_of, own_noise

FIVE = example_rows(5, unequal=True)
BASIC = {"epsilon": 1.0, "delta": 1e-5}


def open_allowance(line: LosingLine, protocol: Cape | SecureSum | Independent | Dealer, n: int = 1) -> Allowance:
    return Federation(line, protocol=protocol).allow(1.0, 1e-5, shares=(1 / n,) * n)


def check_sum(data: dict[str, np.ndarray], private: Allowance, packed_mean: np.ndarray, release: int = 0) -> None:
    """The released mean is, to the last integer, the survivors' totals plus their own noise."""
    statistic = second_moment(private._federation.facts)
    plan: ReleaseNoise = private._plans[release]
    survivors = private.releases[release].survivors
    total = sum(
        exact_steps(statistic, data[site], plan) + own_noise(plan, site, statistic.released_size, release=release)
        for site in survivors
    )
    n_records = sum(len(data[site]) for site in survivors)
    expected = statistic.unpack(np.asarray(total[:-1], dtype=np.float64) * (plan.step / n_records))
    np.testing.assert_array_equal(packed_mean, expected)


CAPE = Cape(n_colluding=0, minimum_sites=3)
SUM = SecureSum(n_colluding=0, minimum_sites=3)
A, B = "site00", "site03"

# (what is lost, who survives): stages in the order of the protocol.
SET_UP = [
    ("at Open", [Loss(A, "Open")], 4),
    ("before hello", [Loss(A, "Greet")], 4),
    ("after hello", [Loss(A, "Greet", after=True)], 4),
    ("before the offer", [Loss(B, "Join")], 4),
    ("after the offer", [Loss(B, "Join", after=True)], 4),
    ("before accepting", [Loss(A, "Accept")], 4),
    ("after accepting", [Loss(A, "Accept", after=True)], 4),
    ("one at hello, one at the offer", [Loss(A, "Greet"), Loss(B, "Join", after=True)], 3),
]
SETTLING = [
    ("before signing", [Loss(A, "Sign")], 5),
    ("after signing", [Loss(A, "Sign", after=True)], 5),
    ("before opening", [Loss(B, "Unmask")], 5),
    ("after opening", [Loss(B, "Unmask", after=True)], 5),
    ("one at signing, one at opening", [Loss(A, "Sign"), Loss(B, "Unmask")], 5),
]
OF_CAPE = [
    ("before the draw", [Loss(A, "Draw")], 4),
    ("after the draw", [Loss(A, "Draw", after=True)], 4),
    ("two in two attempts at the draw", [Loss(A, "Draw"), Loss(B, "Draw", nth=1)], 3),
    ("between agreement and release", [Loss(A, "Submit")], 4),
    ("with a late release", [Loss(A, "Submit", after=True)], 4),
    ("two between agreement and release", [Loss(A, "Submit"), Loss(B, "Submit", after=True)], 3),
    ("before the correction", [Loss(A, "Submit"), Loss(B, "Correct")], 3),
    ("after the correction", [Loss(A, "Submit"), Loss(B, "Correct", after=True)], 3),
    ("one at release, one at signing", [Loss(A, "Submit"), Loss(B, "Sign")], 4),
    ("one at release, one at opening", [Loss(B, "Submit"), Loss(A, "Unmask")], 4),
    ("one at the draw, one at release", [Loss(B, "Draw"), Loss(A, "Submit")], 3),
]
OF_SUM = [
    ("before the vector", [Loss(A, "Submit")], 4),
    ("after the vector", [Loss(A, "Submit", after=True)], 4),
    ("two at the vector", [Loss(A, "Submit"), Loss(B, "Submit", after=True)], 3),
    ("one at the vector, one at opening", [Loss(A, "Submit"), Loss(B, "Unmask")], 4),
]


def cases() -> list[object]:
    return [
        pytest.param(protocol, losses, n_survivors, id=f"{protocol.name}: {label}")
        for protocol, stages in ((CAPE, SET_UP + OF_CAPE + SETTLING), (SUM, SET_UP + OF_SUM + SETTLING))
        for label, losses, n_survivors in stages
    ]


@pytest.mark.parametrize(("protocol", "losses", "n_survivors"), cases())
def test_the_sum_is_that_of_the_survivors(protocol: Cape | SecureSum, losses: list[Loss], n_survivors: int) -> None:
    private = open_allowance(line_of(FIVE, losses), protocol)
    mean = private.mean(second_moment(private._federation.facts))
    assert len(private.releases[0].survivors) == n_survivors
    check_sum(FIVE, private, mean)
    assert private.guarantee().took_part == private.releases[0].survivors


TOO_MANY = [
    pytest.param(protocol, [Loss(site, kind) for site in ("site00", "site01", "site04")], id=f"{protocol.name}: {kind}")
    for protocol, kinds in (
        (CAPE, ("Open", "Greet", "Join", "Accept", "Draw", "Submit", "Sign", "Unmask")),
        (SUM, ("Open", "Greet", "Join", "Accept", "Submit", "Sign", "Unmask")),
    )
    for kind in kinds
]


@pytest.mark.parametrize(("protocol", "losses"), TOO_MANY)
def test_more_than_allowed_ends_without_a_result(protocol: Cape | SecureSum, losses: list[Loss]) -> None:
    line = line_of(FIVE, losses)
    federation = Federation(line, protocol=protocol)
    if losses[0].kind == "Open":
        with pytest.raises(SiteLost):
            federation.allow(1.0, 1e-5)
        return
    private = federation.allow(1.0, 1e-5)
    with pytest.raises(SiteLost, match="stay charged"):
        private.mean(second_moment(federation.facts))
    assert private.releases == []
    assert private.left == 0
    submitted = {entry.site for entry in line.of_kind("Submit")}
    for site in line.sites:
        assert bool(line.inner.site(site).ledger.charges) == (site in submitted)
    if losses[0].kind != "Unmask":
        assert line.of_kind("Unmask") == []


def test_more_than_allowed_at_the_correction_ends_without_a_result() -> None:
    losses = [Loss("site00", "Submit"), Loss("site01", "Correct"), Loss("site04", "Correct", after=True)]
    line = line_of(FIVE, losses)
    private = open_allowance(line, CAPE)
    with pytest.raises(SiteLost):
        private.mean(second_moment(private._federation.facts))
    assert line.of_kind("Sign") == []


def test_fewer_openings_than_the_minimum_end_without_a_result() -> None:
    losses = [Loss("site00", "Submit"), Loss("site01", "Unmask"), Loss("site04", "Unmask", after=True)]
    private = open_allowance(line_of(FIVE, losses), CAPE)
    with pytest.raises(SiteLost):
        private.mean(second_moment(private._federation.facts))


@pytest.mark.parametrize("protocol", [CAPE, SUM], ids=lambda p: p.name)
def test_later_releases_run_among_those_that_remain(protocol: Cape | SecureSum) -> None:
    line = line_of(FIVE, [Loss("site01", "Submit", nth=1), Loss("site02", "Sign", nth=2)])
    private = open_allowance(line, protocol, n=4)
    statistic = second_moment(private._federation.facts)
    means = [private.mean(statistic) for _ in range(4)]
    assert [len(release.survivors) for release in private.releases] == [5, 4, 4, 3]
    for number, mean in enumerate(means):
        check_sum(FIVE, private, mean, release=number)
    guarantee = private.guarantee()
    assert guarantee.took_part == ("site00", "site03", "site04")
    assert guarantee.epsilon <= 1.0


@pytest.mark.parametrize("protocol", [CAPE, SUM], ids=lambda p: p.name)
@pytest.mark.parametrize("losses", [[], [Loss(A, "Renew")], [Loss(B, "Renew", after=True)], [Loss(A, "Accept", nth=1)]])
def test_round_secrets_are_renewed(
    protocol: Cape | SecureSum, losses: list[Loss], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With epochs of two rounds, five releases need three epochs; a site lost at the renewal is left out."""
    monkeypatch.setattr("dpcape.core.protocols.secure_session.EPOCH_ROUNDS", 2)
    line = line_of(FIVE, losses)
    private = open_allowance(line, protocol, n=5)
    statistic = second_moment(private._federation.facts)
    for number in range(5):
        check_sum(FIVE, private, private.mean(statistic), release=number)
    assert line.of_kind("Renew")
    expected = [5, 5, *[5 - len(losses)] * 3]
    assert [len(release.survivors) for release in private.releases] == expected


@pytest.mark.parametrize("protocol", [CAPE, SUM], ids=lambda p: p.name)
def test_a_site_that_missed_the_opening_of_the_allowance_is_left_out(protocol: Cape | SecureSum) -> None:
    line = line_of(FIVE, [Loss("site02", "Open", returns=True)])
    private = open_allowance(line, protocol)
    mean = private.mean(second_moment(private._federation.facts))
    assert "site02" not in private.releases[0].survivors
    check_sum(FIVE, private, mean)


def test_independent_sites_may_be_lost_and_return() -> None:
    line = line_of(FIVE, [Loss("site02", "Submit", returns=True)])
    private = open_allowance(line, Independent(minimum_sites=2), n=2)
    statistic = second_moment(private._federation.facts)
    for number in range(2):
        check_sum(FIVE, private, private.mean(statistic), release=number)
    assert [len(release.survivors) for release in private.releases] == [4, 5]


def test_a_dealer_needs_every_site() -> None:
    line = line_of(FIVE, [Loss("site02", "Submit")])
    private = open_allowance(line, Dealer(n_colluding=1))
    with pytest.raises(SiteLost):
        private.mean(second_moment(private._federation.facts))
    assert line.inner.site("site01").ledger.charges


def test_a_dealer_that_does_not_answer_ends_the_release() -> None:
    line = line_of(FIVE, [Loss("dealer", "Deal")])
    private = open_allowance(line, Dealer(n_colluding=1))
    with pytest.raises(ProtocolError, match="dealer"):
        private.mean(second_moment(private._federation.facts))
    assert not line.inner.site("site01").ledger.charges


def test_a_federation_needs_every_site_when_it_is_formed() -> None:
    with pytest.raises(SiteLost, match="site02"):
        Federation(line_of(FIVE, [Loss("site02", "Describe")]), protocol=CAPE)


# What issue 3 must show.

TEN = example_rows(10, n_rows=40, width=4)
SEVEN_OF_TEN = Cape(n_colluding=3, minimum_sites=7)


def test_ten_sites_two_vanish_after_the_noise_agreement() -> None:
    line = line_of(TEN, [Loss("site02", "Submit"), Loss("site07", "Submit", after=True)])
    federation = Federation(line, protocol=SEVEN_OF_TEN)
    model = PCA(n_components=2, center=False, **BASIC).fit(federation)
    release = model.releases_[0]
    assert len(release.survivors) == 8
    # Aggregate = mean over the survivors + their own noise.
    terms = federation.terms(**BASIC)
    from dpcape.core.privacy.calibration import plan_release

    statistic = second_moment(federation.facts)
    plan = plan_release(terms, 0, statistic, SEVEN_OF_TEN)
    rows_left = np.vstack([TEN[site] for site in release.survivors])
    rows_left = rows_left * np.minimum(1, 1 / np.linalg.norm(rows_left, axis=1, keepdims=True))
    noise = (
        sum(own_noise(plan, site, statistic.released_size) for site in release.survivors) * plan.step / len(rows_left)
    )
    expected = rows_left.T @ rows_left / len(rows_left) + statistic.unpack(np.asarray(noise[:-1], dtype=float))
    rebuilt = (model.components_.T * model.explained_variance_) @ model.components_
    projector = model.components_.T @ model.components_
    # Rows move by a step of the grid, 1e-6, at most.
    assert np.abs(projector @ expected @ projector - rebuilt).max() < 2e-6
    values = np.linalg.eigvalsh(expected)[::-1]
    np.testing.assert_allclose(model.explained_variance_, values[:2], rtol=0, atol=2e-6)
    # The closed form with h = minimum_sites - n_colluding = 4 honest sites and lam = 10 x 100.
    h, lam, mu = 4, 1000, mu_of(1.0, 1e-5)
    gamma = math.sqrt(2) / mu * math.sqrt(1 / h + (1 - 1 / h) / (1 + lam))
    assert plan.own_scales["site00"] == pytest.approx(gamma, rel=1e-5)
    guarantee = model.guarantee_
    assert guarantee.epsilon <= 1.0
    assert guarantee.epsilon == pytest.approx(1.0, rel=1e-5)
    assert guarantee.took_part == release.survivors
    assert (guarantee.minimum_sites, guarantee.n_colluding) == (7, 3)


def test_ten_sites_four_vanish_and_the_run_ends_without_a_result() -> None:
    losses = [Loss(f"site0{index}", "Submit") for index in (0, 3, 5, 8)]
    line = line_of(TEN, losses)
    model = PCA(n_components=2, center=False, **BASIC)
    with pytest.raises(SiteLost, match="only 6 of 7 required sites"):
        model.fit(Federation(line, protocol=SEVEN_OF_TEN))
    assert not hasattr(model, "components_")
    assert line.of_kind("Correct") == line.of_kind("Sign") == line.of_kind("Unmask") == []
    assert line.inner.site("site01").ledger.charges
