"""Statistics and losses of other authors: called record by record, searched for violations, never called verified."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from dpcape import Federation, Independent, Ledger, PolynomialLoss, Replay, in_process, labelled, rows, subjects, views
from dpcape.core.errors import InvalidParameter
from dpcape.core.extent import Extent, rounding_in_blocks
from dpcape.core.facts import PublicFacts
from dpcape.core.statistic import Statistic, known
from dpcape.core.totals import total_of
from dpcape.site import statistic_laws
from dpcape.statistics import block_search
from dpcape.statistics.losses import RecordLoss, known_loss
from dpcape.statistics.polynomials import checked_diameter, polynomial_coefficients
from dpcape.testing import check_loss, check_statistic

from .statistic_case import all_cases

Vector = NDArray[np.float64]
ROWS = rows(np.zeros((1, 2)), bound=1.0).facts()
LABELLED = labelled(np.zeros((1, 2)), np.zeros(1), bound=1.0, response=(-1, 1)).facts()
NUMBERS = np.random.default_rng(3).normal(size=(300, 2)) / 3


class OwnMean(Statistic[Any, Vector]):
    """The mean of rows, as another author might write it."""

    name: ClassVar[str] = "test mean"
    kinds: ClassVar[frozenset[str]] = frozenset({"rows"})
    seen: ClassVar[list[int]] = []

    @staticmethod
    def extent(*, n_features: float, bound: float) -> Extent:
        return Extent(n_features, 2 * bound, bound, rounding_in_blocks(n_features, bound))

    @property
    def numbers(self) -> Mapping[str, float]:
        return {"n_features": self.facts.n_features, "bound": self.facts.bounds[0]}

    def total(self, records: Any) -> Vector:
        self.seen.append(records.n_records)
        return sum((self.of_block(block) for block in records.feature_blocks(1024)), np.zeros(self.facts.n_features))

    def of_block(self, block: Vector) -> Vector:
        return block.sum(axis=0)


class Vectorised(OwnMean):
    name: ClassVar[str] = "test mean, vectorised"
    vectorised: ClassVar[bool] = True


class TooSmall(OwnMean):
    """States a diameter of 1e-3 where the true one is 2."""

    name: ClassVar[str] = "test mean, diameter 1e-3"

    @staticmethod
    def extent(*, n_features: float, bound: float) -> Extent:
        return Extent(n_features, 1e-3, bound, rounding_in_blocks(n_features, bound))


class SmallRadius(OwnMean):
    name: ClassVar[str] = "test mean, small radius"

    @staticmethod
    def extent(*, n_features: float, bound: float) -> Extent:
        return Extent(n_features, 2 * bound, 0.5 * bound, rounding_in_blocks(n_features, bound))


class OtherDiameter(OwnMean):
    """Says one diameter to whoever plans and another to the site."""

    name: ClassVar[str] = "test mean, two diameters"

    @property
    def diameter(self) -> float:
        return 1e-3


class OtherSize(OwnMean):
    name: ClassVar[str] = "test mean, other size"

    def of_block(self, block: Vector) -> Vector:
        return block.sum(axis=0)[:1] * np.ones(self.facts.n_features)

    def total(self, records: Any) -> Vector:
        return super().total(records)[:1]


class NotANumber(OwnMean):
    name: ClassVar[str] = "test mean of directions"

    def of_block(self, block: Vector) -> Vector:
        with np.errstate(invalid="ignore"):
            return np.asarray((block / np.linalg.norm(block, axis=1, keepdims=True)).sum(axis=0))


class NoRounding(Vectorised):
    """Adds in single precision and says that nothing is rounded."""

    name: ClassVar[str] = "test mean, single precision"

    def of_block(self, block: Vector) -> Vector:
        return 0.999 * block.astype(np.float32).sum(axis=0, dtype=np.float32).astype(np.float64)


class Standardised(Vectorised):
    name: ClassVar[str] = "test mean, standardised in its block"

    def of_block(self, block: Vector) -> Vector:
        spread = block.std(axis=0) + 1e-3
        return np.asarray(np.clip((block - block.mean(axis=0)) / spread, -0.5, 0.5).sum(axis=0))


class OfLength(Vectorised):
    name: ClassVar[str] = "test mean, by the length of its block"

    def of_block(self, block: Vector) -> Vector:
        return np.asarray(block.sum(axis=0) / (1 + (len(block) > 1024 - 21)))


class OfTheRowBefore(Vectorised):
    name: ClassVar[str] = "test mean, of neighbouring rows"

    def of_block(self, block: Vector) -> Vector:
        return np.asarray((block * (np.roll(block, 1, axis=0)[:, :1] > 0)).sum(axis=0))


class Remembering(OwnMean):
    """Is called with one record at a time, and keeps the last one."""

    name: ClassVar[str] = "test mean, remembering"
    last: Vector | None = None

    def of_block(self, block: Vector) -> Vector:
        before, self.last = self.last, block.sum(axis=0)
        return self.last if before is None else np.asarray((self.last + before) / 2)


def test_honest_statistics_pass_and_the_search_reaches_their_diameter() -> None:
    for kind in (OwnMean, Vectorised):
        found = check_statistic(kind, ROWS)
        assert found.distance == pytest.approx(2.0, rel=1e-6)
        assert found.length == pytest.approx(1.0, rel=1e-6)
        assert 0 <= found.rounding < 1


@pytest.mark.parametrize("case", all_cases(), ids=str)
def test_every_statistic_of_dpcape_passes(case: Any) -> None:
    facts = case.records(np.zeros((1, case.n_parameters))).facts()
    statistic_laws.require_laws(case.statistic(), facts)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (TooSmall, r"got 0\.001 where two possible records are (2|1\.99\d+) apart"),
        (SmallRadius, r"got 0\.5 where a possible record contributes (1|0\.99\d+)"),
        (OtherDiameter, r"the diameter .* must be what its extent says \(2\); got 0\.001"),
        (OtherSize, r"must be a vector of 2 numbers; got shape \(1,\)"),
        (NotANumber, "must be finite for every possible record"),
        (NoRounding, "the rounding of the statistic"),
        (Standardised, "contribution depend on that record only"),
        (OfLength, "when the site had more records than a block"),
        (OfTheRowBefore, "contribution depend on that record only"),
        (Remembering, "contribution depend on that record only"),
    ],
)
def test_what_breaks_a_law_is_found_and_named(kind: type[OwnMean], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        check_statistic(kind, ROWS)


def test_a_statistic_of_another_author_sees_one_record_at_a_time() -> None:
    OwnMean.seen.clear()
    records = rows(NUMBERS, bound=1.0)
    total = total_of(OwnMean(ROWS), records)
    assert OwnMean.seen == [1] * 300
    np.testing.assert_allclose(total, total_of(Vectorised(ROWS), records), rtol=1e-12)
    assert OwnMean.seen[-1] == 300


@pytest.mark.parametrize(
    "records",
    [
        views(NUMBERS[:, :1], NUMBERS[:, 1:], bounds=(1.0, 1.0)),
        labelled(NUMBERS, NUMBERS[:, 0] > 0, bound=1.0, classes=[False, True]),
        subjects([NUMBERS[:100], NUMBERS[100:]], bound=1.0, unit="record"),
        subjects([NUMBERS[:100], NUMBERS[100:]], bound=1.0, unit="subject", rows_per_subject=200),
    ],
    ids=lambda records: f"{records.kind} {records.unit}",
)
def test_single_records_are_the_records(records: Any) -> None:
    from dpcape.records.one_at_a_time import one_at_a_time

    single = list(one_at_a_time(records))
    assert len(single) == records.n_records
    assert all(one.n_records == 1 and one.kind == records.kind for one in single)
    if records.unit == "subject":
        found = [series.copy() for one in single for series in one.each_subject()]
        wanted = [series.copy() for series in records.each_subject()]
    else:
        found = [np.vstack([next(one.feature_blocks()) for one in single])]
        wanted = [np.vstack([block.copy() for block in records.feature_blocks()])]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def fitted(kind: type[OwnMean], ledger: Ledger) -> Any:
    line = in_process({"lyon": rows(NUMBERS, bound=1.0)}, ledgers={"lyon": ledger}, noise=Replay(1))
    private = Federation(line, protocol=Independent()).allow(1.0, 1e-6)
    private.mean(kind(ROWS))
    return private.guarantee()


known(TooSmall)
known(OwnMean)
known(Standardised)


def test_a_false_diameter_is_refused_by_the_site_before_anything_is_charged() -> None:
    """The mean with stated diameter 1e-3, true 2, that was once printed as verified."""
    ledger = Ledger(epsilon=5.0, delta=1e-5)
    for kind in (TooSmall, Standardised):
        with pytest.raises(InvalidParameter, match="test mean"):
            fitted(kind, ledger)
    assert not ledger.charges


def test_what_the_search_does_not_refute_is_conditional(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = fitted(OwnMean, Ledger())
    monkeypatch.setattr("dpcape.site.in_process.require_laws", lambda *_: None)
    for guarantee in (honest, fitted(TooSmall, Ledger())):
        assert guarantee.status.startswith("conditional")
        assert "verified" not in guarantee.sentence()
        assert any("which is not part of dpcape" in text for text in guarantee.assumptions)


# Losses


class OwnLoss(RecordLoss):
    """-2 y x.w, with coefficients that mutants disturb."""

    degree: ClassVar[int] = 1
    parameter_bound: ClassVar[float] = 1.0
    vectorised: ClassVar[bool] = True
    largest: ClassVar[int] = 0

    def coefficients(self, rows: Vector, targets: Any, facts: PublicFacts) -> Sequence[Vector]:
        type(self).largest = max(self.largest, len(rows))
        return [np.zeros((len(rows), 1)), self.disturbed(np.asarray(targets)[:, np.newaxis] * rows)]

    def disturbed(self, slopes: Vector) -> Vector:
        return slopes

    def bound(self, facts: PublicFacts) -> float:
        return 1.0


@known_loss
class Honest(OwnLoss):
    name: ClassVar[str] = "test own, vectorised"


@known_loss
class RecordByRecord(OwnLoss):
    name: ClassVar[str] = "test own, record by record"
    vectorised: ClassVar[bool] = False


@known_loss
class StandardisedLoss(OwnLoss):
    """Standardises within its block; such a loss was once printed as verified."""

    name: ClassVar[str] = "test own, standardised"

    def disturbed(self, slopes: Vector) -> Vector:
        return np.asarray((slopes - slopes.mean(axis=0)) / (slopes.std(axis=0) + 1e-9))


@known_loss
class BlockMean(OwnLoss):
    name: ClassVar[str] = "test own, the block's mean"

    def disturbed(self, slopes: Vector) -> Vector:
        return slopes + 1e-6 * slopes.mean(axis=0)


@known_loss
class RowBefore(OwnLoss):
    name: ClassVar[str] = "test own, the row before"

    def disturbed(self, slopes: Vector) -> Vector:
        return np.asarray(slopes + 1e-6 * np.roll(slopes, 1, axis=0))


@known_loss
class BlockLength(OwnLoss):
    name: ClassVar[str] = "test own, the block's length"

    def disturbed(self, slopes: Vector) -> Vector:
        return np.asarray(slopes * (1 - 1e-6 * (len(slopes) > 1000)))


@known_loss
class FirstRow(OwnLoss):
    name: ClassVar[str] = "test own, the first row"

    def disturbed(self, slopes: Vector) -> Vector:
        return np.asarray(slopes * (1 - 1e-6 * (slopes[:1, :1] > 0)))


@known_loss
class Counting(OwnLoss):
    """Depends on how often it was called."""

    name: ClassVar[str] = "test own, counting"
    vectorised: ClassVar[bool] = False
    calls: int = 0

    def disturbed(self, slopes: Vector) -> Vector:
        self.calls += 1
        return np.asarray(slopes * (1 - 1e-6 * (self.calls % 3)))


@pytest.mark.parametrize("loss", [StandardisedLoss, BlockMean, RowBefore, BlockLength, FirstRow, Counting])
def test_a_loss_that_mixes_records_is_detected(loss: type[OwnLoss]) -> None:
    wanted = r"must depend on their own record only; got coefficients that moved by \d"
    with pytest.raises(InvalidParameter, match=wanted):
        check_loss(loss.name, LABELLED)
    # At first use, before anything is released.
    records = labelled(NUMBERS, np.clip(NUMBERS[:, 0], -1, 1), bound=1.0, response=(-1, 1))
    federation = Federation(in_process({"lyon": records}, noise=Replay(1)), protocol=Independent())
    checked_diameter.cache_clear()
    with pytest.raises(InvalidParameter, match=wanted):
        PolynomialLoss(loss.name, epsilon=1.0, delta=1e-6).fit(federation)


def test_the_size_of_what_a_mixing_loss_does_is_told() -> None:
    distance, change = block_search.largest_change(BlockMean(), LABELLED)
    assert 1e-8 < distance < 1e-5
    assert change in {"the block was split", "another record of the block was replaced"}
    assert block_search.largest_change(Honest(), LABELLED)[0] <= block_search.TOLERANCE


@pytest.mark.parametrize("loss", [Honest, RecordByRecord])
def test_honest_losses_pass_and_are_conditional(loss: type[OwnLoss]) -> None:
    loss.largest = 0
    found = check_loss(loss.name, LABELLED)
    assert found.distance == pytest.approx(2.0, rel=1e-6)
    records = labelled(NUMBERS, np.clip(NUMBERS[:, 0], -1, 1), bound=1.0, response=(-1, 1))
    federation = Federation(in_process({"lyon": records}, noise=Replay(1)), protocol=Independent())
    model = PolynomialLoss(loss.name, epsilon=1.0, delta=1e-6).fit(federation)
    assert (loss.largest > 1) == loss.vectorised
    assert model.guarantee_.status.startswith("conditional")
    assert any("from that record only" in text for text in model.guarantee_.assumptions)


def test_both_ways_of_calling_a_loss_give_the_same_total() -> None:
    records = labelled(NUMBERS, np.clip(NUMBERS[:, 0], -1, 1), bound=1.0, response=(-1, 1))
    totals = [
        polynomial_coefficients(records.facts(), loss=loss.name).total(records) for loss in (Honest, RecordByRecord)
    ]
    np.testing.assert_allclose(*totals, rtol=1e-12)


def test_losses_of_dpcape_pass_and_rest_on_nothing() -> None:
    facts = labelled(np.zeros((1, 2)), np.zeros(1), bound=1.0, response=(0, 10)).facts()
    found = check_loss("poisson", facts)
    assert found.distance <= found.diameter
    assert math.isclose(found.diameter, polynomial_coefficients(facts, loss="poisson").diameter)
    assert polynomial_coefficients(facts, loss="poisson").assumption == ""
