"""Survival curves and the log-rank test in words: as rows or plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dpcape.core.arrays import AnyArray, BoolArray, FloatArray, IntArray

_SHOWN = 8
_NOT_REACHED = "not reached"


class FittedCurves(Protocol):
    """What texts and plots are made from: the fitted arrays of survival curves."""

    times_: FloatArray
    groups_: AnyArray
    complete_: BoolArray
    survival_: FloatArray
    interval_: FloatArray
    at_risk_: FloatArray
    at_risk_interval_: FloatArray
    median_: FloatArray
    median_interval_: FloatArray
    log_rank_: FloatArray
    confidence: float


class FittedTest(Protocol):
    """What texts are made from: the fitted arrays of a log-rank test."""

    groups_: AnyArray
    observed_: FloatArray
    expected_: FloatArray
    statistic_: float
    freedom_: int
    p_value_: float
    compared_until_: float


def shown_times(model: FittedCurves) -> IntArray:
    """Return the positions of at most nine times, the first and the last among them."""
    last = len(model.times_) - 1
    found: IntArray = np.unique(np.round(np.linspace(0, last, min(_SHOWN, last) + 1)).astype(np.intp))
    return found


def drawn_groups(model: FittedCurves) -> list[int]:
    """Return the groups that are drawn: those of public levels, or all records if there are no groups."""
    complete = [int(at) for at in np.flatnonzero(model.complete_) if at]
    return complete or [0]


def curve_rows(model: FittedCurves, times: IntArray) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the curves with their intervals, and of the medians."""
    shown = [0, *(at for at in drawn_groups(model) if at)]
    header = ["time", *(str(model.groups_[at]) for at in shown)]
    rows = [
        [f"{model.times_[time]:.5g}", *(_share(model, int(time), at) for at in shown)] for time in times if time > 0
    ]
    rows.append(["median", *(_median(model, at) for at in shown)])
    return header, rows


def at_risk_rows(model: FittedCurves, times: IntArray) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the numbers at risk: one row per group, missing included."""
    header = ["at risk after", *(f"{model.times_[time]:.5g}" for time in times)]
    rows = [
        [str(name), *(f"{model.at_risk_[time, at]:.0f}" for time in times)] for at, name in enumerate(model.groups_)
    ]
    return header, rows


def log_rank_line(statistic: float, freedom: float, p_value: float) -> str:
    """Return the log-rank test in one line."""
    return f"log-rank test: chi2 = {statistic:.3g} with {freedom:.0f} df, p = {p_value:.3g}"


def curve_text(model: FittedCurves, times: IntArray) -> str:
    """Return the curves as plain text: survival with intervals, medians, numbers at risk, the test of groups."""
    parts = [_aligned(*curve_rows(model, times)), "", _aligned(*at_risk_rows(model, times))]
    if not math.isnan(model.log_rank_[2]):
        parts += ["", log_rank_line(*model.log_rank_.tolist())]
    return "\n".join(parts)


def log_rank_rows(model: FittedTest) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of observed and expected events."""
    rows = [
        [str(name), f"{observed:.0f}", f"{expected:.0f}"]
        for name, observed, expected in zip(model.groups_, model.observed_, model.expected_, strict=True)
    ]
    return ["group", "events", "expected if all were the same"], rows


def log_rank_text(model: FittedTest) -> str:
    """Return the test as plain text."""
    return "\n".join(
        [_aligned(*log_rank_rows(model)), "", log_rank_line(model.statistic_, model.freedom_, model.p_value_)]
    )


def _share(model: FittedCurves, time: int, at: int) -> str:
    low, high = model.interval_[:, time, at]
    return f"{100 * model.survival_[time, at]:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def _median(model: FittedCurves, at: int) -> str:
    low, high = (f"{end:.4g}" if math.isfinite(end) else _NOT_REACHED for end in model.median_interval_[:, at])
    value = model.median_[at]
    return f"{f'{value:.4g}' if math.isfinite(value) else _NOT_REACHED} ({low} to {high})"


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows as text: the first column to the left, the others to the right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))]
        ).rstrip()
        for line in lines
    )
