"""Plots of survival: curves with bands, and numbers at risk below them."""

from __future__ import annotations

from matplotlib.axes import Axes

from dpcape.charts import Curves
from dpcape.pages.style import COLOURS
from dpcape.report.plots import STYLES, new_axes

# Below the axis: how far down the first row of numbers at risk is, and how far the others, in inches.
_FIRST_ROW, _ROW = 0.62, 0.18


def survival_plot(chart: Curves, ax: Axes | None = None) -> Axes:
    """Draw the curve of each group with its band; below the axis, how many are at risk.

    Parameters
    ----------
    chart : Curves
        The curves.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    """
    axes = new_axes(ax, 6.0, 3.6 + _ROW * len(chart.groups))
    for at, group in enumerate(chart.groups):
        colour, style = COLOURS[at % len(COLOURS)], STYLES[at % len(STYLES)]
        low, high = chart.interval[:, :, at]
        axes.fill_between(chart.times, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(chart.times, chart.values[:, at], color=colour, linestyle=style, label=group)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, chart.times[-1])
    axes.set_xlabel("time")
    axes.set_ylabel("share without the event")
    if len(chart.groups) > 1:
        for text in axes.legend(frameon=False).get_texts():
            # Names are not parsed as mathtext, so a dollar sign is literal.
            text.set_parse_math(False)
    _number_at_risk(axes, chart)
    return axes


def _number_at_risk(axes: Axes, chart: Curves) -> None:
    """Write how many are at risk, one row per group, below the labels of the axis."""
    for row, group in enumerate(chart.groups):
        colour = COLOURS[row % len(COLOURS)]
        name = group if len(chart.groups) > 1 else "at risk"
        texts = [
            (0.0, name, "right", -16),
            *((chart.times[time], f"{chart.at_risk[time, row]:.0f}", "center", 0) for time in chart.shown),
        ]
        for time_shown, text, side, shift in texts:
            axes.annotate(
                text,
                (time_shown, 0.0),
                (shift, -72 * (_FIRST_ROW + _ROW * row)),
                xycoords=axes.get_xaxis_transform(),
                textcoords="offset points",
                ha=side,
                color=colour,
                fontsize=8,
                parse_math=False,
                annotation_clip=False,
            )
