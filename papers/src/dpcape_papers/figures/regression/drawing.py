"""Pictures in the layout of figures 8.1 to 8.3."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from dpcape_papers.experiments.comparison import PUBLISHED
from dpcape_papers.experiments.curves import COLOURS, Look, draw_curves, legend_below, true_epsilon_note
from dpcape_papers.experiments.results import CurvePoints, Results, number
from dpcape_papers.figures.regression.methods import DP_FM, ERROR, LOSS, OBJECTIVE

_COLOURS = COLOURS | {DP_FM: "#E69F00", OBJECTIVE: "#56B4E9"}
_FREE = ("#8B4513", "#6A5ACD", "#808000")
_LABELS = {"epsilon": "ε", "N": "total samples N", "delta": "δ"}


def draw_loss(results: Results) -> Figure:
    """Draw figure 8.1: one row each for epsilon, N and delta, and one column per dimension."""
    return _draw(results.where(measure=LOSS), "loss f_D(w)", 2)


def draw_real(results: Results) -> Figure:
    """Draw figure 8.2 like 8.1, for the two real data sets."""
    real = Results(r for r in results.where(measure=LOSS) if not str(r["source"]).startswith("synthetic"))
    return _draw(real, "loss f_D(w)", 2)


def draw_error(results: Results) -> Figure:
    """Draw figure 8.3 like 8.1, with two columns per dimension."""
    return _draw(results.where(measure=ERROR), "err_w", 4)


def _draw(rows: Results, label: str, n_columns: int) -> Figure:
    names = [str(name) for vary in _LABELS for name in rows.where(vary=vary).values("panel")]
    n_rows = -(-len(names) // n_columns)
    size = ((5.6 if n_columns < 3 else 4.6) * n_columns, 3.2 * n_rows + 1.6)
    figure, grid = plt.subplots(n_rows, n_columns, figsize=size, squeeze=False, layout="constrained")
    for letter, axes, name in zip("abcdefghijkl", grid.flat, names, strict=False):
        here = rows.where(panel=name)
        _draw_panel(axes, here, Look(_LABELS[str(here[0]["vary"])], label, log_y=True))
        axes.set_title(f"({letter}) {name}", fontsize="small")
    legend_below(figure)
    true_epsilon_note(figure, rows.where(vary="epsilon"))
    return figure


def _draw_panel(axes: Axes, rows: Results, look: Look) -> None:
    """Draw means and standard deviations of logarithms, because some noisy objectives have very distant minima."""
    logs = Results({**r, "value": math.log(number(r, "value"))} for r in rows).series()
    colours = _colours([one.curve for one in logs])
    draw_curves(axes, [replace(one, mean=np.exp(one.mean), spread=0 * one.spread) for one in logs], look, colours)
    for one in logs:
        low, high = np.exp(one.mean - one.spread), np.exp(one.mean + one.spread)
        alpha = 0.05 if one.calibration == PUBLISHED else 0.12
        axes.fill_between(one.x, low, high, color=colours[one.curve], alpha=alpha, lw=0)
    _frame(axes, logs)
    axes.set_xticks(logs[0].x, [_tick(x) for x in logs[0].x])
    axes.xaxis.set_minor_locator(NullLocator())


def _colours(curves: Sequence[str]) -> dict[str, str]:
    """Return the colours of all curves; those of the user's methods come from the remaining ones."""
    others = [curve for curve in dict.fromkeys(curves) if curve not in _COLOURS]
    return _COLOURS | {curve: _FREE[index % len(_FREE)] for index, curve in enumerate(others)}


def _tick(x: float) -> str:
    return f"{x:,.0f}" if x >= 100 else f"{x:g}" if x >= 0.01 else f"1e{math.log10(x):.0f}"


def _frame(axes: Axes, logs: Sequence[CurvePoints]) -> None:
    """Limit the vertical axis to the relevant curves, and name those that lie far above the verified ones."""
    kept = max(float(one.mean.max()) for one in logs if one.calibration != PUBLISHED)
    top = kept + math.log(20)
    lowest, highest = (f(f(one.mean) for one in logs) for f in (min, max))
    axes.set_ylim(0.8 * math.exp(lowest), math.exp(min(top, highest + 0.3)))
    gone = [one.curve for one in logs if np.all(one.mean > top)]
    if gone:
        text = f"above the frame, as published: {', '.join(gone)}"
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
        axes.text(0.98, 0.97, text, transform=axes.transAxes, ha="right", va="top", fontsize=7, bbox=box)
