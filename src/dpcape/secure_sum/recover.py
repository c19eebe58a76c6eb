"""RECOVER, the site's half: Bonawitz et al. (2017) with secrets that belong to one round only.

A site answers from its own state. Once a survivor set is settled it reveals its own seeds, and shares of the
round keys of dropped sites; the other kind of share is overwritten at that moment, so no later request can
obtain both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from dpcape.errors import ProtocolError
from dpcape.secure_sum.fixed_point import check_words
from dpcape.secure_sum.identity import Identity, verify
from dpcape.secure_sum.keystream import expand, extract, masked
from dpcape.secure_sum.links import Links, agree
from dpcape.secure_sum.masking import check_number
from dpcape.secure_sum.messages import Offer, Opening, SeedShares
from dpcape.secure_sum.offers import (
    COVER,
    KEY,
    LARGEST_EPOCH,
    N_KINDS,
    SUM,
    check_offers,
    entry,
    make_offer,
    offer_body,
    open_box,
    secret_at,
    share_at,
    wipe_secret,
    wipe_share,
)
from dpcape.secure_sum.transcript import digest, equal


@dataclass(repr=False)
class _Round:
    """What a site has done in one round."""

    summed: bool = False
    covered: bool = False
    survivors: tuple[str, ...] = ()
    statement: bytes = b""
    opened: bool = False
    spoiled: bool = False


@dataclass(repr=False)
class _Epoch:
    """A site's secrets and its peers' shares and keys in the current epoch."""

    digest: bytes
    number: int
    n_rounds: int
    keys: dict[str, bytes]
    secrets: bytearray
    shares: dict[str, bytearray]
    rounds: dict[int, _Round] = field(default_factory=dict)

    def wipe(self, round: int) -> None:
        """Overwrite everything secret of one round."""
        for kind in range(N_KINDS):
            wipe_secret(self.secrets, round, kind)
            for shares in self.shares.values():
                wipe_share(shares, round, kind)


class Recover:
    """A site's state for RECOVER."""

    def __init__(self, links: Links, identity: Identity, *, pinned: Mapping[str, bytes]) -> None:
        self._links = links
        self._identity = identity
        self._pinned = dict(pinned)
        self._last_epoch = -1
        self._offered: tuple[Offer, bytearray] | None = None
        self._epoch: _Epoch | None = None

    def offer(self, epoch: int, *, n_rounds: int) -> Offer:
        """Fresh secrets for an epoch; epoch numbers only grow, and the epoch before is over."""
        check_number(epoch, "epoch")
        check_number(n_rounds, "n_rounds")
        if epoch <= self._last_epoch:
            raise ProtocolError(f"epoch must grow; got {epoch} after {self._last_epoch}. Offers serve once.")
        if not 1 <= n_rounds <= LARGEST_EPOCH:
            raise ProtocolError(f"n_rounds must be in [1, {LARGEST_EPOCH}]; got {n_rounds}.")
        self._last_epoch, self._epoch = epoch, None
        self._offered = make_offer(self._links, self._identity, epoch=epoch, n_rounds=n_rounds)
        return self._offered[0]

    def accept(self, offers: Sequence[Offer]) -> None:
        """Check the offers of the epoch's roster and keep the shares; one try per epoch."""
        if self._offered is None:
            raise ProtocolError("offers must follow this site's own offer, once; got them at another time.")
        (own, secrets), self._offered = self._offered, None
        config, session_id = self._links.config, self._links.session_id
        by_sender, epoch_digest = check_offers(
            offers, config=config, session_id=session_id, pinned=self._pinned
        )
        mine = by_sender.get(own.sender)
        if mine is None or not equal(offer_body(mine, session_id), offer_body(own, session_id)):
            raise ProtocolError("this site's own offer must be among the offers, unchanged; got another.")
        self._epoch = _Epoch(
            digest=epoch_digest,
            number=own.epoch,
            n_rounds=own.n_rounds,
            keys={name: offer.keys for name, offer in by_sender.items()},
            secrets=secrets,
            shares={
                name: open_box(self._links, offer) for name, offer in by_sender.items() if name != own.sender
            },
        )

    def mask(self, vector: NDArray[np.uint64], *, round: int) -> NDArray[np.uint64]:
        """Vector to be summed, under its self-mask and the pair masks of the epoch's roster."""
        check_words(vector, "vector")
        with self._at(round) as (epoch, state):
            if state.summed or state.statement:
                raise ProtocolError(
                    f"one vector is summed per round, before signing; got another in round {round}."
                )
            state.summed = True
            seed = secret_at(epoch.secrets, round, SUM)
            own = self_key(seed, "sum", epoch_digest=epoch.digest, round=round, size=vector.size)
            pairs = self._pair_keys(epoch, round, vector.size)
            wipe_secret(epoch.secrets, round, KEY)
            plus = [own] + [key for peer, key in pairs.items() if peer > self._links.name]
            minus = [key for peer, key in pairs.items() if peer < self._links.name]
            return masked(vector, plus=plus, minus=minus)

    def cover(self, vector: NDArray[np.uint64], *, round: int) -> NDArray[np.uint64]:
        """Vector to be released by itself, under a self-mask of its own."""
        check_words(vector, "vector")
        with self._at(round) as (epoch, state):
            if state.covered or state.statement:
                raise ProtocolError(
                    f"one vector is covered per round, before signing; got another in round {round}."
                )
            state.covered = True
            seed = secret_at(epoch.secrets, round, COVER)
            key = self_key(seed, "cover", epoch_digest=epoch.digest, round=round, size=vector.size)
            return masked(vector, plus=[key])

    def sign(self, survivors: Sequence[str], *, round: int, context: bytes) -> bytes:
        """Sign the one survivor set of a round, together with what was sent in it."""
        with self._at(round) as (epoch, state):
            if state.statement:
                raise ProtocolError(
                    f"one survivor set is signed per round; got another request in round {round}."
                )
            names = self._links.config.check_roster(survivors, within=tuple(epoch.keys))
            if self._links.name not in names:
                raise ProtocolError("a survivor set must name the site it is sent to; got one without it.")
            if not (state.summed or state.covered):
                raise ProtocolError(f"a survivor must have sent a vector; got none in round {round}.")
            if not isinstance(context, bytes):
                raise ProtocolError("context must be bytes; got something else.")
            state.survivors = names
            state.statement = statement(
                epoch.digest,
                round=round,
                summed=state.summed,
                covered=state.covered,
                context=context,
                survivors=names,
            )
            return self._identity.sign(state.statement)

    def open(self, survivors: Sequence[str], *, round: int, signatures: Mapping[str, bytes]) -> Opening:
        """Reveal what the signed survivor set calls for, once threshold sites have signed the same."""
        with self._at(round) as (epoch, state):
            self._check_open(state, survivors, signatures)
            state.opened = True
            dropped = [name for name in epoch.keys if name not in state.survivors]
            opening = Opening(
                sender=self._links.name,
                epoch=epoch.number,
                round=round,
                sum_seed=secret_at(epoch.secrets, round, SUM) if state.summed else b"",
                cover_seed=secret_at(epoch.secrets, round, COVER) if state.covered else b"",
                key_shares={n: share_at(epoch.shares[n], round, KEY) for n in dropped}
                if state.summed
                else {},
            )
            self._forget(epoch, state, round)
            return opening

    def open_missing(self, missing: Sequence[str], *, round: int) -> SeedShares:
        """Shares of the seeds of survivors that were lost after the set was signed."""
        with self._at(round) as (epoch, state):
            if not state.opened:
                raise ProtocolError(
                    f"seed shares must follow this site's opening; got round {round} unopened."
                )
            if not isinstance(missing, list | tuple) or any(not isinstance(name, str) for name in missing):
                raise ProtocolError("missing must be a list of site names; got something else.")
            if not set(missing) <= set(state.survivors) - {self._links.name}:
                raise ProtocolError("seed shares must be of other signed survivors; got another site.")
            shares = {name: epoch.shares[name] for name in sorted(set(missing))}
            return SeedShares(
                sender=self._links.name,
                epoch=epoch.number,
                round=round,
                sum_shares={n: share_at(s, round, SUM) for n, s in shares.items()} if state.summed else {},
                cover_shares={n: share_at(s, round, COVER) for n, s in shares.items()}
                if state.covered
                else {},
            )

    @contextmanager
    def _at(self, round: int) -> Iterator[tuple[_Epoch, _Round]]:
        """Epoch and state of a round; a refusal inside spoils the round for good."""
        check_number(round, "round")
        epoch = self._epoch
        if epoch is None:
            raise ProtocolError("an epoch must be accepted first; got a round without one.")
        if round >= epoch.n_rounds:
            raise ProtocolError(
                f"round must be below {epoch.n_rounds}, the rounds of this epoch; got {round}."
            )
        state = epoch.rounds.setdefault(round, _Round())
        if state.spoiled:
            raise ProtocolError(f"a round must be free of refused messages; got round {round}, which is not.")
        try:
            yield epoch, state
        except BaseException:
            state.spoiled = True
            epoch.wipe(round)
            raise

    def _pair_keys(self, epoch: _Epoch, round: int, size: int) -> dict[str, bytes]:
        """Mask keys with every peer of the epoch's roster."""
        private = X25519PrivateKey.from_private_bytes(secret_at(epoch.secrets, round, KEY))
        context = pair_context(epoch.digest, round=round, size=size)
        return {
            peer: pair_key(private, entry(keys, round), names=(self._links.name, peer), context=context)
            for peer, keys in epoch.keys.items()
            if peer != self._links.name
        }

    def _check_open(self, state: _Round, survivors: Sequence[str], signatures: Mapping[str, bytes]) -> None:
        """Refuse to open unless threshold survivors signed what this site signed."""
        if not state.statement or state.opened:
            raise ProtocolError("an opening must follow this site's signature, once; got it at another time.")
        if not isinstance(survivors, list | tuple) or tuple(survivors) != state.survivors:
            raise ProtocolError("the survivor set must be the signed one, sorted; got another.")
        if not isinstance(signatures, Mapping) or not set(signatures) <= set(state.survivors):
            raise ProtocolError("signatures must be those of survivors; got another signer.")
        others = {name: text for name, text in signatures.items() if name != self._links.name}
        for name, signature in others.items():
            if not verify(self._pinned[name], signature, state.statement):
                raise ProtocolError(
                    f"site {name} must have signed the same survivor set; got another signature."
                )
        if len(others) + 1 < self._links.config.threshold:
            raise ProtocolError(
                f"at least {self._links.config.threshold} sites must have signed; got {len(others) + 1}. "
                "Nothing is opened."
            )

    def _forget(self, epoch: _Epoch, state: _Round, round: int) -> None:
        """Overwrite own secrets and every share that the signed survivor set does not call for."""
        for kind in range(N_KINDS):
            wipe_secret(epoch.secrets, round, kind)
        for name, shares in epoch.shares.items():
            wipe_share(shares, round, KEY)
            if name not in state.survivors or not state.summed:
                wipe_share(shares, round, SUM)
            if name not in state.survivors or not state.covered:
                wipe_share(shares, round, COVER)


def self_key(seed: bytes, kind: str, *, epoch_digest: bytes, round: int, size: int) -> bytes:
    """Mask key of a self-mask."""
    return expand(seed, digest("self", kind, epoch_digest, round, size))


def pair_context(epoch_digest: bytes, *, round: int, size: int) -> bytes:
    """What every pair mask key of a round is bound to."""
    return digest("recover", epoch_digest, round, size)


def pair_key(private: X25519PrivateKey, public: bytes, *, names: tuple[str, str], context: bytes) -> bytes:
    """Mask key of a pair: owner of `private` first, owner of `public` second."""
    shared = agree(private, public, peer=names[1])
    return extract(shared, salt=context, context=digest("pair mask", *sorted(names)))


def statement(
    epoch_digest: bytes, *, round: int, summed: bool, covered: bool, context: bytes, survivors: Sequence[str]
) -> bytes:
    """What a survivor signs: session and roster (in the epoch digest), round, what was sent, and the set."""
    return digest("survivors", epoch_digest, round, int(summed), int(covered), context, *survivors)
