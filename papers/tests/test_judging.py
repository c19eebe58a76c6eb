"""The rules by which claims become verdicts, on rows made by hand: every outcome can happen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcape_papers.experiments.results import PUBLISHED, VERIFIED, Results, Row, row
from dpcape_papers.verdicts import (
    Curve,
    Tally,
    Trend,
    Yardstick,
    agreed,
    as_good,
    change,
    compare_curves,
    judge_privacy,
    outcome_of,
    privacy_claim,
    ratios,
    reached,
    together,
    trend,
)

OURS, THEIRS = Curve("ours", VERIFIED), Curve("theirs", VERIFIED)
LARGER, SMALLER = Yardstick("larger"), Yardstick("smaller")
LOG = Yardstick("smaller", log=True)
HOLDS, CONDITIONS, FAILS, OPEN = "holds", "holds under conditions", "fails", "not shown"


def made(curve: Curve, points: Sequence[Sequence[float]], panel: str = "p") -> list[Row]:
    """Return rows at x = 0, 1, ...: one list of values per x, one value per run."""
    return [
        row(panel=panel, curve=curve.name, calibration=curve.calibration, x=x, measure="m", value=value, run=run)
        for x, runs in enumerate(points)
        for run, value in enumerate(runs)
    ]


def compared(
    ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]], yardstick: Yardstick = LARGER
) -> Tally:
    return compare_curves(Results(made(OURS, ours) + made(THEIRS, theirs)), OURS, THEIRS, yardstick)


HIGH, LOW = [2.0, 2.01, 1.99], [1.0, 1.01, 0.99]


# One point.


@pytest.mark.parametrize(("yardstick", "expected"), [(LARGER, Tally(better=1)), (SMALLER, Tally(worse=1))])
def test_the_yardstick_has_a_direction(yardstick: Yardstick, expected: Tally) -> None:
    assert compared([HIGH], [LOW], yardstick) == expected
    assert compared([LOW], [HIGH], yardstick) == Tally(expected.worse, 0, expected.better)


def test_differences_within_chance_count_for_nobody() -> None:
    rng = np.random.default_rng(5)
    assert compared([rng.normal(size=10).tolist()], [rng.normal(size=10).tolist()]) == Tally(level=1)


def test_significance_is_two_sided_at_five_per_cent() -> None:
    """Differences of mean 1 and standard deviation s over 3 runs: t = sqrt(3)/s, critical 4.303 (one-sided 2.920)."""
    for spread, expected in ((0.40, Tally(better=1)), (0.41, Tally(level=1)), (0.59, Tally(level=1))):
        assert compared([[2 - spread, 2.0, 2 + spread]], [[1.0, 1.0, 1.0]]) == expected


def test_runs_are_paired() -> None:
    """Data sets differ a hundred times more than the schemes do."""
    sets = [1.0, 50.0, 100.0, 20.0]
    assert compared([[value + 1 for value in sets]], [sets]) == Tally(better=1)
    assert compared([[value + 1 for value in sets]], [sets[::-1]]) == Tally(level=1)


def test_a_tiny_difference_does_not_count_however_sure() -> None:
    assert compared([[1.009] * 5], [[1.0] * 5]) == Tally(level=1)
    assert compared([[1.011] * 5], [[1.0] * 5]) == Tally(better=1)
    assert compared([[1.03] * 5], [[1.0] * 5], Yardstick("larger", tolerance=0.05)) == Tally(level=1)


@pytest.mark.parametrize("yardstick", [LARGER, SMALLER, LOG])
def test_no_number_is_worse_than_any(yardstick: Yardstick) -> None:
    gone, there = [[math.nan, 1.0]], [[1.0, 1.0]]
    assert compared(gone, there, yardstick) == Tally(worse=1)
    assert compared(there, gone, yardstick) == Tally(better=1)
    assert compared(gone, gone, yardstick) == Tally()


@pytest.mark.parametrize("yardstick", [LARGER, Yardstick("larger", log=True)])
def test_one_measured_run_decides_nothing_and_one_computed_value_does(yardstick: Yardstick) -> None:
    assert compared([[9.0]], [[1.0]], yardstick) == Tally()
    exact = replace(yardstick, exact=True)
    assert compared([[1.009]], [[1.0]], exact) == Tally(level=1)
    assert compared([[1.011]], [[1.0]], exact) == Tally(better=1)
    assert compared([[0.989]], [[1.0]], exact) == Tally(worse=1)


def test_logarithms_find_a_constant_ratio_that_differences_miss() -> None:
    theirs = [0.001, 0.1, 10.0]
    assert compared([[value / 2 for value in theirs]], [theirs], SMALLER) == Tally(level=1)
    found = compared([[value / 2 for value in theirs]], [theirs], LOG)
    assert found == Tally(better=1)
    assert found.typical == pytest.approx(2.0)


def test_only_shared_panels_points_and_runs_are_compared() -> None:
    rows = made(OURS, [HIGH, HIGH]) + made(THEIRS, [LOW]) + made(OURS, [HIGH], "q")
    assert compare_curves(Results(rows), OURS, THEIRS, LARGER) == Tally(better=1)
    assert compared([[2.0]], [[1.0, 9.0]], replace(LARGER, exact=True)) == Tally(better=1)
    assert compare_curves(Results(rows), OURS, Curve("theirs", PUBLISHED), LARGER) == Tally()


def test_the_typical_ratio_is_above_one_where_better() -> None:
    ones = [[1.0, 1.0]] * 3
    assert compared([[2.0, 2.0], [4.0, 4.0], [16.0, 16.0]], ones).typical == pytest.approx(4.0)
    assert compared([[2.0, 2.0], [4.0, 4.0], [16.0, 16.0]], ones, SMALLER).typical == pytest.approx(0.25)
    assert math.isnan(Tally().typical)
    assert "typically 4 times as good" in str(compared([[4.0, 4.0]], [[1.0, 1.0]]))


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=1, max_size=6), st.booleans())
def test_turning_the_measure_over_turns_the_tally_over(pairs: list[tuple[float, float]], log: bool) -> None:
    ours, theirs = ([values] for values in zip(*pairs, strict=True))
    up, down = (compared(ours, theirs, Yardstick(better, log=log, exact=True)) for better in ("larger", "smaller"))
    assert (up.better, up.level, up.worse) == (down.worse, down.level, down.better)
    assert up.n == 1
    assert up.typical == pytest.approx(1 / down.typical)


# Outcomes.


@pytest.mark.parametrize(
    ("tally", "better", "never_worse"),
    [
        (Tally(3, 0, 0), HOLDS, HOLDS),
        (Tally(2, 2, 0), HOLDS, HOLDS),
        (Tally(1, 2, 0), CONDITIONS, HOLDS),
        (Tally(0, 3, 0), OPEN, HOLDS),
        (Tally(5, 0, 1), CONDITIONS, CONDITIONS),
        (Tally(2, 0, 2), FAILS, CONDITIONS),
        (Tally(1, 3, 2), FAILS, CONDITIONS),
        (Tally(1, 0, 2), FAILS, FAILS),
        (Tally(), OPEN, OPEN),
    ],
)
def test_outcomes_of_a_tally(tally: Tally, better: str, never_worse: str) -> None:
    assert (tally.outcome, tally.never_worse) == (better, never_worse)


def test_tallies_add_up() -> None:
    found = compared([HIGH], [LOW]) + compared([LOW, LOW], [HIGH, LOW])
    assert found == Tally(1, 1, 1)
    assert found.ratios == pytest.approx((2.0, 0.5, 1.0))
    words = "better at 1 of 3 points, worse at 1, no clear difference at 1 (typically 1 times as good)"
    assert str(found) == words
    assert Tally(better=2).counts("curves") == "better at all 2 curves"
    assert Tally(level=1).counts("steps") == "no clear difference at 1 of 1 steps"
    assert Tally().counts("points") == "no points to compare"


@pytest.mark.parametrize(
    ("flags", "outcome"),
    [([True] * 3, HOLDS), ([True, False], CONDITIONS), ([True, False, False], FAILS), ([False], FAILS), ([], OPEN)],
)
def test_as_good_as(flags: list[bool], outcome: str) -> None:
    assert as_good(flags) == outcome


def test_statements_about_settings() -> None:
    assert [outcome_of(n, 3) for n in (0, 1, 3)] == [FAILS, CONDITIONS, HOLDS]
    assert outcome_of(0, 0) == OPEN


@pytest.mark.parametrize(
    ("published", "verified", "outcome"),
    [
        (Tally(better=1), Tally(better=2), HOLDS),
        (Tally(worse=1), Tally(level=2), FAILS),
        (Tally(level=1), Tally(level=2), OPEN),
        (Tally(better=1), Tally(level=9), CONDITIONS),
        (Tally(better=1), Tally(worse=9), CONDITIONS),
        (Tally(2, 0, 1), Tally(worse=1), CONDITIONS),
    ],
)
def test_calibrations_are_judged_apart(published: Tally, verified: Tally, outcome: str) -> None:
    found, numbers = together({PUBLISHED: published, VERIFIED: verified})
    assert found == outcome == agreed([published.outcome, verified.outcome])
    assert numbers == f"with noise as published, {published}; with noise verified, {verified}"


# Along x.


@pytest.mark.parametrize(
    ("points", "steps", "ends", "outcome"),
    [
        ([LOW, HIGH, [3.0, 3.01, 2.99]], Tally(better=2), Tally(better=1), HOLDS),
        ([LOW, HIGH, HIGH], Tally(better=1, level=1), Tally(better=1), HOLDS),
        ([LOW, [3.0, 3.01, 2.99], HIGH], Tally(better=1, worse=1), Tally(better=1), CONDITIONS),
        ([LOW, HIGH, LOW], Tally(better=1, worse=1), Tally(level=1), FAILS),
        ([LOW, LOW], Tally(level=1), Tally(level=1), OPEN),
        ([HIGH, LOW], Tally(worse=1), Tally(worse=1), FAILS),
    ],
)
def test_trends(points: list[list[float]], steps: Tally, ends: Tally, outcome: str) -> None:
    found = trend(Results(made(OURS, points)), OURS, LARGER)
    assert found == Trend(steps, ends)
    assert found.outcome == outcome


def test_small_steps_can_add_up_to_a_trend() -> None:
    points = [[1 + 0.1 * x + 0.3 * ((x + run) % 2) for run in range(4)] for x in range(11)]
    found = trend(Results(made(OURS, points)), OURS, LARGER)
    assert found.steps == Tally(level=10)
    assert found.outcome == HOLDS


def test_trends_are_followed_panel_by_panel() -> None:
    rows = Results(made(OURS, [LOW, HIGH]) + made(OURS, [HIGH, LOW], "q") + made(OURS, [HIGH], "alone"))
    found = trend(rows, OURS, LARGER)
    assert found.ends == Tally(better=1, worse=1)
    more = found + trend(Results(made(OURS, [LOW, HIGH])), OURS, LARGER)
    assert more.outcome == CONDITIONS
    assert "better at 2 of 3 curves, worse at 1" in str(more)


def test_a_curve_that_starts_at_the_ceiling_decides_nothing() -> None:
    best = Curve("best", VERIFIED)
    full = made(OURS, [[0.999] * 3, [0.98] * 3]) + made(best, [[1.0] * 3, [1.0] * 3])
    rows = Results(full + made(OURS, [LOW, HIGH], "q") + made(best, [[4.0] * 3, [4.0] * 3], "q"))
    assert trend(rows, OURS, LARGER).outcome == FAILS
    found = trend(rows, OURS, LARGER, best)
    assert (found.outcome, found.full, found.ends.n) == (HOLDS, 1, 1)
    assert "1 curves start within 1%" in str(found)


@pytest.mark.parametrize(("flags", "outcome"), [([True, True], HOLDS), ([True, False], CONDITIONS), ([False], OPEN)])
def test_large_enough_is_never_refuted_by_a_size_we_chose(flags: list[bool], outcome: str) -> None:
    assert reached(flags) == outcome


def test_two_points_of_a_curve() -> None:
    rows = Results(made(OURS, [LOW, HIGH]) + made(OURS, [HIGH, LOW], "q"))
    assert change(rows.where(panel="p"), OURS, LARGER, start=0.0, end=1.0) == Tally(better=1)
    assert change(rows.where(panel="p"), OURS, LARGER, start=1.0, end=0.0) == Tally(worse=1)
    assert change(rows, OURS, LARGER, start=0.0, end=1.0) == Tally(better=1, worse=1)
    assert change(rows, OURS, LARGER, start=0.0, end=7.0) == Tally()


def test_ratios_are_of_means() -> None:
    rows = Results(made(OURS, [[1.0, 3.0], [5.0]]) + made(THEIRS, [[4.0, 4.0]]) + made(OURS, [[1.0]], "q"))
    assert ratios(rows, OURS, THEIRS) == {"p": {0.0: 0.5}}


# Guarantees.


def sold(settings: Mapping[float, float], delta: float | None = 0.01) -> Results:
    """Return published rows: claimed -> real epsilon."""
    return Results(
        row(
            panel="p", curve="CAPE", calibration=PUBLISHED, x=claimed, measure="m", value=1.0,
            claimed_epsilon=claimed, verified_epsilon=real, delta=delta,
        )
        for claimed, real in settings.items()
    )  # fmt: skip


def test_a_guarantee_that_is_kept_everywhere_holds() -> None:
    outcome, numbers = privacy_claim(sold({0.1: 0.05, 1.0: 0.9, 10.0: 10.0}), "CAPE")
    assert outcome == HOLDS
    assert "kept at all 3 settings" in numbers
    assert "claimed 10, real 10 at delta 0.01" in numbers


@pytest.mark.parametrize("broken", [0.1, 1.0, 10.0])
def test_a_guarantee_broken_at_any_epsilon_fails(broken: float) -> None:
    settings = {claimed: 0.9 * claimed for claimed in (0.1, 1.0, 10.0)} | {broken: 1.2 * broken}
    outcome, numbers = privacy_claim(sold(settings), "CAPE")
    assert outcome == FAILS
    kept = [claimed for claimed in settings if claimed != broken]
    assert "broken at 1 of 3 settings" in numbers
    assert f"claimed {broken:g}, real {1.2 * broken:.3g}" in numbers
    assert f"kept at the other 2, claimed {kept[0]:g} to {kept[1]:g}" in numbers


def test_the_worst_of_several_is_named_and_may_be_infinite() -> None:
    verdict = judge_privacy(sold({0.1: 0.3, 1.0: math.inf, 10.0: 11.0}), theorem="theorem 9", where="section 9")
    assert (verdict.outcome, verdict.where) == (FAILS, "section 9")
    assert "theorem 9" in verdict.claim
    assert "broken at 3 of 3 settings" in verdict.numbers
    assert "claimed 1, real infinite at delta 0.01" in verdict.numbers


def test_settings_differ_by_delta_unless_the_claim_is_pure() -> None:
    rows = Results([*sold({1.0: 0.5}, 1e-5), *sold({1.0: 0.5}, 1e-2)])
    assert "all 2 settings" in privacy_claim(rows, "CAPE")[1]
    pure = privacy_claim(rows, "CAPE", pure=True)[1]
    assert "all 1 settings" in pure
    assert "delta" not in pure


@pytest.mark.parametrize(("real", "outcome"), [({0.1: 0.05, 10.0: 12.0}, CONDITIONS), ({0.1: 0.2, 10.0: 12.0}, FAILS)])
def test_the_classical_formula_is_judged_where_it_is_proved(real: dict[float, float], outcome: str) -> None:
    assert judge_privacy(sold(real), theorem="t", where="w", up_to=1.0).outcome == outcome
    assert judge_privacy(sold(real), theorem="t", where="w").outcome == FAILS


def test_nothing_is_guaranteed_by_no_rows() -> None:
    with pytest.raises(ValueError, match="empty"):
        privacy_claim(Results([]), "CAPE")
