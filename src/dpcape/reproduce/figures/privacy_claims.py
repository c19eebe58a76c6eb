"""Whether the noise of a published curve has the epsilon it was sold with."""

from __future__ import annotations

from dpcape.reproduce.experiment import Outcome, Verdict
from dpcape.reproduce.results import PUBLISHED, Results


def judge_privacy(results: Results, *, theorem: str, where: str, curve: str = "CAPE") -> Verdict:
    """Compare claimed with verified epsilon over all published points of a curve.

    A guarantee that is broken anywhere fails, unless only beyond epsilon 1, where the classical formula has no proof.
    """
    pairs = sorted(
        {
            (float(r["claimed_epsilon"]), float(r["verified_epsilon"]))  # type: ignore[arg-type]  # numbers
            for r in results.where(curve=curve, calibration=PUBLISHED)
        }
    )
    broken = [pair for pair in pairs if pair[1] > pair[0]]
    outcome: Outcome = "holds"
    if broken:
        outcome = "fails" if min(broken)[0] <= 1 else "holds under conditions"
        claimed, real = max(broken, key=lambda pair: pair[1] / pair[0])
        numbers = (
            f"{len(broken)} of {len(pairs)} settings exceed their claim; worst: claimed {claimed:g}, real {real:.3g}"
        )
    else:
        numbers = f"all {len(pairs)} settings stay within their claim"
    return Verdict(f"The noise gives the stated (epsilon, delta) ({theorem}).", where, outcome, numbers)
