"""The ledger on disk spends exactly as the one in memory, under ceilings, approvals and concurrency."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpcape.core.errors import InvalidParameter, LedgerRefused, ProtocolError
from dpcape.core.privacy.gaussian import epsilon_of
from dpcape.core.privacy.ledger import Charge, Ledger
from dpcape.site.hash_chain import HashChain
from dpcape.site.ledger import Ceiling, State

from .ledgers import STUDY, approve, ceiling, charge, ledger, new_chain, opened


@pytest.fixture
def chain(tmp_path: Path) -> HashChain:
    made = new_chain(tmp_path)
    ceiling(made, 1.0, 1e-5)
    approve(made)
    return made


mus = st.lists(st.one_of(st.floats(1e-3, 0.3), st.just(math.inf)), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(mus=mus, epsilon=st.floats(0.05, 3.0), delta=st.sampled_from([1e-6, 1e-5, 1e-3]))
def test_same_spending_and_same_refusals_as_in_memory(
    tmp_path_factory: pytest.TempPathFactory, mus: list[float], epsilon: float, delta: float
) -> None:
    folder = tmp_path_factory.mktemp("law")
    made = new_chain(folder)
    ceiling(made, epsilon, delta)
    approve(made)
    on_disk, in_memory = ledger(made), Ledger(epsilon=epsilon, delta=delta)
    for number, mu in enumerate(mus):
        entry = charge(str(number), mu)
        outcomes = []
        for book in (on_disk, in_memory):
            try:
                book.charge(entry)
                outcomes.append(True)
            except LedgerRefused:
                outcomes.append(False)
        assert outcomes[0] == outcomes[1]
    made.close()
    # Read back from disk: every bit of every mu survives.
    assert ledger(opened(folder)).spent() == in_memory.spent()


def test_composition_is_exact_across_studies(chain: HashChain) -> None:
    other = "b" * 64
    approve(chain, other)
    ledger(chain).charge(Charge("one", mu=0.12, gap=0.0, tail=0.0, n_releases=1))
    ledger(chain, other).charge(Charge("two", mu=0.16, gap=0.0, tail=0.0, n_releases=1))
    assert ledger(chain).spent() == pytest.approx(epsilon_of(1e-5, 0.2), rel=1e-12)
    assert ledger(chain).spent(1e-3) == pytest.approx(epsilon_of(1e-3, 0.2), rel=1e-12)


def test_refusal_names_the_ceiling_and_changes_nothing(chain: HashChain) -> None:
    book = ledger(chain)
    before = chain.entries()
    with pytest.raises(LedgerRefused, match=r"ceiling of this data set \(epsilon 1 at delta 1e-05") as caught:
        book.charge(charge("large", 0.5))
    assert "No records were read" in str(caught.value)
    assert chain.entries() == before
    assert not book.is_charged("large")


def test_an_unprotected_release_never_passes_a_ceiling(chain: HashChain) -> None:
    with pytest.raises(LedgerRefused, match="would exceed the ceiling"):
        ledger(chain).check(charge("exact", math.inf))


def test_ceiling_per_study_counts_all_runs_of_the_study(chain: HashChain) -> None:
    ceiling(chain, 1.0, 1e-5, per_study=epsilon_of(1e-5, 0.15))
    book = ledger(chain)
    book.charge(charge("first", 0.12))
    with pytest.raises(LedgerRefused, match="one study on this data set"):
        book.charge(charge("second", 0.12))
    approve(chain, "b" * 64)
    ledger(chain, "b" * 64).charge(charge("of another study", 0.12))


def test_data_sets_have_their_own_budgets(chain: HashChain) -> None:
    ceiling(chain, 1.0, 1e-5, data="other")
    approve(chain, "c" * 64, data="other")
    ledger(chain).charge(charge("here", 0.2))
    there = ledger(chain, "c" * 64, "other")
    assert there.spent() == 0.0
    there.charge(charge("there", 0.2))
    with pytest.raises(LedgerRefused, match="different data set"):
        ledger(chain, STUDY, "other").check(charge("elsewhere", 0.01))


def test_a_changed_ceiling_counts_from_its_row_on(chain: HashChain) -> None:
    book = ledger(chain)
    with pytest.raises(LedgerRefused):
        book.check(charge("large", 0.5))
    ceiling(chain, 5.0, 1e-5)
    book.charge(charge("large", 0.5))
    ceiling(chain, 0.5, 1e-5)
    with pytest.raises(LedgerRefused):
        book.check(charge("tiny", 1e-3))


def test_nothing_is_charged_without_approval(chain: HashChain) -> None:
    stranger = ledger(chain, "d" * 64)
    for method in (stranger.check, stranger.charge):
        with pytest.raises(LedgerRefused, match="has not approved"):
            method(charge("x", 0.01))
    chain.append("revoke", {"study": STUDY, "name": "test"}, check=lambda entries: None)
    with pytest.raises(LedgerRefused, match="has not approved"):
        ledger(chain).check(charge("y", 0.01))


def test_runs_are_limited_and_renewed_by_a_new_approval(chain: HashChain) -> None:
    approve(chain, runs=1)
    book = ledger(chain)
    book.charge(charge("one", 0.01))
    with pytest.raises(LedgerRefused, match=r"approved runs \(1\)"):
        book.charge(charge("two", 0.01))
    approve(chain, runs=1)
    book.charge(charge("three", 0.01))


def test_every_run_counts_against_the_number_approved(chain: HashChain) -> None:
    approve(chain, runs=3)
    book = ledger(chain)
    for number in range(3):
        book.charge(charge(str(number), 0.01))
    with pytest.raises(LedgerRefused, match=r"approved runs \(3\)"):
        book.charge(charge("one more", 0.01))


def test_each_release_once_in_order_and_not_too_many(chain: HashChain, tmp_path: Path) -> None:
    book = ledger(chain)
    with pytest.raises(ProtocolError, match="not charged here"):
        book.next_release("a", 0)
    book.charge(charge("a", 0.01, n_releases=3))
    book.next_release("a", 0)
    book.next_release("a", 2)
    for again in (0, 1, 2):
        with pytest.raises(ProtocolError, match=r"Release \d+ was refused because it happened before"):
            book.next_release("a", again)
    with pytest.raises(LedgerRefused, match="its allowance has 3 releases"):
        book.next_release("a", 3)
    with pytest.raises(LedgerRefused, match="charged"):
        book.charge(charge("a", 0.01))


def test_another_process_cannot_go_on_with_a_charged_allowance(chain: HashChain, tmp_path: Path) -> None:
    ledger(chain).charge(charge("a", 0.01, n_releases=3))
    restarted = ledger(opened(tmp_path))
    assert not restarted.is_charged("a")
    with pytest.raises(LedgerRefused, match="charged"):
        restarted.check(charge("a", 0.01))
    with pytest.raises(ProtocolError):
        restarted.next_release("a", 1)


def test_threads_never_pass_the_ceiling_together(chain: HashChain, tmp_path: Path) -> None:
    taken: list[str] = []

    def spend(name: str) -> None:
        book = ledger(opened(tmp_path))
        for number in range(8):
            try:
                book.charge(charge(f"{name}-{number}", 0.1))
                taken.append(name)
            except LedgerRefused:
                return

    threads = [threading.Thread(target=spend, args=(str(at),)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alone = Ledger(epsilon=1.0, delta=1e-5)
    n_allowed = 0
    while True:
        try:
            alone.charge(charge(str(n_allowed), 0.1))
        except LedgerRefused:
            break
        n_allowed += 1
    assert len(taken) == n_allowed > 3
    assert chain.verify().length == 3 + n_allowed


def test_a_head_somebody_saw_must_still_be_there(chain: HashChain) -> None:
    book = ledger(chain)
    length, head = book.head()
    # The newest and the oldest row count too.
    book.confirm(length, head)
    book.confirm(1, chain.entries()[0].hash)
    book.charge(charge("later", 0.01))
    book.confirm(length, head)
    book.confirm(0, "")
    for wrong in ((length, "f" * 64), (length + 100, head), (-1, head)):
        with pytest.raises(LedgerRefused, match="does not contain the head it showed before"):
            book.confirm(*wrong)
    chain.accept({"length": length + 100, "head": head, "reason": "restored"})
    book.confirm(length + 100, head)


@pytest.mark.parametrize(
    "bad", [(0.0, 1e-5, None), (math.inf, 1e-5, None), (1.0, 0.0, None), (1.0, 1.0, None), (1.0, 1e-5, -1.0)]
)
def test_ceilings_that_mean_nothing_are_refused(bad: tuple[float, float, float | None]) -> None:
    with pytest.raises(InvalidParameter):
        Ceiling(*bad)


def test_a_data_set_without_ceiling_is_refused(tmp_path: Path) -> None:
    made = new_chain(tmp_path)
    approve(made)
    with pytest.raises(LedgerRefused, match="has no ceiling"):
        ledger(made).check(charge("x"))
    assert State.of(made.entries()).ceilings == {}
