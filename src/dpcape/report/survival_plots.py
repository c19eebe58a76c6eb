"""Plots of survival curves: bands, and numbers at risk below them."""

from __future__ import annotations

from matplotlib.axes import Axes

from dpcape.pages.style import COLOURS
from dpcape.report.plots import STYLES, new_axes
from dpcape.report.survival_tables import FittedCurves, drawn_groups, shown_times

# Below the axis: how far down the first row of numbers at risk is, and how far the others, in inches.
_FIRST_ROW, _ROW = 0.62, 0.18


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
