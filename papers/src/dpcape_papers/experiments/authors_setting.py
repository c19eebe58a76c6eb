"""Verdicts about published noise, from the figure as its authors ran it.

Our own experiment has public bounds and, where data are absent, other data. What it says about verified noise stands.
What it says about published noise gives way to the authors' setting wherever that was run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dpcape_papers.experiments.replica import Replica
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results
from dpcape_papers.experiments.verdict import Verdict
from dpcape_papers.verdicts.outcomes import judging_only

NOTE = "Published noise is judged in the authors' setting"
# Verdict on a claim that the authors' rows do not measure; our own rows decide it.
NOTHING = "no points to compare"
THEIRS, OURS = "published noise, in the authors' setting", "verified noise"


def in_authors_setting(
    judge: Callable[[Results], list[Verdict]], own: Results, original: Results, replica: Replica
) -> list[Verdict]:
    """Return the verdicts, those on measured claims with the authors' rows in place of our published ones.

    Parameters
    ----------
    judge : callable
        The judge of the figure, with the rules that every verdict obeys.
    own, original : Results
        Rows of our own experiment, and of the figure as its authors ran it.
    replica : Replica
        Translates the latter into the format of the former.
    """
    before = judge(own)
    translated = replica.translated(original)
    if not len(translated):
        return before
    # Where both have a panel of the same name, the authors' results are compared with their own non-private ones.
    replaced = {PUBLISHED: own.values("panel"), NON_PRIVATE: translated.values("panel")}
    kept = [r for r in own if r["panel"] not in replaced.get(str(r["calibration"]), ())]
    mixed = Results([*kept, *translated])
    both, theirs, ours = _judged(judge, mixed), _judged(judge, mixed, PUBLISHED), _judged(judge, own, VERIFIED)
    found = []
    for verdict in before:
        claim = verdict.claim
        if verdict.measured and claim in theirs and claim in ours and theirs[claim].numbers != both[claim].numbers:
            # A claim about either noise: two verdicts.
            found += [_named(theirs[claim], THEIRS), _named(ours[claim], OURS)]
        else:
            found.append(_of_both(verdict, both.get(claim)))
    return found


def _named(verdict: Verdict, words: str) -> Verdict:
    return replace(verdict, claim=f"{verdict.claim.rstrip('.')} ({words})")


def _judged(judge: Callable[[Results], Sequence[Verdict]], rows: Results, alone: str = "") -> dict[str, Verdict]:
    """Return the verdicts by claim; empty if the authors' points do not suffice for the judge."""
    try:
        with judging_only(alone):
            return {verdict.claim: verdict for verdict in judge(rows)}
    except (LookupError, ValueError, TypeError, ZeroDivisionError, StopIteration):
        return {}


def _of_both(own: Verdict, theirs: Verdict | None) -> Verdict:
    of_verified = f"noise {VERIFIED}" in own.claim
    same = theirs is None or theirs.numbers == own.numbers or theirs.numbers.startswith(NOTHING)
    if theirs is None or same or not own.measured or of_verified:
        return own
    return replace(theirs, numbers=f"{theirs.numbers.rstrip('.')}. {NOTE}")
