"""Plots of maps and time courses; matplotlib is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpcape.core.arrays import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Distinguishable in print and with colour blindness.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def plot_maps(
    maps: Mapping[str, FloatArray], shape: tuple[int, int], *, n_shown: int = 8, ax: Axes | None = None
) -> Axes:
    """Draw maps as rows of images, one row per entry, each map scaled to its own largest value.

    Parameters
    ----------
    maps : mapping
        Arrays of shape (voxels, components) by name; one row of images each, in order.
    shape : tuple of int
        Height and width of an image; voxels are in C order.
    n_shown : int
        Number of components to draw of each.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    """
    axes = _axes(ax, (1.1 * n_shown, 1.25 * len(maps)))
    rows = [_strip(columns[:, :n_shown], shape) for columns in maps.values()]
    axes.imshow(np.vstack(rows), cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    axes.set_xticks([])
    height = shape[0] + 1
    axes.set_yticks([height * index + shape[0] / 2 for index in range(len(rows))], list(maps))
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return axes


def plot_slices(maps: FloatArray, inside: BoolArray, *, n_shown: int = 10, ax: Axes | None = None) -> Axes:
    """Draw maps on a brain: for each component, the slice along the last axis in which the map is strongest.

    Parameters
    ----------
    maps : array of shape (voxels, components)
        Maps, voxels in the mask's C order.
    inside : array of shape (x, y, z)
        The mask.
    n_shown : int
        Number of components to draw.
    ax : matplotlib.axes.Axes or None
        Axes to draw on; None creates a figure.
    """
    images = [_strongest_slice(column, inside) for column in maps.T[:n_shown]]
    n_columns = min(5, len(images))
    blank = np.full_like(images[0], np.nan)
    images += [blank] * (-len(images) % n_columns)
    rows = [np.hstack(images[at : at + n_columns]) for at in range(0, len(images), n_columns)]
    axes = _axes(ax, (1.5 * n_columns, 1.6 * len(rows)))
    axes.imshow(np.vstack(rows), cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest")
    axes.set_axis_off()
    for at in range(min(n_shown, maps.shape[1])):
        row, column = divmod(at, n_columns)
        axes.text(column * blank.shape[1] + 1, row * blank.shape[0] + 1, str(at + 1), va="top", fontsize=9)
    return axes


def _strongest_slice(column: FloatArray, inside: BoolArray) -> FloatArray:
    """Return the slice with the largest absolute value, scaled to 1, front at the top; NaN outside the mask."""
    volume = np.full(inside.shape, np.nan)
    volume[inside] = column / max(float(np.abs(column).max()), 1e-300)
    at = int(np.nanargmax(np.abs(np.where(inside, volume, 0.0)).max(axis=(0, 1))))
    return np.rot90(volume[:, :, at])


def matched_maps(estimated: FloatArray, true: FloatArray) -> FloatArray:
    """Return estimated maps in the order and with the signs of the true ones, for drawing side by side."""
    from scipy.optimize import linear_sum_assignment

    products = true.T @ (estimated / np.linalg.norm(estimated, axis=0))
    _, columns = linear_sum_assignment(-np.abs(products))
    signs = np.sign(products[np.arange(len(columns)), columns])
    return estimated[:, columns] * np.where(signs == 0, 1.0, signs)


def plot_courses(courses: Mapping[str, FloatArray], *, n_shown: int = 4, ax: Axes | None = None) -> Axes:
    """Draw time courses of the first components, one above the other; each entry of ``courses`` has a colour."""
    axes = _axes(ax, (7.0, 1.1 * n_shown))
    for colour, (name, series) in zip(_COLOURS, courses.items(), strict=False):
        scaled = series[:, :n_shown] / np.maximum(series[:, :n_shown].std(axis=0), 1e-300)
        for index, course in enumerate(scaled.T):
            axes.plot(course - 8 * index, color=colour, lw=0.7, label=name if index == 0 else None)
    axes.set_yticks([-8 * index for index in range(n_shown)], [f"component {i}" for i in range(n_shown)])
    axes.set_xlabel("time point")
    axes.legend(loc="upper right", fontsize="small")
    return axes


def plot_autocorrelations(values: Mapping[str, FloatArray], ax: Axes | None = None) -> Axes:
    """Draw autocorrelations, (lags, components) per entry: thin lines for components, a thick one for the mean."""
    axes = _axes(ax, (5.0, 3.0))
    for colour, (name, lags) in zip(_COLOURS, values.items(), strict=False):
        axes.plot(lags, color=colour, lw=0.4, alpha=0.5)
        axes.plot(lags.mean(axis=1), color=colour, lw=1.8, label=name)
    axes.set_xlabel("lag")
    axes.set_ylabel("autocorrelation")
    axes.legend(fontsize="small")
    return axes


def plot_gain_index(
    epsilons: Sequence[float],
    indices: Mapping[str, Sequence[float]],
    *,
    reference: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw q_NGI against epsilon, one line per method; ``reference`` is the value without privacy."""
    axes = _axes(ax, (5.0, 3.2))
    for colour, (name, values) in zip(_COLOURS, indices.items(), strict=False):
        axes.plot(epsilons, values, "o-", color=colour, label=name)
    if reference is not None:
        axes.axhline(reference, color="0.4", ls="--", lw=1, label="without privacy")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("epsilon")
    axes.set_ylabel("q_NGI (0 is perfect)")
    axes.legend(fontsize="small")
    return axes


def _strip(columns: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Return images side by side with a gap of one pixel, and a gap below."""
    images = []
    for column in columns.T:
        image = np.full((shape[0] + 1, shape[1] + 1), np.nan)
        image[:-1, :-1] = (column / max(float(np.abs(column).max()), 1e-300)).reshape(shape)
        images.append(image)
    return np.hstack(images)


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]
