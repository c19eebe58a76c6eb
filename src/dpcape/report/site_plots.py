"""Plots of sites: forest plots of means, and how far sites are apart before and after harmonisation."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from dpcape.pages.style import COLOURS
from dpcape.report.plots import new_axes
from dpcape.report.site_tables import FittedEffects, FittedSites

_MOST = 40


def forest_plot(model: FittedEffects, column: int, ax: Axes | None = None) -> Axes:
    """Draw means of sites with their intervals, and below them what holds for these sites and beyond.

    Parameters
    ----------
    model : FittedEffects
        Fitted random effects.
    column : int
        Position of the column.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    """
    there = np.flatnonzero(model.sizes_ > 0)[:_MOST]
    names = [str(model.sites_[at]) for at in there]
    means, ends = model.site_means_[there, column], model.site_intervals_[:, there, column]
    below = [
        ("these sites", model.pooled_[column], model.pooled_interval_[:, column]),
        ("wider population", model.mean_[column], model.interval_[:, column]),
        ("a further site", model.mean_[column], model.prediction_[:, column]),
    ]
    below = [entry for entry in below if np.isfinite([entry[1], *entry[2]]).all()]
    axes = new_axes(ax, 6.0, max(2.0, 0.24 * (len(names) + len(below)) + 1.0))
    places = np.arange(len(names))
    axes.errorbar(means, places, xerr=np.abs(ends - means), fmt="s", color=COLOURS[0], capsize=2, markersize=4)
    for row, (_, value, (low, high)) in enumerate(below, start=len(names)):
        axes.plot([low, high], [row, row], color=COLOURS[1], linewidth=3, alpha=0.6)
        axes.plot([value], [row], marker="D", color=COLOURS[1])
    axes.axhline(len(names) - 0.5, color=COLOURS[-1], linewidth=0.8)
    labels = [*names, *(name for name, _, _ in below)]
    # A dollar sign in a name does not start mathematics.
    axes.set_yticks(np.arange(len(labels)), labels, parse_math=False)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(f"mean of {model.columns_[column]}, with {100 * model.confidence:g}% interval", parse_math=False)
    return axes


def offset_plot(model: FittedSites, ax: Axes | None = None) -> Axes:
    """Draw how far sites are from the mean of all, relative to the spread between sites, and what is left at most.

    Parameters
    ----------
    model : FittedSites
        Fitted location and scale.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    """
    location = np.asarray(model.location_)
    # Columns have different units: each is shown relative to the spread of its sites.
    spread = np.sqrt((location**2).mean(axis=0))
    relative = location / np.where(spread > 0, spread, 1.0) * np.sqrt(model.between_)
    names = [str(site) for site in model.sites_][:_MOST]
    axes = new_axes(ax, 6.0, max(2.0, 0.24 * len(names) + 1.0))
    places = np.arange(len(names))
    for column in range(relative.shape[1]):
        axes.plot(relative[: len(names), column], places, "o", color=COLOURS[0], alpha=0.5, markersize=4)
    left = float(np.sqrt(model.left_))
    axes.axvspan(-left, left, color=COLOURS[1], alpha=0.2, linewidth=0)
    axes.axvline(0.0, color=COLOURS[-1], linewidth=0.8)
    # A dollar sign in a name does not start mathematics.
    axes.set_yticks(places, names, parse_math=False)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("offset before, in SD within sites (dots: columns; band: usual offset after, at most)")
    return axes
