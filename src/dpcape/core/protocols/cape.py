"""CAPE: noise that is large at each site and cancels in the sum (dissertation, algorithms 3.1 and 3.2).

Sites agree on zero-sum noise by a secure sum of integer draws; each release carries it together with the site's own
noise. Three departures from the papers: the draws are large, since they cancel; the accounting lets colluding sites
know their own draws; a release is sent under a one-round mask that is opened only for one signed survivor set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcape.core.arrays import IntArray
from dpcape.core.errors import InvalidMessage, ProtocolError
from dpcape.core.messages import Array, Correct, Draw, FromSite, Request, Submit, ToSite, Unmask, Vector
from dpcape.core.privacy.calibration import ReleaseNoise
from dpcape.core.privacy.terms import ProtocolSettings, Terms
from dpcape.core.protocols.parameters import (
    CANCELLING_RATIO,
    MINIMUM_SITES,
    N_COLLUDING,
    N_NEIGHBOURS,
    ProtocolParameter,
)
from dpcape.core.protocols.protocol import CoordinatorRole, Messenger, Outcome, SiteContext, SiteRole, request_digest
from dpcape.core.protocols.secure_session import (
    TOO_FEW_FOR_A_SUM,
    SessionCoordinator,
    SessionSite,
    check_sum_neighbours,
    check_sum_sites,
    sum_assumptions,
    words_of,
)
from dpcape.core.protocols.zero_sum import ZeroSum, check_ratio
from dpcape.core.secure_sum.fixed_point import WORD_BYTES, from_ring, to_ring, zero_sum_share
from dpcape.core.secure_sum.masking import retry_sum
from dpcape.core.secure_sum.session import Session

if TYPE_CHECKING:
    from dpcape.core.secure_sum.aggregate import RecoverRound


@dataclass(frozen=True, kw_only=True)
class Cape(ZeroSum):
    """Correlated noise that cancels in the sum.

    With c of n sites colluding and none dropping out, the aggregate carries sqrt(n / (n - c)) times the noise of pooled
    data, within 0.5%.

    Parameters
    ----------
    n_colluding : int
        Number of sites that may share everything they know with the aggregator; no default.
    minimum_sites : int or None
        Number of sites that must finish; None for all. Noise is calibrated for the fewest.
    cancelling_ratio : float
        Variance of a site's cancelling draw over n times that of its own noise. The papers use 1; a larger ratio costs
        no accuracy.
    n_neighbours : int or None
        Largest number of sites that a site shares masks with, for hundreds of sites; None for all. Noise and guarantee
        do not depend on it; a set of survivors that colluding sites might split is refused.

    Privacy
    -------
    Holds against the aggregator colluding with any ``n_colluding`` sites, honest but curious, if at least
    ``minimum_sites`` finish. View: releases of the honest survivors, the sum of draws, colluders' draws, the one
    correction.

    References
    ----------
    H. Imtiaz and A. D. Sarwate, *Distributed differentially private algorithms for matrix and tensor factorization*,
    2018.
    """

    n_colluding: int
    minimum_sites: int | None = None
    cancelling_ratio: float = 100.0
    n_neighbours: int | None = None

    name: ClassVar[str] = "cape"
    title: ClassVar[str] = "CAPE"
    summary: ClassVar[str] = "noise cancels in the sum"
    seen: ClassVar[str] = (
        "The aggregator sees the noisy total of every site. Noise that the sites agreed on cancels in the sum over "
        "sites; each site's own stays in the result."
    )
    parameters: ClassVar[tuple[ProtocolParameter, ...]] = (N_COLLUDING, MINIMUM_SITES, CANCELLING_RATIO, N_NEIGHBOURS)
    rank: ClassVar[int] = 1
    least_sites: ClassVar[int] = 3
    too_few: ClassVar[str] = TOO_FEW_FOR_A_SUM
    vectors: ClassVar[int] = 2

    def settings(self, n_sites: int) -> ProtocolSettings:
        least = check_sum_sites(self, n_sites, self.minimum_sites)
        return ProtocolSettings(
            name=self.name,
            n_colluding=self.n_colluding,
            minimum_sites=least,
            cancelling_ratio=check_ratio(self.cancelling_ratio),
            n_neighbours=check_sum_neighbours(self.n_neighbours, n_sites, self.n_colluding, least),
        )

    @classmethod
    def from_settings(cls, settings: ProtocolSettings) -> Cape:
        return cls(
            n_colluding=settings.n_colluding,
            minimum_sites=settings.minimum_sites,
            cancelling_ratio=settings.cancelling_ratio,
            n_neighbours=settings.n_neighbours or None,
        )

    def n_honest(self, n_sites: int) -> int:
        return self.settings(n_sites).minimum_sites - self.n_colluding

    def assumptions(self) -> tuple[str, ...]:
        return sum_assumptions(self.n_neighbours)

    def coordinator(self, messenger: Messenger, terms: Terms) -> CoordinatorRole:
        return _CapeCoordinator(messenger, terms)

    def site_role(self, site: SiteContext) -> SiteRole:
        return _CapeSite(site)


class _CapeCoordinator(SessionCoordinator):
    def run(self, request: Request, plan: ReleaseNoise, size: int) -> Outcome:
        gathered = self._next_round(len(self._terms.shares) - request.release)
        word_bytes = plan.word_bytes
        roster, attempt, agreed = self._agree(request, size, word_bytes)
        sent = Array.of_words(to_ring(agreed), word_bytes)
        submit = Submit(request=request, attempt=attempt, roster=roster, agreed=sent)
        context = agreement(request, attempt, roster, agreed)
        vectors, any_lost = self._ask_vectors(gathered, submit, context, size=size, word_bytes=word_bytes)
        self._require_enough(tuple(vectors), "had sent their release")
        for site, words in vectors.items():
            gathered.add_covered(site, words)
        if any_lost:
            self._correct(gathered, request.release, tuple(vectors), size, word_bytes)
        self._settle(gathered, request.release, context)
        return Outcome(total=self._sum(gathered, roster, agreed, word_bytes), survivors=gathered.survivors)

    def _agree(self, request: Request, size: int, word_bytes: int) -> tuple[tuple[str, ...], int, IntArray]:
        """Return the sum of fresh draws of all present sites; a lost site means a new attempt with new draws."""
        attempt = 0
        while True:
            roster = self._present
            self._require_enough(roster, "were present when noise was agreed")
            replies, missing = self._ask_draws(Draw(request=request, attempt=attempt, roster=roster))
            if not self._lost(missing):
                masked = {site: words_of(reply, site, size, word_bytes) for site, reply in replies.items()}
                total = from_ring(retry_sum(roster, masked), word_bytes)
                return roster, attempt, self._read("sum of draws", "", total)
            attempt += 1

    def _ask_draws(self, message: Draw) -> tuple[dict[str, Vector], tuple[str, ...]]:
        return self._ask_all(message.roster, lambda _: message, Vector)

    def _correct(
        self, gathered: RecoverRound, release: int, present: tuple[str, ...], size: int, word_bytes: int
    ) -> None:
        """Ask the remaining sites for their draws under recoverable masks; the sites that answer are the survivors."""
        replies, missing = self._ask_all(present, lambda _: Correct(release=release), Vector)
        self._lost(missing)
        self._require_enough(tuple(replies), "could take part in the correction")
        for site, reply in replies.items():
            gathered.add_masked(site, words_of(reply, site, size, word_bytes))

    def _sum(self, gathered: RecoverRound, roster: tuple[str, ...], agreed: IntArray, word_bytes: int) -> IntArray:
        """Return the sum of the survivors' releases, with the remainder of their draws cancelled."""
        total = np.zeros(agreed.size, dtype=np.int64)
        for site, words in gathered.releases().items():
            total += self._read("release", site, from_ring(words, word_bytes))
        if len(gathered.survivors) == len(roster):
            return total
        ranks = [sorted(roster).index(site) for site in gathered.survivors]
        taken = np.sum([zero_sum_share(agreed, len(roster), rank=rank) for rank in ranks], axis=0)
        correction = self._read("correction", "", from_ring(gathered.total(), word_bytes))
        corrected: IntArray = total - (correction - taken)
        return corrected


class _CapeSite(SessionSite):
    def __init__(self, site: SiteContext) -> None:
        super().__init__(site)
        self._release = -1
        self._attempt = -1
        self._drawn_for = b""
        self._roster: tuple[str, ...] = ()
        self._drawn: IntArray | None = None
        self._word_bytes = WORD_BYTES
        self._context = b""

    def answer_release(self, message: ToSite) -> FromSite:
        if isinstance(message, Draw):
            return self._draw(message)
        if isinstance(message, Submit):
            return self._submit(message)
        if isinstance(message, Correct):
            return self._correct(message)
        must, remedy = "be Draw, Submit or Correct", "Install the same dpcape version everywhere."
        raise InvalidMessage("A message to a site under Cape", must, type(message).__name__, remedy)

    def _draw(self, message: Draw) -> FromSite:
        request = message.request
        if request.release < self._release or (
            request.release == self._release and (message.attempt <= self._attempt or self._context)
        ):
            why = "its attempt is not newer than the last one"
            raise ProtocolError("The noise agreement was refused", why, "Start a new run.")
        # Begin only after this check, so that an old request cannot replace the current one.
        plan = self._site.begin(request)
        self._enter(request.release)
        self._forget_draw()
        self._release, self._attempt, self._context = request.release, message.attempt, b""
        self._roster, self._drawn_for = tuple(sorted(message.roster)), request_digest(request)
        source = self._site.noise("draw", request.release, message.attempt)
        size = self._site.size(request)
        drawn = source.integer_gaussian(plan.shared_steps(self._site.name), size)
        # Bound to the request: draws of different plans cannot be summed.
        masked = self._running().retry_mask(
            round=request.release,
            attempt=message.attempt,
            roster=self._roster,
            vector=to_ring(drawn),
            context=self._drawn_for,
        )
        # Stored only now, so that a draw whose agreement was refused is never used in a release.
        self._drawn, self._word_bytes = drawn, plan.word_bytes
        return Vector(array=Array.of_words(masked, plan.word_bytes))

    def _submit(self, message: Submit) -> FromSite:
        release = message.request.release
        if self._drawn is None or self._context or release != self._release or message.attempt != self._attempt:
            why = "it does not follow its own noise agreement"
            raise ProtocolError("The release was refused", why, "Start a new run.")
        if tuple(sorted(message.roster)) != self._roster:
            why = "its roster differs from that of the noise agreement"
            raise ProtocolError("The release was refused", why, "Start a new run.")
        if request_digest(message.request) != self._drawn_for:
            why = "its request differs from that of the noise agreement"
            raise ProtocolError("The release was refused", why, "Start a new run.")
        plan = self._site.begin(message.request)
        agreed = _agreed_sum(message, self._drawn.size, plan.word_bytes)
        number = self._entered(release)
        self._context = agreement(message.request, self._attempt, self._roster, agreed)
        rank = self._roster.index(self._site.name)
        release_steps = self._site.steps(message.request)
        release_steps += self._drawn
        release_steps -= zero_sum_share(agreed, len(self._roster), rank=rank)
        own = self._site.noise("own", release)
        release_steps += own.integer_gaussian(plan.own_steps(self._site.name), release_steps.size)
        session = self._running()
        covered = session.self_mask(round=number, vector=to_ring(release_steps), context=self._context)
        return Vector(array=Array.of_words(covered, plan.word_bytes), relied_on=session.sign_context(round=number))

    def _correct(self, message: Correct) -> FromSite:
        if self._drawn is None or not self._context or message.release != self._release:
            why = "it does not follow the release it corrects"
            raise ProtocolError("The correction was refused", why, "Start a new run.")
        number = self._entered(message.release)
        # Bound to the agreement: draws of different attempts cannot be summed.
        masked = self._running().recover_mask(round=number, vector=to_ring(self._drawn), context=self._context)
        self._forget_draw()
        return Vector(array=Array.of_words(masked, self._word_bytes))

    def forget(self) -> None:
        self._forget_draw()
        super().forget()

    def _unmask(self, session: Session, message: Unmask) -> FromSite:
        opened = super()._unmask(session, message)
        # Corrections precede the signing of the survivor set, so the draw is no longer needed.
        self._forget_draw()
        return opened

    def _forget_draw(self) -> None:
        if self._drawn is not None:
            self._drawn[:] = 0
        self._drawn = None

    def context(self, release: int) -> bytes:
        if release != self._release or not self._context:
            why = "it is not for the current release"
            raise ProtocolError("The survivor set was not signed", why, "Start a new run.")
        return self._context


def _agreed_sum(message: Submit, size: int, word_bytes: int) -> IntArray:
    """Return the agreed sum of draws, or raise unless it is ``size`` words of this many bytes."""
    sent = message.agreed
    words = sent.decode() if sent is not None else None
    if sent is None or words is None or words.dtype != np.uint64 or len(sent.data) != size * word_bytes:
        got = "no array" if sent is None else f"{len(sent.data)} bytes of {sent.dtype}"
        remedy = "Install the same dpcape version everywhere."
        raise InvalidMessage("The agreed sum", f"be {size} words of {word_bytes} bytes", got, remedy)
    return from_ring(words.ravel(), word_bytes)


def agreement(request: Request, attempt: int, roster: Sequence[str], agreed: IntArray) -> bytes:
    """Return the digest of a noise agreement: sites with different agreements cannot sign the same survivor set."""
    names = "\0".join(sorted(roster)).encode()
    head = request_digest(request) + attempt.to_bytes(8, "big")
    hashed = hashlib.sha256(b"dpcape agreement 3" + head + names + b"\0")
    hashed.update(np.ascontiguousarray(agreed).data)
    return hashed.digest()
