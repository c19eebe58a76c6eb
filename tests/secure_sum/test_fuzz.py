"""A network that loses, repeats, alters, replays and reorders messages.

Whatever it does, a run ends with the exact sum over the signed survivor set or with a ProtocolError. Vectors
may be lost, repeated, reordered or cut short, but not altered in value: a lying site could do as much, and
the transport authenticates what passes between a site and the aggregator (docs/secure_sum.md, "What is not
promised").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.core.secure_sum.messages import Hello, Offer, Opening, SeedShares

from .consortium import Consortium, added

FAULTS = ("lose", "repeat", "flip", "cut", "replay", "other")
Fault = tuple[int, str, int]
faults = st.lists(st.tuples(st.integers(0, 120), st.sampled_from(FAULTS), st.integers(0, 10**6)), max_size=8)


class Network:
    """Delivers messages, with a fault at chosen steps."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = {step: (kind, number) for step, kind, number in faults}
        self.step = 0
        self.past: dict[Any, list[bytes]] = {}
        self.happened: list[str] = []

    def carry(self, message: Any, kind: Any, deliver: Callable[[Any], None]) -> None:
        """Encode, perhaps spoil, decode and deliver; what cannot be decoded is lost, as at any transport."""
        data = msgspec.msgpack.encode(message)
        for arriving in self._arriving(data, self.past.setdefault(kind, [])):
            try:
                decoded = msgspec.msgpack.decode(arriving, type=kind)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            deliver(decoded)

    def vector(self, vector: NDArray[np.uint64], deliver: Callable[[NDArray[np.uint64]], None]) -> None:
        """Deliver a vector: whole, twice, cut short or not at all."""
        kind, number = self._fault()
        if kind == "lose":
            return
        if kind in ("cut", "flip"):
            vector = vector[: number % vector.size] if kind == "cut" else vector.view(np.int64)
        deliver(vector)
        if kind == "repeat":
            deliver(vector)

    def _fault(self) -> tuple[str, int]:
        kind, number = self.faults.get(self.step, ("", 0))
        self.step += 1
        self.happened += [kind] if kind else []
        return kind, number

    def _arriving(self, data: bytes, past: list[bytes]) -> list[bytes]:
        kind, number = self._fault()
        past.append(data)
        position = number % len(data)
        changed = data[:position] + bytes([data[position] ^ 1 << number % 8]) + data[position + 1 :]
        return {
            "": [data],
            "lose": [],
            "repeat": [data, data],
            "flip": [changed],
            "cut": [data[:position]],
            "replay": [past[number % len(past)]],
            "other": [past[number % len(past)], data],
        }[kind]


class Run:
    """One RECOVER round over a faulty network; sites and aggregator drop what they refuse."""

    def __init__(self, network: Network, *, covers: bool, generator: np.random.Generator) -> None:
        self.sites = Consortium(5, threshold=3, seed=int(generator.integers(2**31)))
        self.network, self.covers = network, covers
        self.order = [str(name) for name in generator.permutation(self.sites.names)]
        self.vectors = self.sites.draws()
        self.confirmed: set[str] = set()

    def result(self) -> tuple[RecoverRound, NDArray[np.uint64]]:
        self._set_up()
        epoch = self._epoch()
        aggregator = RecoverRound(epoch, round=0)
        self._vectors(aggregator)
        survivors = aggregator.settle(context=b"context")
        self._signatures(aggregator, survivors)
        self._openings(aggregator)
        return aggregator, aggregator.total()

    def _try(self, action: Callable[..., Any], *values: Any, **named: Any) -> Any:
        try:
            return action(*values, **named)
        except ProtocolError:
            return None

    def _set_up(self) -> None:
        for name in self.order:
            hellos: list[Hello] = []
            for hello in self.sites.hellos:
                self.network.carry(hello, Hello, hellos.append)
            self._try(self.sites.sites[name].begin, hellos)

    def _epoch(self) -> AggregatorEpoch:
        offers: list[Offer] = []
        for name in self.order:
            offer = self._try(self.sites.sites[name].offer, epoch=0, n_rounds=2)
            if offer is not None:
                self.network.carry(offer, Offer, offers.append)
        offers = list({offer.sender: offer for offer in offers}.values())
        epoch = AggregatorEpoch(self.sites.config, hellos=self.sites.hellos, offers=offers, pinned=self.sites.pinned)
        for name in self.order:
            forwarded: list[Offer] = []
            for offer in offers:
                self.network.carry(offer.addressed_to(name), Offer, forwarded.append)
            accepted = self._try(self.sites.sites[name].accept, forwarded)
            if accepted is not None:
                confirm = lambda d, n=name: self._try(self._confirm, epoch, n, d)  # noqa: E731
                self.network.carry(accepted, bytes, confirm)
        return epoch

    def _confirm(self, epoch: AggregatorEpoch, name: str, accepted: bytes) -> None:
        epoch.confirm(name, accepted)
        self.confirmed.add(name)

    def _vectors(self, aggregator: RecoverRound) -> None:
        for name in [name for name in self.order if name in self.confirmed]:
            site = self.sites.sites[name]
            masked = self._try(site.recover_mask, round=0, vector=self.vectors[name])
            if masked is not None:
                self.network.vector(masked, lambda v, n=name: self._try(aggregator.add_masked, n, v))
            covered = self._try(site.self_mask, round=0, vector=self.vectors[name]) if self.covers else None
            if covered is not None:
                self.network.vector(covered, lambda v, n=name: self._try(aggregator.add_covered, n, v))

    def _signatures(self, aggregator: RecoverRound, survivors: tuple[str, ...]) -> None:
        for name in self.order:
            sets: list[list[str]] = []
            self.network.carry(survivors, list[str], sets.append)
            for names in sets:
                sign = self.sites.sites[name].sign_survivors
                signature = self._try(sign, round=0, survivors=names, context=b"context")
                if signature is not None:
                    deliver = lambda s, n=name: self._try(aggregator.add_signature, n, s)  # noqa: E731
                    self.network.carry(signature, bytes, deliver)

    def _openings(self, aggregator: RecoverRound) -> None:
        quorum = aggregator.quorum()
        for name in self.order:
            quorums: list[dict[str, bytes]] = []
            self.network.carry(quorum, dict[str, bytes], quorums.append)
            for signatures in quorums:
                site, named = self.sites.sites[name], {"round": 0, "survivors": aggregator.survivors}
                opening = self._try(site.open, **named, signatures=signatures)
                if opening is not None:
                    self.network.carry(opening, Opening, lambda o: self._try(aggregator.add_opening, o))
        for name in self.order if aggregator.missing else ():
            asked = [n for n in aggregator.missing if n != name]
            shares = self._try(self.sites.sites[name].open_missing, round=0, missing=asked)
            if shares is not None:
                self.network.carry(shares, SeedShares, lambda s: self._try(aggregator.add_shares, s))


def check(faults: list[Fault], covers: bool, seed: int) -> str:
    """Run once; return what happened."""
    network = Network(faults)
    run = Run(network, covers=covers, generator=np.random.default_rng(seed))
    try:
        aggregator, total = run.result()
        releases = aggregator.releases() if covers else {}
    except ProtocolError:
        return "refused"
    np.testing.assert_array_equal(total, added(run.vectors, aggregator.survivors))
    assert len(aggregator.survivors) >= run.sites.config.floor
    for name, release in releases.items():
        np.testing.assert_array_equal(release, run.vectors[name])
    return "whole" if aggregator.survivors == run.sites.names else "recovered"


@settings(max_examples=250, deadline=None, derandomize=True)
@given(faults, st.booleans(), st.integers(0, 2**31))
def test_exact_sum_or_protocol_error(faults: list[Fault], covers: bool, seed: int) -> None:
    check(faults, covers, seed)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, derandomize=True)
@given(faults, st.booleans(), st.integers(0, 2**31))
def test_exact_sum_or_protocol_error_at_length(faults: list[Fault], covers: bool, seed: int) -> None:
    check(faults, covers, seed)


def test_the_fuzzer_reaches_all_outcomes() -> None:
    generator = np.random.default_rng(5)
    outcomes: set[str] = set()
    for seed in range(60):
        n_faults = 1 + seed % 12
        places = generator.integers(0, 100, n_faults)
        kinds = generator.choice(FAULTS, n_faults)
        outcomes.add(check([(int(p), str(k), seed) for p, k in zip(places, kinds, strict=True)], True, seed))
    assert outcomes == {"whole", "recovered", "refused"}
    assert check([], True, 1) == "whole"
