"""Panels whose horizontal axes differ, in one figure."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure

from dpcape.reproduce.curves import Look, draw_curves, legend_below, true_epsilon_note
from dpcape.reproduce.results import Results


def draw_grid(
    results: Results,
    looks: Mapping[str, Look],
    *,
    measures: Mapping[str, str],
    titles: Mapping[str, str],
    n_columns: int = 3,
) -> Figure:
    """Draw one panel per entry of ``looks`` with its own axes and measure; legend and real epsilons stand below."""
    import matplotlib.pyplot as plt

    n_rows = -(-len(looks) // n_columns)
    size = (3.9 * n_columns, 2.9 * n_rows + 1.6)
    figure, grid = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False, layout="constrained")
    for axes, (name, look) in zip(grid.flat, looks.items(), strict=False):
        draw_curves(axes, results.series(panel=name, measure=measures[name]), look)
        axes.set_title(titles[name], fontsize="medium")
    for axes in grid.flat[len(looks) :]:
        axes.set_visible(False)
    legend_below(figure)
    true_epsilon_note(figure, results)
    return figure
