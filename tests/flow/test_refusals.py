"""What a site refuses, whoever asks; and that records stay untouched until everything is in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcape import Cape, Dealer, Exact, Federation, Independent, Ledger, Replay, SecureSum, in_process, rows
from dpcape.core import messages as m
from dpcape.core.errors import AllowanceExceeded, DamagedFile, InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.messages import decode_from_site, encode
from dpcape.core.privacy.calibration import plan_release
from dpcape.core.privacy.terms import ProtocolSettings, Terms
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.site import Site
from dpcape.statistics.moments import first_moments, second_moment
from dpcape.transport.request_handler import refusal_of

from .lines import LosingLine, example_rows, line_of

FOUR = example_rows(4)
NAMES = tuple(FOUR)


class Spy:
    """Records that note when they are read, and what the ledger held at that moment."""

    def __init__(self, table: np.ndarray) -> None:
        self._records = rows(table, bound=1.0)
        self.ledger: Ledger | None = None
        self.read: list[tuple[int, dict[str, int]]] = []
        self.n_records, self.n_invalid = len(table), 0

    def facts(self) -> Any:
        return self._records.facts()

    computed_on = ""

    def check_unchanged(self) -> None:
        pass

    def each_part(self, function: Any) -> None:
        return None

    def tiles(self) -> Iterator[Any]:
        assert self.ledger is not None
        self.read.append((len(self.ledger.charges), dict(self.ledger._next)))
        return self._records.tiles()


class Bench:
    """One site with spied records, its peers in the background, and hand-made messages."""

    def __init__(self, protocol: Protocol, *, ledger: Ledger | None = None, shares: tuple[float, ...] = (1.0,)) -> None:
        self.spy = Spy(FOUR[NAMES[0]])
        self.spy.ledger = ledger or Ledger()
        records = {NAMES[0]: self.spy, **{name: rows(FOUR[name], bound=1.0) for name in NAMES[1:]}}
        inner = in_process(records, ledgers={NAMES[0]: self.spy.ledger}, noise=Replay(1))
        self.line = LosingLine(inner)
        self.site: Site = inner.site(NAMES[0])
        self.protocol = protocol
        self.federation = Federation(self.line, protocol=protocol)
        self.terms = self.federation.terms(1.0, 1e-5, shares)

    def say(self, message: m.ToSite, *, allowance: str | None = None) -> m.FromSite:
        data = encode(message, allowance=self.terms.allowance if allowance is None else allowance)
        return decode_from_site(self.site.answer(data))[1]

    def open(self, **changes: Any) -> m.FromSite:
        return self.say(m.Open(terms=msgspec.structs.replace(self.terms, **changes)))

    def request(self, release: int = 0, statistic: Any = None, **changes: Any) -> m.Request:
        statistic = statistic or second_moment(self.federation.facts)
        plan = plan_release(self.terms, min(release, len(self.terms.shares) - 1), statistic, self.protocol)
        request = m.Request(
            release=release, statistic=statistic.name, public=m.public_arrays(statistic.public), plan=plan
        )
        return msgspec.structs.replace(request, **changes)

    @property
    def untouched(self) -> bool:
        return not self.spy.read and not self.site.ledger.charges


def refusal(reply: m.FromSite) -> str:
    assert isinstance(reply, m.Refused), reply
    return reply.text


# Terms.

WRONG_TERMS: dict[str, Callable[[Terms], dict[str, Any]]] = {
    "other records": lambda t: {"n_records": {**t.n_records, NAMES[0]: 31}},
    "site left out": lambda t: {
        "n_records": {name: t.n_records[name] for name in NAMES[1:]},
        "epsilons": {name: 1.0 for name in NAMES[1:]},
        "settings": Independent().settings(3),
    },
    "unknown site": lambda t: {
        "n_records": {**t.n_records, "mallory": 30},
        "epsilons": {**t.epsilons, "mallory": 1.0},
        "settings": Independent().settings(5),
    },
    "other bound": lambda t: {"facts": msgspec.structs.replace(t.facts, bounds=(0.01,))},
    "other unit": lambda t: {"facts": msgspec.structs.replace(t.facts, unit="subject")},
    "other width": lambda t: {"facts": msgspec.structs.replace(t.facts, widths=(2,))},
    "unknown protocol": lambda t: {"settings": ProtocolSettings(name="trust-me")},
    "no noise with an epsilon": lambda t: {"settings": Exact().settings(4)},
    "noise without an epsilon": lambda t: {"epsilons": {}},
    "wrong collusion": lambda t: {"settings": msgspec.structs.replace(t.settings, n_colluding=0)},
    "too many shares": lambda t: {"shares": (0.9, 0.9)},
    "delta of one": lambda t: {"delta": 1.0},
    "infinite epsilon": lambda t: {"epsilons": dict.fromkeys(NAMES, math.inf)},
}


@pytest.mark.parametrize("what", WRONG_TERMS)
def test_altered_terms_are_refused(what: str) -> None:
    bench = Bench(Independent())
    assert refusal(bench.open(**WRONG_TERMS[what](bench.terms)))
    assert "not open" in refusal(bench.say(m.Submit(request=bench.request())))
    assert bench.untouched


@pytest.mark.parametrize(
    "settings_",
    [
        ProtocolSettings(name="cape", n_colluding=3, minimum_sites=4, cancelling_ratio=100.0),
        ProtocolSettings(name="cape", n_colluding=1, minimum_sites=2, cancelling_ratio=100.0),
        ProtocolSettings(name="cape", n_colluding=-1, minimum_sites=4, cancelling_ratio=100.0),
        ProtocolSettings(name="cape", n_colluding=0, minimum_sites=4, cancelling_ratio=math.nan),
        ProtocolSettings(name="cape", n_colluding=0, minimum_sites=4, cancelling_ratio=1e9),
        ProtocolSettings(name="secure-sum", n_colluding=1, minimum_sites=5),
        ProtocolSettings(name="secure-sum", n_colluding=1, minimum_sites=4, n_neighbours=3),
        ProtocolSettings(name="cape", n_colluding=1, minimum_sites=4, cancelling_ratio=100.0, n_neighbours=-4),
        ProtocolSettings(name="dealer", n_colluding=0, minimum_sites=3, cancelling_ratio=1.0),
        ProtocolSettings(name="dealer", n_colluding=4, minimum_sites=4, cancelling_ratio=1.0),
        ProtocolSettings(name="independent", n_colluding=3, minimum_sites=0),
    ],
    ids=str,
)
def test_infeasible_settings_are_refused(settings_: ProtocolSettings) -> None:
    bench = Bench(Independent())
    assert refusal(bench.open(settings=settings_))
    assert bench.untouched


def test_an_allowance_is_opened_once() -> None:
    bench = Bench(Independent())
    assert isinstance(bench.open(), m.Agreed)
    assert "already open" in refusal(bench.open())
    assert "already open" in refusal(bench.open(epsilons=dict.fromkeys(NAMES, 50.0)))


# Requests.


def altered_plan(request: m.Request, **changes: Any) -> m.Request:
    return msgspec.structs.replace(request, plan=msgspec.structs.replace(request.plan, **changes))


ALTERED: dict[str, Callable[[Bench], m.Request]] = {
    "smaller own scales": lambda b: altered_plan(
        b.request(), own_scales={s: 0.9 * v for s, v in b.request().plan.own_scales.items()}
    ),
    "one own scale": lambda b: altered_plan(b.request(), own_scales={**b.request().plan.own_scales, NAMES[2]: 1e-9}),
    "no noise": lambda b: altered_plan(b.request(), own_scales=dict.fromkeys(NAMES, 0.0)),
    "coarser grid": lambda b: altered_plan(b.request(), step=2 * b.request().plan.step),
    "other statistic than planned": lambda b: b.request(
        statistic=first_moments(b.federation.facts), plan=b.request().plan
    ),
    "unknown statistic": lambda b: msgspec.structs.replace(b.request(), statistic="everything"),
    "unknown public values": lambda b: b.request(public={"bound": 1e-6}),
    "release T + 1": lambda b: b.request(release=1),
    "negative release": lambda b: b.request(release=-1),
}


@pytest.mark.parametrize("protocol", [Independent(), SecureSum(n_colluding=1)], ids=lambda p: p.name)
@pytest.mark.parametrize("what", ALTERED)
def test_altered_requests_are_refused(what: str, protocol: Protocol) -> None:
    bench = Bench(protocol)
    assert isinstance(bench.open(), m.Agreed)
    if protocol.name == "secure-sum":
        bench.say(m.Greet(sites=NAMES, session=0))
    assert refusal(bench.say(m.Submit(request=ALTERED[what](bench), roster=NAMES)))
    assert bench.untouched


@pytest.mark.parametrize("what", ALTERED)
def test_altered_requests_are_refused_at_the_draw(what: str) -> None:
    bench = Bench(Cape(n_colluding=1))
    assert isinstance(bench.open(), m.Agreed)
    bench.say(m.Greet(sites=NAMES, session=0))
    assert refusal(bench.say(m.Draw(request=ALTERED[what](bench), attempt=0, roster=NAMES)))
    assert bench.untouched


def test_a_release_happens_once() -> None:
    bench = Bench(Independent(), shares=(0.5, 0.5))
    bench.open()
    first = bench.say(m.Submit(request=bench.request()))
    assert isinstance(first, m.Vector)
    assert "happened before" in refusal(bench.say(m.Submit(request=bench.request())))
    other = bench.request(statistic=first_moments(bench.federation.facts))
    assert "statistic" in refusal(bench.say(m.Submit(request=other)))
    assert isinstance(bench.say(m.Submit(request=bench.request(release=1))), m.Vector)
    assert "happened before" in refusal(bench.say(m.Submit(request=bench.request())))
    assert "release" in refusal(bench.say(m.Submit(request=bench.request(release=2))))
    assert len(bench.spy.read) == 2


def test_an_allowance_ends_at_the_coordinator_too() -> None:
    bench = Bench(Independent())
    private = bench.federation.allow(1.0, 1e-5)
    statistic = second_moment(bench.federation.facts)
    private.mean(statistic)
    with pytest.raises(AllowanceExceeded, match="release"):
        private.mean(statistic)
    assert len(bench.spy.read) == 1


# Ledger and records.


@pytest.mark.parametrize(
    "protocol",
    [Independent(), Cape(n_colluding=1), SecureSum(n_colluding=1), Dealer(n_colluding=1), Exact()],
    ids=lambda p: p.name,
)
def test_records_are_read_after_the_charge_and_the_count(protocol: Protocol) -> None:
    bench = Bench(protocol)
    private = bench.federation.allow(1.0, 1e-5, shares=(0.5, 0.5))
    assert bench.untouched
    for _ in range(2):
        private.mean(second_moment(bench.federation.facts))
    allowance = private._terms.allowance
    # When records are read, the one charge is there and the release is already counted.
    assert bench.spy.read == [(1, {allowance: 1}), (1, {allowance: 2})]


def test_an_exhausted_ledger_refuses_before_records_are_read() -> None:
    bench = Bench(Independent(), ledger=Ledger(epsilon=1.5, delta=1e-5))
    statistic = second_moment(bench.federation.facts)
    bench.federation.allow(1.0, 1e-5).mean(statistic)
    with pytest.raises(LedgerRefused, match=f"{NAMES[0]}: The study was refused because it would exceed"):
        bench.federation.allow(1.4, 1e-5)
    assert len(bench.spy.read) == 1


def test_two_open_allowances_cannot_both_be_charged_beyond_the_ceiling() -> None:
    bench = Bench(Independent(), ledger=Ledger(epsilon=1.2, delta=1e-5))
    statistic = second_moment(bench.federation.facts)
    first, second = bench.federation.allow(1.0, 1e-5), bench.federation.allow(1.0, 1e-5)
    first.mean(statistic)
    with pytest.raises(LedgerRefused):
        second.mean(statistic)
    assert len(bench.spy.read) == 1


def test_a_ceiling_refuses_exact_totals() -> None:
    bench = Bench(Exact(), ledger=Ledger(epsilon=1000.0, delta=1e-5))
    with pytest.raises(LedgerRefused):
        bench.federation.allow(1.0, 1e-5)
    assert bench.untouched


def test_the_charge_is_for_the_whole_allowance_and_at_least_what_is_spent() -> None:
    line = line_of(FOUR)
    federation = Federation(line, protocol=Cape(n_colluding=1))
    private = federation.allow(1.0, 1e-5, shares=(0.2, 0.3, 0.5))
    private.mean(second_moment(federation.facts))
    for site in NAMES:
        ledger = line.inner.site(site).ledger
        assert len(ledger.charges) == 1
        assert ledger.spent(1e-5) <= 1.0
        assert ledger.spent(1e-5) >= private.guarantee().sites[site].epsilon * (1 - 1e-12)


# Envelopes.


def test_wrong_version_and_malformed_bytes_are_refused() -> None:
    bench = Bench(Independent())
    envelope = {"version": m.VERSION + 1, "allowance": "", "body": {"type": "Describe"}}
    reply = decode_from_site(bench.site.answer(msgspec.msgpack.encode(envelope)))[1]
    assert "version" in refusal(reply)
    whole = encode(m.Open(terms=bench.terms), allowance=bench.terms.allowance)
    for data in (b"", b"\x00", b"not a message", whole[:-1], whole + b"\x00", whole[:40] + b"\xff" + whole[41:]):
        assert refusal(decode_from_site(bench.site.answer(data))[1])
    assert bench.untouched


def test_messages_of_other_protocols_are_refused() -> None:
    for protocol in (Independent(), Exact(), Dealer(n_colluding=1), SecureSum(n_colluding=1), Cape(n_colluding=1)):
        bench = Bench(protocol)
        bench.open(**({"epsilons": {}} if protocol.name == "exact" else {}))
        for message in (m.Describe(), m.Correct(release=0), m.Sign(release=0, survivors=NAMES)):
            reply = bench.say(message)
            assert isinstance(reply, m.Described if isinstance(message, m.Describe) else m.Refused)
        assert bench.untouched


@pytest.mark.parametrize("kind", [ValueError, InvalidParameter])
def test_a_failure_while_records_are_read_is_told_without_its_kind(
    kind: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    class Leaky(Spy):
        def tiles(self) -> Iterator[Any]:
            raise kind("row 17 holds 3.14159")

    bench = Bench(Independent())
    bench.site._records = Leaky(FOUR[NAMES[0]])
    bench.open()
    text = refusal(bench.say(m.Submit(request=bench.request())))
    assert text == "the site failed; its own log says why."
    assert "row 17" in caplog.text  # the site's own log, which does not travel
    # It had been charged and counted by then, and stays so.
    assert "happened before" in refusal(bench.say(m.Submit(request=bench.request())))


# Fuzzing: never an exception, never a word about records.

SECRET = 0.123456789

json_like: Any = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
kinds = st.sampled_from([kind.__name__ for kind in m.ToSite.__args__])
names = st.sampled_from([*NAMES, "mallory", "dealer", ""])
rosters = st.lists(names, max_size=5).map(tuple)
numbers = st.integers(-2, 4) | st.sampled_from([2**31, 2**63 - 1, -(2**63)])
arrays = st.sampled_from(
    [
        m.Array.of(np.zeros(6, dtype=np.int64)),
        m.Array.of_words(np.zeros(6, dtype=np.uint64), 6),
        m.Array.of_words(np.full(6, 2**62 + 2**47, dtype=np.uint64), 6),
        m.Array.of_words(np.full(6, 2**62, dtype=np.uint64), 8),
        m.Array(dtype="<u6", shape=(2,), data=bytes(11)),
        m.Array.of(np.zeros(6)),
        m.Array(dtype="<i8", shape=(-1,), data=b""),
        m.Array(dtype="<i8", shape=(2**40,), data=b""),
        m.Array(dtype="|O8", shape=(1,), data=bytes(8)),
        m.Array(dtype="<i8", shape=(1,) * 70, data=bytes(8)),
    ]
)


def _hostile_site(protocol: Protocol, opened: bool) -> tuple[Site, Terms]:
    table = np.full((30, 3), SECRET)
    inner = in_process({name: rows(table, bound=1.0) for name in NAMES}, noise=Replay(3))
    federation = Federation(inner, protocol=protocol)
    terms = federation.terms(1.0, 1e-5, (0.5, 0.5))
    site = inner.site(NAMES[0])
    if opened:
        site.answer(encode(m.Open(terms=terms), allowance=terms.allowance))
    return site, terms


def _answered(site: Site, data: bytes) -> m.FromSite:
    reply = decode_from_site(site.answer(data))[1]
    if isinstance(reply, m.Refused):
        assert "0.1234" not in reply.text
        assert "failed" not in reply.text or reply.text.endswith("; its own log says why.")
    return reply


FUZZED = [Independent(), Cape(n_colluding=1), SecureSum(n_colluding=1), Dealer(n_colluding=1)]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=200))
def test_fuzz_bytes(data: bytes) -> None:
    site, _ = _hostile_site(Independent(), opened=True)
    assert isinstance(_answered(site, data), m.Refused)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(kinds, st.dictionaries(st.text(max_size=8), json_like, max_size=4))
def test_fuzz_bodies(kind: str, body: dict[str, Any]) -> None:
    site, terms = _hostile_site(Cape(n_colluding=1), opened=True)
    envelope = {"version": m.VERSION, "allowance": terms.allowance, "body": {"type": kind, **body}}
    reply = _answered(site, msgspec.msgpack.encode(envelope))
    assert isinstance(reply, m.Refused | m.Described)


@st.composite
def hostile_messages(draw: st.DrawFn, request: m.Request) -> m.ToSite:
    release = draw(numbers)
    chosen = msgspec.structs.replace(request, release=release)
    return draw(
        st.sampled_from(
            [
                m.Describe(),
                m.Greet(sites=draw(rosters), session=draw(numbers)),
                m.Greet(sites=NAMES, session=draw(numbers)),
                m.Join(hellos=(), epoch=draw(numbers), n_rounds=draw(numbers)),
                m.Renew(epoch=draw(numbers), n_rounds=draw(numbers)),
                m.Accept(offers=()),
                m.Draw(request=chosen, attempt=draw(numbers), roster=draw(rosters)),
                m.Draw(request=chosen, attempt=draw(numbers), roster=NAMES),
                m.Submit(request=chosen, attempt=draw(numbers), roster=NAMES, agreed=draw(arrays)),
                m.Submit(request=chosen, box=draw(st.binary(max_size=200))),
                m.CheckDealt(request=chosen, box=draw(st.binary(max_size=200))),
                m.Correct(release=release),
                m.Sign(release=release, survivors=draw(rosters)),
                m.Sign(release=release, survivors=NAMES),
                m.Unmask(release=release, survivors=NAMES, signatures={NAMES[1]: draw(st.binary(max_size=64))}),
                m.Unmask(release=release, survivors=NAMES, signatures={}, missing=draw(rosters)),
            ]
        )
    )


@pytest.mark.parametrize("protocol", FUZZED[1:], ids=lambda p: p.name)
@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_fuzz_sequences_of_wellformed_messages_open_nothing(protocol: Protocol, data: st.DataObject) -> None:
    """An aggregator alone, whatever it says in whatever order, gets no release out of a site that needs its peers."""
    site, terms = _hostile_site(protocol, opened=True)
    statistic = second_moment(terms.facts)
    request = m.Request(
        release=0, statistic=statistic.name, public={}, plan=plan_release(terms, 0, statistic, protocol)
    )
    for _ in range(data.draw(st.integers(1, 8))):
        reply = _answered(site, encode(data.draw(hostile_messages(request)), allowance=terms.allowance))
        # No epoch can be accepted without the peers' signed offers, so no vector may leave.
        assert isinstance(reply, m.Refused | m.Described | m.Greeting)
    assert len(site.ledger.charges) <= 1


# Pinned identities.


def test_a_site_pins_its_own_identity() -> None:
    site = Site("lyon", rows(np.eye(3), bound=1.0), ledger=Ledger(), identity=Identity.generate(), noise=Replay(1))
    with pytest.raises(ValueError, match=r"lyon|own"):
        site.pin({"lyon": Identity.generate().public})


def test_a_reply_for_another_allowance_is_refused() -> None:
    class Mixing(LosingLine):
        def ask(self, messages_by_site: Any, deadline: float | None) -> Any:
            replies, missing = super().ask(messages_by_site, deadline)
            last = self.crossed[-1]
            if last.kind == "Submit":
                replies = {site: encode(last.reply, allowance="another") for site in replies}
            return replies, missing

    records = {name: rows(FOUR[name], bound=1.0) for name in NAMES}
    federation = Federation(Mixing(in_process(records, noise=Replay(1))), protocol=Independent())
    private = federation.allow(1.0, 1e-5)
    with pytest.raises(ProtocolError, match="allowance"):
        private.mean(second_moment(federation.facts))


def test_which_error_a_file_raises_is_not_told() -> None:
    """Kills: the class of an error in a refusal, which may depend on one record of a file."""
    errors = (
        InvalidParameter("row 17", "be finite", "nan"),
        DamagedFile("data.csv could not be read"),
        ValueError("3.14"),
    )
    assert len({msgspec.json.encode(refusal_of(error)) for error in errors}) == 1
