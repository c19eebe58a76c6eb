"""A whole consortium in one process, for tests: sessions, aggregator and honest drivers of both profiles."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.identity import Identity
from dpcape.core.secure_sum.masking import retry_sum
from dpcape.core.secure_sum.messages import Hello, Offer
from dpcape.core.secure_sum.session import Session

Vectors = dict[str, NDArray[np.uint64]]


class Consortium:
    """Sites that have begun a session, and what the aggregator knows of them."""

    def __init__(
        self,
        n_sites: int = 4,
        *,
        threshold: int | None = None,
        n_colluding: int = 0,
        n_neighbours: int = 0,
        seed: int = 1,
    ):
        names = tuple(f"site{k:03d}" for k in range(n_sites))
        threshold = threshold or (n_sites + n_colluding) // 2 + 1
        self.config = Config(names, threshold, n_colluding, b"test", n_neighbours)
        self.identities = {name: Identity.generate() for name in names}
        self.pinned = {name: identity.public for name, identity in self.identities.items()}
        self.sites = {name: self.session(name) for name in names}
        self.hellos: list[Hello] = [site.hello() for site in self.sites.values()]
        self.offers: list[Offer] = []
        self.generator = np.random.default_rng(seed)

    @property
    def names(self) -> tuple[str, ...]:
        return self.config.sites

    def session(self, name: str) -> Session:
        return Session(name, self.identities[name], pinned=self.pinned, config=self.config)

    def begin(self) -> Consortium:
        for site in self.sites.values():
            site.begin(self.hellos)
        return self

    def draw(self, size: int = 5) -> NDArray[np.uint64]:
        return self.generator.integers(0, 2**64, size, dtype=np.uint64)

    def draws(self, size: int = 5) -> Vectors:
        return {name: self.draw(size) for name in self.names}

    def epoch(self, number: int = 0, *, n_rounds: int = 3, absent: tuple[str, ...] = ()) -> AggregatorEpoch:
        present = [name for name in self.names if name not in absent]
        self.offers = [self.sites[name].offer(epoch=number, n_rounds=n_rounds) for name in present]
        epoch = AggregatorEpoch(self.config, hellos=self.hellos, offers=self.offers, pinned=self.pinned)
        for name in present:
            epoch.confirm(name, self.sites[name].accept([o.addressed_to(name) for o in self.offers]))
        return epoch

    def retry(self, vectors: Vectors, *, round: int = 0, attempt: int = 0) -> NDArray[np.uint64]:
        roster = sorted(vectors)
        sent = {
            name: self.sites[name].retry_mask(round=round, attempt=attempt, roster=roster, vector=vector)
            for name, vector in vectors.items()
        }
        return retry_sum(roster, sent)

    def send(
        self,
        aggregator: RecoverRound,
        *,
        round: int,
        summed: Vectors | None = None,
        covered: Vectors | None = None,
    ) -> None:
        for name, vector in (covered or {}).items():
            aggregator.add_covered(name, self.sites[name].self_mask(round=round, vector=vector))
        for name, vector in (summed or {}).items():
            aggregator.add_masked(name, self.sites[name].recover_mask(round=round, vector=vector))

    def settle(
        self, aggregator: RecoverRound, *, round: int, context: bytes = b"", silent: tuple[str, ...] = ()
    ) -> tuple[str, ...]:
        survivors = aggregator.settle(context=context)
        for name in survivors:
            if name not in silent:
                signature = self.sites[name].sign_survivors(round=round, survivors=survivors, context=context)
                aggregator.add_signature(name, signature)
        return survivors

    def open(self, aggregator: RecoverRound, *, round: int, silent: tuple[str, ...] = ()) -> None:
        quorum = aggregator.quorum()
        present = [name for name in aggregator.survivors if name not in silent]
        for name in present:
            opening = self.sites[name].open(round=round, survivors=aggregator.survivors, signatures=quorum)
            aggregator.add_opening(opening)
        if aggregator.missing:
            for name in present:
                aggregator.add_shares(self.sites[name].open_missing(round=round, missing=aggregator.missing))


def added(vectors: Vectors, names: tuple[str, ...] | list[str]) -> NDArray[np.uint64]:
    """Sum modulo 2^64 of the named vectors."""
    return np.sum([vectors[name] for name in names], axis=0, dtype=np.uint64)


def change(message: msgspec.Struct, **fields: object) -> Any:
    """Copy of a message with other fields, of any type."""
    return msgspec.structs.replace(message, **fields)


def flipped(data: bytes, position: int = 0) -> bytes:
    """Copy with one bit of one byte flipped."""
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
