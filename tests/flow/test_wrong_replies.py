"""Sites that answer with something else: the coordinator stops, in words, and forms no result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from dpcape import Cape, Dealer, Federation, Independent, Ledger, Replay, SecureSum, in_process, rows
from dpcape.core import messages as m
from dpcape.core.errors import InvalidParameter, ProtocolError
from dpcape.core.messages import decode_from_site, decode_to_site, encode
from dpcape.core.noise import NoiseSource
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.core.protocols.protocol import Protocol
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.site import Site
from dpcape.site.in_process import InProcess
from dpcape.statistics.moments import second_moment
from dpcape.transport.transport import Transport

from .lines import LosingLine, Loss, example_rows

FOUR = example_rows(4)
NAMES = tuple(FOUR)
Change = Callable[[m.ToSite, m.FromSite], m.FromSite]


class LyingLine(LosingLine):
    """Changes what the last site answers."""

    def __init__(self, inner: InProcess, change: Change) -> None:
        super().__init__(inner)
        self._change = change

    def ask(self, messages_by_site: Mapping[str, bytes], deadline: float | None) -> Any:
        replies, missing = super().ask(messages_by_site, deadline)
        liar = NAMES[-1]
        if liar in replies:
            _, message = decode_to_site(messages_by_site[liar])
            allowance, reply = decode_from_site(replies[liar])
            replies[liar] = encode(self._change(message, reply), allowance=allowance)
        return replies, missing


def run(protocol: Protocol, change: Change) -> None:
    records = {name: rows(table, bound=1.0) for name, table in FOUR.items()}
    federation = Federation(LyingLine(in_process(records, noise=Replay(2)), change), protocol=protocol)
    federation.allow(1.0, 1e-5).mean(second_moment(federation.facts))


def vectors_become(array: Any) -> Change:
    def change(message: m.ToSite, reply: m.FromSite) -> m.FromSite:
        return m.Vector(array=m.Array.of(array)) if isinstance(reply, m.Vector) else reply

    return change


WRONG = {
    "short": np.zeros(5, dtype=np.int64),
    "real numbers": np.zeros(6),
    "a matrix": np.zeros((2, 3), dtype=np.int64),
    "too few words": np.zeros(5, dtype=np.uint64),
    "longer words": np.zeros(6, dtype=np.uint64),
}
ALL = [Independent(), Cape(n_colluding=1), SecureSum(n_colluding=1), Dealer(n_colluding=1)]


@pytest.mark.parametrize("protocol", ALL, ids=lambda p: p.name)
@pytest.mark.parametrize("what", WRONG)
def test_vectors_of_another_form_are_refused(protocol: Protocol, what: str) -> None:
    with pytest.raises(ProtocolError, match=NAMES[-1]):
        run(protocol, vectors_become(WRONG[what]))


@pytest.mark.parametrize("protocol", ALL, ids=lambda p: p.name)
def test_replies_of_another_kind_are_refused(protocol: Protocol) -> None:
    def change(message: m.ToSite, reply: m.FromSite) -> m.FromSite:
        return m.Signed(signature=b"") if isinstance(message, m.Submit) else reply

    with pytest.raises(ProtocolError, match=f"{NAMES[-1]}.*Vector.*Signed"):
        run(protocol, change)


def test_a_site_that_does_not_describe_itself_is_refused() -> None:
    def change(message: m.ToSite, reply: m.FromSite) -> m.FromSite:
        return m.Agreed() if isinstance(message, m.Describe) else reply

    with pytest.raises(ProtocolError, match="descri"):
        run(Independent(), change)


def test_a_refusal_is_raised_with_its_kind_and_its_site() -> None:
    for kind, expected in (
        ("LedgerRefused", "LedgerRefused"),
        ("SystemExit", "ProtocolError"),
        ("annotations", "ProtocolError"),
    ):

        def change(message: m.ToSite, reply: m.FromSite, kind: str = kind) -> m.FromSite:
            return m.Refused(error=kind, text="not today.") if isinstance(message, m.Submit) else reply

        with pytest.raises(Exception, match=f"{NAMES[-1]}: not today.") as caught:
            run(Independent(), change)
        assert type(caught.value).__name__ == expected


# A wrong signature of what a vector relied on.


LOST = Loss(NAMES[-1], "Submit", after=True)


class Hostile:
    """Answers as a site does, but signs wrongly what its vector relied on, and vanishes after that."""

    def __init__(self, signature: object) -> None:
        self._signature = signature
        self.has_vanished = False

    def __call__(self, message: m.ToSite, reply: m.FromSite) -> m.FromSite:
        if isinstance(message, m.Submit):
            assert isinstance(reply, m.Vector)
            self.has_vanished = True
            return msgspec.structs.replace(reply, relied_on=self._signature)
        return reply


class VanishingLine(LyingLine):
    def __init__(self, inner: InProcess, change: Hostile) -> None:
        super().__init__(inner, change)
        self._hostile = change

    def ask(self, messages_by_site: Mapping[str, bytes], deadline: float | None) -> Any:
        if not self._hostile.has_vanished:
            return super().ask(messages_by_site, deadline)
        rest = {site: data for site, data in messages_by_site.items() if site != NAMES[-1]}
        replies, missing = super().ask(rest, deadline)
        return replies, (*missing, *(set(messages_by_site) - set(rest)))


@pytest.mark.parametrize("protocol", [Cape(n_colluding=0, minimum_sites=3), SecureSum(n_colluding=0, minimum_sites=3)])
@pytest.mark.parametrize("signature", [b"", bytes(64), msgspec.UNSET], ids=["empty", "wrong", "none"])
def test_a_site_that_signs_wrongly_and_vanishes_does_not_cost_the_others_their_release(
    protocol: Protocol, signature: object
) -> None:
    """Four sites, three of which must finish. It is as if the site had been lost before its vector came."""
    means, lines = [], []
    for make in (lambda inner: VanishingLine(inner, Hostile(signature)), lambda inner: LosingLine(inner, [LOST])):
        lines.append(make(in_process({name: rows(table, bound=1.0) for name, table in FOUR.items()}, noise=Replay(2))))
        federation = Federation(lines[-1], protocol=protocol)
        private = federation.allow(1.0, 1e-5)
        means.append(private.mean(second_moment(federation.facts)))
        assert private.releases[-1].survivors == NAMES[:3]
        assert all(lines[-1].inner.site(name).ledger.charges for name in NAMES[:3])
    np.testing.assert_array_equal(*means)


# The agreed sum at a site.


@pytest.mark.parametrize(
    "agreed", [None, np.zeros(6), np.zeros(6, dtype=np.uint64)], ids=["none", "real", "longer words"]
)
def test_an_agreed_sum_of_another_form_is_refused(agreed: Any) -> None:
    refused = _submit_changed(lambda submit: {"agreed": None if agreed is None else m.Array.of(agreed)})
    assert "agreed sum" in refused


def test_a_roster_other_than_that_of_the_draw_is_refused() -> None:
    assert "roster" in _submit_changed(lambda submit: {"roster": submit.roster[:3]})


def _submit_changed(change: Callable[[m.Submit], dict[str, Any]]) -> str:
    class Changing(LosingLine):
        def ask(self, messages_by_site: Mapping[str, bytes], deadline: float | None) -> Any:
            changed = {}
            for site, data in messages_by_site.items():
                allowance, message = decode_to_site(data)
                if isinstance(message, m.Submit):
                    message = msgspec.structs.replace(message, **change(message))
                changed[site] = encode(message, allowance=allowance)
            return super().ask(changed, deadline)

    records = {name: rows(table, bound=1.0) for name, table in FOUR.items()}
    line = Changing(in_process(records, noise=Replay(2)))
    federation = Federation(line, protocol=Cape(n_colluding=1))
    with pytest.raises(ProtocolError) as caught:
        federation.allow(1.0, 1e-5).mean(second_moment(federation.facts))
    assert not any(line.inner.site(name).ledger.charges for name in NAMES)
    return str(caught.value)


# The dealer's place on the line.


class WithoutDealer(Transport):
    def __init__(self, inner: InProcess) -> None:
        self._inner = inner

    @property
    def sites(self) -> tuple[str, ...]:
        return self._inner.sites

    def ask(self, messages_by_site: Mapping[str, bytes], deadline: float | None) -> Any:
        return self._inner.ask(messages_by_site, deadline)


def test_a_transport_without_a_dealer_cannot_run_its_protocol() -> None:
    inner = in_process({name: rows(table, bound=1.0) for name, table in FOUR.items()}, noise=Replay(2))
    with pytest.raises(ProtocolError, match="transport with a noise dealer"):
        Federation(WithoutDealer(inner), protocol=Dealer(n_colluding=0))


def test_a_site_that_pins_no_dealer_refuses_its_protocol() -> None:
    noise: NoiseSource = Replay(2)
    members = {
        name: Site(name, rows(table, bound=1.0), ledger=Ledger(), identity=Identity.generate(), noise=noise)
        for name, table in FOUR.items()
    }
    identities = {name: site.identity.public for name, site in members.items()}
    for site in members.values():
        site.pin(identities)
    line = InProcess(members, NoiseDealer(Identity.generate(), noise))
    federation = Federation(line, protocol=Dealer(n_colluding=0))
    with pytest.raises(ProtocolError, match="pinned"):
        federation.allow(1.0, 1e-5)


def test_a_dealer_only_deals() -> None:
    dealer = NoiseDealer(Identity.generate(), Replay(1))
    for data in (encode(m.Greet(sites=NAMES, session=0)), b"nonsense"):
        assert isinstance(decode_from_site(dealer.answer(data))[1], m.Refused)
    described = decode_from_site(dealer.answer(encode(m.Describe())))[1]
    assert isinstance(described, m.DealerDescribed)
    assert described.replayable


def test_what_cannot_be_put_on_a_line_is_refused() -> None:
    held = rows(np.eye(3), bound=1.0)
    with pytest.raises(InvalidParameter, match="at least one site"):
        in_process({})
    with pytest.raises(InvalidParameter, match="dealer"):
        in_process({"dealer": held})
    with pytest.raises(InvalidParameter, match="oslo"):
        in_process({"lyon": held}, ledgers={"oslo": Ledger()})


@pytest.mark.parametrize(
    ("other", "field"), [(rows(np.eye(3), bound=2.0), "bounds"), (rows(np.eye(4), bound=1.0), "widths")]
)
def test_sites_that_differ_in_what_must_be_equal_are_refused(other: Any, field: str) -> None:
    line = in_process({"lyon": rows(np.eye(3), bound=1.0), "oslo": other})
    with pytest.raises(InvalidParameter, match=field):
        Federation(line, protocol=Independent())


@pytest.mark.parametrize("dtype", ["|O8", "O", "<M8[s]", "<U2", "|S8", "|V8", ">i8", "<f2", "<c16", "i4,i4", "no such"])
def test_arrays_are_of_plain_numbers_only(dtype: str) -> None:
    with pytest.raises(ProtocolError, match="type"):
        m.Array(dtype=dtype, shape=(1,), data=bytes(8)).decode()


@pytest.mark.parametrize(
    ("shape", "n_bytes"), [((-1,), 8), ((-1, -1), 8), ((2**40,), 8), ((2,), 8), ((1,), 16), ((0,), 8)]
)
def test_arrays_have_the_bytes_their_shape_announces(shape: tuple[int, ...], n_bytes: int) -> None:
    with pytest.raises(ProtocolError, match="array"):
        m.Array(dtype="<i8", shape=shape, data=bytes(n_bytes)).decode()
