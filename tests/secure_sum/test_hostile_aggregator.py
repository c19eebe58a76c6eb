"""An aggregator that asks anything of anybody in any order, with colluding sites that sign whatever it likes.

After every opening its whole knowledge is searched (adversary.py). In each round it may know the sum over
the honest part of one signed survivor set and the covered vectors of that set, and nothing else. A refusal is
always a ProtocolError.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from dpcape.core.errors import ProtocolError
from dpcape.core.secure_sum.round_keys import statement

from .adversary import Adversary
from .consortium import Consortium, added

N_ROUNDS = 2
SIZES = [(4, 3, 1), (5, 3, 0), (5, 4, 1), (6, 4, 1), (6, 5, 2)]
ROUND = st.integers(0, N_ROUNDS - 1)
PLACE = st.integers(0, 5)
SET = st.integers(0, 3)
CONTEXT = st.sampled_from([b"", b"other"])


class HostileAggregator(RuleBasedStateMachine):
    learned: ClassVar[Counter[str]] = Counter()

    @initialize(size=st.sampled_from(SIZES), data=st.data())
    def begin(self, size: tuple[int, int, int], data: st.DataObject) -> None:
        n_sites, threshold, n_colluding = size
        self.sites = Consortium(n_sites, threshold=threshold, n_colluding=n_colluding).begin()
        colluders = self.sites.names[:n_colluding]
        self.adversary = Adversary(self.sites, self.sites.epoch(n_rounds=N_ROUNDS), colluders)
        self.vectors = [self.sites.draws(2) for _ in range(2 * N_ROUNDS)]
        large, small = (
            st.sets(st.sampled_from(self.sites.names), min_size=least).map(lambda names: tuple(sorted(names)))
            for least in (threshold, 2)
        )
        self.sets = [self.sites.names, data.draw(large), data.draw(large), data.draw(small)]
        self.signed: dict[tuple[str, int], bytes] = {}
        self.opened: dict[int, set[tuple[str, ...]]] = {round: set() for round in range(N_ROUNDS)}

    def honest(self, place: int) -> str:
        return self.adversary.honest[place % len(self.adversary.honest)]

    def ask(self, name: str, method: str, **request: Any) -> Any:
        try:
            return getattr(self.sites.sites[name], method)(**request)
        except ProtocolError:
            return None

    @rule(round=ROUND, place=PLACE)
    def take_summed(self, round: int, place: int) -> None:
        name = self.honest(place)
        vector = self.ask(name, "recover_mask", round=round, vector=self.vectors[round][name])
        if vector is not None:
            self.adversary.summed[name, round] = vector

    @rule(round=ROUND, place=PLACE)
    def take_covered(self, round: int, place: int) -> None:
        name = self.honest(place)
        vector = self.ask(name, "self_mask", round=round, vector=self.vectors[N_ROUNDS + round][name])
        if vector is not None:
            self.adversary.covered[name, round] = vector

    @rule(round=ROUND, place=PLACE, chosen=SET, context=CONTEXT)
    def have_signed(self, round: int, place: int, chosen: int, context: bytes) -> None:
        name, survivors = self.honest(place), self.sets[chosen]
        signature = self.ask(name, "sign_survivors", round=round, survivors=survivors, context=context)
        if signature is not None:
            self.signed[name, round] = signature

    @rule(round=ROUND, place=PLACE, chosen=SET, context=CONTEXT, data=st.data())
    def have_opened(self, round: int, place: int, chosen: int, context: bytes, data: st.DataObject) -> None:
        name, survivors = self.honest(place), self.sets[chosen]
        signatures = {n: s for (n, r), s in self.signed.items() if r == round and n in survivors}
        if data.draw(st.booleans()):
            kept = data.draw(st.sets(st.sampled_from(survivors)))
            signatures = {n: s for n, s in signatures.items() if n in kept}
        signatures |= self.colluding_signatures(name, round, survivors, context)
        opening = self.ask(name, "open", round=round, survivors=survivors, signatures=signatures)
        if opening is not None:
            self.adversary.openings.append(opening)
            self.opened[round].add(survivors)
            self.search(round)

    def colluding_signatures(
        self, target: str, round: int, survivors: tuple[str, ...], context: bytes
    ) -> dict[str, bytes]:
        """Valid signatures of all colluding survivors on whatever the target would have signed."""
        message = statement(
            self.adversary.epoch.digest,
            round=round,
            summed=(target, round) in self.adversary.summed,
            covered=(target, round) in self.adversary.covered,
            context=context,
            survivors=survivors,
        )
        colluding = [name for name in self.adversary.colluders if name in survivors]
        return {name: self.sites.identities[name].sign(message) for name in colluding}

    @rule(round=ROUND, place=PLACE, asked=st.sets(PLACE))
    def have_shares(self, round: int, place: int, asked: set[int]) -> None:
        names = [self.sites.names[k % len(self.sites.names)] for k in sorted(asked)]
        shares = self.ask(self.honest(place), "open_missing", round=round, missing=names)
        if shares is not None:
            self.adversary.seed_shares.append(shares)
            self.search(round)

    @rule(round=ROUND, chosen=SET, covers=st.booleans(), lost=PLACE)
    def run_properly(self, round: int, chosen: int, covers: bool, lost: int) -> None:
        """Everybody sends; a set signs; all but one of it open, and give the shares of that one."""
        places = range(len(self.adversary.honest))
        for place in places:
            self.take_summed(round, place)
            if covers:
                self.take_covered(round, place)
        for place in places:
            self.have_signed(round, place, chosen, b"")
        signed = {n: s for (n, r), s in self.signed.items() if r == round and n in self.sets[chosen]}
        for place in places:
            name = self.honest(place)
            if place != lost:
                forged = self.colluding_signatures(name, round, self.sets[chosen], b"")
                request = {"round": round, "survivors": self.sets[chosen], "signatures": signed | forged}
                opening = self.ask(name, "open", **request)
                if opening is not None:
                    self.adversary.openings.append(opening)
                    self.opened[round].add(self.sets[chosen])
                    self.have_shares(round, place, {lost})
        self.search(round)

    def search(self, round: int) -> None:
        """Fail if the adversary knows anything it should not."""
        sums, releases = self.adversary.sums(round), self.adversary.releases(round)
        self.learned.update(sums=len(sums), releases=len(releases))
        assert len(self.opened[round]) <= 1, "two survivor sets were opened"
        assert len(sums) <= 1
        survivors = next(iter(self.opened[round]), ())
        for group, total in sums.items():
            assert set(group) == set(survivors) & set(self.adversary.honest)
            assert len(group) >= self.sites.config.threshold - self.sites.config.n_colluding
            np.testing.assert_array_equal(total, added(self.vectors[round], group))
        for name, release in releases.items():
            assert name in survivors
            np.testing.assert_array_equal(release, self.vectors[N_ROUNDS + round][name])


def test_hostile_aggregator_learns_one_sum_at_most() -> None:
    limits = settings(max_examples=120, stateful_step_count=25, deadline=None, derandomize=True)
    run_state_machine_as_test(HostileAggregator, settings=limits)


@pytest.mark.slow
def test_hostile_aggregator_learns_one_sum_at_most_at_length() -> None:
    limits = settings(max_examples=1000, stateful_step_count=50, deadline=None, derandomize=True)
    run_state_machine_as_test(HostileAggregator, settings=limits)


class Unchecked(HostileAggregator):
    """The same, with sites that open for anybody."""

    def ask(self, name: str, method: str, **request: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dpcape.core.secure_sum.recover.Recover._check_open", lambda *_: None)
            return super().ask(name, method, **request)


def test_the_search_finds_a_missing_check() -> None:
    """Teeth; test_secrecy.py has one attack for each check besides."""
    limits = settings(
        max_examples=40,
        stateful_step_count=25,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
    )
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(Unchecked, settings=limits)
