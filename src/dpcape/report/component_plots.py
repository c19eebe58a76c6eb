"""Plots of topics and components."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dpcape.core.arrays import FloatArray
from dpcape.pages.style import COLOURS
from dpcape.postprocessing.verdicts import LEVEL
from dpcape.report.plots import new_axes


def top_words(
    topics: Sequence[Sequence[tuple[str, float]]], weights: FloatArray, axes: Sequence[Axes] | None = None
) -> NDArray[np.object_]:
    """Draw one panel of horizontal bars per topic, most probable word on top; return the array of Axes."""
    panels = _panels(len(topics)) if axes is None else np.asarray(axes, dtype=object).ravel()
    for index, (words, weight, panel) in enumerate(zip(topics, weights, panels, strict=False)):
        positions = np.arange(len(words))[::-1]
        panel.barh(positions, [share for _, share in words], color=COLOURS[0])
        # Names are not parsed as mathtext, here and below, so a dollar sign is literal.
        panel.set_yticks(positions, [name for name, _ in words], fontsize=8, parse_math=False)
        panel.set_title(f"topic {index + 1} ({100 * weight:.0f}%)", fontsize=9)
        panel.set_xlabel("probability", fontsize=8)
        panel.tick_params(axis="x", labelsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    for panel in panels[len(topics) :]:
        panel.set_axis_off()
    return panels


def _panels(count: int) -> NDArray[np.object_]:
    n_columns = min(count, 5)
    n_rows = -(-count // n_columns)
    size = (2.4 * n_columns, 2.2 * n_rows)
    _, panels = plt.subplots(n_rows, n_columns, figsize=size, layout="constrained", squeeze=False)
    return panels.ravel()


def loadings(weights: FloatArray, labels: Sequence[str], names: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw rows of weights as a heat map with one colour scale: red is positive, blue negative.

    Parameters
    ----------
    weights : array of shape (rows, features)
        Weights to draw.
    labels : sequence of str
        Names of the rows.
    names : sequence of str
        Names of the features; shown for up to 40.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    """
    axes = new_axes(ax, 7.2, 0.9 + 0.26 * len(weights) + (0.05 * _longest(names) if len(names) <= 40 else 0))
    limit = max(float(np.abs(weights).max()), 1e-300)
    image = axes.imshow(
        weights, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="nearest", resample=False
    )
    axes.set_yticks(np.arange(len(weights)), list(labels))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if len(names) <= 40:
        turned = _longest(names) * len(names) > 80
        rotation = 90 if turned else 0
        axes.set_xticks(np.arange(len(names)), list(names), rotation=rotation, fontsize=8, parse_math=False)
    else:
        axes.set_xlabel(f"{len(names)} features, in the order of the columns")
    bar = axes.figure.colorbar(image, ax=axes, pad=0.01, aspect=12, fraction=0.06)
    bar.outline.set_visible(False)
    return axes


def correlation_map(
    correlations: FloatArray, p_values: FloatArray, names: Sequence[str], ax: Axes | None = None
) -> Axes:
    """Draw correlations as a heat map from -1 to 1; a dot marks a pair whose p-value is at most 0.05.

    Parameters
    ----------
    correlations : array of shape (features, features)
        Correlations to draw.
    p_values : array of shape (features, features)
        P-values of the pairs.
    names : sequence of str
        Names of the features; shown for up to 40.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    """
    size = len(correlations)
    axes = new_axes(ax, 2.2 + min(0.3 * size, 6), 1.6 + min(0.3 * size, 6))
    image = axes.imshow(correlations, cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest", resample=False)
    marked = np.argwhere((p_values <= LEVEL) & ~np.eye(size, dtype=bool))
    axes.plot(*marked.T[::-1], linestyle="", marker=".", markersize=3, color="black")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if size <= 40:
        axes.set_xticks(np.arange(size), list(names), rotation=90, fontsize=8, parse_math=False)
        axes.set_yticks(np.arange(size), list(names), fontsize=8, parse_math=False)
    bar = axes.figure.colorbar(image, ax=axes, pad=0.02, aspect=20, fraction=0.05)
    bar.outline.set_visible(False)
    return axes


def _longest(names: Sequence[str]) -> int:
    return max(map(len, names), default=0)
