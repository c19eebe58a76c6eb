"""RECOVER at a site: Bonawitz et al. (2017) with secrets that belong to one round only.

A site answers from its own state. Once a survivor set is settled, it reveals its own seeds and shares of the
round keys of dropped sites; at that moment it overwrites the other kind of share, so that no later request can
obtain both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from dpcape.core.errors import InvalidMessage, ProtocolError
from dpcape.core.secure_sum.fixed_point import check_words
from dpcape.core.secure_sum.identity import Identity, verify
from dpcape.core.secure_sum.keystream import masked
from dpcape.core.secure_sum.links import Links
from dpcape.core.secure_sum.masking import check_context, check_number
from dpcape.core.secure_sum.messages import Offer, Opening, SeedShares
from dpcape.core.secure_sum.offers import (
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
from dpcape.core.secure_sum.round_keys import acceptance, pair_context, pair_key, reliance, self_key, statement
from dpcape.core.secure_sum.sealed import Sealed
from dpcape.core.secure_sum.site_epoch import SiteEpoch, SiteRound
from dpcape.core.secure_sum.transcript import equal


class Recover(Sealed):
    """State of a site for RECOVER."""

    __slots__ = ("_epoch", "_identity", "_last_epoch", "_links", "_offered", "_pinned")

    def __init__(self, links: Links, identity: Identity, *, pinned: Mapping[str, bytes]) -> None:
        self._links = links
        self._identity = identity
        self._pinned = dict(pinned)
        self._last_epoch = -1
        self._offered: tuple[Offer, bytearray] | None = None
        self._epoch: SiteEpoch | None = None

    def offer(self, epoch: int, *, n_rounds: int) -> Offer:
        """Return an offer with fresh secrets; epoch numbers must increase, and the previous epoch ends."""
        check_number(epoch, "epoch")
        check_number(n_rounds, "n_rounds")
        if epoch <= self._last_epoch:
            remedy = "An offer serves once: use a new number."
            raise InvalidMessage("epoch", "increase", f"{epoch} after {self._last_epoch}", remedy)
        if not 1 <= n_rounds <= LARGEST_EPOCH:
            raise InvalidMessage("n_rounds", f"be in [1, {LARGEST_EPOCH}]", n_rounds)
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
        """Check the offers of the epoch's roster, keep the shares, return a signature of them; once per epoch."""
        if self._offered is None:
            why = "this site has no open offer of its own: offers are accepted once, after offer()"
            raise ProtocolError("The offers were refused", why, "Start a new epoch.")
        (own, secrets), self._offered = self._offered, None
        session_id = self._links.session_id
        by_sender, epoch_digest = check_offers(
            offers, config=self._links.config, session_id=session_id, pinned=self._pinned
        )
        mine = by_sender.get(own.sender)
        if mine is None or not equal(offer_body(mine, session_id), offer_body(own, session_id)):
            why = "this site's own offer is missing or changed"
            raise ProtocolError("The offers were refused", why, "The aggregator is at fault.")
        peers = [name for name in self._links.graph.neighbours(own.sender) if name in by_sender]
        self._epoch = SiteEpoch(
            epoch_digest,
            number=own.epoch,
            n_rounds=own.n_rounds,
            keys={name: offer.keys for name, offer in by_sender.items()},
            secrets=secrets,
            shares={name: open_box(self._links, by_sender[name]) for name in peers},
        )
        return self._identity.sign(acceptance(epoch_digest, own.sender))

    def mask(self, vector: NDArray[np.uint64], *, round: int, context: bytes | None) -> NDArray[np.uint64]:
        """Return the vector to be summed, under its self-mask and the pair masks of the epoch's roster."""
        check_words(vector, "vector")
        with self._at(round) as (epoch, state):
            if state.summed or state.statement:
                must = "have one summed vector, before signing"
                raise InvalidMessage(f"Round {round}", must, "a second or late one", "Use a new round.")
            _bind(state, context)
            state.summed = True
            own = self._self_key(epoch, round, kind=SUM, size=vector.size, bound=context)
            pairs = self._pair_keys(epoch, round, size=vector.size, bound=context)
            epoch.wipe_key(round)
            plus = [key for peer, key in pairs.items() if peer > self._links.name]
            minus = [key for peer, key in pairs.items() if peer < self._links.name]
            return masked(vector, plus=[own, *plus], minus=minus)

    def cover(self, vector: NDArray[np.uint64], *, round: int, context: bytes | None) -> NDArray[np.uint64]:
        """Return the vector to be released by itself, under its own self-mask."""
        check_words(vector, "vector")
        with self._at(round) as (epoch, state):
            if state.covered or state.statement:
                must = "have one covered vector, before signing"
                raise InvalidMessage(f"Round {round}", must, "a second or late one", "Use a new round.")
            _bind(state, context)
            state.covered = True
            own = self._self_key(epoch, round, kind=COVER, size=vector.size, bound=context)
            return masked(vector, plus=[own])

    def rely(self, *, round: int) -> bytes:
        """Return a signature of the context of this site's vectors, without which its seeds cannot be rebuilt."""
        with self._at(round) as (epoch, state):
            if state.bound is None or state.opened:
                what = f"Round {round} has no context to sign, or is opened"
                raise ProtocolError(what, remedy="Mask a vector with a context first.")
            return self._identity.sign(reliance(epoch.digest, round=round, context=state.bound, site=self._links.name))

    def sign(self, survivors: Sequence[str], *, round: int, context: bytes) -> bytes:
        """Return a signature of the one survivor set of a round, together with what was sent in it."""
        with self._at(round) as (epoch, state):
            if state.statement:
                must = "have one survivor set"
                raise InvalidMessage(f"Round {round}", must, "a second one", "The aggregator is at fault.")
            names = self._links.config.check_roster(survivors, within=tuple(epoch.keys))
            if self._links.name not in names:
                what = f"A survivor set must name the site it is sent to; {self._links.name} is missing"
                raise ProtocolError(what, remedy="The aggregator is at fault.")
            self._links.graph.check_connected(names)
            if not (state.summed or state.covered):
                why = f"this site sent no vector in round {round}"
                raise ProtocolError("The survivor set was not signed", why, "The aggregator is at fault.")
            if not isinstance(context, bytes):
                raise InvalidMessage("context", "be bytes", type(context).__name__, "Pass a digest.")
            if state.bound is not None and state.bound != context:
                why = "context differs from that of the masked vectors"
                raise ProtocolError("The survivor set was not signed", why, "The aggregator is at fault.")
            sent = {"summed": state.summed, "covered": state.covered}
            state.survivors = names
            state.statement = statement(epoch.digest, round=round, **sent, context=context, survivors=names)
            return self._identity.sign(state.statement)

    def open(self, survivors: Sequence[str], *, round: int, signatures: Mapping[str, bytes]) -> Opening:
        """Return the secrets that the signed survivor set requires, once threshold sites have signed it."""
        with self._at(round) as (epoch, state):
            self._check_open(state, survivors, signatures)
            state.opened = True
            dropped = set(epoch.keys).difference(state.survivors) if state.summed else set()
            opening = Opening(
                sender=self._links.name,
                epoch=epoch.number,
                round=round,
                sum_seed=epoch.secret(round, SUM) if state.summed else b"",
                cover_seed=epoch.secret(round, COVER) if state.covered else b"",
                key_shares={name: epoch.share(name, round, KEY) for name in sorted(dropped) if epoch.holds(name)},
            )
            epoch.keep_seed_shares(round)
            return opening

    def open_missing(
        self, missing: Sequence[str], *, round: int, relied_on: Mapping[str, bytes] | None = None
    ) -> SeedShares:
        """Return shares of the seeds of survivors that were lost after the set was signed.

        In a round with a context each of them must have signed it: the seeds of a site that was told something else
        would uncover a vector that relies on noise which the signers do not add.
        """
        with self._at(round) as (epoch, state):
            if not state.opened:
                why = f"this site has not opened round {round}"
                raise ProtocolError("Seed shares were refused", why, "Open the round first.")
            if not isinstance(missing, list | tuple) or any(not isinstance(name, str) for name in missing):
                raise InvalidMessage("missing", "be a list of site names", type(missing).__name__, "Pass names.")
            names = sorted(set(missing))
            if not set(names) <= set(state.survivors) - {self._links.name}:
                why = "they are not all of other signed survivors"
                raise ProtocolError("Seed shares were refused", why, "The aggregator is at fault.")
            shared = [name for name in names if epoch.holds(name)]
            if state.bound is not None:
                self._check_relied_on(epoch, shared, relied_on, round=round, context=state.bound)
            return SeedShares(
                sender=self._links.name,
                epoch=epoch.number,
                round=round,
                sum_shares={name: epoch.share(name, round, SUM) for name in shared if state.summed},
                cover_shares={name: epoch.share(name, round, COVER) for name in shared if state.covered},
            )

    @contextmanager
    def _at(self, round: int) -> Iterator[tuple[SiteEpoch, SiteRound]]:
        """Yield epoch and state of a round; a refusal inside makes the round unusable."""
        check_number(round, "round")
        epoch = self._epoch
        if epoch is None:
            raise ProtocolError("The message was refused", "no epoch was accepted", "Send offers first.")
        state = epoch.at(round)
        if state.spoiled:
            why = "a message in it was refused; its secrets are erased"
            raise ProtocolError(f"Round {round} is unusable", why, "Use a new round.")
        try:
            yield epoch, state
        except BaseException:
            state.spoiled = True
            epoch.wipe(round)
            raise

    @staticmethod
    def _self_key(epoch: SiteEpoch, round: int, *, kind: int, size: int, bound: bytes | None) -> bytes:
        """Return the key of one of this site's self-masks."""
        seed = epoch.secret(round, kind)
        return self_key(seed, kind, epoch_digest=epoch.digest, round=round, size=size, bound=bound)

    def _pair_keys(self, epoch: SiteEpoch, round: int, *, size: int, bound: bytes | None) -> dict[str, bytes]:
        """Return the mask keys shared with every neighbour in the epoch's roster."""
        private = X25519PrivateKey.from_private_bytes(epoch.secret(round, KEY))
        context = pair_context(epoch.digest, round=round, size=size, bound=bound)
        return {
            peer: pair_key(private, entry(epoch.keys[peer], round), names=(self._links.name, peer), context=context)
            for peer in self._links.graph.neighbours(self._links.name)
            if peer in epoch.keys
        }

    def _check_relied_on(
        self, epoch: SiteEpoch, names: Sequence[str], signatures: object, *, round: int, context: bytes
    ) -> None:
        """Refuse unless each of `names` signed that its vectors rely on this site's own context."""
        signed = signatures if isinstance(signatures, Mapping) else {}
        for name in names:
            message = reliance(epoch.digest, round=round, context=context, site=name)
            if not verify(self._pinned[name], signed.get(name), message):
                why = f"site {name} has not signed what this site relied on"
                raise ProtocolError("Seed shares were refused", why, "The aggregator is at fault.")

    def _check_open(self, state: SiteRound, survivors: Sequence[str], signatures: Mapping[str, bytes]) -> None:
        """Refuse to open unless threshold survivors, this site included, signed what this site signed."""
        if not state.statement or state.opened:
            why = "this site has not signed a survivor set, or opened already: a round is opened once"
            raise ProtocolError("The opening was refused", why, "Use a new round.")
        if not isinstance(survivors, list | tuple) or tuple(survivors) != state.survivors:
            why = "the survivor set is not the signed one, sorted"
            raise ProtocolError("The opening was refused", why, "The aggregator is at fault.")
        if not isinstance(signatures, Mapping) or not set(signatures) <= set(state.survivors):
            raise ProtocolError("The opening was refused", "a signer is not a survivor", "The aggregator is at fault.")
        others = {name: signature for name, signature in signatures.items() if name != self._links.name}
        for name, signature in others.items():
            if not verify(self._pinned[name], signature, state.statement):
                why = f"site {name} has not signed the same set"
                raise ProtocolError("The opening was refused", why, "Compare fingerprints with that site.")
        if len(others) + 1 < self._links.config.threshold:
            why = f"only {len(others) + 1} of {self._links.config.threshold} required sites signed"
            raise ProtocolError("The opening was refused", why, "Collect more signatures.")


def _bind(state: SiteRound, context: bytes | None) -> None:
    """Bind a round to the context of its vectors; all its vectors must have the same."""
    check_context(context)
    if (state.summed or state.covered) and state.bound != context:
        why = "all vectors of a round must have one context"
        raise ProtocolError("The vector was refused", why, "Use a new round.")
    state.bound = context
