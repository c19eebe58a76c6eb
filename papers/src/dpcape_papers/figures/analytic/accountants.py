"""Figure 6.1: total epsilon of capeDJICA by number of rounds, for every accountant of section 6.3 and exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dpcape_papers.experiments.curves import Look, colours_of, draw_curves, legend_below
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, Outcome, RunSetting, Verdict, Work
from dpcape_papers.experiments.results import EXACT, PUBLISHED, Results, Row, row
from dpcape_papers.published.cape import true_kappa
from dpcape_papers.published.composition import (
    advanced_epsilon,
    basic_epsilon,
    exact_epsilon,
    printed_renyi_epsilon,
    renyi_epsilon,
)
from dpcape_papers.published.ica import moments_claim
from dpcape_papers.published.regression import classical_multiplier
from dpcape_papers.verdicts import outcome_of

EPSILON = "total epsilon"
BASIC, ADVANCED = "basic composition (theorem 6.1)", "strong composition"
MOMENTS, PRINTED_RENYI = "moments accountant of section 6.3.2", "Rényi of section 6.3.1 (sensitivity 1)"
RENYI, COMPOSED, AGGREGATOR = "Rényi, real sensitivity", "exact, results seen", "exact, aggregator and a site"
N_SITES, N_COLLUDING = 4, 1


def accounts(data: DataFolder, *, n_records: int, scale: float, panel: str, rounds: Sequence[int]) -> list[Row]:
    """Return the total epsilon of every accountant; each round releases two gradients of sensitivity 2/N."""
    sensitivity, delta = 2 / n_records, 1 / n_records
    mu = sensitivity / scale
    seen = mu * math.sqrt(true_kappa(N_SITES, N_COLLUDING))
    accountants: dict[tuple[str, str], Callable[[int], float]] = {
        (BASIC, PUBLISHED): lambda n: basic_epsilon(mu, n, delta),
        (ADVANCED, PUBLISHED): lambda n: advanced_epsilon(mu, n, delta),
        (MOMENTS, PUBLISHED): lambda n: moments_claim(sensitivity, scale, n, delta),
        (PRINTED_RENYI, PUBLISHED): lambda n: printed_renyi_epsilon(scale, n, delta),
        (RENYI, EXACT): lambda n: renyi_epsilon(mu, n, delta),
        (COMPOSED, EXACT): lambda n: exact_epsilon(mu, n, delta),
        (AGGREGATOR, EXACT): lambda n: exact_epsilon(seen, n, delta),
    }
    rows = []
    for (curve, calibration), account in accountants.items():
        for n_rounds in rounds:
            total = account(2 * n_rounds)
            if math.isnan(total):  # the printed quadratic has no real root
                continue
            real = exact_epsilon(seen if curve == AGGREGATOR else mu, 2 * n_rounds, delta)
            rows.append(
                row(
                    panel=panel,
                    curve=curve,
                    calibration=calibration,
                    x=n_rounds,
                    measure=EPSILON,
                    value=total,
                    claimed_epsilon=total,
                    verified_epsilon=real,
                    delta=delta,
                )
            )
    return rows


def cells(setting: RunSetting) -> list[Cell]:
    """Return cells for the figure's noise variance with three values of N, and for the noise of the experiments."""
    rounds = [1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000]
    made = [
        Cell(accounts, {"n_records": n, "scale": math.sqrt(1e-3), "rounds": rounds,
                        "panel": f"σ² = 0.001, N = {n:,}, δ = 1/N"})
        for n in (300, 3_000, 256_000)
    ]  # fmt: skip
    own = 2 / 256_000 * classical_multiplier(0.5, 1e-2)
    title = "σ of the experiments (ε = 0.5 a round), N = 256,000"
    return [*made, Cell(accounts, {"n_records": 256_000, "scale": own, "rounds": rounds, "panel": title})]


def draw(results: Results) -> Figure:
    """Draw the four settings, the accountants of the papers above and valid ones below, with the exact epsilon."""
    panels = [str(name) for name in results.values("panel")]
    figure, grid = plt.subplots(2, len(panels), figsize=(3.9 * len(panels), 7.8), layout="constrained", sharex="col")
    look = Look("rounds J", "total ε", log_y=True)
    colours = colours_of([str(curve) for curve in results.values("curve")])
    for column, name in zip(grid.T, panels, strict=True):
        series = results.series(panel=name)
        printed = [one for one in series if one.calibration == PUBLISHED or one.curve == COMPOSED]
        draw_curves(column[0], printed, look, colours)
        draw_curves(column[1], [one for one in series if one.calibration == EXACT], look, colours)
        column[0].set_title(name, fontsize="small")
        text = _unsafe_note(results.where(panel=name))
        column[0].text(0.02, 0.98, text, transform=column[0].transAxes, va="top", fontsize="xx-small", linespacing=1.4)
        low, high = column[0].get_ylim()
        column[0].set_ylim(low, high * (high / low) ** 0.2)  # room for the note
    legend_below(figure)
    return figure


def _unsafe_note(results: Results) -> str:
    claims = _by_round(results, MOMENTS)
    exact = _by_round(results, COMPOSED)
    short = [n for n in claims if claims[n] < exact[n]]
    gone = [n for n in exact if n not in claims]
    if not short:
        return "section 6.3.2 never claims too small an ε here"
    worst = max(short, key=lambda n: exact[n] / claims[n])
    text = f"section 6.3.2 claims {claims[worst]:.2g} where the real ε is {exact[worst]:.2g} (J = {worst:g})"
    return text + (f"\nand has no value from J = {min(gone):g}" if gone else "")


def _by_round(results: Results, curve: str) -> dict[float, float]:
    rows = results.where(curve=curve)
    return dict(zip(rows.numbers("x"), rows.numbers("value"), strict=True))


def judge(results: Results) -> list[Verdict]:
    """Judge section 6.3."""
    panels = {str(name): results.where(panel=name) for name in results.values("panel")}
    return [_smaller(panels), _safe(panels), _renyi(panels), _linear(panels)]


def _smaller(panels: dict[str, Results]) -> Verdict:
    counted, parts = (0, 0), []
    for name, rows in panels.items():
        moments, basic, exact = (_by_round(rows, curve) for curve in (MOMENTS, BASIC, COMPOSED))
        smaller = [n for n in moments if moments[n] < basic[n]]
        counted = (counted[0] + len(smaller), counted[1] + len(exact))
        parts.append(f"{len(smaller)} of {len(exact)} ({name})")
    return Verdict(
        "The moments accountant gives a much smaller total epsilon than basic composition.",
        "section 6.3.2, figure 6.1",
        outcome_of(*counted),
        f"it has a value, and a smaller one, at {'; '.join(parts)} numbers of rounds",
        measured=False,
    )


def _safe(panels: dict[str, Results]) -> Verdict:
    short, missing, n_points, worst = 0, 0, 0, (1.0, "")
    for name, rows in panels.items():
        moments, exact = _by_round(rows, MOMENTS), _by_round(rows, COMPOSED)
        n_points += len(exact)
        missing += len(exact) - len(moments)
        for n in moments:
            short += moments[n] < exact[n]
            text = f"{moments[n]:.3g}, real {exact[n]:.3g} ({name}, J = {n:g})"
            worst = max(worst, (exact[n] / moments[n], text))
    outcome: Outcome = "fails" if short + missing else "holds"  # a guarantee has no exceptions
    numbers = f"too small at {short} and without a value at {missing} of {n_points} points"
    numbers += f"; worst: {worst[1]}" if worst[1] else ""
    claim = "The epsilon of the moments accountant is guaranteed."
    return Verdict(claim, "section 6.3.2", outcome, numbers, measured=False)


def _renyi(panels: dict[str, Results]) -> Verdict:
    factors: list[float] = []
    for rows in panels.values():
        printed, exact = _by_round(rows, PRINTED_RENYI), _by_round(rows, COMPOSED)
        factors += [printed[n] / exact[n] for n in exact]
    # "Better" means a valid bound that is less than twice the exact epsilon.
    met = sum(1 <= factor < 2 for factor in factors)
    return Verdict(
        "Rényi composition characterises the privacy loss better (computed for sensitivity 1).",
        "section 6.3.1",
        outcome_of(met, len(factors)),
        f"{min(factors):.2g} to {max(factors):.2g} times the exact epsilon, because the sensitivity is 2/N, not 1",
        measured=False,
    )


def _linear(panels: dict[str, Results]) -> Verdict:
    growth = []
    for rows in panels.values():
        basic = _by_round(rows, BASIC)
        first, last = min(basic), max(basic)
        growth.append(basic[last] / basic[first] / (last / first))
    return Verdict(
        "Basic composition grows linearly with the number of rounds.",
        "section 6.3.2",
        "holds" if max(growth) < 1.01 else "holds under conditions",
        f"{max(growth):.2f} times linear growth from 1 to 1000 rounds at a fixed total delta, because each round's "
        "delta shrinks too",
        measured=False,
    )


WORK = Work(cells, draw, judge)
