"""Rules that every verdict obeys: enough runs, the paper's own data, the paper's own size."""

from __future__ import annotations

import pytest

from dpcape_papers.experiments.fairness import just_verdicts
from dpcape_papers.experiments.results import VERIFIED, Results, row
from dpcape_papers.experiments.verdict import Outcome, Verdict


def rows(n_runs: int, panels: dict[str, float]) -> Results:
    return Results(
        row(panel=panel, curve="c", calibration=VERIFIED, x=1.0, measure="m", value=value, run=run)
        for panel, value in panels.items()
        for run in range(n_runs)
    )


def high(results: Results) -> list[Verdict]:
    """Return a measured claim, that every panel is above 1, and a computed one that never holds."""
    outcome: Outcome = "holds" if min(results.numbers("value")) > 1 else "fails"
    both = {str(name): results.where(panel=name) for name in results.values("panel")}
    return [Verdict("high", "w", outcome, f"{len(both)} panels."), Verdict("sum", "w", "fails", "3", measured=False)]


def outcomes(results: Results, *stand_ins: str) -> tuple[str, str, str]:
    first, second = just_verdicts(high, results, stand_ins=stand_ins, quick=False)
    return first.outcome, second.outcome, first.numbers


@pytest.mark.parametrize("n_runs", [1, 2])
@pytest.mark.parametrize("value", [0.5, 2.0])
def test_too_few_runs_show_nothing_that_is_measured(n_runs: int, value: float) -> None:
    measured, computed, text = outcomes(rows(n_runs, {"a": value}))
    assert (measured, computed) == ("not shown", "fails")
    assert "at least 3" in text


def test_three_runs_decide() -> None:
    assert outcomes(rows(3, {"a": 2.0}))[:2] == ("holds", "fails")
    assert outcomes(rows(3, {"a": 0.5}))[:2] == ("fails", "fails")


def test_a_panel_on_stand_in_data_is_named_and_never_decides_failure() -> None:
    measured, computed, text = outcomes(rows(3, {"(a) real": 2.0, "(b) simulated stand-in": 0.5}), "stand-in")
    assert (measured, computed) == ("holds", "fails")
    assert "panels (b)" in text
    assert outcomes(rows(3, {"(b) simulated stand-in": 0.5}), "stand-in")[0] == "not shown"
    assert outcomes(rows(3, {"(a) real": 0.5, "(b) simulated stand-in": 2.0}), "stand-in")[0] == "fails"


def test_a_judge_that_needs_the_lost_panels_decides_nothing() -> None:
    def compares(results: Results) -> list[Verdict]:
        low, high = (results.where(panel=name)[0] for name in ("a", "b"))
        return [Verdict("order", "w", "holds" if low["value"] < high["value"] else "fails", "x")]

    (found,) = just_verdicts(compares, rows(3, {"a": 2.0, "b": 1.0}), stand_ins=("b",), quick=False)
    assert found.outcome == "not shown"


@pytest.mark.parametrize(("quick", "needs_size", "expected"), [
    (True, True, "not shown"), (True, False, "fails"), (False, True, "fails"),
])  # fmt: skip
def test_a_smaller_run_does_not_refute_a_claim_about_the_papers_size(
    quick: bool, needs_size: bool, expected: str
) -> None:
    def judge(results: Results) -> list[Verdict]:
        return [Verdict("close", "w", "fails", "x", needs_size=needs_size)]

    (found,) = just_verdicts(judge, rows(3, {"a": 2.0}), stand_ins=(), quick=quick)
    assert found.outcome == expected
