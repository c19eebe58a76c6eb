"""Enclosed statistics: the diameter of sample and aggregate holds for any answers, and is attained."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpcape import Exact, Federation, in_process, labelled, rows, views
from dpcape.core.enclosed import (
    Block,
    Enclosed,
    Enclosure,
    HeldBlock,
    RecordByRecord,
    Sampled,
    clipped,
    enclosed_statistic,
)
from dpcape.core.errors import InvalidParameter, UtilityWarning
from dpcape.core.facts import PublicFacts
from dpcape.core.totals import released_total

from .cases_enclosed import BOUND, PUBLIC, LawsRows

Vector = NDArray[np.float64]
DATA = np.random.default_rng(3).normal(size=(11, 3))


class Told:
    """Answers what it is told, block by block: code of another package that does as it likes."""

    def __init__(self, answers: list[Vector | None]) -> None:
        self._answers = iter(answers)

    def contributions(self, statistic: Enclosed, facts: PublicFacts, block: Block) -> Vector | None:
        return next(self._answers)


def sampled(block: int, **changed: Any) -> Sampled:
    return Sampled(rows(DATA, bound=BOUND).facts(), **{**PUBLIC, "block": block, **changed})


# What hostile code may answer for a block: nothing, huge, opposite, not finite, of the wrong shape.
ANSWERS = [
    None,
    np.full((1, 3), 1e308),
    np.full((1, 3), -1e308),
    np.full((1, 3), 5e-324),
    np.array([[BOUND, 0.0, 0.0]]),
    np.array([[-BOUND, 0.0, 0.0]]),
    np.full((1, 3), np.nan),
    np.array([[np.inf, 0.0, 0.0]]),
    np.zeros((1, 4)),
    np.zeros((2, 3)),
]


@pytest.mark.filterwarnings("ignore:.*cannot be read")
@pytest.mark.parametrize("block", [1, 2, 4, 11])
def test_no_two_answers_for_a_block_are_farther_apart_than_the_diameter(block: int) -> None:
    """The changed record is in the last full block, valid in both or invalid in one of them; counts included."""
    statistic = sampled(block)
    broken = DATA.copy()
    broken[0] = np.nan
    others = [np.array([[0.3, 0.1, -0.2]])] * (-(-11 // block) - 1)
    totals = [
        released_total(statistic, rows(data, bound=BOUND), Told([answer, *others]))
        for data in (DATA, broken)
        for answer in ANSWERS
    ]
    distances = [float(np.linalg.norm(one - other)) for one, other in itertools.combinations(totals, 2)]
    assert max(distances) <= statistic.sensitivity(11)
    assert max(distances) >= 0.9999 * statistic.diameter
    assert statistic.diameter == 2 * BOUND * block


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6),
    st.floats(1e-30, 1e30),
)
def test_clipped_vectors_are_never_longer_than_the_radius(entries: list[float], radius: float) -> None:
    """In exact arithmetic, whatever the entries."""
    row = clipped(np.array([entries]), radius)[0]
    assert sum(Fraction(float(entry)) ** 2 for entry in row) <= Fraction(radius) ** 2


def test_short_vectors_stay_as_they_are() -> None:
    data = np.vstack([0.5 * DATA / np.linalg.norm(DATA, axis=1, keepdims=True), np.zeros((1, 3))])
    assert np.array_equal(clipped(data, 0.6), data)


@pytest.mark.parametrize("block", [1, 3, 11, 50])
def test_an_honest_mean_is_not_changed_by_its_blocks(block: int) -> None:
    total = released_total(sampled(block), rows(DATA, bound=BOUND), contributor=_here())
    expected = np.vstack([part.copy() for part in rows(DATA, bound=BOUND).blocks()]).sum(axis=0)
    np.testing.assert_allclose(total[:-1], expected, rtol=1e-12)
    assert total[-1] == sampled(block).count_weight * 11


def _here() -> Any:
    from dpcape.core.enclosed import IN_THIS_PROCESS

    return IN_THIS_PROCESS


@pytest.mark.filterwarnings("ignore:.*cannot be read")
def test_blocks_follow_from_positions_not_from_what_is_valid() -> None:
    """An invalid record must not move later records into other blocks."""
    seen: list[Vector] = []

    class Spy:
        def contributions(self, statistic: Enclosed, facts: PublicFacts, block: Block) -> None:
            seen.append(block[0])

    broken = DATA.copy()
    broken[1] = np.nan
    for data in (DATA, broken):
        released_total(sampled(4), rows(data, bound=BOUND), Spy())
    first, second = seen[:3], seen[3:]
    assert [len(block) for block in first] == [4, 4, 3]
    assert [len(block) for block in second] == [3, 4, 3]
    for one, other in zip(first[1:], second[1:], strict=True):
        assert np.array_equal(one, other)


def test_a_failed_block_is_not_counted_and_the_result_is_divided_by_what_was() -> None:
    """Blocks without an answer do not bias a mean in silence: they are counted as invalid records are."""

    class Half:
        def __init__(self) -> None:
            self._calls = itertools.count()

        def contributions(self, statistic: Enclosed, facts: PublicFacts, block: Block) -> Vector | None:
            return None if next(self._calls) % 2 else np.full((1, 3), 0.25)

    there = in_process({"lyon": rows(np.ones((40, 3)), bound=BOUND)})
    there.site("lyon").contributor = Half()
    federation = Federation(there, protocol=Exact(), enclosure=Enclosure(package="laws", block=5))
    with pytest.warns(UtilityWarning, match="50%"):
        mean = federation.allow(1.0, 1e-6).mean(LawsRows(federation.facts))
    np.testing.assert_allclose(mean, 0.25)


def test_a_federation_encloses_foreign_statistics_and_leaves_own_ones() -> None:
    from dpcape.statistics.moments import first_moments

    there = in_process({"lyon": rows(DATA, bound=BOUND)})
    federation = Federation(there, protocol=Exact(), enclosure=Enclosure(package="laws", block=5))
    allowance = federation.allow(1.0, 1e-6, shares=(0.5, 0.5))
    allowance.mean(LawsRows(federation.facts))
    allowance.mean(first_moments(federation.facts))
    assert [release.statistic for release in allowance.releases] == ["sampled", "first_moments"]
    assumed = [text for text in allowance.guarantee().assumptions if "laws" in text]
    assert len(assumed) == 1
    assert "one block of 5 records" in assumed[0]


def test_noise_follows_from_the_block() -> None:
    there = in_process({"lyon": rows(DATA, bound=BOUND)})
    scales = []
    for way, block in (("sampled", 1), ("sampled", 5), ("record_by_record", 5)):
        from dpcape import Independent

        federation = Federation(
            there, protocol=Independent(), enclosure=Enclosure(package="laws", way=way, block=block)
        )
        scales.append(federation.allow(1.0, 1e-6).plan(LawsRows(federation.facts)).own_scales["lyon"])
    assert scales[1] / scales[0] == pytest.approx(5, rel=1e-6)
    assert scales[2] == pytest.approx(scales[0], rel=1e-6)


def test_one_record_that_fails_is_left_out_record_by_record() -> None:
    class Picky(LawsRows):
        def total(self, records: Any) -> Any:
            block = next(iter(records.blocks()))
            assert block.shape == (1, 3)
            if block[0, 0] > 0:
                raise ValueError("not this one")
            return super().total(records)

    statistic = RecordByRecord(rows(DATA, bound=BOUND).facts(), **{**PUBLIC, "block": 4})
    data = next(rows(DATA, bound=BOUND).blocks()).copy()
    found = statistic.computed_by(Picky(rows(DATA, bound=BOUND).facts()), statistic.facts, (data,))
    assert np.array_equal(np.isnan(found).all(axis=1), data[:, 0] > 0)
    assert np.array_equal(found[data[:, 0] <= 0], data[data[:, 0] <= 0])


def test_a_block_has_the_interface_of_records() -> None:
    pair = labelled(DATA, np.arange(11.0), bound=BOUND, response=(0, 10))
    held = HeldBlock(pair.facts(), tuple(part.copy() for part in next(pair.blocks())))
    assert [len(block[0]) for block in held.blocks(4)] == [4, 4, 3]
    assert [len(block) for block in held.feature_blocks(6)] == [6, 5]
    assert (held.n_records, held.n_features, held.kind, held.unit) == (11, 3, "labelled", "record")
    assert held.facts().n_records == 11


@pytest.mark.parametrize(
    "changed",
    [
        {"block": 0},
        {"block": 2**21},
        {"block": True},
        {"size": 0},
        {"size": 2.0},
        {"radius": 0.0},
        {"radius": float("nan")},
        {"radius": float("inf")},
        {"seconds": 0.0},
        {"seconds": float("nan")},
        {"seconds": 1e6},
        {"inner": ""},
        {"package": 3},
        {"size": 2**21, "block": 2**20},
        {"other": 1.0},
    ],
)
def test_values_outside_the_proof_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter):
        sampled(**{"block": 1, **changed})


def test_kinds_and_units_without_positions_are_refused() -> None:
    from dpcape import documents, subjects

    people = subjects([np.zeros((3, 3)), np.zeros((4, 3))], bound=1.0, unit="subject", rows_per_subject=4)
    for held in (people, documents(np.ones((2, 3), dtype=int))):
        with pytest.raises(InvalidParameter):
            Sampled(held.facts(), **PUBLIC)
    two = views(DATA[:, :2], DATA[:, 2:], bounds=(1.0, 1.0))
    assert Sampled(two.facts(), **PUBLIC).size == 3


def test_an_enclosed_statistic_takes_radius_and_public_values_along() -> None:
    statistic = LawsRows(rows(DATA, bound=BOUND).facts())
    found = enclosed_statistic(statistic, Enclosure(package="laws", way="record_by_record", block=7, seconds=0.5))
    assert isinstance(found, RecordByRecord)
    assert (found.inner, found.size, found.radius, found.enclosure.block) == ("laws_rows", 3, BOUND, 7)
    assert found.inner_public == {}
