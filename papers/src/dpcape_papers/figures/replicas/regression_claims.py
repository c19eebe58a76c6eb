"""Verdicts on what figures 8.1 and 8.2 show: which quantity, which mechanism, and which dependence on delta."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpcape_papers.experiments.replica import PAPER, REAL, REPLICA, ComparedPoint
from dpcape_papers.experiments.results import Results, number
from dpcape_papers.experiments.verdict import Outcome, Verdict
from dpcape_papers.figures.replicas.regression_names import DP_FM, LOSS, MINIMUM, OUTPUT
from dpcape_papers.verdicts import as_good


def judge(rows: Results, compared: Sequence[ComparedPoint]) -> list[Verdict]:
    """Judge what the figures show: which quantity, which mechanism, and which dependence on delta."""
    return [_not_the_loss(rows), _another_mechanism(compared), _depends_on_delta(rows)]


def _not_the_loss(rows: Results) -> Verdict:
    """Compare the plotted quantity of the noisy objective with the loss of the same coefficients."""
    points = dict.fromkeys((str(r["panel"]), str(r["curve"]), number(r, "x")) for r in rows.where(calibration=REPLICA))
    noisy = [key for key in points if key[1] not in ("non-private", OUTPUT)]
    plotted, real = (
        [
            rows.where(panel=panel, curve=curve, measure=name, x=x).where(calibration=kind).mean()
            for panel, curve, x in noisy
        ]
        for name, kind in ((MINIMUM, REPLICA), (LOSS, REAL))
    )
    near = [0.8 <= abs(shown) / loss <= 1.25 for shown, loss in zip(plotted, real, strict=True)]
    worst = max(zip(plotted, real, strict=True), key=lambda pair: abs(math.log(abs(pair[0]) / pair[1])))
    numbers = (
        f"the plotted quantity is within 25% of the loss at {sum(near)} of {len(near)} points, and negative before its "
        f"sign was dropped at {sum(value < 0 for value in plotted)}; largest difference: plotted {abs(worst[0]):.3g}, "
        f"loss {worst[1]:.3g}"
    )
    return Verdict("The figure shows the loss f_D(w) of the private schemes", "section 8.4", as_good(near), numbers)


def _another_mechanism(compared: Sequence[ComparedPoint]) -> Verdict:
    points = [one for one in compared if one["curve"] == OUTPUT]
    met = sum(one["within"] for one in points)
    outcome: Outcome = "fails" if points and met >= 0.8 * len(points) else "not shown"
    numbers = (
        f"noise added to the non-private minimiser (output perturbation, sensitivity 1) gives the authors' numbers "
        f"within the spread of the runs at {met} of {len(points)} points"
    )
    return Verdict('The curve "objPert" is objective perturbation', "section 8.4", outcome, numbers)


def _depends_on_delta(rows: Results) -> Verdict:
    """Compare the authors' own dp-fm at the smallest and the largest delta, where they did not average it away."""
    ratios = []
    for panel in "ef":
        theirs = rows.where(calibration=PAPER, curve=DP_FM, panel=panel)
        values = [number(r, "value") for r in sorted(theirs, key=lambda r: number(r, "x"))]
        if values:
            ratios.append(values[0] / values[-1])
    moved = [ratio for ratio in ratios if abs(ratio - 1) > 0.01]
    outcome: Outcome = "fails" if moved else "not shown"
    numbers = "the authors' dp-fm at the smallest delta, divided by that at the largest: "
    numbers += ", ".join(f"{ratio:.3g}" for ratio in ratios) + "; its noise is Gaussian and depends on delta"
    if not moved:
        numbers += "; here the authors averaged the curve over all delta, which makes it flat"
    return Verdict(
        "dp-fm as the authors ran it does not depend on delta", "section 8.4.3", outcome, numbers, measured=False
    )
