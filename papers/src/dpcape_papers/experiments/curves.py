"""Plots in the papers' layout: a panel per data set or setting, a colour per scheme, a line style per calibration."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, CurvePoints, Results

# The papers' schemes have the same colour in every figure (from Okabe and Ito's palette for colour-blind readers).
COLOURS = {
    "non-private": "#000000",
    "pooled": "#0072B2",
    "CAPE": "#009E73",
    "conventional": "#D55E00",
    "local": "#CC79A7",
}
_OTHERS = ("#E69F00", "#56B4E9", "#8B4513", "#6A5ACD", "#808000", "#7F7F7F", "#B22222", "#008B8B")
_DASHES: dict[str, str | tuple[int, tuple[int, ...]]] = {NON_PRIVATE: ":", PUBLISHED: "--"}


class PlainNumbers(LogFormatterSciNotation):
    """Tick labels of a logarithmic axis: plain numbers (0.02, 2,000) if all are short, otherwise powers of ten."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        """Return the label of a tick; empty for a minor tick without room."""
        label: str = super().__call__(x, pos)
        if self.axis is None or not label:
            return label
        low, high = sorted(self.axis.get_view_interval())
        return f"{x:,g}" if low >= 5e-4 and high <= 2e5 else label


@dataclass(frozen=True)
class Look:
    """Labels and scales of the axes of a panel."""

    x: str
    y: str
    log_x: bool = True
    log_y: bool = False


def draw_panels(
    results: Results,
    look: Look,
    *,
    measure: str,
    panels: Sequence[str] | None = None,
    titles: Mapping[str, str] | None = None,
    n_columns: int = 3,
) -> Figure:
    """Draw one panel per value of the column ``panel``, with one legend below."""
    chosen = results.where(measure=measure)
    names = [str(name) for name in (panels or chosen.values("panel"))]
    n_columns = min(n_columns, len(names))
    n_rows = -(-len(names) // n_columns)
    figure, grid = plt.subplots(
        n_rows, n_columns, figsize=(4.1 * n_columns, 3.1 * n_rows + 0.9), squeeze=False, layout="constrained"
    )
    colours = colours_of([str(curve) for curve in chosen.values("curve")])
    for axes, name in zip(grid.flat, names, strict=False):
        draw_curves(axes, chosen.series(panel=name), look, colours)
        axes.set_title((titles or {}).get(name, name), fontsize="medium")
    for axes in grid.flat[len(names) :]:
        axes.set_visible(False)
    legend_below(figure)
    return figure


def draw_curves(
    axes: Axes, series: Sequence[CurvePoints], look: Look, colours: Mapping[str, str] | None = None
) -> None:
    """Draw curves, each with a band of one standard deviation over the runs."""
    colours = colours or colours_of([one.curve for one in series])
    for one in series:
        colour = colours[one.curve]
        label = one.curve if one.calibration in (NON_PRIVATE, one.curve) else f"{one.curve} ({one.calibration})"
        dash = _DASHES.get(one.calibration, "-")
        axes.plot(one.x, one.mean, linestyle=dash, marker="o", markersize=3.5, color=colour, label=label)
        if np.any(one.spread > 0):
            axes.fill_between(one.x, one.mean - one.spread, one.mean + one.spread, color=colour, alpha=0.12, lw=0)
    axes.set_xlabel(look.x)
    axes.set_ylabel(look.y)
    axes.set_xscale("log" if look.log_x else "linear")
    axes.set_yscale("log" if look.log_y else "linear")
    for axis, is_log in ((axes.xaxis, look.log_x), (axes.yaxis, look.log_y)):
        if is_log:
            axis.set_major_formatter(PlainNumbers())
            axis.set_minor_formatter(PlainNumbers())
    axes.grid(visible=True, alpha=0.25)


def legend_below(figure: Figure) -> None:
    """Add one legend for all curves below the panels."""
    entries: dict[str, Artist] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        for handle, label in zip(handles, labels, strict=True):
            entries.setdefault(label, handle)
    # 0.55 inch for the line and spacing, about 0.08 inch per letter.
    widest = 0.55 + 0.08 * max(map(len, entries), default=1)
    n_columns = max(1, min(4, len(entries), int(figure.get_figwidth() / widest)))
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=n_columns, frameon=False)


def plain_ticks(axes: Axes, *, x: Sequence[float] = (), y: Sequence[float] = ()) -> None:
    """Place ticks at exactly these values and label them with plain numbers."""
    for axis, ticks in ((axes.xaxis, x), (axes.yaxis, y)):
        if len(ticks):
            axis.set_ticks(list(ticks), [f"{tick:g}" for tick in ticks])
            axis.set_ticks([], minor=True)


def true_epsilon_note(place: Axes | Figure, results: Results, measure: str | None = None) -> None:
    """Write the claimed and the real epsilon of every published curve into a figure.

    In a `Figure` the note appears above the legend, in `Axes` below the label of the horizontal axis. Call this last.
    ``measure`` selects rows. Nothing is written if these rows contain no published curve.
    """
    chosen = results.where(calibration=PUBLISHED)
    lines = true_epsilon_lines(chosen if measure is None else chosen.where(measure=measure))
    if not lines:
        return
    if isinstance(place, Axes):
        text = _wrapped(["as published, claimed ε → real ε", *lines], 62)
        place.annotate(
            text, xy=(0.5, 0.0), xycoords=place.xaxis.label, xytext=(0, -3), textcoords="offset points",
            ha="center", va="top", fontsize="x-small",
        )  # fmt: skip
        return
    legend = place.legends[0] if place.legends else place.legend([], [], loc="outside lower center", frameon=False)
    width = int(26 * place.get_figwidth() / 2)
    legend.set_title(_wrapped(["as published, claimed ε → real ε at the same δ", *lines], width))
    legend.get_title().set(fontsize="small", multialignment="center")


def true_epsilon_lines(rows: Results, *, at_most: int = 6) -> list[str]:
    """Return one line per published curve: up to ``at_most`` claimed epsilons, each with the real one."""
    groups: dict[str, list[str]] = {}
    for curve in rows.values("curve"):
        text = _claims(rows.where(curve=curve), at_most)
        if text:
            groups.setdefault(text, []).append(str(curve))
    return [f"{' and '.join(curves)}: {text}" for text, curves in groups.items()]


def _claims(rows: Results, at_most: int) -> str:
    claims = sorted(float(claim) for claim in rows.values("claimed_epsilon") if claim is not None)
    real = {claim: _real(rows.where(claimed_epsilon=claim)) for claim in claims}
    if len(claims) > 1 and set(real.values()) == {"∞"}:
        return "every claim\u00a0→\u00a0∞"
    chosen = sorted({round(index) for index in np.linspace(0, len(claims) - 1, at_most)}) if claims else []
    # Non-breaking spaces keep each pair on one line.
    return ", ".join(f"{claims[i]:.3g}\u00a0→\u00a0{real[claims[i]]}" for i in chosen)


def _real(rows: Results) -> str:
    found = [float(value) for value in rows.values("verified_epsilon") if value is not None]
    if not found:
        return "?"
    low, high = (format(value, ".3g").replace("inf", "∞") for value in (min(found), max(found)))
    return low if low == high else f"{low}\u00a0to\u00a0{high}"


def _wrapped(lines: Sequence[str], width: int) -> str:
    return "\n".join(part for line in lines for part in wrapped(line, width))


def wrapped(title: str, width: int) -> list[str]:
    """Return a title in lines; "N = 1,000" stays together."""
    return textwrap.wrap(title.replace(" = ", "\u00a0=\u00a0"), width)


def colours_of(curves: Sequence[str]) -> dict[str, str]:
    """Return a colour per curve; pass all curves of a figure at once, so that every panel uses the same colours."""
    others = [curve for curve in dict.fromkeys(curves) if curve not in COLOURS]
    return COLOURS | {curve: _OTHERS[index % len(_OTHERS)] for index, curve in enumerate(others)}
