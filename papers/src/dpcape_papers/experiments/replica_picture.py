"""The picture of a comparison: a line per panel, a column per method, each with the paper, ours, and verified."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from dpcape_papers.experiments.curves import PlainNumbers, colours_of, legend_below, wrapped
from dpcape_papers.experiments.replica import PAPER, REAL, REPLICA, Replica, ReplicaPanel
from dpcape_papers.experiments.results import UNCOVERED, VERIFIED, CurvePoints, Results, require_guarantees

_DASHES = {PAPER: "none", REPLICA: "--", REAL: ":", VERIFIED: "-", UNCOVERED: "-."}
_FEW_DECADES = 50
_MARKERS = {PAPER: "o", REPLICA: "", REAL: "", VERIFIED: "", UNCOVERED: ""}


def draw_replica(replica: Replica, original: Results, own: Results) -> Figure:
    """Draw the authors' points, ours as published and verified; ``own`` are the rows of our own experiment."""
    panels = [panel for panel in replica.panels if panel in original.where(calibration=REPLICA).values("panel")]
    curves = [curve for curve in replica.curves.values() if curve in original.values("curve")]
    size = (2.35 * len(curves) + 0.6, 1.95 * len(panels) + 0.8)
    figure, grid = plt.subplots(len(panels), len(curves), figsize=size, squeeze=False, layout="constrained")
    colours = colours_of(curves)
    for line, panel in zip(grid, panels, strict=True):
        look = replica.panels[panel]
        # The real loss of verified coefficients stands where the figure shows another quantity.
        shown = [
            r
            for r in original.where(panel=panel)
            if r["measure"] == look.y or r["calibration"] in (REAL, VERIFIED, UNCOVERED)
        ]
        rows = Results([*shown, *replica.verified(own, panel)])
        require_guarantees(rows)
        for axes, curve in zip(line, curves, strict=True):
            _draw(axes, rows.series(curve=curve), look, colours[curve], magnitude=replica.magnitude)
            axes.set_title(curve, fontsize="small", color=colours[curve])
        _share_height(line)
        line[0].set_ylabel("\n".join([*wrapped(look.title, 30), look.y]), fontsize="x-small")
        for axes in line[1:]:
            axes.tick_params(labelleft=False)
    legend_below(figure)
    return figure


def _draw(axes: Axes, series: Sequence[CurvePoints], look: ReplicaPanel, colour: str, *, magnitude: bool) -> None:
    for one in series:
        if one.calibration not in _DASHES:
            continue
        mean = np.abs(one.mean) if magnitude else one.mean
        shade = "black" if one.calibration == PAPER else colour
        # A line through one point cannot be seen.
        marker = _MARKERS[one.calibration] or ("x" if len(one.x) == 1 else "")
        axes.plot(
            one.x, mean, linestyle=_DASHES[one.calibration], marker=marker, markersize=3.2,
            color=shade, label=_label(one.calibration, magnitude=magnitude), lw=1.6,
        )  # fmt: skip
        if np.any(one.spread > 0) and not look.log_y:
            axes.fill_between(one.x, mean - one.spread, mean + one.spread, color=shade, alpha=0.15, lw=0)
    axes.set_xscale("log" if look.log_x else "linear")
    axes.set_yscale("log" if look.log_y else "linear")
    if look.log_x:
        axes.xaxis.set_major_formatter(PlainNumbers(labelOnlyBase=False, minor_thresholds=(np.inf, np.inf)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        low, high = axes.get_xlim()
        # Powers of ten alone would leave such an axis with one number.
        if high < _FEW_DECADES * low:
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 12 * low else (1, 3)))
    axes.set_xlabel(look.x, fontsize="x-small")
    axes.tick_params(labelsize="x-small")
    axes.grid(visible=True, alpha=0.25)


_LABELS = {PAPER: "paper", REPLICA: REPLICA, REAL: REAL, VERIFIED: VERIFIED, UNCOVERED: UNCOVERED}


def _label(calibration: str, *, magnitude: bool) -> str:
    """Name a curve; where the figure does not show the loss, the verified curve does, and says so."""
    covered = calibration in (VERIFIED, UNCOVERED)
    return f"{calibration}, real loss" if magnitude and covered else _LABELS[calibration]


def _share_height(line: Sequence[Axes]) -> None:
    """Give all panels of a line the same vertical range, wide enough for every curve."""
    drawn = [axes.get_ylim() for axes in line if axes.lines]
    if drawn:
        low, high = min(low for low, _ in drawn), max(high for _, high in drawn)
        if line[0].get_yscale() == "log":
            edge = (high / low) ** 0.05
            low, high = low / edge, high * edge
        else:
            edge = 0.05 * (high - low)
            low, high = low - edge, high + edge
        for axes in line:
            axes.set_ylim(low, high)
