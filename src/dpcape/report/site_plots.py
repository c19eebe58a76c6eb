"""Plots of sites: forest plots of means, and how far sites are apart before and after harmonisation."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from dpcape.charts import Offsets, SiteForest
from dpcape.pages.style import COLOURS
from dpcape.report.plots import new_axes


def forest_plot(chart: SiteForest, ax: Axes | None = None) -> Axes:
    """Draw means of sites with their intervals, and below them what holds for these sites and beyond."""
    n_sites, labels = len(chart.names), [*chart.names, *(name for name, *_ in chart.below)]
    axes = new_axes(ax, 6.0, max(2.0, 0.24 * len(labels) + 1.0))
    reach = np.abs(chart.interval - chart.values)
    axes.errorbar(chart.values, np.arange(n_sites), xerr=reach, fmt="s", color=COLOURS[0], capsize=2, markersize=4)
    for row, (_, value, low, high) in enumerate(chart.below, start=n_sites):
        axes.plot([low, high], [row, row], color=COLOURS[1], linewidth=3, alpha=0.6)
        axes.plot([value], [row], marker="D", color=COLOURS[1])
    axes.axhline(n_sites - 0.5, color=COLOURS[-1], linewidth=0.8)
    # Names are not parsed as mathtext, so a dollar sign is literal.
    axes.set_yticks(np.arange(len(labels)), labels, parse_math=False)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(chart.label, parse_math=False)
    return axes


def offset_plot(chart: Offsets, ax: Axes | None = None) -> Axes:
    """Draw how far sites are from the mean of all, and the band within which they usually are afterwards."""
    axes = new_axes(ax, 6.0, max(2.0, 0.24 * len(chart.names) + 1.0))
    positions = np.arange(len(chart.names))
    for column in chart.values.T:
        axes.plot(column, positions, "o", color=COLOURS[0], alpha=0.5, markersize=4)
    axes.axvspan(-chart.band, chart.band, color=COLOURS[1], alpha=0.2, linewidth=0)
    axes.axvline(0.0, color=COLOURS[-1], linewidth=0.8)
    # Names are not parsed as mathtext, so a dollar sign is literal.
    axes.set_yticks(positions, list(chart.names), parse_math=False)
    axes.set_ylim(len(chart.names) - 0.4, -0.6)
    axes.set_xlabel("offset before, in SD within sites (dots: columns; band: usual offset after, at most)")
    return axes
