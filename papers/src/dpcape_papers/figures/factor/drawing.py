"""Pictures of figures 2 to 4."""

from __future__ import annotations

import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dpcape_papers.experiments.curves import Look, draw_curves, legend_below
from dpcape_papers.experiments.results import CurvePoints, Results, number
from dpcape_papers.figures.factor.cells import (
    BEST,
    CHANCE,
    ERROR,
    FOUND,
    N_FACTORS,
    PROPOSED,
    REBUILT,
    SVD,
    TWO_STAGE,
    WORST,
)

# Black, blue and red as in the paper.
_COLOURS = {PROPOSED: "#000000", SVD: "#0072B2", TWO_STAGE: "#D55E00", BEST: "#009E73", WORST: "#999999"}


def draw_size(results: Results) -> Figure:
    """Draw figure 2: errors by sample size."""
    figure, right = _draw(Results(r for r in results if r["curve"] != WORST), "sample size n")
    numbers = ", ".join(f"{value:g}" for value in results.where(measure=N_FACTORS).values("value") if value is not None)
    right.set_title(f"{right.get_title()}; factors chosen: {numbers}", fontsize="medium")
    return figure


def draw_number(results: Results) -> Figure:
    """Draw figure 3: errors by number of factors."""
    return _draw(Results(r for r in results if r["curve"] != WORST), "number of factors K")[0]


def draw_connectivity(results: Results) -> Figure:
    """Draw figure 4: errors by number of factors, with the best and the worst case."""
    return _draw(results, "number of factors K")[0]


def _draw(results: Results, label: str) -> tuple[Figure, Axes]:
    """Draw the error on the left, and on the right its excess over ridge regression on the features.

    Runs are averaged on the log scale. Errors differ far more between data sets than between methods, so only the
    excess, computed run by run, has a band of one standard error.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.8), layout="constrained")
    rows = results.where(measure=ERROR)
    logs = [{**r, "value": math.log(number(r, "value"))} for r in rows]
    averaged = [replace(one, mean=np.exp(one.mean), spread=0 * one.spread) for one in Results(logs).series()]
    _panel(left, averaged, Look(label, ERROR, log_x=False), rows)
    base = {(r["x"], r["run"]): number(r, "value") for r in logs if r["curve"] == BEST}
    excess = Results({**r, "value": number(r, "value") - base[r["x"], r["run"]]} for r in logs)
    n_runs = len(rows.values("run"))
    shown = [
        replace(one, mean=100 * np.expm1(one.mean), spread=100 * one.spread / math.sqrt(n_runs))
        for one in excess.series()
        if one.curve != BEST
    ]
    _panel(right, shown, Look(label, "excess over ridge on features, %", log_x=False), rows)
    right.axhline(0.0, color=_COLOURS[BEST], linestyle=":")
    _finish(figure, results)
    return figure, right


def _panel(axes: Axes, series: list[CurvePoints], look: Look, rows: Results) -> None:
    draw_curves(axes, series, look, _COLOURS)
    axes.set_xticks(series[0].x, [f"{x:g}" for x in series[0].x])
    axes.set_title(str(rows[0]["panel"]), fontsize="medium")


def _finish(figure: Figure, results: Results) -> None:
    """Add the legend, and a note on the protection that the release provides."""
    legend_below(figure)
    text = "No differential privacy: the release is a function of the records; no epsilon holds with delta below 1."
    if len(results.where(measure=REBUILT)):
        rebuilt, found, chance = (results.mean(measure=name) for name in (REBUILT, FOUND, CHANCE))
        text += f"\nAttacks: {max(rebuilt, 0.0):.0%} of the variance of other people's features reconstructed;"
        text += f" {found:.0%} of people identified from 20 features (guessing: {chance:.1%})."
    figure.legends[0].set_title(text)
    figure.legends[0].get_title().set(fontsize="small", multialignment="center")
