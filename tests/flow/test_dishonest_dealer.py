"""A noise dealer that departs from the protocol is found out before any site is charged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np
import pytest

from dpcape import Dealer, Federation, Replay, in_process, rows
from dpcape.core import messages as m
from dpcape.core.arrays import IntArray
from dpcape.core.errors import ProtocolError
from dpcape.core.messages import decode_from_site, encode
from dpcape.core.noise import NoiseSource
from dpcape.core.protocols import dealt_noise
from dpcape.core.protocols.dealt_noise import MODULUS, checksum, pads, sums_to_zero
from dpcape.core.protocols.noise_dealer import NoiseDealer
from dpcape.site.in_process import InProcess
from dpcape.statistics.moments import second_moment

from .lines import example_rows

FOUR = example_rows(4)
NAMES = tuple(FOUR)


def line_with(kind: type[NoiseDealer]) -> InProcess:
    """Sites in this process and a dealer of this kind, pinned by all of them."""
    line = in_process({name: rows(table, bound=1.0) for name, table in FOUR.items()}, noise=Replay(8))
    honest = line._dealer
    line._dealer = kind(honest.identity, Replay(8))
    line._dealer.pin(honest._pinned)
    return line


def released(line: InProcess, n: int = 1) -> None:
    federation = Federation(line, protocol=Dealer(n_colluding=1))
    private = federation.allow(1.0, 1e-5, shares=(1 / n,) * n)
    for _ in range(n):
        private.mean(second_moment(federation.facts))


def charges(line: InProcess) -> list[int]:
    return [len(line.site(name).ledger.charges) for name in NAMES]


# One step too much; a multiple of every power of two that a modulus might have; and spread over sites and entries.
OFFSETS = {"one step": (0, 1), "many steps": (3, 2**31), "very many steps": (5, -(2**61))}


@pytest.mark.parametrize("what", OFFSETS)
def test_noise_that_does_not_sum_to_zero_is_found_out_before_anything_is_charged(what: str) -> None:
    entry, steps = OFFSETS[what]

    class Biased(NoiseDealer):
        def _shares(self, message: m.Deal, sites: Sequence[str], source: NoiseSource) -> dict[str, IntArray]:
            shares = super()._shares(message, sites, source)
            shares[NAMES[1]][entry] += steps
            return shares

    line = line_with(Biased)
    with pytest.raises(ProtocolError, match=r"^The release failed because the dealt noise does not sum to zero\. "):
        released(line)
    assert charges(line) == [0] * 4


def test_noise_that_sums_to_zero_passes_and_its_share_is_used() -> None:
    """Shares that are moved between two sites still sum to zero: nothing to find out, and the sum is the same."""

    class Moved(NoiseDealer):
        def _shares(self, message: m.Deal, sites: Sequence[str], source: NoiseSource) -> dict[str, IntArray]:
            shares = super()._shares(message, sites, source)
            shares[NAMES[0]][0] += 77
            shares[NAMES[2]][0] -= 77
            return shares

    totals = []
    for kind in (NoiseDealer, Moved):
        line = line_with(kind)
        federation = Federation(line, protocol=Dealer(n_colluding=1))
        totals.append(federation.allow(1.0, 1e-5).mean(second_moment(federation.facts)))
    np.testing.assert_array_equal(*totals)


class Repeating(NoiseDealer):
    """Sends the boxes of the first release for every later one."""

    _kept: m.Dealt | None = None

    def answer(self, data: bytes) -> bytes:
        answer = super().answer(data)
        allowance, reply = decode_from_site(answer)
        if not isinstance(reply, m.Dealt):
            return answer
        self._kept = reply if self._kept is None else self._kept
        return encode(self._kept, allowance=allowance)


def test_boxes_that_are_sent_again_are_refused() -> None:
    line = line_with(Repeating)
    with pytest.raises(ProtocolError, match="not signed by the pinned dealer for this site, study and release"):
        released(line, 2)
    # The first release, which was in order, is all that was made.
    assert [line.site(name).ledger._next for name in NAMES] == [
        dict.fromkeys(line.site(name).ledger._next, 1) for name in NAMES
    ]
    # Nor do boxes of one study serve in another.
    with pytest.raises(ProtocolError, match="not signed by the pinned dealer"):
        released(line)
    assert charges(line) == [1] * 4


def changed(change: Callable[[dict[str, bytes]], Mapping[str, bytes]]) -> type[NoiseDealer]:
    class Changed(NoiseDealer):
        def _boxes(self, message: m.Deal, keys: Mapping[str, bytes]) -> dict[str, bytes]:
            return dict(change(super()._boxes(message, keys)))

    return Changed


def of_two_deals(boxes: dict[str, bytes], sites: Sequence[str] = NAMES) -> dict[str, bytes]:
    """Put another root into one box: its site would answer a check of its own."""
    signature, _, sealed = dealt_noise.parts_of(boxes[sites[0]])
    return {**boxes, sites[0]: signature + bytes(32) + sealed}


BOXES = {
    "of two deals": (of_two_deals, "not of one deal"),
    "one missing": (lambda boxes: {site: boxes[site] for site in NAMES[1:]}, "one box per site"),
    "swapped": (lambda boxes: {**boxes, NAMES[0]: boxes[NAMES[1]], NAMES[1]: boxes[NAMES[0]]}, "not of one deal"),
    "cut off": (lambda boxes: {**boxes, NAMES[0]: boxes[NAMES[0]][:-1]}, "not of one deal"),
    "empty": (lambda boxes: dict.fromkeys(boxes, b""), "not of one deal"),
}


@pytest.mark.parametrize("what", BOXES)
def test_wrong_boxes_are_refused_before_anything_is_charged(what: str) -> None:
    change, sentence = BOXES[what]
    line = line_with(changed(change))
    with pytest.raises(ProtocolError, match=sentence):
        released(line)
    assert charges(line) == [0] * 4


def test_a_site_answers_one_check_per_release_and_releases_only_what_was_checked() -> None:
    """Two answers for one share would tell about it; an aggregator that asks again gets nothing."""
    line = line_with(NoiseDealer)
    federation = Federation(line, protocol=Dealer(n_colluding=1))
    seen: list[tuple[str, bytes, str]] = []
    carry = line.ask

    def listening(messages: Mapping[str, bytes], deadline: float | None) -> object:
        for site, data in messages.items():
            message = m.decode_to_site(data)[1]
            if isinstance(message, m.CheckDealt | m.Submit):
                seen.append((site, data, type(message).__name__))
                if isinstance(message, m.Submit) and not any(kind == "Submit" for _, _, kind in seen[:-1]):
                    again = next(entry for entry in seen if entry[0] == site)
                    replies, _ = carry({site: again[1]}, None)
                    reply = decode_from_site(replies[site])[1]
                    assert isinstance(reply, m.Refused)
                    assert "already opened" in reply.text
        return carry(messages, deadline)

    line.ask = listening  # type: ignore[method-assign, assignment]  # to hear every message
    private = federation.allow(1.0, 1e-5, shares=(0.5, 0.5))
    private.mean(second_moment(federation.facts))
    assert [kind for _, _, kind in seen] == ["CheckDealt"] * 4 + ["Submit"] * 4
    # The second release without its noise.
    submit = next(data for site, data, kind in seen if kind == "Submit" and site == NAMES[0])
    allowance, message = m.decode_to_site(submit)
    assert isinstance(message, m.Submit)
    later = msgspec.structs.replace(message, request=msgspec.structs.replace(message.request, release=1))
    reply = decode_from_site(carry({NAMES[0]: encode(later, allowance=allowance)}, None)[0][NAMES[0]])[1]
    assert isinstance(reply, m.Refused)


def test_a_dealer_deals_again_to_new_keys_only() -> None:
    """After a crash sites have new keys: a release that was dealt and not made must not be lost for ever."""
    line = line_with(NoiseDealer)
    federation = Federation(line, protocol=Dealer(n_colluding=1))
    terms = federation.terms(1.0, 1e-5)

    def deal() -> m.FromSite:
        keys = {}
        for name in NAMES:
            data = encode(m.Reopen(terms=terms), allowance=terms.allowance)
            reply = decode_from_site(line.ask({name: data}, None)[0][name])[1]
            assert isinstance(reply, m.Reopened)
            keys[name] = reply.key
        steps = dict.fromkeys(NAMES, 1e6)
        asked = m.Deal(terms=terms.digest(), request=bytes(32), release=0, size=6, shared_steps=steps, receivers=keys)
        first = decode_from_site(line._dealer.answer(encode(asked)))[1]
        assert isinstance(decode_from_site(line._dealer.answer(encode(asked)))[1], m.Refused)
        return first

    one, two = deal(), deal()
    assert isinstance(one, m.Dealt)
    assert isinstance(two, m.Dealt)
    assert one != two


# The arithmetic of the check.


@pytest.mark.parametrize("size", [0, 1, 3, 2**16 + 5])
def test_checksums_are_exact_and_linear(size: int) -> None:
    draw = np.random.default_rng(size)
    limits = np.iinfo(np.int64)
    vectors = draw.integers(limits.min // 4, limits.max // 4, size=(2, size))
    seed = bytes(range(32))
    unit = [checksum(np.eye(1, size, place, dtype=np.int64)[0], seed) for place in range(min(size, 3))]
    assert all(0 < value < 2**62 for value in unit)
    first, second = (checksum(vector, seed) for vector in vectors)
    assert checksum(vectors.sum(axis=0), seed) == (first + second) % MODULUS
    if size and size <= 3:
        assert first == sum(a * int(x) for a, x in zip(unit, vectors[0], strict=True)) % MODULUS
        extreme = np.full(size, limits.min)
        assert checksum(extreme, seed) == limits.min * sum(unit) % MODULUS


def test_pads_sum_to_zero_and_are_spread_over_the_whole_range() -> None:
    drawn = [pads(NAMES, Replay(number)) for number in range(200)]
    assert all(sum(entry.values()) % MODULUS == 0 for entry in drawn)
    for name in NAMES:
        # 200 uniform values fall into 8 equal parts: chi-square with 7 degrees of freedom, above 30 with p < 1e-4.
        counts = np.bincount([8 * entry[name] // MODULUS for entry in drawn], minlength=8)
        assert ((counts - 25) ** 2 / 25).sum() < 30
    assert sums_to_zero([(5).to_bytes(16, "big"), (MODULUS - 5).to_bytes(16, "big")])
    assert not sums_to_zero([(5).to_bytes(16, "big")])
