"""RECOVER, the site's half: Bonawitz et al. (2017) with secrets that belong to one round only.

A site answers from its own state. Once a survivor set is settled it reveals its own seeds, and shares of the
round keys of dropped sites; the other kind of share is overwritten at that moment, so that no later request
can obtain both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from dpcape.errors import ProtocolError
from dpcape.secure_sum.fixed_point import check_words
from dpcape.secure_sum.identity import Identity, verify
from dpcape.secure_sum.keystream import masked
from dpcape.secure_sum.links import Links
from dpcape.secure_sum.masking import check_number
from dpcape.secure_sum.messages import Offer, Opening, SeedShares
from dpcape.secure_sum.offers import (
    COVER,
    KEY,
    LARGEST_EPOCH,
    SUM,
    check_offers,
    entry,
    make_offer,
    offer_body,
    open_box,
)
from dpcape.secure_sum.round_keys import acceptance, pair_context, pair_key, self_key, statement
from dpcape.secure_sum.sealed import Sealed
from dpcape.secure_sum.site_epoch import SiteEpoch, SiteRound
from dpcape.secure_sum.transcript import equal


class Recover(Sealed):
    """A site's state for RECOVER."""

    __slots__ = ("_epoch", "_identity", "_last_epoch", "_links", "_offered", "_pinned")

    def __init__(self, links: Links, identity: Identity, *, pinned: Mapping[str, bytes]) -> None:
        self._links = links
        self._identity = identity
        self._pinned = dict(pinned)
        self._last_epoch = -1
        self._offered: tuple[Offer, bytearray] | None = None
        self._epoch: SiteEpoch | None = None

    def offer(self, epoch: int, *, n_rounds: int) -> Offer:
        """Fresh secrets for an epoch; epoch numbers only grow, and the epoch before is over."""
        check_number(epoch, "epoch")
        check_number(n_rounds, "n_rounds")
        if epoch <= self._last_epoch:
            raise ProtocolError(f"epoch must grow; got {epoch} after {self._last_epoch}. Offers serve once.")
        if not 1 <= n_rounds <= LARGEST_EPOCH:
            raise ProtocolError(f"n_rounds must be in [1, {LARGEST_EPOCH}]; got {n_rounds}.")
        self.forget()
        self._last_epoch = epoch
        self._offered = make_offer(self._links, self._identity, epoch=epoch, n_rounds=n_rounds)
        return self._offered[0]

    def forget(self) -> None:
        """Overwrite the secrets of the epoch, and of an offer that was not accepted."""
        if self._epoch is not None:
            self._epoch.wipe_all()
        if self._offered is not None:
            secrets = self._offered[1]
            secrets[:] = bytes(len(secrets))
        self._epoch = self._offered = None

    def accept(self, offers: Sequence[Offer]) -> bytes:
        """Check the offers of the epoch's roster, keep the shares, sign what was accepted; once per epoch."""
        if self._offered is None:
            raise ProtocolError("offers must follow this site's own offer, once; got them at another time.")
        (own, secrets), self._offered = self._offered, None
        session_id = self._links.session_id
        by_sender, epoch_digest = check_offers(
            offers, config=self._links.config, session_id=session_id, pinned=self._pinned
        )
        mine = by_sender.get(own.sender)
        if mine is None or not equal(offer_body(mine, session_id), offer_body(own, session_id)):
            raise ProtocolError("this site's own offer must be among the offers, unchanged; got another.")
        peers = {name: offer for name, offer in by_sender.items() if name != own.sender}
        self._epoch = SiteEpoch(
            epoch_digest,
            number=own.epoch,
            n_rounds=own.n_rounds,
            keys={name: offer.keys for name, offer in by_sender.items()},
            secrets=secrets,
            shares={name: open_box(self._links, offer) for name, offer in peers.items()},
        )
        return self._identity.sign(acceptance(epoch_digest, own.sender))

    def mask(self, vector: NDArray[np.uint64], *, round: int, context: bytes | None) -> NDArray[np.uint64]:
        """Vector to be summed, under its self-mask and the pair masks of the epoch's roster."""
        check_words(vector, "vector")
        with self._at(round) as (epoch, state):
            if state.summed or state.statement:
                raise ProtocolError(f"one vector is summed in a round, before signing; got another in round {round}.")
            _bind(state, context)
            state.summed = True
            own = self._self_key(epoch, round, kind=SUM, size=vector.size)
            pairs = self._pair_keys(epoch, round, size=vector.size, bound=context)
            epoch.wipe_key(round)
            plus = [key for peer, key in pairs.items() if peer > self._links.name]
            minus = [key for peer, key in pairs.items() if peer < self._links.name]
            return masked(vector, plus=[own, *plus], minus=minus)

    def cover(self, vector: NDArray[np.uint64], *, round: int, context: bytes | None) -> NDArray[np.uint64]:
        """Vector to be released by itself, under a self-mask of its own."""
        check_words(vector, "vector")
        with self._at(round) as (epoch, state):
            if state.covered or state.statement:
                raise ProtocolError(f"one vector is covered in a round, before signing; got another in round {round}.")
            _bind(state, context)
            state.covered = True
            return masked(vector, plus=[self._self_key(epoch, round, kind=COVER, size=vector.size)])

    def sign(self, survivors: Sequence[str], *, round: int, context: bytes) -> bytes:
        """Sign the one survivor set of a round, together with what was sent in it."""
        with self._at(round) as (epoch, state):
            if state.statement:
                raise ProtocolError(f"one survivor set is signed in a round; got another in round {round}.")
            names = self._links.config.check_roster(survivors, within=tuple(epoch.keys))
            if self._links.name not in names:
                raise ProtocolError("a survivor set must name the site it is sent to; got one without it.")
            if not (state.summed or state.covered):
                raise ProtocolError(f"a survivor must have sent a vector; got none in round {round}.")
            if not isinstance(context, bytes):
                raise ProtocolError("context must be bytes; got something else.")
            if state.bound is not None and state.bound != context:
                raise ProtocolError("context must be the one the vectors were masked for; got another.")
            sent = {"summed": state.summed, "covered": state.covered}
            state.survivors = names
            state.statement = statement(epoch.digest, round=round, **sent, context=context, survivors=names)
            return self._identity.sign(state.statement)

    def open(self, survivors: Sequence[str], *, round: int, signatures: Mapping[str, bytes]) -> Opening:
        """Reveal what the signed survivor set calls for, once threshold sites have signed the same."""
        with self._at(round) as (epoch, state):
            self._check_open(state, survivors, signatures)
            state.opened = True
            dropped = [name for name in epoch.keys if name not in state.survivors and state.summed]
            opening = Opening(
                sender=self._links.name,
                epoch=epoch.number,
                round=round,
                sum_seed=epoch.secret(round, SUM) if state.summed else b"",
                cover_seed=epoch.secret(round, COVER) if state.covered else b"",
                key_shares={name: epoch.share(name, round, KEY) for name in dropped},
            )
            epoch.keep_seed_shares(round)
            return opening

    def open_missing(self, missing: Sequence[str], *, round: int) -> SeedShares:
        """Shares of the seeds of survivors that were lost after the set was signed."""
        with self._at(round) as (epoch, state):
            if not state.opened:
                raise ProtocolError(f"seed shares must follow this site's opening; got a request in round {round}.")
            if not isinstance(missing, list | tuple) or any(not isinstance(name, str) for name in missing):
                raise ProtocolError("missing must be a list of site names; got something else.")
            names = sorted(set(missing))
            if not set(names) <= set(state.survivors) - {self._links.name}:
                raise ProtocolError("seed shares must be of other signed survivors; got another site.")
            return SeedShares(
                sender=self._links.name,
                epoch=epoch.number,
                round=round,
                sum_shares={name: epoch.share(name, round, SUM) for name in names if state.summed},
                cover_shares={name: epoch.share(name, round, COVER) for name in names if state.covered},
            )

    @contextmanager
    def _at(self, round: int) -> Iterator[tuple[SiteEpoch, SiteRound]]:
        """Epoch and state of a round; a refusal inside spoils the round for good."""
        check_number(round, "round")
        epoch = self._epoch
        if epoch is None:
            raise ProtocolError("an epoch must be accepted first; got a round without one.")
        state = epoch.at(round)
        if state.spoiled:
            raise ProtocolError(f"a round must be free of refused messages; got round {round}, which is not.")
        try:
            yield epoch, state
        except BaseException:
            state.spoiled = True
            epoch.wipe(round)
            raise

    def _self_key(self, epoch: SiteEpoch, round: int, *, kind: int, size: int) -> bytes:
        """Key of an own self-mask."""
        return self_key(epoch.secret(round, kind), kind, epoch_digest=epoch.digest, round=round, size=size)

    def _pair_keys(self, epoch: SiteEpoch, round: int, *, size: int, bound: bytes | None) -> dict[str, bytes]:
        """Mask keys with every peer of the epoch's roster."""
        private = X25519PrivateKey.from_private_bytes(epoch.secret(round, KEY))
        context = pair_context(epoch.digest, round=round, size=size, bound=bound)
        return {
            peer: pair_key(private, entry(keys, round), names=(self._links.name, peer), context=context)
            for peer, keys in epoch.keys.items()
            if peer != self._links.name
        }

    def _check_open(self, state: SiteRound, survivors: Sequence[str], signatures: Mapping[str, bytes]) -> None:
        """Refuse to open unless threshold survivors, this site included, signed what this site signed."""
        if not state.statement or state.opened:
            raise ProtocolError("an opening must follow this site's signature, once; got another request.")
        if not isinstance(survivors, list | tuple) or tuple(survivors) != state.survivors:
            raise ProtocolError("the survivor set must be the signed one, sorted; got another.")
        if not isinstance(signatures, Mapping) or not set(signatures) <= set(state.survivors):
            raise ProtocolError("signatures must be those of survivors; got another signer.")
        others = {name: signature for name, signature in signatures.items() if name != self._links.name}
        for name, signature in others.items():
            if not verify(self._pinned[name], signature, state.statement):
                raise ProtocolError(f"site {name} must have signed the same set; got another signature.")
        if len(others) + 1 < self._links.config.threshold:
            raise ProtocolError(
                f"at least {self._links.config.threshold} sites must have signed; got {len(others) + 1}. "
                "Nothing is opened."
            )


def _bind(state: SiteRound, context: bytes | None) -> None:
    """Tie a round to what its vectors depend on; all its vectors must depend on the same."""
    if context is not None and not isinstance(context, bytes):
        raise ProtocolError("context must be bytes; got something else.")
    if (state.summed or state.covered) and state.bound != context:
        raise ProtocolError("the vectors of a round must have one context; got another.")
    state.bound = context
