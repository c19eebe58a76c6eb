"""Secure-sum sessions of Cape and SecureSum: set-up, and opening a round for one signed survivor set."""

from __future__ import annotations

import hashlib
import logging
import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from dpcape.core.errors import InvalidMessage, InvalidParameter, ProtocolError
from dpcape.core.messages import (
    Accept,
    Accepted,
    FromSite,
    Greet,
    Greeting,
    Join,
    Offered,
    Opened,
    Recovered,
    Renew,
    Sign,
    Signed,
    Submit,
    ToSite,
    Unmask,
    Vector,
)
from dpcape.core.privacy.terms import Terms
from dpcape.core.protocols.protocol import (
    CoordinatorRole,
    Messenger,
    Protocol,
    SiteContext,
    SiteRole,
    check_colluding,
    check_least_sites,
    check_minimum,
)
from dpcape.core.secure_sum.config import Config, check_neighbours
from dpcape.core.secure_sum.messages import Hello, Offer
from dpcape.core.secure_sum.session import Session

if TYPE_CHECKING:
    from dpcape.core.secure_sum.aggregate import RecoverRound
    from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch

_log = logging.getLogger(__name__)

Words = NDArray[np.uint64]

# Rounds whose secrets are shared at once: few round trips, and little to discard when a site leaves.
EPOCH_ROUNDS = 100

TOO_FEW_FOR_A_SUM = "With two, each could infer the other's value. Use Independent()."

SECURE_SUM_ASSUMPTIONS = (
    "sites and aggregator follow the protocol (honest but curious)",
    "site identities are authentic: their fingerprints were compared outside the aggregator",
    "X25519, Ed25519, HKDF-SHA-256 and AES-256 are secure",
)


def check_sum_sites(protocol: Protocol, n_sites: int, minimum_sites: int | None) -> int:
    """Return the explicit ``minimum_sites`` of a secure sum, or raise if the parameters are infeasible."""
    check_least_sites(protocol, n_sites)
    check_colluding(protocol.colluding, n_sites)
    if protocol.colluding > n_sites - 2:
        must = f"be at most {n_sites - 2} for {type(protocol).__name__} with {n_sites} sites"
        remedy = "If all other sites may collude, use Independent(): it needs no more noise."
        raise InvalidParameter("n_colluding", must, protocol.colluding, remedy)
    least = max(protocol.least_sites, (n_sites + protocol.colluding) // 2 + 1)
    why = "With fewer, two different survivor sets could be signed (2 x minimum_sites must exceed sites + n_colluding)."
    return check_minimum(minimum_sites, n_sites, least, why)


def check_sum_neighbours(
    n_neighbours: int | None, n_sites: int, n_colluding: int, minimum_sites: int
) -> int | msgspec.UnsetType:
    """Return the ``n_neighbours`` of a secure sum for messages, or raise if it is infeasible.

    Sites certify every set of survivors, so a number that is too small costs runs, not privacy.
    """
    if n_neighbours is None:
        return msgspec.UNSET
    check_neighbours(n_neighbours, n_sites)
    least = enough_neighbours(n_sites, n_colluding, minimum_sites)
    if n_neighbours < least:
        advice = f"Use {least} or more." if least <= n_sites - 2 else "Leave it out for masks between all sites."
        raise InvalidParameter(
            "n_neighbours",
            f"be at least {least} with {n_sites} sites of which {n_colluding} may collude and {minimum_sites} must "
            "finish, or sets of survivors would be refused",
            n_neighbours,
            advice,
        )
    return n_neighbours


def enough_neighbours(n_sites: int, n_colluding: int, minimum_sites: int) -> int:
    """Return a number of neighbours with which sites nearly always certify the fewest survivors, dropped at random.

    With k neighbours left on average, the second eigenvalue of a random graph is near k - 2 sqrt(k); the last term is
    for the site that lost most. (``tests/secure_sum/test_graph.py`` tries it.)
    """
    share = minimum_sites / n_sites
    for number in range(4, n_sites, 2):
        n_left = number * share
        unlucky = math.sqrt(2 * math.log(minimum_sites) * n_left * (1 - share))
        if n_left - 2 * math.sqrt(n_left) - unlucky > n_colluding:
            return number
    return n_sites


def sum_assumptions(n_neighbours: int | None) -> tuple[str, ...]:
    """Return, in words, what the guarantee of a secure sum rests on."""
    if n_neighbours is None:
        return SECURE_SUM_ASSUMPTIONS
    sparse = (
        f"each site shares masks with at most {n_neighbours} others; sites refuse any set of survivors in which the "
        "colluding sites might separate honest ones"
    )
    return (*SECURE_SUM_ASSUMPTIONS, sparse)


def session_config(terms: Terms, sites: Sequence[str], session: int) -> Config:
    """Return the configuration of secure-sum session number ``session`` of an allowance."""
    neighbours = terms.settings.n_neighbours or 0
    return Config(
        sites=tuple(sorted(sites)),
        threshold=terms.settings.minimum_sites,
        n_colluding=terms.settings.n_colluding,
        purpose=hashlib.sha256(terms.digest() + session.to_bytes(8, "big")).digest(),
        # When few sites are left, masks between all of them cost no more.
        n_neighbours=neighbours if neighbours <= len(sites) - 2 else 0,
    )


def words_of(reply: Vector, site: str, size: int, word_bytes: int) -> Words:
    """Return a decoded masked vector, or raise unless it is ``size`` words of this many bytes."""
    words = reply.array.decode()
    n_bytes = len(reply.array.data)
    if words.dtype != np.uint64 or words.shape != (size,) or n_bytes != size * word_bytes:
        must, got = f"be {size} words of {word_bytes} bytes", f"{n_bytes} bytes as shape {words.shape} of {words.dtype}"
        raise InvalidMessage(f"The masked vector of {site}", must, got, "Install the same dpcape version everywhere.")
    return words


def add_context(gathered: RecoverRound, site: str, reply: Vector) -> None:
    """Keep the context signature that came with a site's masked release."""
    gathered.add_context(site, _relied_on(reply))


def _relied_on(reply: Vector) -> bytes:
    return b"" if reply.relied_on is msgspec.UNSET else reply.relied_on


class SessionCoordinator(CoordinatorRole):
    """Coordinator of a session of all present sites, renewed when a site leaves or the epoch is used up."""

    def __init__(self, messenger: Messenger, terms: Terms) -> None:
        super().__init__(messenger, terms)
        self._n_sessions = 0
        self._hellos: tuple[Hello, ...] = ()
        self._epoch: AggregatorEpoch | None = None
        self._round = -1

    def _next_round(self, releases_left: int) -> RecoverRound:
        """Return a round of a session among all present sites, with fresh round secrets."""
        epoch = self._epoch
        if epoch is None or set(epoch.config.sites) != set(self._present):
            epoch = self._establish(releases_left)
        elif self._round + 1 == epoch.n_rounds:
            epoch = self._renew(epoch, releases_left)
        self._round += 1
        # Imported here, because sites do not need the aggregator's code.
        from dpcape.core.secure_sum.aggregate import RecoverRound

        return RecoverRound(epoch, round=self._round, bound=True)

    def _establish(self, releases_left: int) -> AggregatorEpoch:
        """Return an epoch that all present sites have accepted, starting over when a site is lost."""
        while True:
            self._require_enough(self._present, "were present when keys were agreed")
            epoch = self._try_to_establish(min(releases_left, EPOCH_ROUNDS))
            if epoch is not None:
                return epoch

    def _try_to_establish(self, n_rounds: int) -> AggregatorEpoch | None:
        sites, number = self._present, self._n_sessions
        self._n_sessions += 1
        greetings, missing = self._ask_all(sites, lambda _: Greet(sites=sites, session=number), Greeting)
        if self._lost(missing):
            return None
        config = session_config(self._terms, sites, number)
        self._hellos = tuple(greetings[site].hello for site in config.sites)
        join = Join(hellos=self._hellos, epoch=0, n_rounds=n_rounds)
        offered, missing = self._ask_all(sites, lambda _: join, Offered)
        return None if self._lost(missing) else self._hand_round(config, offered)

    def _renew(self, epoch: AggregatorEpoch, releases_left: int) -> AggregatorEpoch:
        message = Renew(epoch=epoch.number + 1, n_rounds=min(releases_left, EPOCH_ROUNDS))
        offered, missing = self._ask_all(epoch.config.sites, lambda _: message, Offered)
        renewed = None if self._lost(missing) else self._hand_round(epoch.config, offered)
        return self._establish(releases_left) if renewed is None else renewed

    def _hand_round(self, config: Config, offered: Mapping[str, Offered]) -> AggregatorEpoch | None:
        """Send every site its boxes; return the epoch, or None if a site was lost."""
        offers = [offered[site].offer for site in config.sites]
        bare = [msgspec.structs.replace(offer, boxes={}) for offer in offers]
        accepted, missing = self._ask_all(
            config.sites,
            lambda site: Accept(offers=_addressed(offers, site, bare)),
            Accepted,
        )
        if self._lost(missing):
            return None
        pinned = {site: self._messenger.identities[site] for site in config.sites}
        from dpcape.core.secure_sum.aggregator_epoch import AggregatorEpoch

        epoch = AggregatorEpoch(config, hellos=self._hellos, offers=offers, pinned=pinned)
        for site, reply in accepted.items():
            epoch.confirm(site, reply.signature)
        self._epoch, self._round = epoch, -1
        return epoch

    def _lost(self, missing: Sequence[str]) -> bool:
        self._present = tuple(site for site in self._present if site not in missing)
        return bool(missing)

    def _ask_vectors(
        self, gathered: RecoverRound, submit: Submit, context: bytes, *, size: int, word_bytes: int
    ) -> tuple[dict[str, Words], bool]:
        """Return the vectors of sites that signed ``context`` with them, and whether any site of the roster was lost.

        A site whose signature is wrong counts as lost now. If it were lost later, its vector could not be opened.
        """
        replies, missing = self._ask_all(submit.roster, lambda _: submit, Vector)
        vectors = {site: words_of(reply, site, size, word_bytes) for site, reply in replies.items()}
        unsigned = [site for site, reply in replies.items() if not gathered.relies_on(site, _relied_on(reply), context)]
        for site in unsigned:
            _log.warning("%s counts as lost: its release came without a valid signature of what it relied on", site)
            del vectors[site]
        for site in vectors:
            add_context(gathered, site, replies[site])
        return vectors, self._lost((*missing, *unsigned))

    def _settle(self, gathered: RecoverRound, release: int, context: bytes) -> None:
        """Have the survivor set signed, then opened; sites may be lost in both steps as long as enough remain.

        All signers must agree on ``context``.
        """
        names = gathered.settle(context=context)
        signed, lost = self._ask_all(names, lambda _: Sign(release=release, survivors=names), Signed)
        self._require_enough(tuple(signed), "had signed the survivor set")
        for site, reply in signed.items():
            gathered.add_signature(site, reply.signature)
        unmask = Unmask(release=release, survivors=names, signatures=gathered.quorum())
        opened, also_lost = self._ask_all(tuple(signed), lambda _: unmask, Opened)
        self._lost((*lost, *also_lost))
        for answer in opened.values():
            gathered.add_opening(answer.opening)
        if gathered.missing:
            lacking = gathered.relied_on()
            request = msgspec.structs.replace(unmask, missing=gathered.missing, relied_on=lacking)
            self._recover(gathered, request, tuple(opened))

    def _recover(self, gathered: RecoverRound, message: Unmask, helpers: tuple[str, ...]) -> None:
        """Rebuild the seeds of survivors that were lost before they opened, from the others' shares."""
        self._require_enough(helpers, "had opened the round")
        shares, lost = self._ask_all(helpers, lambda _: message, Recovered)
        self._lost(lost)
        self._require_enough(tuple(shares), "could help to open the round")
        for reply in shares.values():
            gathered.add_shares(reply.shares)


def _addressed(offers: Sequence[Offer], site: str, bare: Sequence[Offer]) -> tuple[Offer, ...]:
    """Return the offers, each with only the site's box; ``bare`` are the same offers without boxes."""
    return tuple(
        offer.addressed_to(site) if site in offer.boxes else without
        for offer, without in zip(offers, bare, strict=True)
    )


class SessionSite(SiteRole):
    """Role of a site in a session; subclasses answer the messages of a release."""

    def __init__(self, site: SiteContext) -> None:
        super().__init__(site)
        self._session: Session | None = None
        self._n_sessions = 0
        self._round = -1
        # The current release, and the round of the current epoch that serves it.
        self._round_of: dict[int, int] = {}

    def answer(self, message: ToSite) -> FromSite:
        if isinstance(message, Greet):
            return self._greet(message)
        session = self._running()
        if isinstance(message, Join):
            session.begin(message.hellos)
            return Offered(offer=self._offer(session, message.epoch, message.n_rounds))
        if isinstance(message, Renew):
            return Offered(offer=self._offer(session, message.epoch, message.n_rounds))
        if isinstance(message, Accept):
            signature = session.accept(message.offers)
            self._round = -1
            self._round_of = {}
            return Accepted(signature=signature)
        if isinstance(message, Sign):
            return self._sign(session, message)
        if isinstance(message, Unmask):
            return self._unmask(session, message)
        return self.answer_release(message)

    def completes(self, message: ToSite) -> int | None:
        return message.release if isinstance(message, Unmask) else None

    def forget(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    @abstractmethod
    def answer_release(self, message: ToSite) -> FromSite:
        """Return the reply to a message of a release."""

    def _greet(self, message: Greet) -> FromSite:
        terms = self._site.terms
        if message.session < self._n_sessions:
            got = f"{message.session}, an earlier session"
            raise InvalidMessage("session", f"be at least {self._n_sessions}", got, "Start a new run.")
        if not set(message.sites) <= set(terms.sites) or self._site.name not in message.sites:
            why = "its sites are not sites of the terms, or omit this one"
            raise ProtocolError("The session was refused", why, "Start a new run.")
        if len(message.sites) < terms.settings.minimum_sites:
            must = f"have at least {terms.settings.minimum_sites} sites"
            raise InvalidMessage("A session", must, len(message.sites), "Start a new run when more sites are present.")
        self._n_sessions = message.session + 1
        pinned = {site: self._site.pinned[site] for site in message.sites}
        config = session_config(terms, message.sites, message.session)
        self.forget()
        self._session = Session(self._site.name, self._site.identity, pinned=pinned, config=config)
        self._round = -1
        self._round_of = {}
        return Greeting(hello=self._session.hello())

    @staticmethod
    def _offer(session: Session, epoch: int, n_rounds: int) -> Offer:
        if not 1 <= n_rounds <= EPOCH_ROUNDS:
            remedy = "Install the same dpcape version everywhere."
            raise InvalidMessage("n_rounds", f"be between 1 and {EPOCH_ROUNDS}", n_rounds, remedy)
        return session.offer(epoch=epoch, n_rounds=n_rounds)

    def _running(self) -> Session:
        if self._session is None:
            raise ProtocolError("The message was refused", "no session was begun", "Send Greet first.")
        return self._session

    def _enter(self, release: int) -> int:
        """Return the round that serves this release: the next unused one of the epoch."""
        if release not in self._round_of:
            self._round += 1
            self._round_of = {release: self._round}
        return self._round_of[release]

    def _entered(self, release: int) -> int:
        if release not in self._round_of:
            why = "its release was not submitted in this round"
            raise ProtocolError("The message was refused", why, "Start a new run.")
        return self._round_of[release]

    def _sign(self, session: Session, message: Sign) -> FromSite:
        least = self._site.terms.settings.minimum_sites
        if len(message.survivors) < least:
            remedy = "Start a new run when more sites are present."
            raise InvalidMessage("A survivor set", f"have at least {least} sites", len(message.survivors), remedy)
        signature = session.sign_survivors(
            round=self._entered(message.release),
            survivors=message.survivors,
            context=self.context(message.release),
        )
        return Signed(signature=signature)

    def _unmask(self, session: Session, message: Unmask) -> FromSite:
        number = self._entered(message.release)
        if message.missing:
            shares = session.open_missing(round=number, missing=message.missing, relied_on=message.relied_on)
            return Recovered(shares=shares)
        opening = session.open(round=number, survivors=message.survivors, signatures=message.signatures)
        return Opened(opening=opening)

    @abstractmethod
    def context(self, release: int) -> bytes:
        """Return what all signers must agree on besides the survivor set: the request, the agreed sum."""
