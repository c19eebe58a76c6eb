"""The aggregator of test_hostile_aggregator.py, which also tells sites different contexts.

After every opening and every share its whole knowledge is searched. In each round the honest sites whose seeds it has
were told the same, and so were those whose sum it knows; what others sent stays masked.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from dpcape.core.secure_sum.offers import COVER, SUM
from dpcape.core.secure_sum.round_keys import reliance

from .consortium import added
from .test_hostile_aggregator import CONTEXT, N_ROUNDS, PLACE, ROUND, SET, HostileAggregator

OFTEN = st.sampled_from([b"", b"", b"", b"other"])


class TellingAggregator(HostileAggregator):
    def told(self, name: str, round: int) -> bytes | None:
        """Return the context that a site is bound to."""
        return self.sites.sites[name]._recover._epoch.at(round).bound

    @rule(round=ROUND, place=PLACE, context=CONTEXT)
    def take_summed(self, round: int, place: int, context: bytes = b"") -> None:
        name = self.honest(place)
        vector = self.ask(name, "recover_mask", round=round, vector=self.vectors[round][name], context=context)
        if vector is not None:
            self.adversary.summed[name, round] = vector

    @rule(round=ROUND, place=PLACE, context=CONTEXT)
    def take_covered(self, round: int, place: int, context: bytes = b"") -> None:
        name, vector = self.honest(place), self.vectors[N_ROUNDS + round][self.honest(place)]
        covered = self.ask(name, "self_mask", round=round, vector=vector, context=context)
        if covered is not None:
            self.adversary.covered[name, round] = covered

    @rule(round=ROUND, place=PLACE, asked=st.sets(PLACE), context=CONTEXT, swapped=st.booleans())
    def have_shares(self, round: int, place: int, asked: set[int], context: bytes = b"", swapped: bool = False) -> None:
        """Colluding sites sign any context; honest ones their own, which may be shown for that of another site."""
        names = sorted({self.sites.names[k % len(self.sites.names)] for k in asked})
        shown = {name: self.reliance(name, round, context) for name in names}
        if swapped:
            shown = dict(zip(names, reversed(shown.values()), strict=True))
        relied_on = {name: signature for name, signature in shown.items() if signature is not None}
        request = {"round": round, "missing": names, "relied_on": relied_on}
        shares = self.ask(self.honest(place), "open_missing", **request)
        if shares is not None:
            self.adversary.seed_shares.append(shares)
            self.search(round)

    def reliance(self, name: str, round: int, context: bytes) -> bytes | None:
        if name in self.adversary.honest:
            signed: bytes | None = self.ask(name, "sign_context", round=round)
            return signed
        message = reliance(self.adversary.epoch.digest, round=round, context=context, site=name)
        return self.sites.identities[name].sign(message)

    @rule(round=ROUND, chosen=SET, covers=st.booleans(), lost=PLACE, contexts=st.lists(OFTEN, min_size=6, max_size=6))
    def run_with_contexts(self, round: int, chosen: int, covers: bool, lost: int, contexts: list[bytes]) -> None:
        """Everybody sends what it is told; then the round runs as far as sites go along."""
        for place in range(len(self.adversary.honest)):
            self.take_summed(round, place, contexts[place])
            if covers:
                self.take_covered(round, place, contexts[place])
        self.finish(round, chosen, lost)

    def search(self, round: int) -> None:
        """Fail if the adversary has seeds of sites that were told different things, or reads what it must not."""
        assert len(self.opened[round]) <= 1, "two survivor sets were opened"
        known = {
            kind: [name for name in self.adversary.honest if self.adversary.secret(name, round, kind) is not None]
            for kind in (SUM, COVER)
        }
        told = {self.told(name, round) for names in known.values() for name in names}
        assert len(told) <= 1, "seeds of sites that were told different things"
        self.adversary.bound = next(iter(told), None)
        for name, release in self.adversary.releases(round).items():
            np.testing.assert_array_equal(release, self.vectors[N_ROUNDS + round][name])
            self.learned.update(releases=1)
        for group, total in self.adversary.sums(round).items():
            assert {self.told(name, round) for name in group} == told
            np.testing.assert_array_equal(total, added(self.vectors[round], group))
            self.learned.update(sums=1)


def test_an_aggregator_that_tells_sites_different_things_learns_what_one_context_gives() -> None:
    TellingAggregator.learned.clear()
    limits = settings(max_examples=120, stateful_step_count=25, deadline=None, derandomize=True)
    run_state_machine_as_test(TellingAggregator, settings=limits)
    # It did learn what it may.
    assert min(TellingAggregator.learned[kind] for kind in ("sums", "releases")) > 20


class Helpful(TellingAggregator):
    """The same, with sites that give shares whatever the lost site relied on."""

    def ask(self, name: str, method: str, **request: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dpcape.core.secure_sum.recover.Recover._check_relied_on", lambda *_, **__: None)
            return super().ask(name, method, **request)


def test_the_search_finds_shares_for_another_context() -> None:
    # It ends at the first example that shows it; which one that is changes with Hypothesis.
    limits = settings(
        max_examples=2_000,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(Helpful, settings=limits)
