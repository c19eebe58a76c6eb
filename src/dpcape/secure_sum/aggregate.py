"""RECOVER, the aggregator's half: collect, settle one survivor set, rebuild what is missing, unmask.

The aggregator checks everything it rebuilds against the signed offers: a seed against its commitment, a
round key against its public key. A wrong share is found by leaving holders out until the rest agrees, and is
then attributed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from dpcape.errors import ProtocolError, SiteLost
from dpcape.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.secure_sum.identity import verify
from dpcape.secure_sum.keystream import masked
from dpcape.secure_sum.masking import add_up, received
from dpcape.secure_sum.messages import Opening, SeedShares
from dpcape.secure_sum.offers import COVER, SUM, entry
from dpcape.secure_sum.rebuild import rebuild
from dpcape.secure_sum.round_keys import pair_context, pair_key, self_key, statement


class RecoverRound:
    """One round of RECOVER at the aggregator.

    The order is: vectors in (`add_masked` for summed ones, `add_covered` for single releases), `settle`,
    signatures, openings, shares for survivors that are `missing`, then `total` and `releases`.

    Parameters
    ----------
    epoch : AggregatorEpoch
        The epoch the round belongs to.
    round : int
        Number of the round in the epoch, from 0.
    bound : bool
        Whether the sites give their masks the context that `settle` is given.

    Attributes
    ----------
    survivors : tuple[str, ...]
        The settled set; empty before `settle`.
    signatures : dict[str, bytes]
        Valid survivor signatures so far.
    complaints : list[str]
        One sentence for every wrong share that was found and worked around.
    """

    def __init__(self, epoch: AggregatorEpoch, *, round: int, bound: bool = False) -> None:
        if not 0 <= round < epoch.n_rounds:
            raise ProtocolError(f"round must be in [0, {epoch.n_rounds}); got {round}.")
        self._epoch, self._round, self._bound = epoch, round, bound
        self._context = b""
        self._masked: dict[str, NDArray[np.uint64]] = {}
        self._covered: dict[str, NDArray[np.uint64]] = {}
        self._statement = b""
        self._openings: dict[str, Opening] = {}
        self._shares: dict[str, SeedShares] = {}
        self.survivors: tuple[str, ...] = ()
        self.signatures: dict[str, bytes] = {}
        self.complaints: list[str] = []

    def add_masked(self, sender: str, vector: NDArray[np.uint64]) -> None:
        """Take in a vector to be summed."""
        self._take(self._masked, sender, vector)

    def add_covered(self, sender: str, vector: NDArray[np.uint64]) -> None:
        """Take in a single release."""
        self._take(self._covered, sender, vector)

    def settle(self, *, context: bytes = b"") -> tuple[str, ...]:
        """Fix the survivor set: the sites that sent every kind of vector this round has seen.

        Later vectors are refused. `context` is what the sites must agree on besides, for instance the digest
        of a total they were told; they sign it too.

        Raises
        ------
        SiteLost
            If too few sites are left.
        """
        if self._statement:
            raise ProtocolError("a survivor set is settled once per round; got a second request.")
        kinds = [set(vectors) for vectors in (self._masked, self._covered) if vectors]
        arrived = set.intersection(*kinds) if kinds else set()
        self.survivors = self._epoch.config.check_roster(sorted(arrived), within=self._epoch.roster)
        self._statement = statement(
            self._epoch.digest,
            round=self._round,
            summed=bool(self._masked),
            covered=bool(self._covered),
            context=context,
            survivors=self.survivors,
        )
        self._context = context
        return self.survivors

    def add_signature(self, sender: str, signature: bytes) -> None:
        """Take in a survivor's signature."""
        self._check_survivor(sender)
        if sender in self.signatures:
            raise ProtocolError(f"a survivor signs once; got a second signature from site {sender}.")
        if not verify(self._epoch.pinned[sender], signature, self._statement):
            raise ProtocolError(f"site {sender} must sign the settled survivor set; got another signature.")
        self.signatures[sender] = signature

    def quorum(self) -> dict[str, bytes]:
        """As many signatures as a site needs before it opens; send these to every survivor.

        Raises
        ------
        SiteLost
            If too few survivors have signed.
        """
        threshold = self._epoch.config.threshold
        if len(self.signatures) < threshold:
            raise SiteLost(
                f"at least {threshold} survivors must sign; got {len(self.signatures)}. The run ends without a result."
            )
        return {name: self.signatures[name] for name in sorted(self.signatures)[:threshold]}

    def add_opening(self, opening: Opening) -> None:
        """Take in a survivor's opening; a wrong one is refused and the site counts as missing."""
        self._check_reply(opening, Opening)
        if opening.sender in self._openings:
            raise ProtocolError(f"a survivor opens once; got a second opening from site {opening.sender}.")
        for kind, seed in self._kinds((opening.sum_seed, opening.cover_seed)):
            if not self._epoch.opens(opening.sender, seed, round=self._round, kind=kind):
                raise ProtocolError(f"site {opening.sender} must open its commitment; got another seed.")
        if set(opening.key_shares) != set(self.dropped if self._masked else ()):
            raise ProtocolError(f"site {opening.sender} must send a share for each dropped site; got others.")
        self._openings[opening.sender] = opening

    def add_shares(self, shares: SeedShares) -> None:
        """Take in shares of the seeds of missing survivors."""
        self._check_reply(shares, SeedShares)
        self._shares[shares.sender] = shares

    @property
    def dropped(self) -> tuple[str, ...]:
        """Sites of the epoch's roster outside the settled set."""
        return tuple(name for name in self._epoch.roster if name not in self.survivors)

    @property
    def missing(self) -> tuple[str, ...]:
        """Survivors that have not opened yet."""
        return tuple(name for name in self.survivors if name not in self._openings)

    def total(self) -> NDArray[np.uint64]:
        """Sum of the survivors' summed vectors."""
        if not self._statement or not self._masked:
            raise ProtocolError("a total needs a settled round with summed vectors; got none.")
        summed = add_up({name: self._masked[name] for name in self.survivors})
        plus, minus = self._residual_keys(summed.size)
        minus += [self._mask_key(name, SUM, summed.size) for name in self.survivors]
        return masked(summed, plus=plus, minus=minus)

    def releases(self) -> dict[str, NDArray[np.uint64]]:
        """Each survivor's single release."""
        if not self._statement or not self._covered:
            raise ProtocolError("releases need a settled round with covered vectors; got none.")
        vectors = {name: self._covered[name] for name in self.survivors}
        return {n: masked(v, minus=[self._mask_key(n, COVER, v.size)]) for n, v in vectors.items()}

    def _take(self, vectors: dict[str, NDArray[np.uint64]], sender: str, vector: NDArray[np.uint64]) -> None:
        """Keep one vector of a roster site, before the set is settled."""
        if self._statement:
            raise ProtocolError(f"vectors must come before the survivor set; got a late one from site {sender}.")
        if sender not in self._epoch.roster:
            raise ProtocolError("vectors must come from sites of the epoch's roster; got another sender.")
        if sender in vectors:
            raise ProtocolError(f"a site must send one vector of a kind; got a second from site {sender}.")
        words = received(vector, sender=sender)
        if any(words.size != other.size for other in vectors.values()):
            raise ProtocolError(f"vectors must have one length; got another from site {sender}.")
        vectors[sender] = words

    def _check_survivor(self, sender: str) -> None:
        if not self._statement or sender not in self.survivors:
            raise ProtocolError("the sender must be a survivor of a settled round; got another.")

    def _check_reply(self, reply: Opening | SeedShares, kind: type) -> None:
        """Refuse replies of another type, sender, epoch or round."""
        if not isinstance(reply, kind):
            raise ProtocolError(f"the reply must be a message of kind {kind.__name__}; got another.")
        self._check_survivor(reply.sender)
        if (reply.epoch, reply.round) != (self._epoch.number, self._round):
            raise ProtocolError(f"site {reply.sender} must answer for this round; got another.")

    def _kinds(self, values: tuple[bytes, bytes]) -> list[tuple[int, bytes]]:
        """Pairs (kind, value) of the masks this round used."""
        used = ((SUM, values[0], self._masked), (COVER, values[1], self._covered))
        return [(kind, value) for kind, value, vectors in used if vectors]

    def _mask_key(self, site: str, kind: int, size: int) -> bytes:
        """Key of a survivor's self-mask: opened by itself, or rebuilt from shares."""
        if site in self._openings:
            opening = self._openings[site]
            seed = opening.sum_seed if kind == SUM else opening.cover_seed
        else:
            seed = self._rebuilt(
                site,
                self._seed_shares(site, kind),
                lambda s: self._epoch.opens(site, s, round=self._round, kind=kind),
            )
        return self_key(seed, kind, epoch_digest=self._epoch.digest, round=self._round, size=size)

    def _seed_shares(self, site: str, kind: int) -> dict[str, bytes]:
        """Shares of a lost survivor's seed, by holder."""
        tables = {name: m.sum_shares if kind == SUM else m.cover_shares for name, m in self._shares.items()}
        return {holder: table[site] for holder, table in tables.items() if site in table and holder != site}

    def _residual_keys(self, size: int) -> tuple[list[bytes], list[bytes]]:
        """Keys of the pair masks that dropped sites left in the sum, to be added and taken off."""
        context = pair_context(
            self._epoch.digest, round=self._round, size=size, bound=self._context if self._bound else None
        )
        plus: list[bytes] = []
        minus: list[bytes] = []
        for lost in self.dropped:
            private = X25519PrivateKey.from_private_bytes(self._round_key(lost))
            for name in self.survivors:
                public = entry(self._epoch.offers[name].keys, self._round)
                key = pair_key(private, public, names=(lost, name), context=context)
                (plus if name > lost else minus).append(key)
        return plus, minus

    def _round_key(self, lost: str) -> bytes:
        """Round key of a dropped site, rebuilt from the survivors' shares."""
        shares = {holder: opening.key_shares[lost] for holder, opening in self._openings.items()}
        return self._rebuilt(lost, shares, lambda key: self._epoch.fits(lost, key, round=self._round))

    def _rebuilt(self, dealer: str, shares: Mapping[str, bytes], right: Callable[[bytes], bool]) -> bytes:
        """Secret of a site from shares by holder; wrong shares are reported in `complaints`."""
        secret, wrong = rebuild(shares, dealer=dealer, config=self._epoch.config, right=right)
        for holder in wrong:
            self.complaints.append(
                f"round {self._round}: the share of site {dealer} held by site {holder} is wrong; one of them lied."
            )
        return secret
