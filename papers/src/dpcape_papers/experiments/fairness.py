"""Rules that every verdict obeys, whatever its figure: enough runs, the paper's own data, the paper's own size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpcape_papers.experiments.results import Results
from dpcape_papers.experiments.verdict import Judge, Outcome, Verdict

# Fewer runs cannot distinguish a difference from chance: with two, Student's t must exceed 12.7.
MINIMUM_RUNS = 3


def just_verdicts(judge: Judge, results: Results, *, stand_ins: Sequence[str], quick: bool) -> list[Verdict]:
    """Judge the rows, and take back what they cannot decide.

    A measured claim needs `MINIMUM_RUNS` runs. A panel on stand-in data is named, and never decides "fails". A claim
    about the paper's own size does not fail in a quick run, which is smaller.

    Parameters
    ----------
    judge : callable
        The judge of the figure.
    results : Results
        All rows of the figure.
    stand_ins : sequence of str
        Parts of the names of panels whose data replace the paper's.
    quick : bool
        Whether the run was smaller than the paper's.
    """
    replaced = [panel for panel in map(str, results.values("panel")) if any(part in panel for part in stand_ins)]
    verdicts = judge(results)
    if replaced:
        own = _judged(judge, Results(r for r in results if str(r["panel"]) not in replaced))
        verdicts = [_on_own_data(verdict, own, replaced) for verdict in verdicts]
    n_runs = len(results.values("run"))
    return [_of_size(_of_runs(verdict, n_runs), quick) for verdict in verdicts]


def _judged(judge: Judge, rows: Results) -> dict[str, Outcome]:
    """Return the outcomes by claim; empty if the rows left over do not suffice for the judge."""
    if not len(rows):
        return {}
    try:
        return {verdict.claim: verdict.outcome for verdict in judge(rows)}
    except (LookupError, ValueError, ZeroDivisionError, StopIteration):
        # A judge that compares panels needs all of them; without them nothing is decided.
        return {}


def _on_own_data(verdict: Verdict, own: dict[str, Outcome], replaced: Sequence[str]) -> Verdict:
    if not verdict.measured:
        return verdict
    outcome = own.get(verdict.claim, "not shown") if verdict.outcome == "fails" else verdict.outcome
    text = f"{verdict.numbers.rstrip('.')}. On stand-in data, which cannot decide 'fails': {_list(replaced)}"
    return replace(verdict, outcome=outcome, numbers=text)


def _list(panels: Sequence[str]) -> str:
    letters = [panel[:3] for panel in panels if panel[:1] == "(" and panel[2:3] == ")"]
    # The authors' panels have the letters of ours.
    return "panels " + ", ".join(dict.fromkeys(letters)) if len(letters) == len(panels) else "; ".join(panels)


def _of_runs(verdict: Verdict, n_runs: int) -> Verdict:
    if not verdict.measured or n_runs >= MINIMUM_RUNS or verdict.outcome == "not shown":
        return verdict
    runs = "One run" if n_runs == 1 else f"{n_runs} runs"
    text = f"{verdict.numbers.rstrip('.')}. {runs} cannot decide this; at least {MINIMUM_RUNS} are needed"
    return replace(verdict, outcome="not shown", numbers=text)


def _of_size(verdict: Verdict, quick: bool) -> Verdict:
    if not (quick and verdict.needs_size and verdict.outcome == "fails"):
        return verdict
    text = f"{verdict.numbers.rstrip('.')}. The quick run is smaller than the paper's, so it does not decide this"
    return replace(verdict, outcome="not shown", numbers=text)
