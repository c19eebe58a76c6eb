"""Charts of a result drawn by matplotlib, for reports and for the estimators' methods that plot."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpcape.charts import DRAWN, Bars, Chart, Curves, Forest, Matrix, Offsets, Scree, SiteForest, Topics, Weights
from dpcape.core.arrays import BoolArray, FloatArray
from dpcape.report.coefficient_plots import coefficient_plot
from dpcape.report.component_plots import correlation_map, loadings, top_words
from dpcape.report.map_plots import plot_maps, plot_slices
from dpcape.report.page import Picture
from dpcape.report.plots import bars, scree
from dpcape.report.site_plots import forest_plot, offset_plot
from dpcape.report.survival_plots import survival_plot

_MOST_ROWS, _MOST_MAPS, _MOST_IMAGES, _MOST_TICKS = 12, 10, 8, 9
_RATIOS = np.array([0.05, 0.1, 0.2, 0.33, 0.5, 0.67, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20])
_FEWER_RATIOS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
_OWN_SCALE = "Each map has its own scale; red is positive, blue negative."


def draw(chart: Chart, ax: Axes | None = None, *, largest: int = DRAWN) -> Axes:
    """Draw a chart.

    Parameters
    ----------
    chart : Chart
        What to draw.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    largest : int
        Largest number of figures of a forest plot.
    """
    match chart:
        case Forest():
            return _forest(chart, ax, largest)
        case SiteForest():
            return forest_plot(chart, ax)
        case Offsets():
            return offset_plot(chart, ax)
        case Scree():
            return scree(chart.values, chart.level, ax)
        case Bars():
            axes = bars(chart.values, chart.label, ax, noise_level=chart.level)
            axes.set_xlabel(chart.row)
            if chart.top is not None:
                axes.set_ylim(0, chart.top)
            return axes
        case Matrix():
            return correlation_map(chart.values, chart.p_values, chart.names, ax)
        case Curves():
            return survival_plot(chart, ax)
        case Weights():
            shown = chart.values[:_MOST_ROWS]
            return loadings(shown, [f"{chart.row} {at + 1}" for at in range(len(shown))], chart.names, ax)
        case Topics():
            first: Axes = top_words(chart.words, chart.weights, None if ax is None else [ax])[0]
            return first
        case _:
            raise TypeError(f"no drawing of {type(chart).__name__}")


def picture_of(chart: Chart, inside: BoolArray | None = None, shape: Sequence[int] = ()) -> Picture:
    """Return a chart as a picture of a page.

    Parameters
    ----------
    chart : Chart
        What to draw.
    inside : array of bool or None
        Public mask of the study, for maps of voxels.
    shape : sequence of int
        Public shape of the image that the columns form; empty if they form none.
    """
    if isinstance(chart, Weights):
        return _weights(chart, inside, shape)
    return Picture(figure_of(draw(chart)), chart.alt, chart.caption, wide=isinstance(chart, Matrix | Topics))


def figure_of(axes: Axes) -> Figure:
    """Return the figure of Axes."""
    figure = axes.figure
    assert isinstance(figure, Figure)
    return figure


def _forest(chart: Forest, ax: Axes | None, largest: int) -> Axes:
    axes = coefficient_plot(chart.values, chart.interval, chart.names, ax, largest=largest, label=chart.label)
    if chart.is_log:
        low, high = axes.get_xlim()
        ticks = _RATIOS[(np.log(_RATIOS) >= low) & (np.log(_RATIOS) <= high)]
        if len(ticks) > _MOST_TICKS:
            ticks = ticks[np.isin(ticks, _FEWER_RATIOS)]
        axes.set_xticks(np.log(ticks), [f"{tick:g}" for tick in ticks])
    return axes


def _weights(chart: Weights, inside: BoolArray | None, shape: Sequence[int]) -> Picture:
    """Return weights as images if their columns are voxels or pixels, otherwise as a heat map."""
    width = chart.values.shape[1]
    if chart.may_be_image:
        if inside is None and len(shape) == 3 and math.prod(shape) == width:
            inside = np.ones(shape, dtype=np.bool_)
        if inside is not None and inside.ndim == 3 and int(inside.sum()) == width:
            return _slices(chart, inside, "Slices of the mask with the maps")
        if len(shape) == 2 and math.prod(shape) == width:
            return _images(chart, chart.values[:_MOST_IMAGES], (shape[0], shape[1]))
    if chart.inside is None or chart.inside.ndim == 1:
        count = min(_MOST_ROWS, len(chart.values))
        alt = f"Heat map: weights of {width} features in {count} rows, one per {chart.row}."
        caption = f"{chart.caption} Red is positive, blue negative; all rows have the same scale.".strip()
        return Picture(figure_of(draw(chart)), alt, caption, wide=True)
    if chart.inside.ndim == 3:
        return _slices(chart, chart.inside, "Slices with the maps")
    maps = np.zeros((min(_MOST_MAPS, len(chart.values)), *chart.inside.shape))
    maps[:, chart.inside] = chart.values[:_MOST_MAPS]
    return _images(chart, maps.reshape(len(maps), -1), (chart.inside.shape[0], chart.inside.shape[1]))


def _slices(chart: Weights, inside: BoolArray, what: str) -> Picture:
    count = min(_MOST_MAPS, len(chart.values))
    alt = f"{what} of {count} {chart.row}s, on an image of {' x '.join(map(str, inside.shape))} voxels."
    caption = f"For each {chart.row}, the slice in which its map is strongest. {_OWN_SCALE}"
    return Picture(figure_of(plot_slices(chart.values.T, inside)), alt, f"{chart.caption} {caption}".strip(), wide=True)


def _images(chart: Weights, shown: FloatArray, shape: tuple[int, int]) -> Picture:
    axes = plot_maps({"": shown.T}, shape, n_shown=len(shown))
    alt = f"Images of {len(shown)} {chart.row}s of {len(chart.values)}."
    return Picture(figure_of(axes), alt, f"{chart.caption} {_OWN_SCALE}".strip(), wide=True)
