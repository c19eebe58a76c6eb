"""Plots of survival: curves with bands and numbers at risk below them, and hazard ratios."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from dpcape.pages.style import COLOURS
from dpcape.report.coefficient_plots import coefficient_plot, within
from dpcape.report.hazard_table import FittedHazards
from dpcape.report.plots import STYLES, new_axes
from dpcape.report.survival_tables import FittedCurves, drawn_groups, shown_times

# Below the axis: how far down the first row of numbers at risk is, and how far the others, in inches.
_FIRST_ROW, _ROW = 0.62, 0.18
_MOST_TICKS = 9


def survival_plot(model: FittedCurves, ax: Axes | None = None) -> Axes:
    """Draw the curve of each group with its band; below the axis, how many are at risk.

    Parameters
    ----------
    model : FittedCurves
        Fitted curves.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    """
    groups = drawn_groups(model)
    axes = new_axes(ax, 6.0, 3.6 + _ROW * len(groups))
    for number, at in enumerate(groups):
        colour, style = COLOURS[number % len(COLOURS)], STYLES[number % len(STYLES)]
        low, high = model.interval_[:, :, at]
        axes.fill_between(model.times_, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(model.times_, model.survival_[:, at], color=colour, linestyle=style, label=str(model.groups_[at]))
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, model.times_[-1])
    axes.set_xlabel("time")
    axes.set_ylabel("share without the event")
    if len(groups) > 1:
        for text in axes.legend(frameon=False).get_texts():
            # A dollar sign in a name does not start mathematics.
            text.set_parse_math(False)
    _number_at_risk(axes, model, groups)
    return axes


def _number_at_risk(axes: Axes, model: FittedCurves, groups: list[int]) -> None:
    """Write how many are at risk, one row per group, below the labels of the axis."""
    times = shown_times(model)[::2]
    for row, at in enumerate(groups):
        colour = COLOURS[row % len(COLOURS)]
        name = str(model.groups_[at]) if len(groups) > 1 else "at risk"
        texts = [
            (0.0, name, "right", -16),
            *((model.times_[time], f"{model.at_risk_[time, at]:.0f}", "center", 0) for time in times),
        ]
        for place, text, side, shift in texts:
            axes.annotate(
                text,
                (place, 0.0),
                (shift, -72 * (_FIRST_ROW + _ROW * row)),
                xycoords=axes.get_xaxis_transform(),
                textcoords="offset points",
                ha=side,
                color=colour,
                fontsize=8,
                parse_math=False,
                annotation_clip=False,
            )


def ratio_plot(model: FittedHazards, ax: Axes | None = None, *, largest: int = 30) -> Axes:
    """Draw hazard ratios with their intervals on a logarithmic axis (forest plot).

    Parameters
    ----------
    model : FittedHazards
        Fitted hazard ratios.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    largest : int
        Largest number of ratios to draw.
    """
    coefficients = model.coef_ * model.sd_
    interval = within(model.interval_ * model.sd_, coefficients, 1.0)
    axes = coefficient_plot(
        coefficients,
        interval,
        [str(name) for name in model.names_],
        ax,
        largest=largest,
        label=f"hazard ratio (numbers: per SD), with {100 * model.confidence:g}% interval",
    )
    low, high = axes.get_xlim()
    ticks = np.array([0.05, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20])
    shown = ticks[(np.log(ticks) >= low) & (np.log(ticks) <= high)]
    if len(shown) > _MOST_TICKS:
        shown = shown[np.isin(shown, (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20))]
    axes.set_xticks(np.log(shown), [f"{tick:g}" for tick in shown])
    return axes
