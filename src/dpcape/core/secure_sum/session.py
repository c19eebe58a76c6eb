"""A site's session: checks messages, masks vectors, signs and opens, and refuses everything else."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from dpcape.core.errors import InvalidMessage, InvalidParameter, ProtocolError
from dpcape.core.secure_sum.config import Config
from dpcape.core.secure_sum.identity import KEY_BYTES, Identity, forget_signatures
from dpcape.core.secure_sum.links import check_hellos, forget_hellos, make_hello, make_links
from dpcape.core.secure_sum.masking import Retry
from dpcape.core.secure_sum.messages import Hello, Offer, Opening, SeedShares
from dpcape.core.secure_sum.offers import forget_offers
from dpcape.core.secure_sum.recover import Recover
from dpcape.core.secure_sum.sealed import Sealed
from dpcape.core.secure_sum.transcript import forget_digests, grouped

_T = TypeVar("_T")


class Session(Sealed):
    """Session of secure sums at one site.

    Only this object holds the secrets: it cannot be pickled, copied or used in a forked process, and a
    restarted site begins a new session. It opens no connection and reads no file; its methods take messages
    and return messages.

    Parameters
    ----------
    name : str
        This site's name in `config.sites`.
    identity : Identity
        This site's signing key.
    pinned : Mapping[str, bytes]
        Identity keys of all sites, this one included, that this site trusts.
    config : Config
        The agreed terms.

    Privacy
    -------
    Against an aggregator that deviates arbitrarily from the protocol and shares everything it knows with
    `config.n_colluding` sites, nothing about an honest site's vectors is revealed beyond the sum over one roster
    (RETRY) or one signed survivor set (RECOVER) of at least `config.floor` sites, and the covered vectors of that set.
    The proof and its limits are in docs/secure_sum.md.

    Edge cases
    ----------
    ===================================  ==================================================
    a method before `begin`              ProtocolError
    a refused message in a round         ProtocolError; the round's secrets are overwritten
    a vector of a wrong type             InvalidParameter; nothing is used up
    use after `close`                    ProtocolError
    use in a forked process              ProtocolError
    ===================================  ==================================================
    """

    __slots__ = (
        "_config", "_hello", "_identity", "_lock", "_name", "_pinned", "_private", "_process", "_recover",
        "_retry", "_session_id",
    )  # fmt: skip

    def __init__(self, name: str, identity: Identity, *, pinned: Mapping[str, bytes], config: Config) -> None:
        _check_pinned(name, identity, pinned=pinned, config=config)
        # Clear the caches of earlier sessions here and not in close(): sites in one process close
        # while others still check what all of them signed.
        for forget in (forget_digests, forget_signatures, forget_hellos, forget_offers):
            forget()
        self._name, self._identity, self._config = name, identity, config
        self._pinned = {site: pinned[site] for site in config.sites}
        self._lock, self._process = threading.Lock(), os.getpid()
        self._private: X25519PrivateKey | None = X25519PrivateKey.generate()
        self._hello = make_hello(name, identity, config=config, private=self._private)
        self._session_id = b""
        self._retry: Retry | None = None
        self._recover: Recover | None = None

    @property
    def session_id(self) -> bytes:
        """32 bytes that all sites of the session share; empty before `begin`."""
        return self._session_id

    @property
    def session_words(self) -> str:
        """Text of the session id, for operators to compare."""
        return grouped(self._session_id) if self._session_id else ""

    def hello(self) -> Hello:
        """Return the first message of this site."""
        return self._hello

    def begin(self, hellos: Sequence[Hello]) -> None:
        """Check the hellos of all sites and agree on pair secrets; can be tried once per session."""
        with self._alone():
            private, self._private = self._private, None
            if private is None:
                raise InvalidMessage("A session", "begin once", "hellos again", "Make a new session.")
            by_sender, session_id = check_hellos(hellos, config=self._config, pinned=self._pinned)
            if by_sender[self._name] != self._hello:
                why = "this site's own hello was changed"
                raise ProtocolError("The session was refused", why, "The aggregator is at fault.")
            links = make_links(
                self._name, config=self._config, private=private, hellos=by_sender, session_id=session_id
            )
            self._retry = Retry(links)
            self._recover = Recover(links, self._identity, pinned=self._pinned)
            self._session_id = session_id

    def retry_mask(
        self,
        *,
        round: int,
        attempt: int,
        roster: Sequence[str],
        vector: NDArray[np.uint64],
        context: bytes | None = None,
    ) -> NDArray[np.uint64]:
        """RETRY: return a masked copy of a freshly drawn vector. (round, attempt) must increase.

        `context` is what the vector depends on, for instance the noise it was drawn for. Vectors of different contexts
        cannot be summed.
        """
        with self._alone():
            retry = _begun(self._retry)
            return retry.mask(vector, round=round, attempt=attempt, roster=roster, context=context)

    def offer(self, *, epoch: int, n_rounds: int) -> Offer:
        """RECOVER: return fresh secrets for the rounds 0 .. n_rounds - 1 of an epoch. Ends the previous epoch."""
        with self._alone():
            return _begun(self._recover).offer(epoch, n_rounds=n_rounds)

    def accept(self, offers: Sequence[Offer]) -> bytes:
        """RECOVER: check the offers of the epoch's roster (its senders) and keep the shares.

        The result is a signature of what was accepted, for `AggregatorEpoch.confirm`.
        """
        with self._alone():
            return _begun(self._recover).accept(offers)

    def recover_mask(
        self, *, round: int, vector: NDArray[np.uint64], context: bytes | None = None
    ) -> NDArray[np.uint64]:
        """RECOVER: return a masked copy of the one vector of the round that is to be summed.

        `context` is what the vector depends on besides records, for instance an agreed sum and its roster. If given,
        `sign_survivors` must repeat it, and vectors of different contexts cannot be summed.
        """
        with self._alone():
            return _begun(self._recover).mask(vector, round=round, context=context)

    def self_mask(self, *, round: int, vector: NDArray[np.uint64], context: bytes | None = None) -> NDArray[np.uint64]:
        """RECOVER: return a masked copy of the one vector of the round that is to be released by itself."""
        with self._alone():
            return _begun(self._recover).cover(vector, round=round, context=context)

    def sign_context(self, *, round: int) -> bytes:
        """RECOVER: return a signature of the context of this site's vectors, to be sent with the first of them.

        Should this site be lost, the others rebuild its seeds only if it signed the context that is theirs.
        """
        with self._alone():
            return _begun(self._recover).rely(round=round)

    def sign_survivors(self, *, round: int, survivors: Sequence[str], context: bytes = b"") -> bytes:
        """RECOVER: return a signature of the round's one survivor set and of what else all sites must agree on."""
        with self._alone():
            return _begun(self._recover).sign(survivors, round=round, context=context)

    def open(self, *, round: int, survivors: Sequence[str], signatures: Mapping[str, bytes]) -> Opening:
        """RECOVER: return the secrets that the signed set requires, once `threshold` survivors have signed it."""
        with self._alone():
            return _begun(self._recover).open(survivors, round=round, signatures=signatures)

    def open_missing(
        self, *, round: int, missing: Sequence[str], relied_on: Mapping[str, bytes] | None = None
    ) -> SeedShares:
        """RECOVER: return shares of the seeds of survivors that were lost before they opened.

        `relied_on` holds what these survivors returned from `sign_context`; a round without a context needs none.
        """
        with self._alone():
            return _begun(self._recover).open_missing(missing, round=round, relied_on=relied_on)

    def close(self) -> None:
        """Overwrite and drop all secrets; every later request is refused."""
        with self._alone():
            if self._recover is not None:
                self._recover.forget()
            self._private = self._retry = self._recover = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Allow one call at a time, in the process that made the session: a copied state would use masks twice."""
        if os.getpid() != self._process:
            must = "stay in the process that made it"
            raise InvalidMessage("A session", must, "a call from a forked process", "Make a new session.")
        with self._lock:
            yield

    def __repr__(self) -> str:
        return f"Session({self._name!r}, session={self.session_words!r})"


def _begun(state: _T | None) -> _T:
    """Return a part of a session that exists only after `begin`."""
    if state is None:
        raise ProtocolError("The request was refused", "the session has not begun", "Call begin() with the hellos.")
    return state


def _check_pinned(name: str, identity: Identity, *, pinned: Mapping[str, bytes], config: Config) -> None:
    """Refuse pinned keys that are incomplete, repeated, or wrong for this site."""
    if name not in config.sites:
        raise InvalidParameter("name", f"be one of {', '.join(config.sites):.200}", repr(name), "Use this site's name.")
    missing = [site for site in config.sites if site not in pinned]
    if missing:
        must = f"have an identity key for every site; {', '.join(missing)} missing"
        raise InvalidParameter("pinned", must, remedy="Pin the missing keys.")
    keys = [pinned[site] for site in config.sites]
    if any(not isinstance(key, bytes) or len(key) != KEY_BYTES for key in keys):
        got = "a different length or type"
        raise InvalidParameter("pinned identity keys", f"be {KEY_BYTES} bytes", got, "Pin them again.")
    if len(set(keys)) != len(keys):
        raise InvalidParameter("pinned identity keys", "be distinct", "one key under two names", "Pin them again.")
    if pinned[name] != identity.public:
        must = f"have this site's own public key under {name!r}"
        raise InvalidParameter("pinned", must, "a different key", "Pin identity.public.")
