"""Verdicts on privacy: whether the noise of a published curve provides the claimed epsilon."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dpcape_papers.experiments.experiment import Outcome, Verdict
from dpcape_papers.experiments.results import PUBLISHED, Results, Row, number
from dpcape_papers.verdicts.comparing import Curve

_ROUNDING = 1e-9


class _Setting(NamedTuple):
    claimed: float
    real: float
    delta: float

    @property
    def broken(self) -> bool:
        return self.real > self.claimed * (1 + _ROUNDING)

    def __str__(self) -> str:
        real = "infinite" if math.isinf(self.real) else f"{self.real:.3g}"
        return f"claimed {self.claimed:.3g}, real {real}" + (f" at delta {self.delta:g}" if self.delta else "")


def judge_privacy(
    results: Results, *, theorem: str, where: str, curve: str = "CAPE", up_to: float | None = None
) -> Verdict:
    """Judge whether a published curve's noise provides what its theorem states.

    ``up_to`` is the largest epsilon for which the classical formula is proved, where the paper uses it as cited: a
    claim broken only beyond it holds under that condition.
    """
    outcome, numbers = privacy_claim(results, curve)
    if outcome == "fails" and up_to is not None and _kept_below(results, curve, up_to):
        outcome = "holds under conditions"
        numbers += f"; the classical formula is proved for epsilon up to {up_to:g}, and there the claim is kept"
    return Verdict(f"The noise gives the stated (epsilon, delta) ({theorem}).", where, outcome, numbers, measured=False)


def _kept_below(results: Results, curve: str, up_to: float) -> bool:
    rows = [r for r in Curve(curve, PUBLISHED).of(results) if r["claimed_epsilon"] is not None]
    inside = [one for one in (_setting(r, pure=False) for r in rows) if one.claimed <= up_to]
    return bool(inside) and not any(one.broken for one in inside)


def privacy_claim(results: Results, curve: str, *, pure: bool = False) -> tuple[Outcome, str]:
    """Compare claimed and verified epsilon at all published settings of a curve; one broken claim fails.

    With ``pure`` the claim is for delta 0, whatever delta the rows have.
    """
    rows = [r for r in Curve(curve, PUBLISHED).of(results) if r["claimed_epsilon"] is not None]
    settings = sorted({_setting(r, pure) for r in rows})
    broken = [one for one in settings if one.broken]
    if not broken:
        tightest = max(settings, key=lambda one: one.real / one.claimed)
        return "holds", f"kept at all {len(settings)} settings; closest to its limit: {tightest}"
    worst = max(broken, key=lambda one: one.real / one.claimed)
    kept = [one for one in settings if not one.broken]
    return "fails", f"broken at {len(broken)} of {len(settings)} settings; worst: {worst}{_kept(kept)}"


def _setting(row: Row, pure: bool) -> _Setting:
    delta = 0.0 if pure or row["delta"] is None else number(row, "delta")
    return _Setting(number(row, "claimed_epsilon"), number(row, "verified_epsilon"), delta)


def _kept(kept: Sequence[_Setting]) -> str:
    """Return in words where the claim is kept: at small epsilon the classical formula adds more noise than needed."""
    if not kept:
        return ""
    low, high = kept[0].claimed, kept[-1].claimed
    where = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return f"; kept at the other {len(kept)}, claimed {where}, where the classical formula adds more noise than needed"
