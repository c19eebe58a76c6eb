"""Plots of coefficients with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from dpcape.core.arrays import AnyArray, FloatArray
from dpcape.pages.style import COLOURS
from dpcape.report.plots import new_axes


def coefficient_plot(
    coefficients: FloatArray,
    interval: FloatArray | None,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
    *,
    largest: int = 30,
    label: str = "coefficient, with interval (sampling and privacy noise)",
) -> Axes:
    """Draw coefficients with their intervals, in the order of the columns; of many, only the largest.

    Parameters
    ----------
    coefficients : array of shape (D,)
        Coefficients to draw.
    interval : array of shape (2, D) or None
        Lower and upper ends; None for no intervals. An infinite end is drawn as an arrow at the edge.
    names : sequence of str or None
        Names of the features; None numbers them.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    largest : int
        Largest number of coefficients to draw.
    label : str
        Label of the axis.
    """
    order = np.sort(np.argsort(-np.abs(coefficients), kind="stable")[:largest])
    labels = [str(index) if names is None else str(names[index]) for index in order]
    axes = new_axes(ax, height=max(2.0, 0.22 * len(order) + 1.0))
    positions = np.arange(len(order))
    _draw(axes, coefficients[order], None if interval is None else interval[:, order], positions)
    axes.axvline(0.0, color=COLOURS[-1], linewidth=0.8)
    # Names are not parsed as mathtext, so a dollar sign is literal.
    axes.set_yticks(positions, labels, parse_math=False)
    # The first on top, and as much space below the last as between two.
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(label)
    return axes


def _draw(axes: Axes, values: FloatArray, ends: FloatArray | None, positions: AnyArray) -> None:
    """Draw points with intervals; arrows stand for ends that are not known or far away."""
    if ends is None:
        axes.plot(values, positions, "o", color=COLOURS[0])
        return
    edge = 1.15 * max(float(np.abs(values).max(initial=0.0)), float(np.abs(ends[np.isfinite(ends)]).max(initial=0.0)))
    edge = edge or 1.0
    is_open = ~np.isfinite(ends)
    drawn = np.where(is_open, np.copysign(edge, ends), ends)
    axes.errorbar(values, positions, xerr=np.abs(drawn - values), fmt="o", color=COLOURS[0], capsize=2)
    for marker, open_rows, ends_drawn in zip("<>", is_open, drawn, strict=True):
        axes.plot(ends_drawn[open_rows], positions[open_rows], marker, color=COLOURS[0], markersize=7)
