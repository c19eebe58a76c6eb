"""Figures whose panels have many curves: a line of small panels for each, one per method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from dpcape_papers.experiments.curves import Look, colours_of, draw_curves, legend_below, true_epsilon_note, wrapped
from dpcape_papers.experiments.results import NON_PRIVATE, CurvePoints, Results

# Drawn in every small panel, to compare with.
_REFERENCES = ("pooled", "random vectors")


@dataclass(frozen=True)
class Line:
    """One panel of a paper: its title, its curves and its axes."""

    title: str
    series: Sequence[CurvePoints]
    look: Look


def draw_grid(
    results: Results, looks: Mapping[str, Look], *, measures: Mapping[str, str], titles: Mapping[str, str]
) -> Figure:
    """Draw one line per entry of ``looks`` with its own axes and measure, and the legend and real epsilons below."""
    lines = [
        Line(titles[name], results.series(panel=name, measure=measures[name]), look) for name, look in looks.items()
    ]
    figure = draw_by_method(lines)
    true_epsilon_note(figure, results)
    return figure


def draw_by_method(lines: Sequence[Line]) -> Figure:
    """Draw every panel as a line of small ones: each method in its own, with the curves to compare with."""
    import matplotlib.pyplot as plt

    series = [one for line in lines for one in line.series]
    # A figure may contain reference methods only: the poster's methods are all pooled.
    methods = _names(one for one in series if not _is_reference(one)) or _names(
        one for one in series if one.calibration != NON_PRIVATE
    )
    colours = colours_of([one.curve for one in series])
    # A single column is as wide as two, so that its letters are not larger than those of other figures.
    size = (2.6 * max(2, len(methods)) + 0.5, 2.15 * len(lines) + 1.6)
    figure, grid = plt.subplots(len(lines), len(methods), figsize=size, squeeze=False, layout="constrained")
    for row, line in zip(grid, lines, strict=True):
        for axes, method in zip(row, methods, strict=True):
            chosen = [one for one in line.series if _is_reference(one) or one.curve == method]
            draw_curves(axes, chosen, line.look, colours)
            axes.set_title(method, fontsize="small", color=colours[method])
            axes.tick_params(labelsize="small")
            _label_points(axes)
        _share_height(row)
        row[0].set_ylabel("\n".join([*wrapped(line.title, 28), line.look.y]), fontsize="small")
        for axes in row[1:]:
            axes.set_ylabel("")
            axes.tick_params(axis="y", which="both", labelleft=False)
    legend_below(figure)
    return figure


def _names(series: Iterable[CurvePoints]) -> list[str]:
    return list(dict.fromkeys(one.curve for one in series))


def _is_reference(one: CurvePoints) -> bool:
    return one.calibration == NON_PRIVATE or one.curve in _REFERENCES


def _share_height(row: Sequence[Axes]) -> None:
    """Give the panels of a line the same vertical range, which contains all curves."""
    limits = [axes.get_ylim() for axes in row if axes.lines]
    if limits:
        for axes in row:
            axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def _label_points(axes: Axes) -> None:
    """Label the data points if a logarithmic axis spans less than two decades, where minor ticks would overlap."""
    if axes.get_xscale() != "log" or not axes.lines:
        return
    axes.xaxis.set_minor_formatter(NullFormatter())
    points = np.unique(np.concatenate([np.asarray(line.get_xdata(), dtype=float) for line in axes.lines]))
    if points[-1] < 100 * points[0] and len(points) <= 3:
        axes.set_xticks(points, [f"{point:g}" for point in points])
