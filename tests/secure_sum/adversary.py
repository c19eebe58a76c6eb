"""An aggregator that keeps everything, with sites that work for it, and tries to unmask what the others sent.

It holds all hellos, offers, vectors, openings and shares that passed through the aggregator, and the whole
state of the colluding sites as it was right after the epoch was accepted (they overwrite nothing).

What it can learn of summed vectors in a round is exactly this. Join two honest sites if the adversary does not
know their pair mask. Masks are independent and uniform, so a linear combination of the vectors is free of unknown
masks only if it takes whole connected components with equal weights, every site in them has sent its vector, and
no site in them has an unknown self-mask. The adversary learns the sums over such components and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from dpcape.core.secure_sum import shamir
from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.core.secure_sum.keystream import masked
from dpcape.core.secure_sum.messages import Opening, SeedShares
from dpcape.core.secure_sum.offers import COVER, KEY, SUM, entry, secret_at, share_at
from dpcape.core.secure_sum.round_keys import pair_context, pair_key, self_key

from .consortium import Consortium

Words = NDArray[np.uint64]


class Adversary:
    def __init__(self, sites: Consortium, epoch: AggregatorEpoch, colluders: Sequence[str] = ()) -> None:
        self.sites, self.epoch, self.colluders = sites, epoch, tuple(colluders)
        self.honest = [name for name in epoch.roster if name not in colluders]
        self.secrets: dict[str, bytes] = {}
        self.shares: dict[tuple[str, str], bytes] = {}
        for name in self.colluders:
            state = sites.sites[name]._recover._epoch
            self.secrets[name] = bytes(state._secrets)
            for dealer, box in state._shares.items():
                self.shares[dealer, name] = bytes(box)
        self.bound: bytes | None = None
        self.openings: list[Opening] = []
        self.seed_shares: list[SeedShares] = []
        self.summed: dict[tuple[str, int], Words] = {}
        self.covered: dict[tuple[str, int], Words] = {}

    def secret(self, site: str, round: int, kind: int) -> bytes | None:
        """A secret of a site's round, if the adversary can have it."""
        if site in self.secrets:
            return secret_at(self.secrets[site], round, kind)
        opened = [o for o in self.openings if (o.sender, o.round) == (site, round)]
        for opening in opened:
            value = {SUM: opening.sum_seed, COVER: opening.cover_seed, KEY: b""}[kind]
            if value:
                return value
        shares, threshold = self._shares_of(site, round, kind), self.epoch.graph.threshold(site)
        return shamir.combine(dict(sorted(shares.items())[:threshold])) if len(shares) >= threshold else None

    def _shares_of(self, site: str, round: int, kind: int) -> dict[int, bytes]:
        def index(holder: str) -> int:
            return self.epoch.graph.index(site, holder)

        shares = {
            index(holder): share_at(box, round, kind) for (dealer, holder), box in self.shares.items() if dealer == site
        }
        for opening in self.openings:
            if opening.round == round and kind == KEY and site in opening.key_shares:
                shares[index(opening.sender)] = opening.key_shares[site]
        for message in self.seed_shares:
            table = {SUM: message.sum_shares, COVER: message.cover_shares, KEY: {}}[kind]
            if message.round == round and site in table:
                shares[index(message.sender)] = table[site]
        return shares

    def pair(self, one: str, other: str, round: int, size: int) -> bytes | None:
        """Key of a pair mask, if the round key of either end can be had."""
        context = pair_context(self.epoch.digest, round=round, size=size, bound=self.bound)
        for mine, theirs in ((one, other), (other, one)):
            private = self.secret(mine, round, KEY)
            if private is not None:
                public = entry(self.epoch.offers[theirs].keys, round)
                key = X25519PrivateKey.from_private_bytes(private)
                return pair_key(key, public, names=(mine, theirs), context=context)
        return None

    def sums(self, round: int) -> dict[tuple[str, ...], Words]:
        """Sums over honest sites that the adversary can compute, by the sites in them."""
        found = {}
        for group in self._components(round):
            sent = all((name, round) in self.summed for name in group)
            if sent and all(self.secret(name, round, SUM) is not None for name in group):
                found[group] = np.sum([self.unmask(n, round) for n in group], axis=0, dtype=np.uint64)
        return found

    def releases(self, round: int) -> dict[str, Words]:
        """Covered vectors of honest sites that the adversary can uncover."""
        found = {}
        for name in self.honest:
            seed, vector = self.secret(name, round, COVER), self.covered.get((name, round))
            if seed is not None and vector is not None:
                key = self_key(seed, COVER, epoch_digest=self.epoch.digest, round=round, size=vector.size)
                found[name] = masked(vector, minus=[key])
        return found

    def unmask(self, site: str, round: int) -> Words:
        """A site's summed vector less every mask the adversary knows."""
        vector = self.summed[site, round]
        plus, minus = [], []
        seed = self.secret(site, round, SUM)
        if seed is not None:
            minus.append(self_key(seed, SUM, epoch_digest=self.epoch.digest, round=round, size=vector.size))
        for peer in self.epoch.graph.neighbours(site):
            key = self.pair(site, peer, round, vector.size)
            if key is not None:
                (minus if peer > site else plus).append(key)
        return masked(vector, plus=plus, minus=minus)

    def _components(self, round: int) -> list[tuple[str, ...]]:
        known = {name for name in self.honest if self.secret(name, round, KEY) is not None}
        left, found = set(self.honest), []
        while left:
            group, edge = set(), {min(left)}
            while edge:
                group |= edge
                left -= edge
                joined = {n for name in edge - known for n in self.epoch.graph.neighbours(name)}
                edge = left & joined - known
            found.append(tuple(sorted(group)))
        return found
