"""Plots of results. Each function draws on the given Axes, or on new ones, and returns them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import ArrayLike

from dpcape.core.arrays import FloatArray
from dpcape.core.protocols.cape import Cape
from dpcape.core.protocols.registry import PROTOCOLS
from dpcape.pages.style import COLOURS

LineStyle: TypeAlias = str | tuple[int, tuple[int, ...]]

STYLES: tuple[LineStyle, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), "-")
# Each method has the same colour in every figure, also in `dpcape_papers` and on the planner page.
WAYS: Mapping[str, tuple[str, LineStyle]] = {
    "pooled": (COLOURS[0], ":"),
    Cape.name: (COLOURS[2], "-"),
    "conventional": (COLOURS[1], "--"),
    "alone": (COLOURS[3], "-."),
}


def new_axes(ax: Axes | None, width: float = 5.0, height: float = 3.0) -> Axes:
    """Return ``ax``, or the Axes of a new figure without top and right spines."""
    if ax is not None:
        return ax
    axes = plt.subplots(figsize=(width, height), layout="constrained")[1]
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def scree(values: FloatArray, noise_level: float, ax: Axes | None = None) -> Axes:
    """Draw eigenvalues and the level below which they may be noise."""
    axes = new_axes(ax)
    positions = np.arange(1, len(values) + 1)
    axes.plot(positions, values, marker="o", color=COLOURS[0], label="eigenvalue")
    if noise_level > 0:
        axes.axhline(noise_level, color=COLOURS[1], linestyle="--", label="norm of the noise")
    if np.min(values) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xticks(positions[:: -(-len(values) // 12)])
    axes.set_xlabel("component")
    axes.set_ylabel("eigenvalue")
    axes.legend(frameon=False)
    return axes


def bars(values: FloatArray, label: str, ax: Axes | None = None, *, noise_level: float = 0.0) -> Axes:
    """Draw one bar per component, and the level of noise alone if it is positive."""
    axes = new_axes(ax)
    positions = np.arange(1, len(values) + 1)
    axes.bar(positions, values, color=COLOURS[0], width=min(0.8, 0.12 * len(values)))
    axes.set_xticks(positions[:: -(-len(values) // 20)])
    axes.set_xlim(0.4, len(values) + 0.6)
    axes.axhline(0.0, color=COLOURS[-1], linewidth=0.8)
    if noise_level > 0:
        axes.axhline(noise_level, color=COLOURS[1], linestyle="--", label="noise alone")
        axes.legend(frameon=False)
    axes.set_xlabel("component")
    axes.set_ylabel(label)
    return axes


def curves(
    x: Sequence[float], by_name: Mapping[str, Sequence[float]], *, labels: tuple[str, str], ax: Axes | None = None
) -> Axes:
    """Draw one curve per name against a logarithmic axis; methods and protocols have fixed colours."""
    axes = new_axes(ax)
    for index, (name, values) in enumerate(by_name.items()):
        colour, style = _look(name, index)
        axes.plot(x, values, label=name, color=colour, linestyle=style, marker="o", markersize=4)
    axes.set_xscale("log")
    axes.set_xticks(list(x), [f"{value:g}" for value in x])
    axes.minorticks_off()
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.legend(frameon=False)
    return axes


def _look(name: str, index: int) -> tuple[str, LineStyle]:
    if any(name == protocol.title for protocol in PROTOCOLS.values()):
        # Every protocol has the same colour when it is compared with the other methods.
        return WAYS[Cape.name]
    known = (look for way, look in WAYS.items() if way in name.lower())
    return next(known, (COLOURS[index % 7], STYLES[index % 7]))


def images(maps: FloatArray, shape: tuple[int, int], titles: Sequence[str] | None = None, columns: int = 8) -> Figure:
    """Draw rows of ``maps`` as small images, each with its own colour scale centred at zero."""
    n_rows = -(-len(maps) // columns)
    figure, axes = plt.subplots(
        n_rows, columns, figsize=(columns * 0.9, n_rows * 1.05), squeeze=False, layout="constrained"
    )
    for index, cell in enumerate(axes.flat):
        cell.set_axis_off()
        if index < len(maps):
            top = float(np.abs(maps[index]).max()) or 1.0
            cell.imshow(maps[index].reshape(shape), cmap="RdBu_r", vmin=-top, vmax=top)
            if titles is not None:
                cell.set_title(titles[index], fontsize=8)
    return figure


def scatter(
    x: FloatArray, y: FloatArray, *, labels: tuple[str, str], groups: ArrayLike | None = None, ax: Axes | None = None
) -> Axes:
    """Draw points, coloured by group if groups are given."""
    axes = new_axes(ax, 4.2, 3.6)
    colours = {"color": COLOURS[0]} if groups is None else {"c": groups, "cmap": "tab10"}
    axes.scatter(x, y, s=6, alpha=0.7, linewidths=0, **colours)
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    return axes
