"""An aggregator that departs from the protocol: what it may try, and that no site opens more than it should.

The guarantee is stated against an honest but curious aggregator; these are the departures that sites nevertheless stop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from dpcape import Cape, Dealer, Federation, Replay, SecureSum, in_process, rows
from dpcape.core import messages as m
from dpcape.core.errors import DpcapeError, ProtocolError
from dpcape.core.messages import decode_from_site, decode_to_site, encode
from dpcape.core.privacy.calibration import plan_release
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.protocols.secure_session import EPOCH_ROUNDS
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.statistic import Statistic
from dpcape.site.in_process import InProcess
from dpcape.statistics.moments import first_moments, second_moment

from .lines import LosingLine, Loss, example_rows, line_of

FOUR = example_rows(4)
NAMES = tuple(FOUR)
VICTIM = NAMES[0]
CAPE, SUM, DEALER = Cape(n_colluding=1), SecureSum(n_colluding=1), Dealer(n_colluding=1)

Tamper = Callable[[str, m.ToSite], m.ToSite]


class TamperingLine(LosingLine):
    """Changes messages on their way to the sites."""

    def __init__(self, inner: InProcess, tamper: Tamper) -> None:
        super().__init__(inner)
        self._tamper = tamper

    def ask(self, messages_by_site: Mapping[str, bytes], deadline: float | None) -> Any:
        changed = {}
        for site, data in messages_by_site.items():
            allowance, message = decode_to_site(data)
            changed[site] = encode(self._tamper(site, message), allowance=allowance)
        return super().ask(changed, deadline)


def tampered(protocol: Protocol, tamper: Tamper) -> tuple[TamperingLine, Federation]:
    records = {name: rows(FOUR[name], bound=1.0) for name in NAMES}
    line = TamperingLine(in_process(records, noise=Replay(5)), tamper)
    return line, Federation(line, protocol=protocol)


def opened(line: LosingLine, site: str = VICTIM) -> bool:
    return any(isinstance(entry.reply, m.Opened) for entry in line.of_kind("Unmask", site))


def say(line: LosingLine, site: str, message: m.ToSite, allowance: str) -> m.FromSite:
    reply = line.inner.ask({site: encode(message, allowance=allowance)}, None)[0][site]
    return decode_from_site(reply)[1]


def finished(protocol: Protocol, losses: list[Loss] | None = None) -> tuple[LosingLine, str]:
    """Run one of two releases; return the line and the allowance."""
    line = line_of(FOUR, losses or [])
    federation = Federation(line, protocol=protocol)
    private = federation.allow(1.0, 1e-5, shares=(0.5, 0.5))
    private.mean(second_moment(federation.facts))
    return line, private._terms.allowance


# Different requests to different sites: the victim would count on cover that is not there.


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attacker's coordinator goes on with sites that did not sign what it was to ask them."""
    monkeypatch.setattr(RecoverRound, "relies_on", lambda *_: True)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("protocol", [CAPE, SUM], ids=lambda p: p.name)
def test_sites_asked_for_different_statistics_do_not_open(protocol: Protocol) -> None:
    """Three columns: first moments and second moment both have length six, but other scales."""
    terms: dict[str, Any] = {}

    def mix(site: str, message: m.ToSite) -> m.ToSite:
        if isinstance(message, m.Open):
            terms["terms"] = message.terms
        if site == VICTIM or not isinstance(message, m.Draw | m.Submit):
            return message
        other: Statistic = first_moments(terms["terms"].facts)
        plan = plan_release(terms["terms"], message.request.release, other, protocol)
        request = msgspec.structs.replace(message.request, statistic=other.name, plan=plan)
        return msgspec.structs.replace(message, request=request)

    line, federation = tampered(protocol, mix)
    assert second_moment(federation.facts).size == first_moments(federation.facts).size
    private = federation.allow(1.0, 1e-5)
    with pytest.raises(ProtocolError):
        private.mean(second_moment(federation.facts))
    assert not opened(line)
    # Even with every signature there is, the victim does not open.
    signatures = {entry.site: entry.reply.signature for entry in line.of_kind("Sign")}
    assert signatures.keys() == set(NAMES)
    unmask = m.Unmask(release=0, survivors=NAMES, signatures=signatures)
    assert isinstance(say(line, VICTIM, unmask, private._terms.allowance), m.Refused)


@pytest.mark.usefixtures("unchecked")
def test_sites_told_different_sums_do_not_open() -> None:
    def lie(site: str, message: m.ToSite) -> m.ToSite:
        if site == VICTIM and isinstance(message, m.Submit):
            agreed = message.agreed.decode() + np.uint64(1)
            sent = m.Array.of_words(agreed, message.request.plan.word_bytes)
            return msgspec.structs.replace(message, agreed=sent)
        return message

    line, federation = tampered(CAPE, lie)
    with pytest.raises(ProtocolError):
        federation.allow(1.0, 1e-5).mean(second_moment(federation.facts))
    assert not opened(line)


def test_a_small_roster_is_refused_at_the_draw_and_serves_no_release() -> None:
    def shrink(site: str, message: m.ToSite) -> m.ToSite:
        if site == VICTIM and isinstance(message, m.Draw):
            return msgspec.structs.replace(message, roster=(VICTIM,))
        return message

    line, federation = tampered(CAPE, shrink)
    private = federation.allow(1.0, 1e-5)
    with pytest.raises(DpcapeError):
        private.mean(second_moment(federation.facts))
    request = line.of_kind("Draw")[0].message.request
    zeros = m.Array.of_words(np.zeros(6, dtype=np.uint64), request.plan.word_bytes)
    submit = m.Submit(request=request, attempt=0, roster=(VICTIM,), agreed=zeros)
    assert isinstance(say(line, VICTIM, submit, private._terms.allowance), m.Refused)
    assert not line.inner.site(VICTIM).ledger.charges


@pytest.mark.parametrize("protocol", [CAPE, SUM], ids=lambda p: p.name)
def test_the_same_statistic_to_all_does_open(protocol: Protocol) -> None:
    line, federation = tampered(protocol, lambda _, message: message)
    federation.allow(1.0, 1e-5).mean(second_moment(federation.facts))
    assert opened(line)


# Saying things twice.


@pytest.mark.parametrize("protocol", [CAPE, SUM, DEALER], ids=lambda p: p.name)
@pytest.mark.parametrize("losses", [[], [Loss("site03", "Submit", after=True)]], ids=["all finish", "one is late"])
def test_everything_that_was_said_is_refused_when_said_again(protocol: Protocol, losses: list[Loss]) -> None:
    if losses:
        if protocol.name == "dealer":
            pytest.skip("a dealer needs all sites")
        protocol = type(protocol)(n_colluding=0, minimum_sites=3)
    line, _ = finished(protocol, losses)
    for entry in list(line.crossed):
        if entry.kind == "Describe":
            continue
        reply = decode_from_site(line.inner.ask({entry.site: entry.data}, None)[0][entry.site])[1]
        assert isinstance(reply, m.Refused), entry.kind
    for site in NAMES:
        assert line.inner.site(site).ledger._next == dict.fromkeys(line.inner.site(site).ledger._next, 1)


def restart(line: LosingLine, allowance: str, session: int = 5) -> None:
    """Begin a new session of the same allowance, with everybody, and an epoch in it."""
    hellos = {site: say(line, site, m.Greet(sites=NAMES, session=session), allowance) for site in NAMES}
    join = m.Join(hellos=tuple(hellos[site].hello for site in NAMES), epoch=0, n_rounds=2)
    offers = [say(line, site, join, allowance).offer for site in NAMES]
    for site in NAMES:
        accept = m.Accept(offers=tuple(offer.addressed_to(site) for offer in offers))
        assert isinstance(say(line, site, accept, allowance), m.Accepted)


@pytest.mark.parametrize("protocol", [CAPE, SUM], ids=lambda p: p.name)
def test_a_new_session_does_not_bring_a_release_back(protocol: Protocol) -> None:
    line, allowance = finished(protocol)
    restart(line, allowance)
    request = line.of_kind("Submit")[0].message.request
    zeros = m.Array.of_words(np.zeros(6, dtype=np.uint64), request.plan.word_bytes)
    for attempt in (0, 1, 7):
        for message in (
            m.Draw(request=request, attempt=attempt, roster=NAMES),
            m.Submit(request=request, attempt=attempt, roster=NAMES, agreed=zeros),
        ):
            assert isinstance(say(line, VICTIM, message, allowance), m.Refused)
    for message in (m.Correct(release=0), m.Sign(release=0, survivors=NAMES)):
        assert isinstance(say(line, VICTIM, message, allowance), m.Refused)


def test_a_session_begun_between_draw_and_release_costs_nothing() -> None:
    """The round that would cover the release is gone: refused before the charge, records unread."""
    line = line_of(FOUR, [Loss(site, "Submit") for site in NAMES])
    federation = Federation(line, protocol=CAPE)
    private = federation.allow(1.0, 1e-5)
    with pytest.raises(ProtocolError):
        private.mean(second_moment(federation.facts))
    allowance = private._terms.allowance
    restart(line, allowance)
    request = line.of_kind("Draw")[0].message.request
    zeros = m.Array.of_words(np.zeros(6, dtype=np.uint64), request.plan.word_bytes)
    submit = m.Submit(request=request, attempt=0, roster=NAMES, agreed=zeros)
    assert isinstance(say(line, VICTIM, submit, allowance), m.Refused)
    assert not line.inner.site(VICTIM).ledger.charges


def stopped(protocol: Protocol, kind: str) -> tuple[LosingLine, str]:
    """Run a release until messages of this kind would be sent."""
    line = line_of(FOUR, [Loss(site, kind) for site in NAMES])
    federation = Federation(line, protocol=protocol)
    private = federation.allow(1.0, 1e-5)
    with pytest.raises(ProtocolError):
        private.mean(second_moment(federation.facts))
    return line, private._terms.allowance


def test_order_of_steps_within_a_release() -> None:
    line, allowance = stopped(CAPE, "Submit")
    assert isinstance(say(line, VICTIM, m.Correct(release=0), allowance), m.Refused)
    assert isinstance(say(line, VICTIM, m.Sign(release=0, survivors=NAMES), allowance), m.Refused)
    line, allowance = stopped(CAPE, "Sign")
    request = line.of_kind("Submit")[0].message.request
    redraw = m.Draw(request=request, attempt=1, roster=NAMES)
    assert isinstance(say(line, VICTIM, redraw, allowance), m.Refused)
    assert isinstance(say(line, VICTIM, m.Correct(release=0), allowance), m.Vector)
    assert isinstance(say(line, VICTIM, m.Correct(release=0), allowance), m.Refused)


@pytest.mark.parametrize("protocol", [CAPE, SUM], ids=lambda p: p.name)
def test_one_survivor_set_is_signed(protocol: Protocol) -> None:
    protocol = type(protocol)(n_colluding=0, minimum_sites=3)
    line, allowance = stopped(protocol, "Sign")
    assert isinstance(say(line, VICTIM, m.Sign(release=0, survivors=NAMES), allowance), m.Signed)
    for survivors in (NAMES, NAMES[:3]):
        assert isinstance(say(line, VICTIM, m.Sign(release=0, survivors=survivors), allowance), m.Refused)


@pytest.mark.parametrize("survivors", [NAMES[:2], NAMES[1:], (*NAMES, "mallory"), (VICTIM, VICTIM, VICTIM), ()])
def test_a_wrong_survivor_set_is_not_signed(survivors: tuple[str, ...]) -> None:
    line, allowance = stopped(Cape(n_colluding=0, minimum_sites=3), "Sign")
    assert isinstance(say(line, VICTIM, m.Sign(release=0, survivors=survivors), allowance), m.Refused)


def test_a_correction_of_some_and_not_of_others_does_not_open() -> None:
    """What was sent in a round is signed with the set."""
    line, allowance = stopped(CAPE, "Sign")
    assert isinstance(say(line, VICTIM, m.Correct(release=0), allowance), m.Vector)
    signed = {site: say(line, site, m.Sign(release=0, survivors=NAMES), allowance) for site in NAMES}
    signatures = {site: reply.signature for site, reply in signed.items()}
    for site in NAMES:
        unmask = m.Unmask(release=0, survivors=NAMES, signatures=signatures)
        assert isinstance(say(line, site, unmask, allowance), m.Refused)


def test_the_cover_of_a_late_release_stays_closed() -> None:
    """The late site is outside the signed set: no survivor hands out shares of its seed, before or after opening."""
    protocol = Cape(n_colluding=0, minimum_sites=3)
    line, allowance = finished(protocol, [Loss("site03", "Submit", after=True)])
    assert isinstance(line.of_kind("Submit", "site03")[0].reply, m.Vector)
    unmask = line.of_kind("Unmask", VICTIM)[0].message
    for missing in (("site03",), ("site01", "site03")):
        asked = msgspec.structs.replace(unmask, missing=missing)
        for site in NAMES[:3]:
            assert isinstance(say(line, site, asked, allowance), m.Refused)
    assert isinstance(say(line, "site03", m.Sign(release=0, survivors=NAMES), allowance), m.Signed)
    assert isinstance(say(line, "site03", msgspec.structs.replace(unmask, survivors=NAMES), allowance), m.Refused)


@pytest.mark.parametrize("n_rounds", [0, -1, EPOCH_ROUNDS + 1, 10**9])
def test_an_epoch_of_endless_rounds_is_not_prepared(n_rounds: int) -> None:
    """Secrets of every round are drawn and shared at once: a long epoch would fill the site's memory."""
    line, allowance = finished(CAPE)
    refused = say(line, VICTIM, m.Renew(epoch=7, n_rounds=n_rounds), allowance)
    assert isinstance(refused, m.Refused)
    assert f"between 1 and {EPOCH_ROUNDS};" in refused.text
    assert isinstance(say(line, VICTIM, m.Renew(epoch=7, n_rounds=EPOCH_ROUNDS), allowance), m.Offered)


# The dealer.


def deal_tamper(change: Callable[[m.Deal], m.Deal]) -> Tamper:
    return lambda _, message: change(message) if isinstance(message, m.Deal) else message


DEALS: dict[str, Callable[[m.Deal], m.Deal]] = {
    "smaller noise for all": lambda deal: msgspec.structs.replace(
        deal, shared_steps={site: steps / 1000 for site, steps in deal.shared_steps.items()}
    ),
    "slightly smaller noise for all": lambda deal: msgspec.structs.replace(
        deal, shared_steps={site: steps * 0.999999 for site, steps in deal.shared_steps.items()}
    ),
    "smaller noise for another": lambda deal: msgspec.structs.replace(
        deal, shared_steps={**deal.shared_steps, "site02": 1.0}
    ),
    "fewer sites": lambda deal: msgspec.structs.replace(
        deal,
        shared_steps={site: deal.shared_steps[site] for site in NAMES[:3]},
        receivers={site: deal.receivers[site] for site in NAMES[:3]},
    ),
    "another release": lambda deal: msgspec.structs.replace(deal, release=1),
    "another length": lambda deal: msgspec.structs.replace(deal, size=5),
    "own key in place of a site's": lambda deal: msgspec.structs.replace(
        deal, receivers={**deal.receivers, VICTIM: deal.receivers["site01"]}
    ),
    "scales of other sites": lambda deal: msgspec.structs.replace(
        deal, shared_steps={site: steps for site, steps in deal.shared_steps.items() if site != VICTIM}
    ),
}


@pytest.mark.parametrize("what", DEALS)
def test_dealt_noise_that_a_site_did_not_compute_is_refused_before_the_charge(what: str) -> None:
    line, federation = tampered(DEALER, deal_tamper(DEALS[what]))
    with pytest.raises(ProtocolError):
        federation.allow(1.0, 1e-5).mean(second_moment(federation.facts))
    assert not line.inner.site(VICTIM).ledger.charges


def test_boxes_go_to_their_site_and_serve_once() -> None:
    boxes: dict[str, bytes] = {}

    def swap(site: str, message: m.ToSite) -> m.ToSite:
        if not isinstance(message, m.CheckDealt):
            return message
        boxes.setdefault(site, message.box)
        return msgspec.structs.replace(message, box=boxes[VICTIM])

    line, federation = tampered(DEALER, swap)
    private = federation.allow(1.0, 1e-5, shares=(0.5, 0.5))
    with pytest.raises(ProtocolError, match="dealer"):
        private.mean(second_moment(federation.facts))
    assert not line.inner.site("site01").ledger.charges
    line, allowance = finished(DEALER)
    deal = line.of_kind("Deal")[0]
    assert isinstance(say(line, "dealer", deal.message, allowance), m.Refused)
