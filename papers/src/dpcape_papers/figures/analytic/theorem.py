"""Figures 3.2 and 3.3: the delta stated by theorem 3.1, and the true delta of its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypedDict

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from dpcape.core.privacy.gaussian import SMALLEST_DELTA, delta_of, epsilon_of
from dpcape_papers.experiments.curves import Look, draw_curves, legend_below
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, Outcome, RunSetting, Verdict, Work
from dpcape_papers.experiments.results import EXACT, PUBLISHED, Results, Row, number, row
from dpcape_papers.published.cape import assumed_colluding, theorem_delta, theorem_kappa, true_kappa
from dpcape_papers.verdicts import outcome_of

DELTA = "delta"


class TheoremPanel(TypedDict):
    """The fixed settings of a panel."""

    n_records: int
    n_sites: int
    epsilon: float


# Records, sites and epsilon of the two panels; scales of figure 3.3 (github.com/hafizimtiaz/cape, plots).
PANELS: tuple[TheoremPanel, ...] = (
    {"n_records": 1000, "n_sites": 10, "epsilon": 1e-3},
    {"n_records": 5000, "n_sites": 30, "epsilon": 0.1},
)
SCALES = (50.0, 0.5)
_TINY = 1e-30  # smaller deltas are neither drawn nor compared, as the figures' note says


def deltas(
    data: DataFolder, *, n_records: int, n_sites: int, epsilon: float, scales: Sequence[float], colluding: Sequence[int]
) -> list[Row]:
    """Return the stated and the true delta of both schemes for every noise scale and number of colluding sites."""
    rows: list[Row] = []
    varied = "tau" if len(scales) > 1 else "colluding"
    for scale in scales:
        for n_colluding in colluding:
            rows += _point(n_records, n_sites, epsilon, scale, n_colluding, varied)
    return rows


def _point(n_records: int, n_sites: int, epsilon: float, scale: float, n_colluding: int, varied: str) -> list[Row]:
    lone = n_sites / n_records / scale  # mu of a single message: sensitivity 1/N_s divided by tau
    printed_mu = math.sqrt(theorem_kappa(n_sites, n_colluding)) * lone
    real_mu = math.sqrt(true_kappa(n_sites, n_colluding)) * lone
    # Independent noise with the variance of pooled data in the mean: tau / sqrt(S) at each site.
    conventional_mu = math.sqrt(n_sites) * lone
    values = {
        ("CAPE", PUBLISHED): (theorem_delta(epsilon, printed_mu), real_mu),
        ("CAPE", EXACT): (delta_of(epsilon, real_mu), real_mu),
        ("conventional", PUBLISHED): (1.25 * math.exp(-((epsilon / conventional_mu) ** 2) / 2), conventional_mu),
        ("conventional", EXACT): (delta_of(epsilon, conventional_mu), conventional_mu),
    }
    fixed = f"N = {n_records}, S = {n_sites}, ε = {epsilon:g}"
    return [
        row(
            panel=fixed if varied == "tau" else f"{fixed}, τ = {scale:g}",
            curve=curve,
            calibration=calibration,
            x=scale if varied == "tau" else n_colluding / n_sites,
            measure=DELTA,
            value=delta,
            claimed_epsilon=epsilon,
            verified_epsilon=_real_epsilon(delta, mu, epsilon, calibration),
            delta=delta,
            n_colluding=n_colluding,
        )
        for (curve, calibration), (delta, mu) in values.items()
    ]


def _real_epsilon(delta: float, mu: float, epsilon: float, calibration: str) -> float:
    """Return the epsilon that the noise provides at the stated delta.

    Infinite where the stated delta is not a probability, or so small that no epsilon can be computed for it.
    """
    if calibration == EXACT:
        return epsilon
    return epsilon_of(delta, mu) if SMALLEST_DELTA <= delta < 1 else math.inf


def scale_cells(setting: RunSetting) -> list[Cell]:
    """Return cells that vary tau, with as many colluding sites as the theorem allows."""
    n_scales = setting.choose(25, 50)
    cells = []
    for panel, (low, high) in zip(PANELS, ((0.01, 100.0), (0.01, 10.0)), strict=True):
        scales = np.geomspace(low, high, n_scales).tolist()
        cells.append(Cell(deltas, {**panel, "scales": scales, "colluding": [assumed_colluding(panel["n_sites"])]}))
    return cells


def collusion_cells(setting: RunSetting) -> list[Cell]:
    """Return cells that vary the share of colluding sites up to what the theorem allows."""
    return [
        Cell(deltas, {**panel, "scales": [scale], "colluding": list(range(assumed_colluding(panel["n_sites"]) + 1))})
        for panel, scale in zip(PANELS, SCALES, strict=True)
    ]


def draw_by_scale(results: Results) -> Figure:
    """Draw figure 3.2."""
    return _draw(results, Look("local noise τ", "δ", log_y=True))


def draw_by_collusion(results: Results) -> Figure:
    """Draw figure 3.3."""
    return _draw(results, Look("share of colluding sites", "δ", log_x=False, log_y=True))


def _draw(results: Results, look: Look) -> Figure:
    panels = [str(name) for name in results.values("panel")]
    figure, grid = plt.subplots(1, len(panels), figsize=(5.4 * len(panels), 4.6), squeeze=False, layout="constrained")
    for axes, name in zip(grid.flat, panels, strict=True):
        shown = Results(r for r in results.where(panel=name) if number(r, "value") > _TINY)
        draw_curves(axes, shown.series(), look)
        values = shown.numbers("value")
        axes.set_ylim(max(_TINY, min(values) / 3), 3)
        axes.axhline(1, color="gray", lw=0.8)
        axes.set_title(name, fontsize="medium")
    legend_below(figure)
    figure.legends[0].set_title(worst_note(results, "τ" if look.log_x else "share"))
    figure.legends[0].get_title().set(fontsize="small", multialignment="center")
    return figure


def worst_note(results: Results, axis: str) -> str:
    """Return in words where the stated delta is furthest below the true one, and by how much."""
    lines = []
    for panel in results.values("panel"):
        pairs = stated_and_true(results.where(panel=panel))
        broken = {x: pair for x, pair in pairs.items() if _TINY < pair[0] < min(pair[1], 1)}
        if broken:
            x, (stated, true) = max(broken.items(), key=lambda item: item[1][1] / item[1][0])
            lines.append(
                f"{panel}: theorem 3.1 states δ = {stated:.2g} where the true δ is {true:.2g} ({axis} = {x:.3g})"
            )
    return "\n".join(lines) or "theorem 3.1 nowhere states a δ below the true one here"


def stated_and_true(results: Results, curve: str = "CAPE") -> dict[float, tuple[float, float]]:
    """Return x -> (stated delta, true delta) of one panel."""
    stated, true = (_values(results.where(curve=curve, calibration=kind)) for kind in (PUBLISHED, EXACT))
    return {x: (stated[x], true[x]) for x in stated}


def _values(rows: Results) -> Mapping[float, float]:
    return dict(zip(rows.numbers("x"), rows.numbers("value"), strict=True))


def judge_by_scale(results: Results) -> list[Verdict]:
    """Judge the claims about figure 3.2, where the noise scale varies."""
    return [*judge_by_collusion(results), _probability(_panels(results))]


def judge_by_collusion(results: Results) -> list[Verdict]:
    """Judge the claims about figure 3.3."""
    panels = _panels(results)
    return [_smaller(panels, PUBLISHED), _smaller(panels, EXACT), _guaranteed(panels)]


def _panels(results: Results) -> list[Results]:
    return [results.where(panel=name) for name in results.values("panel")]


def _smaller(panels: Sequence[Results], kind: str) -> Verdict:
    pairs = []
    for panel in panels:
        cape, conventional = (_values(panel.where(curve=curve, calibration=kind)) for curve in ("CAPE", "conventional"))
        pairs += [(cape[x], conventional[x]) for x in cape]
    # Where the printed formula is not a probability, it states nothing; deltas near 0 or 1 cannot be compared.
    stated = [(ours, theirs) for ours, theirs in pairs if _TINY < ours < 1]
    smaller = sum(ours < theirs for ours, theirs in stated)
    how = "stated" if kind == PUBLISHED else "true"
    return Verdict(
        f"At the noise of pooled data CAPE's delta is always smaller than the conventional scheme's ({how}).",
        "section 3.3.4",
        outcome_of(smaller, len(stated)),
        f"smaller at {smaller} of {len(stated)} points at which CAPE's delta is between 1e-30 and 1",
        measured=False,
    )


def _guaranteed(panels: Sequence[Results]) -> Verdict:
    pairs = [pair for panel in panels for pair in stated_and_true(panel).values() if _TINY < pair[0] < 1]
    broken = [(stated, true) for stated, true in pairs if true > stated]
    text = f"the true delta is larger at {len(broken)} of {len(pairs)} points"
    if broken:
        stated, true = max(broken, key=lambda pair: pair[1] / pair[0])
        text += f"; worst: stated {stated:.2g}, true {true:.2g}"
    outcome: Outcome = "fails" if broken else "holds"  # a theorem has no exceptions
    claim = "Algorithm 3.2 is (epsilon, delta)-private with the stated delta (theorem 3.1)."
    return Verdict(claim, "theorem 3.1", outcome, text, measured=False)


def _probability(panels: Sequence[Results]) -> Verdict:
    values = [stated for panel in panels for stated, _ in stated_and_true(panel).values()]
    senseless = [value for value in values if not 0 <= value <= 1]
    negative = sum(value < 0 for value in values)
    text = (
        f"negative at {negative} (epsilon is below mu_z there), above 1 at {len(senseless) - negative} of {len(values)}"
    )
    outcome: Outcome = "fails" if senseless else "holds"
    claim = "The formula for delta is a probability for every noise scale."
    return Verdict(claim, "theorem 3.1", outcome, text, measured=False)


BY_SCALE = Work(scale_cells, draw_by_scale, judge_by_scale)
BY_COLLUSION = Work(collusion_cells, draw_by_collusion, judge_by_collusion)
