"""RECOVER at the aggregator: collect vectors, settle one survivor set, rebuild missing secrets, unmask.

The aggregator checks everything it rebuilds against the signed offers: a seed against its commitment, a
round key against its public key. A wrong share is found by leaving holders out until the others agree, and is
then attributed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from dpcape.core.errors import InvalidMessage, ProtocolError, SiteLost
from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch
from dpcape.core.secure_sum.identity import verify
from dpcape.core.secure_sum.keystream import masked
from dpcape.core.secure_sum.masking import add_up, received
from dpcape.core.secure_sum.messages import Opening, SeedShares
from dpcape.core.secure_sum.offers import COVER, SUM, entry
from dpcape.core.secure_sum.rebuild import rebuild
from dpcape.core.secure_sum.round_keys import pair_context, pair_key, reliance, self_key, statement


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
        Whether the sites bind their masks to the context passed to `settle`.

    Attributes
    ----------
    survivors : tuple[str, ...]
        The settled set; empty before `settle`.
    signatures : dict[str, bytes]
        Valid survivor signatures so far.
    complaints : list[str]
        One sentence for every wrong share that was found and left out.
    """

    def __init__(self, epoch: AggregatorEpoch, *, round: int, bound: bool = False) -> None:
        if not 0 <= round < epoch.n_rounds:
            raise InvalidMessage("round", f"be in [0, {epoch.n_rounds})", round, "Use a round of this epoch.")
        self._epoch, self._round, self._bound = epoch, round, bound
        self._context = b""
        self._masked: dict[str, NDArray[np.uint64]] = {}
        self._covered: dict[str, NDArray[np.uint64]] = {}
        self._statement = b""
        self._openings: dict[str, Opening] = {}
        self._shares: dict[str, SeedShares] = {}
        self._relied_on: dict[str, bytes] = {}
        self.survivors: tuple[str, ...] = ()
        self.signatures: dict[str, bytes] = {}
        self.complaints: list[str] = []

    def add_masked(self, sender: str, vector: NDArray[np.uint64]) -> None:
        """Add a site's vector to be summed."""
        self._take(self._masked, sender, vector)

    def add_covered(self, sender: str, vector: NDArray[np.uint64]) -> None:
        """Add a site's single release."""
        self._take(self._covered, sender, vector)

    def add_context(self, sender: str, signature: bytes) -> None:
        """Add a site's signature of the context of its vectors (`Session.sign_context`), in case the site is lost."""
        self._relied_on[sender] = signature

    def relies_on(self, sender: str, signature: bytes, context: bytes) -> bool:
        """Return whether a site signed that its vectors of this round rely on `context`."""
        message = reliance(self._epoch.digest, round=self._round, context=context, site=sender)
        return verify(self._epoch.pinned[sender], signature, message)

    def settle(self, *, context: bytes = b"") -> tuple[str, ...]:
        """Fix the survivor set: the sites that sent every kind of vector this round has seen.

        Later vectors are refused. `context` is what the sites must also agree on, for instance the digest of a total
        they received; they sign it too.

        Raises
        ------
        SiteLost
            If too few sites remain.
        """
        if self._statement:
            raise ProtocolError("The survivor set of this round is already settled", remedy="Begin a new round.")
        kinds = [set(vectors) for vectors in (self._masked, self._covered) if vectors]
        arrived = set.intersection(*kinds) if kinds else set()
        survivors = self._epoch.config.check_roster(sorted(arrived), within=self._epoch.roster)
        self._epoch.graph.check_connected(survivors)
        self.survivors = survivors
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
        """Add a survivor's signature."""
        self._check_survivor(sender)
        if sender in self.signatures:
            got = f"a second signature from site {sender}"
            raise InvalidMessage("A survivor", "sign once", got, "Ignore the second one.")
        if not verify(self._epoch.pinned[sender], signature, self._statement):
            what = f"The signature of site {sender} was refused"
            raise ProtocolError(what, "it is not for the settled survivor set", "Treat the site as lost.")
        self.signatures[sender] = signature

    def quorum(self) -> dict[str, bytes]:
        """Return as many signatures as a site needs before it opens; send these to every survivor.

        Raises
        ------
        SiteLost
            If too few survivors have signed.
        """
        threshold = self._epoch.config.threshold
        if len(self.signatures) < threshold:
            why = f"only {len(self.signatures)} of {threshold} required survivors signed"
            raise SiteLost("The round failed", why, "Start a new run when more sites are present.")
        return {name: self.signatures[name] for name in sorted(self.signatures)[:threshold]}

    def add_opening(self, opening: Opening) -> None:
        """Add a survivor's opening; a wrong one is refused and the site counts as missing."""
        self._check_reply(opening, Opening)
        if opening.sender in self._openings:
            got = f"a second opening from site {opening.sender}"
            raise InvalidMessage("A survivor", "open once", got, "Ignore the second one.")
        used = ((SUM, opening.sum_seed, self._masked), (COVER, opening.cover_seed, self._covered))
        for kind, seed, vectors in used:
            if vectors and not self._epoch.opens(opening.sender, seed, round=self._round, kind=kind):
                what = f"The opening of site {opening.sender} was refused"
                raise ProtocolError(what, "its seed does not match the commitment", "Treat the site as missing.")
        shared_with = set(self.dropped).intersection(self._epoch.graph.neighbours(opening.sender))
        if set(opening.key_shares) != (shared_with if self._masked else set()):
            why = "it does not hold one share for each dropped site that shared with it"
            raise ProtocolError(f"The opening of site {opening.sender} was refused", why, "Treat the site as missing.")
        self._openings[opening.sender] = opening

    def add_shares(self, shares: SeedShares) -> None:
        """Add shares of the seeds of missing survivors."""
        self._check_reply(shares, SeedShares)
        self._shares[shares.sender] = shares

    @property
    def dropped(self) -> tuple[str, ...]:
        """Sites of the epoch's roster outside the settled set."""
        return tuple(sorted(set(self._epoch.roster).difference(self.survivors)))

    @property
    def missing(self) -> tuple[str, ...]:
        """Survivors that have not opened yet."""
        return tuple(name for name in self.survivors if name not in self._openings)

    def relied_on(self) -> dict[str, bytes]:
        """Return the signatures of the context by the missing survivors; the others want them with `missing`.

        They are checked here, since a site that is shown a wrong one overwrites its secrets of the round.
        """
        if not self._bound:
            return {}
        signatures = {name: self._relied_on.get(name, b"") for name in self.missing}
        for name, signature in signatures.items():
            if not self.relies_on(name, signature, self._context):
                why = f"site {name} was lost and has not signed what the others relied on"
                raise ProtocolError("The round failed", why, "Have that site checked, then start a new run.")
        return signatures

    def total(self) -> NDArray[np.uint64]:
        """Return the sum of the survivors' summed vectors."""
        if not self._statement or not self._masked:
            raise ProtocolError("There is no total yet", remedy="Add masked vectors, then call settle().")
        summed = add_up({name: self._masked[name] for name in self.survivors})
        plus, minus = self._residual_keys(summed.size)
        minus += [self._mask_key(name, SUM, summed.size) for name in self.survivors]
        return masked(summed, plus=plus, minus=minus)

    def releases(self) -> dict[str, NDArray[np.uint64]]:
        """Return each survivor's single release."""
        if not self._statement or not self._covered:
            raise ProtocolError("There are no releases yet", remedy="Add covered vectors, then call settle().")
        vectors = {name: self._covered[name] for name in self.survivors}
        return {n: masked(v, minus=[self._mask_key(n, COVER, v.size)]) for n, v in vectors.items()}

    def _take(self, vectors: dict[str, NDArray[np.uint64]], sender: str, vector: NDArray[np.uint64]) -> None:
        """Store one vector of a roster site, before the set is settled."""
        if self._statement:
            what = f"The vector of site {sender} was refused"
            raise ProtocolError(what, "the survivor set is settled", "Treat the site as lost.")
        if sender not in self._epoch.roster:
            raise ProtocolError("The vector was refused", "its sender is not in the roster", "Ignore it.")
        if sender in vectors:
            got = f"a second from site {sender}"
            raise InvalidMessage("A site", "send one vector of a kind", got, "Ignore the second one.")
        words = received(vector, sender=sender)
        for other in vectors.values():
            if words.size != other.size:
                got = f"{words.size} from site {sender}"
                raise InvalidMessage("All vectors", f"have {other.size} words", got, "Treat the site as lost.")
        vectors[sender] = words

    def _check_survivor(self, sender: str) -> None:
        if not self._statement or sender not in self.survivors:
            why = "its sender is not a survivor of a settled round"
            raise ProtocolError("The message was refused", why, "Ignore it.")

    def _check_reply(self, reply: Opening | SeedShares, kind: type) -> None:
        """Refuse replies of the wrong type, sender, epoch or round."""
        if not isinstance(reply, kind):
            raise InvalidMessage("The reply", f"be {kind.__name__}", type(reply).__name__, "Ignore it.")
        self._check_survivor(reply.sender)
        if (reply.epoch, reply.round) != (self._epoch.number, self._round):
            must = f"be for epoch {self._epoch.number}, round {self._round}"
            raise InvalidMessage(f"The reply of site {reply.sender}", must, "a different epoch or round", "Ignore it.")

    def _mask_key(self, site: str, kind: int, size: int) -> bytes:
        """Return the key of a survivor's self-mask: opened by itself, or rebuilt from shares."""
        if site in self._openings:
            opening = self._openings[site]
            seed = opening.sum_seed if kind == SUM else opening.cover_seed
        else:
            seed = self._rebuilt(
                site,
                self._seed_shares(site, kind),
                lambda s: self._epoch.opens(site, s, round=self._round, kind=kind),
            )
        bound = self._context if self._bound else None
        return self_key(seed, kind, epoch_digest=self._epoch.digest, round=self._round, size=size, bound=bound)

    def _seed_shares(self, site: str, kind: int) -> dict[str, bytes]:
        """Return the shares of a lost survivor's seed, by holder."""
        holders = set(self._epoch.graph.neighbours(site))
        tables = {name: m.sum_shares if kind == SUM else m.cover_shares for name, m in self._shares.items()}
        return {holder: table[site] for holder, table in tables.items() if site in table and holder in holders}

    def _residual_keys(self, size: int) -> tuple[list[bytes], list[bytes]]:
        """Return the keys of the pair masks that dropped sites left in the sum: to be added, to be subtracted."""
        context = pair_context(
            self._epoch.digest, round=self._round, size=size, bound=self._context if self._bound else None
        )
        plus: list[bytes] = []
        minus: list[bytes] = []
        survivors = set(self.survivors)
        for lost in self.dropped:
            masked_with = [name for name in self._epoch.graph.neighbours(lost) if name in survivors]
            if not masked_with:
                continue
            private = X25519PrivateKey.from_private_bytes(self._round_key(lost))
            for name in masked_with:
                public = entry(self._epoch.offers[name].keys, self._round)
                key = pair_key(private, public, names=(lost, name), context=context)
                (plus if name > lost else minus).append(key)
        return plus, minus

    def _round_key(self, lost: str) -> bytes:
        """Return the round key of a dropped site, rebuilt from the survivors' shares."""
        tables = {holder: opening.key_shares for holder, opening in self._openings.items()}
        shares = {holder: table[lost] for holder, table in tables.items() if lost in table}
        return self._rebuilt(lost, shares, lambda key: self._epoch.fits(lost, key, round=self._round))

    def _rebuilt(self, dealer: str, shares: Mapping[str, bytes], right: Callable[[bytes], bool]) -> bytes:
        """Return the secret of a site, from shares by holder; wrong shares are reported in `complaints`."""
        secret, wrong = rebuild(shares, dealer=dealer, graph=self._epoch.graph, right=right)
        for holder in wrong:
            self.complaints.append(
                f"Round {self._round}: the share of site {dealer} sent by site {holder} is wrong; one of them is at "
                "fault."
            )
        return secret
