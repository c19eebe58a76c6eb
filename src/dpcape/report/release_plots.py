"""Plots of releases: norms of what was released and of noise alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from dpcape.pages.style import COLOURS
from dpcape.report.plots import new_axes

Numbers = NDArray[np.int_]
# A bar shorter than a fiftieth of the longest is too short to compare with its noise.
_VISIBLE = 50.0
_NOISE = "noise alone, on average"


def signal_bars(
    names: Sequence[str], lengths: Sequence[float], noises: Sequence[float], ax: Axes | None = None
) -> Axes:
    """Draw the norm of each release and the average norm of noise alone.

    Draws bars, or points on a logarithmic axis if the shortest bar would be too short.
    """
    axes = new_axes(ax, height=0.9 + 0.5 * len(names))
    positions = np.arange(len(names))
    if min([*lengths, *noises]) > 0 and max(lengths) > _VISIBLE * min(lengths):
        _points(axes, positions, lengths, noises)
    else:
        axes.barh(positions - 0.18, lengths, 0.34, color=COLOURS[0], label="released")
        axes.barh(positions + 0.18, noises, 0.34, color=COLOURS[1], label=_NOISE, hatch="///", alpha=0.85)
    axes.set_yticks(positions, list(names))
    axes.invert_yaxis()
    axes.set_xlabel("Euclidean norm")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2)
    return axes


def _points(axes: Axes, positions: Numbers, lengths: Sequence[float], noises: Sequence[float]) -> None:
    axes.hlines(positions, noises, lengths, color=COLOURS[-1], linewidth=1)
    axes.plot(lengths, positions, "o", color=COLOURS[0], label="released")
    axes.plot(noises, positions, "D", color=COLOURS[1], label=_NOISE)
    axes.set_xscale("log")
    axes.set_ylim(-0.6, len(positions) - 0.4)


def rounds(lengths: Sequence[float], noises: Sequence[float], label: str, ax: Axes | None = None) -> Axes:
    """Draw the norm of the release in each round, and the average norm of noise alone."""
    axes = new_axes(ax)
    numbers = np.arange(1, len(lengths) + 1)
    axes.plot(numbers, lengths, marker="o", markersize=3.5, color=COLOURS[0], label="released")
    axes.plot(numbers, noises, linestyle="--", color=COLOURS[1], label=_NOISE)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("round")
    axes.set_ylabel(label)
    axes.legend(frameon=False)
    return axes
