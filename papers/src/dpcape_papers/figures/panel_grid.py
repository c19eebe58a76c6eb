"""Figures whose panels have different horizontal axes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from dpcape_papers.experiments.curves import Look, draw_curves, legend_below, true_epsilon_note
from dpcape_papers.experiments.results import Results


def draw_grid(
    results: Results,
    looks: Mapping[str, Look],
    *,
    measures: Mapping[str, str],
    titles: Mapping[str, str],
    n_columns: int = 3,
) -> Figure:
    """Draw one panel per entry of ``looks`` with its own axes and measure, and the legend and real epsilons below."""
    import matplotlib.pyplot as plt

    n_rows = -(-len(looks) // n_columns)
    size = (3.9 * n_columns, 2.9 * n_rows + 1.6)
    figure, grid = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False, layout="constrained")
    for axes, (name, look) in zip(grid.flat, looks.items(), strict=False):
        draw_curves(axes, results.series(panel=name, measure=measures[name]), look)
        axes.set_title(titles[name], fontsize="medium")
        _label_points(axes)
    for axes in grid.flat[len(looks) :]:
        axes.set_visible(False)
    legend_below(figure)
    true_epsilon_note(figure, results)
    return figure


def _label_points(axes: Axes) -> None:
    """Label the data points if a logarithmic axis spans less than two decades, where minor ticks would overlap."""
    if axes.get_xscale() != "log" or not axes.lines:
        return
    axes.xaxis.set_minor_formatter(NullFormatter())
    points = np.unique(np.concatenate([np.asarray(line.get_xdata(), dtype=float) for line in axes.lines]))
    if points[-1] < 100 * points[0]:
        axes.set_xticks(points, [f"{point:g}" for point in points])
