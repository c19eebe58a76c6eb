"""A coordinator that asks sites for different things must not be able to read what they send.

Real sites answer a coordinator that keeps to the form of the messages and to nothing else. It tells one site, the
victim, another request than the others: another statistic, other public values and so another diameter, other noise
within what a site tolerates, another roster or attempt. Whatever it then can compute, less what the site really sent,
must be uniform modulo 2^48 or 2^64.

Keys are the same in every run, and each test of uniformity would fail by chance with probability 1e-6.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray
from scipy.stats import kstest

from dpcape import Cape, Dealer, Federation, Replay, SecureSum, in_process, rows
from dpcape.core import messages as m
from dpcape.core.errors import ProtocolError
from dpcape.core.privacy.adversary_view import AdversaryView
from dpcape.core.protocols.cape import agreement
from dpcape.core.protocols.protocol import request_digest
from dpcape.core.protocols.secure_session import add_context, words_of
from dpcape.core.protocols.zero_sum import zero_sum_view
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.fixed_point import from_ring
from dpcape.core.secure_sum.masking import retry_sum
from dpcape.core.secure_sum.recover import Recover
from dpcape.core.secure_sum.session import Session
from dpcape.core.statistic import AnyStatistic
from dpcape.federation.allowance import Allowance
from dpcape.statistics.moments import centred_moments

Words = NDArray[np.uint64]
FALSE_ALARM = 1e-6
SITES = tuple(f"site{number:02d}" for number in range(4))
MANY = tuple(f"site{number:02d}" for number in range(30))
VICTIM = "site01"
WIDTH = 40
PROTOCOL = Cape(n_colluding=0, minimum_sites=3)
SPARSE = Cape(n_colluding=1, minimum_sites=27, n_neighbours=14)


@pytest.fixture(autouse=True)
def _same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    take = random.Random(20).randbytes
    monkeypatch.setattr("os.urandom", take)
    for kind in (X25519PrivateKey, Ed25519PrivateKey):
        monkeypatch.setattr(kind, "generate", lambda kind=kind: kind.from_private_bytes(take(32)))


# What the coordinator tells the victim in place of the request.


def other_public_values(private: Allowance, request: m.Request) -> m.Request:
    """The diameter follows from them, and so the noise of all sites."""
    return asked(private, centred_moments(private._federation.facts, mean_weight=1.4))


def other_values_of_the_same_noise(private: Allowance, request: m.Request) -> m.Request:
    """Least change of a public value: the noise is the same to the ninth digit, the plan is the coordinator's own."""
    public = {"mean_weight": float(np.nextafter(request.public["mean_weight"], 1.0))}
    return msgspec.structs.replace(request, public=public)


def other_scales(private: Allowance, request: m.Request) -> m.Request:
    """Noise of one site that differs by a millionth of what a site tolerates."""
    scales = {**request.plan.own_scales}
    scales[VICTIM] *= 1 + 1e-15
    return msgspec.structs.replace(request, plan=msgspec.structs.replace(request.plan, own_scales=scales))


def other_mus(private: Allowance, request: m.Request) -> m.Request:
    mus = {site: mu * (1 - 1e-12) for site, mu in request.plan.mus.items()}
    return msgspec.structs.replace(request, plan=msgspec.structs.replace(request.plan, mus=mus))


def another_release(private: Allowance, request: m.Request) -> m.Request:
    return asked(private, centred_moments(private._federation.facts), release=1)


CASES = [other_public_values, other_values_of_the_same_noise, other_scales, other_mus, another_release]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
each_graph = pytest.mark.parametrize("protocol", [PROTOCOL, SPARSE], ids=["all pairs", "sparse"])


def asked(private: Allowance, statistic: AnyStatistic, release: int = 0) -> m.Request:
    plan = private._noise_plans.plan(release, statistic)
    return m.Request(release=release, statistic=statistic.name, public=m.public_arrays(statistic.public), plan=plan)


class Deviating:
    """A coordinator's session with real sites, in which every site may be told something else."""

    def __init__(self, protocol: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names = MANY if protocol is SPARSE else SITES
        data = np.random.default_rng(3).normal(size=(len(self.names), 50, WIDTH)) / 10
        records = {name: rows(part, bound=1.0) for name, part in zip(self.names, data, strict=True)}
        self.line = in_process(records, noise=Replay(5))
        self.sent: dict[tuple[str, str], Words] = {}
        for kind in ("retry_mask", "self_mask", "recover_mask"):
            monkeypatch.setattr(Session, kind, self._noted(kind, getattr(Session, kind)))
        self.private = Federation(self.line, protocol=protocol).allow(1.0, 1e-5, shares=(0.5, 0.5))
        self.role = self.private._coordinator
        statistic = centred_moments(self.private._federation.facts)
        self.size = statistic.released_size
        self.request = asked(self.private, statistic)
        if protocol.name != "dealer":
            self.round: RecoverRound = self.role._next_round(2)

    def _noted(self, kind: str, mask: Callable[..., Words]) -> Callable[..., Words]:
        """Keep what a site masks, to compare with; the coordinator does not see it."""

        def noting(session: Session, *, vector: Words, **about: Any) -> Words:
            self.sent[kind, session._name] = vector.copy()
            return mask(session, vector=vector, **about)

        return noting

    def ask(self, make: Callable[[str], m.ToSite], kind: type, sites: tuple[str, ...] = ()) -> dict[str, Any]:
        replies, missing = self.role._ask_all(sites or self.names, make, kind)
        assert not missing
        return replies

    def words(self, replies: Mapping[str, m.Vector]) -> dict[str, Words]:
        n_bytes = self.request.plan.word_bytes
        return {site: words_of(reply, site, self.size, n_bytes) for site, reply in replies.items()}

    def short(self, words: Words) -> Words:
        """Words as far as they are sent."""
        return words & np.uint64(2 ** (8 * self.request.plan.word_bytes) - 1)

    def difference(self, read: Words, *truth: Words) -> Words:
        """Return what was read less what was sent, as far as it is sent."""
        return self.short(read - np.sum(truth, axis=0, dtype=np.uint64))

    def sum_of_draws(self, told: Mapping[str, m.Request], rosters: Mapping[str, tuple[str, ...]] = {}) -> Words:
        """Return the difference of what the coordinator takes for the sum of draws from the true one."""
        replies = self.ask(
            lambda site: m.Draw(request=told[site], attempt=0, roster=rosters.get(site, self.names)), m.Vector
        )
        self.drawn = retry_sum(self.names, self.words(replies))
        return self.difference(self.drawn, *(self.sent["retry_mask", site] for site in self.names))

    def submit(self, told: Mapping[str, m.Request], agreed: Mapping[str, Words] = {}) -> dict[str, Words]:
        """Have every site release on what it was told, and return the covered releases."""
        n_bytes = self.request.plan.word_bytes
        sums = {site: agreed.get(site, np.zeros(self.size, dtype=np.uint64)) for site in self.names}
        replies = self.ask(
            lambda site: m.Submit(
                request=told[site], attempt=0, roster=self.names, agreed=m.Array.of_words(sums[site], n_bytes)
            ),
            m.Vector,
        )
        self.contexts = {
            site: agreement(told[site], 0, self.names, self._signed_words(sums[site])) for site in self.names
        }
        for site, reply in replies.items():
            add_context(self.round, site, reply)
        covered = self.words(replies)
        for site, words in covered.items():
            self.round.add_covered(site, words)
        return covered

    def _signed_words(self, words: Words) -> NDArray[np.int64]:
        return from_ring(self.short(words), self.request.plan.word_bytes)

    def open_without_victim(self, *, relied_on: Mapping[str, bytes]) -> None:
        """Have the others sign and open a set with the victim, and help to open the victim's release."""
        others = tuple(site for site in self.names if site != VICTIM)
        context = self.contexts[others[0]]
        names = self.round.settle(context=context)
        for site, reply in self.ask(lambda _: m.Sign(release=0, survivors=names), m.Signed, others).items():
            self.round.add_signature(site, reply.signature)
        signatures = self.round.quorum()
        unmask = m.Unmask(release=0, survivors=names, signatures=signatures)
        for reply in self.ask(lambda _: unmask, m.Opened, others).values():
            self.round.add_opening(reply.opening)
        helped = msgspec.structs.replace(unmask, missing=(VICTIM,), relied_on=dict(relied_on))
        for reply in self.ask(lambda _: helped, m.Recovered, others).values():
            self.round.add_shares(reply.shares)

    def read_victim(self) -> Words:
        """Return the victim's release as the coordinator reads it, which knows what it told the victim."""
        self.round._context = self.contexts[VICTIM]
        return self.round.releases()[VICTIM]


@pytest.fixture
def deviating(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], Deviating]:
    return lambda protocol=PROTOCOL: Deviating(protocol, monkeypatch)


def is_uniform(words: Words, n_bytes: int) -> bool:
    """Return whether words may be uniform; by chance they seem not to be with probability 1e-6."""
    assert words.size > 500
    return bool(kstest(words / 2.0 ** (8 * n_bytes), "uniform").pvalue > FALSE_ALARM)


def told_victim(coordinator: Deviating, case: Callable[[Allowance, m.Request], m.Request]) -> dict[str, m.Request]:
    other = case(coordinator.private, coordinator.request)
    assert request_digest(other) != request_digest(coordinator.request)
    return {site: other if site == VICTIM else coordinator.request for site in coordinator.names}


def told_all(coordinator: Deviating) -> dict[str, m.Request]:
    return dict.fromkeys(coordinator.names, coordinator.request)


# The sum of draws.


@each_graph
def test_draws_for_one_request_add_up_in_whatever_order_the_roster_is(deviating: Any, protocol: Cape) -> None:
    coordinator = deviating(protocol)
    assert not coordinator.sum_of_draws(told_all(coordinator), {VICTIM: coordinator.names[::-1]}).any()


@each_graph
@each_case
def test_draws_for_different_requests_do_not_add_up(deviating: Any, case: Any, protocol: Cape) -> None:
    coordinator = deviating(protocol)
    difference = coordinator.sum_of_draws(told_victim(coordinator, case))
    assert is_uniform(difference, coordinator.request.plan.word_bytes)


def test_draws_for_two_halves_of_different_requests_do_not_add_up(deviating: Any) -> None:
    """Nor do those of the sites that were told the same."""
    coordinator = deviating()
    other = other_public_values(coordinator.private, coordinator.request)
    told = {site: other if site in SITES[:2] else coordinator.request for site in SITES}
    replies = coordinator.ask(lambda site: m.Draw(request=told[site], attempt=0, roster=SITES), m.Vector)
    words = coordinator.words(replies)
    for part in (SITES[:2], SITES[2:], SITES):
        read = np.sum([words[site] for site in part], axis=0, dtype=np.uint64)
        truth = [coordinator.sent["retry_mask", site] for site in part]
        assert is_uniform(coordinator.difference(read, *truth), coordinator.request.plan.word_bytes)


def test_draws_for_different_rosters_do_not_add_up(deviating: Any) -> None:
    coordinator = deviating()
    smaller = tuple(site for site in SITES if site != SITES[3])
    difference = coordinator.sum_of_draws(told_all(coordinator), {VICTIM: smaller})
    assert is_uniform(difference, coordinator.request.plan.word_bytes)


def test_noise_beyond_what_a_site_tolerates_is_refused(deviating: Any) -> None:
    coordinator = deviating()
    plan = coordinator.request.plan
    for changed in (
        msgspec.structs.replace(plan, step=plan.step * 2),
        msgspec.structs.replace(plan, mus={site: mu * 1.01 for site, mu in plan.mus.items()}),
        msgspec.structs.replace(plan, shared_scales={site: scale / 2 for site, scale in plan.shared_scales.items()}),
    ):
        request = msgspec.structs.replace(coordinator.request, plan=changed)
        with pytest.raises(ProtocolError, match="noise differs from this site's calculation"):
            coordinator.ask(lambda _, r=request: m.Draw(request=r, attempt=0, roster=SITES), m.Vector, (VICTIM,))


# The releases.


@each_graph
def test_the_release_of_a_lost_site_that_was_told_the_same_is_read(deviating: Any, protocol: Cape) -> None:
    """So the means of the tests below suffice, as far as sites help."""
    coordinator = deviating(protocol)
    coordinator.sum_of_draws(told_all(coordinator))
    coordinator.submit(told_all(coordinator))
    coordinator.open_without_victim(relied_on={VICTIM: coordinator.round._relied_on[VICTIM]})
    truth = coordinator.sent["self_mask", VICTIM]
    assert not coordinator.difference(coordinator.read_victim(), truth).any()


@pytest.mark.parametrize("shown", ["its own", "another site's", "none"])
@pytest.mark.parametrize("case", [*CASES[:4], "another sum"], ids=lambda case: getattr(case, "__name__", case))
def test_the_release_of_a_site_that_was_told_something_else_stays_covered(
    deviating: Any, case: Any, shown: str
) -> None:
    coordinator = deviating()
    told = told_all(coordinator) if case == "another sum" else told_victim(coordinator, case)
    coordinator.sum_of_draws(told)
    agreed = {VICTIM: np.full(coordinator.size, 8, dtype=np.uint64)} if case == "another sum" else {}
    covered = coordinator.submit(told, agreed)
    signatures = coordinator.round._relied_on
    relied_on = {"its own": {VICTIM: signatures[VICTIM]}, "another site's": {VICTIM: signatures["site02"]}, "none": {}}
    with pytest.raises(ProtocolError, match=f"{VICTIM} has not signed what this site relied on"):
        coordinator.open_without_victim(relied_on=relied_on[shown])
    difference = coordinator.difference(covered[VICTIM], coordinator.sent["self_mask", VICTIM])
    assert is_uniform(difference, coordinator.request.plan.word_bytes)


def test_a_site_that_was_told_something_else_does_not_open_with_the_others(deviating: Any) -> None:
    coordinator = deviating()
    told = told_victim(coordinator, other_public_values)
    coordinator.sum_of_draws(told)
    coordinator.submit(told)
    names = coordinator.round.settle(context=coordinator.contexts[SITES[0]])
    signed = coordinator.ask(lambda _: m.Sign(release=0, survivors=names), m.Signed)
    signatures = {site: reply.signature for site, reply in signed.items()}
    unmask = m.Unmask(release=0, survivors=names, signatures=signatures)
    with pytest.raises(ProtocolError, match="has not signed the same set"):
        coordinator.ask(lambda _: unmask, m.Opened, (VICTIM,))


def test_sites_that_signed_different_survivor_sets_do_not_open(deviating: Any) -> None:
    coordinator = deviating()
    coordinator.sum_of_draws(told_all(coordinator))
    coordinator.submit(told_all(coordinator))
    sets = {site: SITES if site in SITES[:2] else SITES[1:] for site in SITES}
    signed = coordinator.ask(lambda site: m.Sign(release=0, survivors=sets[site]), m.Signed)
    for site in SITES[1:]:
        signatures = {name: signed[name].signature for name in sets[site]}
        unmask = m.Unmask(release=0, survivors=sets[site], signatures=signatures)
        with pytest.raises(ProtocolError, match="has not signed the same set"):
            coordinator.ask(lambda _, unmask=unmask: unmask, m.Opened, (site,))


@pytest.mark.parametrize("case", CASES[:4], ids=lambda case: case.__name__)
def test_the_correction_does_not_add_draws_for_different_requests(
    deviating: Any, case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the others helped to open what they must not."""
    monkeypatch.setattr(Recover, "_check_relied_on", lambda *_, **__: None)
    coordinator = deviating()
    told = told_victim(coordinator, case)
    coordinator.sum_of_draws(told)
    coordinator.submit(told)
    for site, words in coordinator.words(coordinator.ask(lambda _: m.Correct(release=0), m.Vector)).items():
        coordinator.round.add_masked(site, words)
    coordinator.open_without_victim(relied_on={})
    truth = [coordinator.sent["recover_mask", site] for site in SITES]
    assert is_uniform(coordinator.difference(coordinator.round.total(), *truth), coordinator.request.plan.word_bytes)


def test_without_binding_the_coordinator_would_read_draws_and_release(
    deviating: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows that the attacks above are real."""
    monkeypatch.setattr(Recover, "_check_relied_on", lambda *_, **__: None)
    mask = Session.retry_mask
    monkeypatch.setattr(Session, "retry_mask", lambda self, *, context, **about: mask(self, **about))
    coordinator = deviating()
    told = told_victim(coordinator, other_public_values)
    assert not coordinator.sum_of_draws(told).any()
    coordinator.submit(told)
    coordinator.open_without_victim(relied_on={})
    truth = coordinator.sent["self_mask", VICTIM]
    assert not coordinator.difference(coordinator.read_victim(), truth).any()


# A release is of the request that its noise is for.


def test_a_release_is_of_the_request_its_noise_was_drawn_for(deviating: Any) -> None:
    """A site remembers the last request it began; a refused old one must not make it forget the current one."""
    coordinator = deviating()
    facts = coordinator.private._federation.facts
    coordinator.sum_of_draws(told_all(coordinator))
    second = asked(coordinator.private, centred_moments(facts), release=1)
    coordinator.sum_of_draws(dict.fromkeys(SITES, second))
    with pytest.raises(ProtocolError, match="not newer"):
        coordinator.ask(lambda _: m.Draw(request=coordinator.request, attempt=1, roster=SITES), m.Vector, (VICTIM,))
    other = asked(coordinator.private, centred_moments(facts, mean_weight=1.4), release=1)
    with pytest.raises(ProtocolError, match="differs from that of the noise agreement"):
        coordinator.submit({**dict.fromkeys(SITES, second), VICTIM: other})


def test_an_agreement_is_not_tried_again_with_another_request(deviating: Any) -> None:
    coordinator = deviating()
    coordinator.sum_of_draws(told_all(coordinator))
    other = other_public_values(coordinator.private, coordinator.request)
    with pytest.raises(ProtocolError, match="statistic differs"):
        coordinator.ask(lambda _: m.Draw(request=other, attempt=1, roster=SITES), m.Vector, (VICTIM,))


@pytest.mark.parametrize("same", [1, True], ids=["whole number", "truth value"])
def test_values_that_python_takes_for_equal_are_another_request(deviating: Any, same: object) -> None:
    """The digest of what was drawn for must be that of what is computed."""
    coordinator = deviating()
    request = asked(coordinator.private, centred_moments(coordinator.private._federation.facts, mean_weight=1.0))
    coordinator.sum_of_draws(dict.fromkeys(SITES, request))
    other = msgspec.structs.replace(request, public={"mean_weight": same})
    assert other == request
    with pytest.raises(ProtocolError, match="statistic differs"):
        coordinator.ask(lambda _: m.Draw(request=other, attempt=1, roster=SITES), m.Vector, (VICTIM,))


def checks_of(coordinator: Deviating, request: m.Request) -> tuple[dict[str, m.CheckDealt], bytes]:
    boxes, root = coordinator.role._deal(request, request.plan, coordinator.size)
    return {site: m.CheckDealt(request=request, box=box) for site, box in boxes.items()}, root


@pytest.mark.parametrize("case", [other_values_of_the_same_noise, other_scales, other_mus])
def test_dealt_noise_is_for_one_request(deviating: Any, case: Any) -> None:
    coordinator = deviating(Dealer(n_colluding=1))
    checks, _ = checks_of(coordinator, coordinator.request)
    other = case(coordinator.private, coordinator.request)
    with pytest.raises(ProtocolError, match="not signed by the pinned dealer"):
        coordinator.ask(lambda site: m.CheckDealt(request=other, box=checks[site].box), m.DealtChecked, (VICTIM,))
    coordinator.ask(lambda site: checks[site], m.DealtChecked, ("site02",))


def test_a_release_is_of_the_request_its_noise_was_dealt_for(deviating: Any) -> None:
    coordinator = deviating(Dealer(n_colluding=1))
    facts = coordinator.private._federation.facts
    first, _ = checks_of(coordinator, coordinator.request)
    second, root = checks_of(coordinator, asked(coordinator.private, centred_moments(facts), release=1))
    for checks in (first, second):
        coordinator.ask(lambda site, checks=checks: checks[site], m.DealtChecked)
    with pytest.raises(ProtocolError, match="already opened"):
        coordinator.ask(lambda site: first[site], m.DealtChecked, (VICTIM,))
    other = asked(coordinator.private, centred_moments(facts, mean_weight=1.4), release=1)
    with pytest.raises(ProtocolError, match="not opened here"):
        coordinator.ask(lambda _: m.Submit(request=other, box=root), m.Vector, (VICTIM,))


# Secure sums.


@each_case
def test_totals_for_different_requests_do_not_add_up(deviating: Any, case: Any) -> None:
    coordinator = deviating(SecureSum(n_colluding=0, minimum_sites=3))
    told = told_victim(coordinator, case)
    replies = coordinator.ask(lambda site: m.Submit(request=told[site], roster=SITES), m.Vector)
    coordinator.contexts = {site: request_digest(told[site]) for site in SITES}
    for site, words in coordinator.words(replies).items():
        coordinator.round.add_masked(site, words)
        add_context(coordinator.round, site, replies[site])
    with pytest.raises(ProtocolError, match=f"{VICTIM} has not signed what this site relied on"):
        coordinator.open_without_victim(relied_on={VICTIM: coordinator.round._relied_on[VICTIM]})
    words = coordinator.words(replies)
    n_bytes = coordinator.request.plan.word_bytes
    for part in (SITES, (VICTIM,)):
        read = np.sum([words[site] for site in part], axis=0, dtype=np.uint64)
        truth = [coordinator.sent["recover_mask", site] for site in part]
        assert is_uniform(coordinator.difference(read, *truth), n_bytes)


# What it is for.


@pytest.mark.parametrize(("n_honest", "times"), [(2, 1.263), (3, 1.411), (50, 1.935)])
def test_what_different_plans_would_cost(n_honest: int, times: float) -> None:
    """Own noise has 2^30 to 2^31 grid steps, so that the others' plan can halve theirs: mu grows up to twice.

    Bound masks keep the sum of draws from the coordinator. What it may read then, releases under own noise and draw,
    exposes nobody more than was calibrated.
    """
    n_sites, honest = n_honest + 1, range(n_honest)
    ratio = np.sqrt(n_sites * PROTOCOL.cancelling_ratio)
    equal, mixed = np.ones(n_sites), np.full(n_sites, 0.5)
    mixed[0] = 1.0
    calibrated = zero_sum_view(n_sites, honest, equal, ratio * equal).exposures()[0]
    readable = zero_sum_view(n_sites, honest, mixed, ratio * mixed).exposures()[0]
    assert readable / calibrated == pytest.approx(times, abs=1e-3)
    single = AdversaryView(
        shift=np.eye(n_honest, n_sites),
        mixing=np.eye(n_honest, 2 * n_sites) + np.eye(n_honest, 2 * n_sites, n_sites),
        variances=np.concatenate([ratio * mixed, mixed]) ** 2,
    )
    assert single.exposures()[0] < calibrated


def test_plans_with_other_public_values_have_other_noise_in_grid_steps(deviating: Any) -> None:
    """So that the case above is one that occurs."""
    coordinator = deviating()
    other = other_public_values(coordinator.private, coordinator.request).plan
    mine = coordinator.request.plan
    steps = sorted(plan.own_steps(VICTIM) for plan in (mine, other))
    assert 2**30 <= steps[0] < 0.95 * steps[1] < 2**31
