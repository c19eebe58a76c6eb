"""A figure as its authors ran it, and the comparison of our numbers with theirs, point by point.

The authors' numbers are read from ``authors/figures`` in the data folder, if it is there. Nothing of them is part of
this package.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from dpcape.core.arrays import FloatArray
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.results import Results, Row, number, row
from dpcape_papers.experiments.verdict import Verdict

if TYPE_CHECKING:
    from dpcape_papers.experiments.experiment import Cell, RunSetting

PAPER, REPLICA = "paper", "as published, ours"
# The same result by the measure that the text names, where the figure shows another measure.
REAL = "real loss, ours"
# Our x and the authors' agree up to the digits that their files keep.
_SAME_X = 1e-4
# Where neither side varies, numbers agree up to this relative difference.
_SAME_VALUE = 1e-3
# A spread below this share of the mean is rounding.
_NO_SPREAD = 1e-12


class PointSetting(NamedTuple):
    """Which point of a figure it is. It has no value, so that nothing decided by it can depend on the outcome."""

    panel: str
    curve: str
    x: float


@dataclass(frozen=True)
class PaperPoint:
    """A point of a published figure: the mean of its runs, their standard deviation (0: not stored), their number."""

    panel: str
    curve: str
    x: float
    value: float
    spread: float
    n_runs: int

    @property
    def setting(self) -> PointSetting:
        """Which point it is."""
        return PointSetting(self.panel, self.curve, self.x)


@dataclass(frozen=True)
class ReplicaPanel:
    """How a panel of a published figure is drawn."""

    title: str
    x: str
    y: str
    log_x: bool = True
    log_y: bool = False


def _none(results: Results, panel: str) -> Results:
    return Results([])


def _nothing(results: Results) -> Results:
    return Results([])


def _no_verdicts(results: Results, compared: Sequence[ComparedPoint]) -> list[Verdict]:
    return []


@dataclass(frozen=True)
class Replica:
    """A published figure as its authors ran it.

    Parameters
    ----------
    figure : str
        Its number, such as "4.1"; the authors' numbers are in ``authors/figures/fig4.1.csv`` of the data folder.
    curves : mapping
        Method in the authors' files -> name of our curve.
    panels : mapping
        Panel in the authors' files -> how it is drawn.
    cells : callable
        Lists the cells, whose rows have the calibration `REPLICA` (or "verified") and the column ``original``.
    reason : callable
        Why our settings differ from the authors' at a point; empty where they agree. It sees the setting alone. Other
        draws of random data by the same rule are no other setting.
    explained : str
        What is known about the differences that remain, or that they are not explained.
    verified_note : str
        What the verified curves of the picture are, and where there are none.
    compared : bool
        Whether the authors' numbers are compared; not if they were evaluated from the same formula as ours.
    magnitude : bool
        Whether the figure shows the magnitude of the mean, as in figures 8.1 and 8.2.
    verified : callable
        Chooses, for a panel, the verified rows of our own experiment that measure the same on the same data.
    translated : callable
        Returns our rows of the authors' setting in the format of our own experiment, for its judge; empty if the two
        measure different things.
    judge : callable
        Judges claims about what the authors ran, given all rows (theirs included) and the points compared.
    """

    figure: str
    curves: Mapping[str, str]
    panels: Mapping[str, ReplicaPanel]
    cells: Callable[[RunSetting], list[Cell]]
    reason: Callable[[PointSetting], str]
    explained: str = ""
    verified_note: str = ""
    compared: bool = True
    magnitude: bool = False
    verified: Callable[[Results, str], Results] = _none
    translated: Callable[[Results], Results] = _nothing
    judge: Callable[[Results, Sequence[ComparedPoint]], list[Verdict]] = _no_verdicts

    @property
    def file(self) -> str:
        """Name of the authors' numbers in the data folder."""
        return f"authors/figures/fig{self.figure}.csv"


class ComparedPoint(TypedDict):
    """One point of the comparison, as written to compared.json."""

    panel: str
    curve: str
    x: float
    ours: float
    spread: float
    n_runs: int
    paper: float
    paper_spread: float
    paper_runs: int
    ratio: float
    margin: float
    within: bool
    reason: str


def paper_points(data: DataFolder, replica: Replica) -> list[PaperPoint]:
    """Return the plotted points of the curves we know; empty if their file is not there or they are not compared."""
    if not replica.compared or not data.has(replica.file):
        return []
    with data.file(replica.file).open(newline="", encoding="utf-8") as file:
        drawn = [entry for entry in csv.DictReader(file) if entry["plotted"] == "1"]
    return [_point(entry, replica) for entry in drawn if entry["method"] in replica.curves]


def _point(entry: Mapping[str, str], replica: Replica) -> PaperPoint:
    # Runs that repeat each other bit by bit are one run.
    identical = "identical" in entry["note"]
    return PaperPoint(
        panel=entry["panel"],
        curve=replica.curves[entry["method"]],
        x=float(entry["x"]),
        value=float(entry["y"]),
        spread=float(entry["y_std"] or 0.0),
        n_runs=1 if identical else int(float(entry["n_runs"] or 1)),
    )


def paper_rows(points: Sequence[PaperPoint], replica: Replica) -> list[Row]:
    """Return the authors' points as rows."""
    return [
        row(
            panel=one.panel, curve=one.curve, calibration=PAPER, x=one.x, measure=replica.panels[one.panel].y,
            value=one.value, original=replica.figure, spread=one.spread, n_runs=one.n_runs,
        )
        for one in points
        if one.panel in replica.panels
    ]  # fmt: skip


def compared_points(results: Results, points: Sequence[PaperPoint], replica: Replica) -> list[ComparedPoint]:
    """Compare our rows with the authors' points where both have one."""
    ours: dict[tuple[str, str], list[tuple[float, list[float]]]] = {}
    for r in results:
        if r["calibration"] == REPLICA:
            place = ours.setdefault((str(r["panel"]), str(r["curve"])), [])
            x, value = number(r, "x"), number(r, "value")
            same = next((values for other, values in place if _close(other, x)), None)
            if same is None:
                place.append((x, [value]))
            else:
                same.append(value)
    found = []
    for one in points:
        values = next((v for x, v in ours.get((one.panel, one.curve), []) if _close(x, one.x)), None)
        if values is not None:
            found.append(_compared(one, np.array(values), replica))
    return found


def _close(x: float, other: float) -> bool:
    return math.isclose(x, other, rel_tol=_SAME_X)


def _compared(point: PaperPoint, values: FloatArray, replica: Replica) -> ComparedPoint:
    kept = values[np.isfinite(values)]
    mean = float(kept.mean()) if kept.size else math.nan
    mean = abs(mean) if replica.magnitude else mean
    spread = float(kept.std(ddof=1)) if kept.size > 1 else 0.0
    margin = margin_of(mean, spread, kept.size, point.spread, point.n_runs)
    return {
        "panel": point.panel,
        "curve": point.curve,
        "x": point.x,
        "ours": mean,
        "spread": spread,
        "n_runs": int(kept.size),
        "paper": point.value,
        "paper_spread": point.spread,
        "paper_runs": point.n_runs,
        "ratio": mean / point.value if point.value else math.nan,
        "margin": margin,
        "within": abs(mean - point.value) <= margin,
        "reason": replica.reason(point.setting),
    }


def margin_of(mean: float, spread: float, n_runs: int, their_spread: float, their_runs: int) -> float:
    """Return twice the standard error of the difference of the means; the paper's mean is not known here.

    Where the authors' runs do not vary or their spread is not stored, ours counts for one run of theirs. Where random
    data are absent, our runs vary with the draw of the data and theirs do not: nothing is added for that.
    """
    spread = spread if spread > _NO_SPREAD * abs(mean) else 0.0
    if their_spread <= _NO_SPREAD * abs(mean):
        their_spread, their_runs = spread, 1
    margin = 2 * math.sqrt(spread**2 / max(n_runs, 1) + their_spread**2 / their_runs)
    return margin or _SAME_VALUE * abs(mean)


def with_ratios(results: Results, compared: Sequence[ComparedPoint]) -> Iterator[Row]:
    """Yield our rows with the ratio of their point's mean to the authors'."""
    for r in results:
        same = [
            one
            for one in compared
            if r["calibration"] == REPLICA
            and (one["panel"], one["curve"]) == (r["panel"], r["curve"])
            and _close(one["x"], number(r, "x"))
        ]
        yield {**r, "ratio_to_paper": same[0]["ratio"]} if same else r


class Summary(TypedDict):
    """What a figure's comparison amounts to: points and how many lie within the spread, all, agreeing and excused."""

    points: int
    points_within: int
    agreeing: int
    agreeing_within: int
    excused: int
    excused_within: int
    median_ratio: float


def summary(points: Sequence[ComparedPoint]) -> Summary:
    """Return the three counts: of all points, of those whose settings agree, and of those whose settings differ."""
    agreeing = [one for one in points if not one["reason"]]
    excused = [one for one in points if one["reason"]]
    ratios = [one["ratio"] for one in points if math.isfinite(one["ratio"])]
    return {
        "points": len(points),
        "points_within": _within(points),
        "agreeing": len(agreeing),
        "agreeing_within": _within(agreeing),
        "excused": len(excused),
        "excused_within": _within(excused),
        "median_ratio": float(np.median(ratios)) if ratios else math.nan,
    }


def _within(points: Sequence[ComparedPoint]) -> int:
    return sum(one["within"] for one in points)


def rate(within: int, points: int) -> str:
    """Return a share in words, such as "72% of 2,045"."""
    return f"{100 * within / points:.0f}% of {points:,}" if points else "-"
