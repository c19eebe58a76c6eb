"""An aggregator that mixes two noise agreements must not learn a site's draw.

It lets one site release on the first agreement and the others on a second one without it, then asks everybody for the
correction. If the draws could be added, the first site's would be what the second agreement does not explain, and its
release would be covered by its own noise alone.
"""

from __future__ import annotations

import numpy as np

from dpcape import Cape, Federation, Replay, in_process, rows
from dpcape.core.messages import (
    Array,
    Correct,
    Draw,
    Opened,
    Recovered,
    Request,
    Sign,
    Signed,
    Submit,
    Unmask,
    Vector,
    public_arrays,
)
from dpcape.core.protocols import cape
from dpcape.core.protocols.cape import agreement
from dpcape.core.protocols.secure_session import words_of
from dpcape.core.secure_sum.aggregate import RecoverRound
from dpcape.core.secure_sum.fixed_point import from_ring, to_ring
from dpcape.core.secure_sum.masking import retry_sum
from dpcape.core.secure_sum.session import Session
from dpcape.statistics.moments import first_moments

SITES = ("lima", "lyon", "oslo", "rome")
VICTIM, OTHERS = SITES[0], SITES[1:]


class _Mixing(cape._CapeCoordinator):
    """Follows the wire format, not the protocol."""

    def learn(self, request: Request, size: int) -> np.ndarray:
        """Return what the aggregator would take for the victim's draw."""
        gathered = self._next_round(1)
        first = self._agreed(request, 0, SITES, size)
        self._release(gathered, request, 0, SITES, first, (VICTIM,), size)
        second = self._agreed(request, 1, OTHERS, size)
        self._release(gathered, request, 1, OTHERS, second, OTHERS, size)
        replies, _ = self._ask_all(SITES, lambda _: Correct(release=0), Vector)
        for site, reply in replies.items():
            gathered.add_masked(site, words_of(reply, site, size, request.plan.word_bytes))
        names = gathered.settle(context=agreement(request, OTHERS, second))
        signed, _ = self._ask_all(OTHERS, lambda _: Sign(release=0, survivors=names), Signed)
        for site, reply in signed.items():
            gathered.add_signature(site, reply.signature)
        unmask = Unmask(release=0, survivors=names, signatures=gathered.quorum())
        opened, _ = self._ask_all(OTHERS, lambda _: unmask, Opened)
        for reply in opened.values():
            gathered.add_opening(reply.opening)
        help_out = Unmask(release=0, survivors=names, signatures=gathered.quorum(), missing=(VICTIM,))
        shares, _ = self._ask_all(OTHERS, lambda _: help_out, Recovered)
        for reply in shares.values():
            gathered.add_shares(reply.shares)
        return from_ring(gathered.total(), request.plan.word_bytes) - second

    def _agreed(self, request, attempt, roster, size):
        message = Draw(request=request, attempt=attempt, roster=roster)
        replies, _ = self._ask_all(roster, lambda _: message, Vector)
        word_bytes = request.plan.word_bytes
        words = {site: words_of(reply, site, size, word_bytes) for site, reply in replies.items()}
        return from_ring(retry_sum(roster, words), word_bytes)

    def _release(self, gathered, request, attempt, roster, agreed, sites, size):
        message = Submit(
            request=request,
            attempt=attempt,
            roster=roster,
            agreed=Array.of_words(to_ring(agreed), request.plan.word_bytes),
        )
        replies, _ = self._ask_all(sites, lambda _: message, Vector)
        for site, reply in replies.items():
            gathered.add_covered(site, words_of(reply, site, size, request.plan.word_bytes))


def _attack(monkeypatch) -> tuple[np.ndarray, np.ndarray]:
    """Return (what the aggregator computes, the victim's true draw)."""
    data = np.random.default_rng(3).normal(size=(4, 50, 3)) / 4
    line = in_process({name: rows(part, bound=1.0) for name, part in zip(SITES, data, strict=True)}, noise=Replay(5))
    protocol = Cape(n_colluding=0, minimum_sites=3)
    federation = Federation(line, protocol=protocol)
    monkeypatch.setattr(cape, "_CapeCoordinator", _Mixing)
    private = federation.allow(1.0, 1e-5)
    statistic = first_moments(federation.facts)
    plan = private.plan(statistic)
    request = Request(release=0, statistic=statistic.name, public=public_arrays(statistic.public), plan=plan)
    learnt = private._coordinator.learn(request, statistic.released_size)
    source = Replay(5).child(VICTIM, "allowance", 0).child("draw", 0, 0)
    return learnt, source.integer_gaussian(plan.shared_steps(VICTIM), statistic.released_size)


def _without_context(mask):
    return lambda self, *, round, vector, context: mask(self, round=round, vector=vector)


def test_mixed_attempts_reveal_no_draw(monkeypatch):
    learnt, draw = _attack(monkeypatch)
    assert not (learnt == draw).any()
    # What comes out is uniform modulo 2^48, far from the draws (2^37 here). The median of seven is below 2^40 by chance
    # with probability below 35 (2^-7)^4 = 1.3e-7.
    assert np.median(np.abs(draw)) < 2.0**39
    assert np.median(np.abs(learnt.astype(np.float64))) > 2.0**40


def test_without_binding_masks_the_draw_would_be_learnt(monkeypatch):
    """Shows that the attack above is real: it works once the masks are not bound to the agreement."""
    init = RecoverRound.__init__
    for name in ("recover_mask", "self_mask"):
        monkeypatch.setattr(Session, name, _without_context(getattr(Session, name)))
    monkeypatch.setattr(RecoverRound, "__init__", lambda self, epoch, *, round, bound: init(self, epoch, round=round))
    learnt, draw = _attack(monkeypatch)
    np.testing.assert_array_equal(learnt, draw)
