"""Plots of coefficients with intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from dpcape.arrays import FloatArray
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
        Lower and upper ends; None for no intervals.
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
    arms = None if interval is None else np.abs(interval[:, order] - coefficients[order])
    axes.errorbar(coefficients[order], positions, xerr=arms, fmt="o", color=COLOURS[0], capsize=2)
    axes.axvline(0.0, color=COLOURS[-1], linewidth=0.8)
    # A dollar sign in a name does not start mathematics.
    axes.set_yticks(positions, labels, parse_math=False)
    # The first on top, and as much space below the last as between two.
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(label)
    return axes
