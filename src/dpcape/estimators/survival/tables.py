"""Survival curves in words, and what the log-rank test found."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcape.core.arrays import IntArray
from dpcape.results import Estimates, Section

if TYPE_CHECKING:
    from dpcape.estimators.survival.kaplan_meier import KaplanMeier

_SHOWN = 8
_NOT_REACHED = "not reached"


def shown_times(model: KaplanMeier) -> IntArray:
    """Return the positions of at most nine times, the first and the last among them."""
    last = len(model.times_) - 1
    return np.unique(np.round(np.linspace(0, last, min(_SHOWN, last) + 1)).astype(np.intp))


def drawn_groups(model: KaplanMeier) -> list[int]:
    """Return the groups that are drawn: those of public levels, or all records if there are no groups."""
    complete = [int(at) for at in np.flatnonzero(model.complete_) if at]
    return complete or [0]


def curve_rows(model: KaplanMeier, times: IntArray) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the curves with their intervals, and of the medians."""
    shown = [0, *(at for at in drawn_groups(model) if at)]
    header = ["time", *(str(model.groups_[at]) for at in shown)]
    rows = [
        [f"{model.times_[time]:.5g}", *(_share(model, int(time), at) for at in shown)] for time in times if time > 0
    ]
    rows.append(["median", *(_median(model, at) for at in shown)])
    return header, rows


def at_risk_rows(model: KaplanMeier, times: IntArray) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the numbers at risk: one row per group, missing included."""
    header = ["at risk after", *(f"{model.times_[time]:.5g}" for time in times)]
    rows = [
        [str(name), *(f"{model.at_risk_[time, at]:.0f}" for time in times)] for at, name in enumerate(model.groups_)
    ]
    return header, rows


def _share(model: KaplanMeier, time: int, at: int) -> str:
    low, high = model.interval_[:, time, at]
    return f"{100 * model.survival_[time, at]:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def _median(model: KaplanMeier, at: int) -> str:
    low, high = (f"{end:.4g}" if math.isfinite(end) else _NOT_REACHED for end in model.median_interval_[:, at])
    value = model.median_[at]
    return f"{f'{value:.4g}' if math.isfinite(value) else _NOT_REACHED} ({low} to {high})"


def tested_section(statistic: float, freedom: float, p_value: float) -> Section:
    """Return the section with the result of the log-rank test."""
    test = Estimates(
        quantity="log-rank chi2",
        estimand="statistic of the test that all groups have the same hazards, noise included",
        parts=f"{freedom:.0f} df",
        value=statistic,
        p_value=p_value,
    )
    line = f"log-rank test: chi2 = {statistic:.3g} with {freedom:.0f} df, p = {p_value:.3g}"
    about = "The p-value includes the noise, wherever within a bin of time events happened."
    return Section(title="Log-rank test", estimates=(test,), tables=(), notes=(f"{line}.", about))
