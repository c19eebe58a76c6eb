"""Pictures of figures 8.1 to 8.3."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from dpcape_papers.experiments.curves import Look, true_epsilon_note
from dpcape_papers.experiments.results import CurvePoints, Results, number
from dpcape_papers.figures.panel_grid import Line, draw_by_method
from dpcape_papers.figures.regression.methods import ERROR, LOSS

_LABELS = {"epsilon": "ε", "N": "total samples N", "delta": "δ"}


def draw_loss(results: Results) -> Figure:
    """Draw figure 8.1: panels by epsilon, by N and by delta."""
    return _draw(results.where(measure=LOSS), "loss f_D(w)")


def draw_real(results: Results) -> Figure:
    """Draw figure 8.2 like 8.1, for the two real data sets."""
    real = Results(r for r in results.where(measure=LOSS) if not str(r["source"]).startswith("synthetic"))
    return _draw(real, "loss f_D(w)")


def draw_error(results: Results) -> Figure:
    """Draw figure 8.3 like 8.1, with two panels per dimension."""
    return _draw(results.where(measure=ERROR), "err_w")


def _draw(rows: Results, label: str) -> Figure:
    names = [str(name) for vary in _LABELS for name in rows.where(vary=vary).values("panel")]
    lines = []
    for letter, name in zip("abcdefghijkl", names, strict=False):
        here = rows.where(panel=name)
        look = Look(_LABELS[str(here[0]["vary"])], label, log_y=True)
        lines.append(Line(f"({letter}) {name}", _geometric(here), look))
    figure = draw_by_method(lines)
    true_epsilon_note(figure, rows.where(vary="epsilon"))
    return figure


def _geometric(rows: Results) -> list[CurvePoints]:
    """Return geometric means over the runs, because some noisy objectives have very distant minima."""
    logs = Results({**r, "value": math.log(number(r, "value"))} for r in rows).series()
    return [replace(one, mean=np.exp(one.mean), spread=0 * one.spread) for one in logs]
