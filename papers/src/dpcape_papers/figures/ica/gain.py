"""Figures 6.2 to 6.4: q_NGI and overall epsilon by epsilon per round, number of people and delta."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypedDict

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from dpcape.core.arrays import FloatArray
from dpcape.metrics import gain_index
from dpcape_papers.experiments.curves import COLOURS, Look, draw_curves, legend_below, true_epsilon_lines
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import Cell, RunSetting
from dpcape_papers.experiments.results import EXACT, NON_PRIVATE, PUBLISHED, VERIFIED, Results, Row, Value, row
from dpcape_papers.figures.ica.methods import (
    Found,
    cape_djica_found,
    djica,
    dp_djica_found,
    joint_ica,
    overall,
)
from dpcape_papers.figures.ica.series import ABIDE, PeopleSeries, real, seed_of, simulated, some
from dpcape_papers.published.ica import DjicaComparison

ERROR, OVERALL = "q_NGI", "overall epsilon"
CLAIMED, MOMENTS = "ε claimed, theorem 6.1", "ε claimed, section 6.3.2"
TIME_POINT, PERSON = "real ε of one time point", "real ε of one person"
DP_DJICA, SAME = "DP-djICA", "CAPE at the published noise's real ε"
_COLOURS = COLOURS | {
    DP_DJICA: "#E69F00",
    SAME: "#56B4E9",
    CLAIMED: "#6A5ACD",
    MOMENTS: "#808000",
    TIME_POINT: "#8B4513",
    PERSON: "#B22222",
}
DELTA, DELTA_ROUND = 1e-5, 1e-2


class _Noise(TypedDict):
    """Noise of the published rounds, and the delta at which their total is stated."""

    epsilon: float
    delta_round: float
    delta: float
    n_iter: int


class _Frame(TypedDict):
    """Columns that all rows of one data set share."""

    panel: str
    run: int
    n_subjects: int
    asked_delta: float
    source: str


def compute(
    data: DataFolder,
    *,
    source: str,
    n_subjects: int,
    n_components: int,
    n_iter: int,
    epsilons: Sequence[float],
    exact_at: Sequence[float],
    delta: float,
    delta_round: float,
    run: int,
    side: int = 0,
    n_timepoints: int = 0,
) -> list[Row]:
    """Return q_NGI of every algorithm on one data set, and the overall epsilons, claimed by chapter 6 and real.

    The result without noise is computed only if ``exact_at`` is not empty, and drawn at these epsilons.
    """
    series, truths = _data(data, source, n_subjects, n_components, n_iter, run, side, n_timepoints)
    frame: _Frame = {
        "panel": f"{series.name}, {n_subjects} people",
        "run": run,
        "n_subjects": n_subjects,
        "asked_delta": delta,
        "source": source,
    }
    found: list[Row] = []
    if exact_at:
        value = gain_index(djica(series, n_components, n_iter=n_iter).unmixing, truths["infomax"])
        found += [_row(frame, "non-private", NON_PRIVATE, epsilon, ERROR, value) for epsilon in exact_at]
    for index, epsilon in enumerate(epsilons):
        seed = 1000 * (run + 1) + index
        noise: _Noise = {"epsilon": epsilon, "delta_round": delta_round, "delta": delta, "n_iter": n_iter}
        runs = {
            ("CAPE", PUBLISHED): cape_djica_found(series, n_components, seed=seed, **noise),
            ("local", PUBLISHED): cape_djica_found(series, n_components, seed=seed, alone=True, **noise),
            (DP_DJICA, PUBLISHED): dp_djica_found(series, n_components, epsilon=epsilon, n_iter=n_iter // 2, seed=seed),
        }
        # The complete analysis at the epsilon of one published round, and at the real epsilon of all published rounds.
        totals = overall(series, **noise)
        for curve, total in {"CAPE": epsilon, "local": epsilon, SAME: totals.verified_epsilon}.items():
            scheme = "local" if curve == "local" else "CAPE"
            result = joint_ica(series, n_components, scheme=scheme, epsilon=total, delta=delta, seed=seed)
            runs[curve, VERIFIED] = result
        for (curve, kind), result in runs.items():
            truth = truths["infomax" if kind == PUBLISHED else "moment"]
            found.append(_row(frame, curve, kind, epsilon, ERROR, gain_index(result.unmixing, truth), result, delta))
        found += _overall_rows(frame, epsilon, totals)
    return found


def _data(
    data: DataFolder, source: str, n_subjects: int, n_components: int, n_iter: int, run: int, side: int,
    n_timepoints: int,
) -> tuple[PeopleSeries, dict[str, FloatArray]]:  # fmt: skip
    """Return the people, and the maps with which each kind of algorithm is compared."""
    if source == "simulated":
        series = simulated(
            seed_of(run), n_subjects=n_subjects, n_components=n_components, side=side, n_timepoints=n_timepoints
        )
        return series, {"infomax": series.truth, "moment": series.truth}
    everybody, truths = _everybody(data, n_components, n_iter)
    return some(everybody, n_subjects, seed_of(run)), truths


@lru_cache(maxsize=1)
def _everybody(data: DataFolder, n_components: int, n_iter: int) -> tuple[PeopleSeries, dict[str, FloatArray]]:
    """Return all people and, for each kind of algorithm, its result without noise in place of the unknown truth."""
    series = real(data)
    exact = joint_ica(series, n_components, scheme="exact", epsilon=1.0, delta=DELTA, seed=0)
    return series, {"infomax": djica(series, n_components, n_iter=n_iter).mixing, "moment": exact.mixing}


def _overall_rows(frame: _Frame, epsilon: float, totals: DjicaComparison) -> list[Row]:
    values = {
        (CLAIMED, PUBLISHED): totals.claimed_epsilon,
        (MOMENTS, PUBLISHED): totals.claimed_moments,
        (TIME_POINT, EXACT): totals.verified_epsilon,
        (PERSON, EXACT): totals.verified_subject,
    }
    return [
        _row(frame, curve, kind, epsilon, OVERALL, value)
        for (curve, kind), value in values.items()
        if not math.isnan(value)
    ]


def _row(
    frame: _Frame, curve: str, kind: str, epsilon: float, measure: str, value: float,
    found: Found | None = None, delta: float | None = None,
) -> Row:  # fmt: skip
    return row(
        curve=curve,
        calibration=kind,
        x=epsilon,
        measure=measure,
        value=value,
        claimed_epsilon=None if found is None else found.claimed,
        verified_epsilon=None if found is None else found.verified,
        guarantee=None if found is None else found.guarantee,
        delta=delta,
        asked_epsilon=epsilon,
        **frame,
    )


def cells(
    setting: RunSetting,
    *,
    sizes: Mapping[str, Sequence[int]],
    epsilons: Sequence[float],
    deltas: Sequence[float] = (DELTA,),
    quick_runs: int = 3,
) -> list[Cell]:
    """Return one cell per source, number of people, delta and run; in full runs, also one per epsilon."""
    made = []
    for source, numbers in sizes.items():
        for n_subjects in numbers:
            for delta in deltas:
                for run in setting.run_numbers(quick_runs):
                    options = {
                        **_sizes(setting, source),
                        "n_subjects": n_subjects,
                        "delta": delta,
                        # The papers' noise is for delta 0.01 per round, except where they vary delta.
                        "delta_round": DELTA_ROUND if len(deltas) == 1 else delta,
                        "run": run,
                    }
                    groups = [list(epsilons)] if setting.quick else [[epsilon] for epsilon in epsilons]
                    for index, group in enumerate(groups):
                        exact_at = list(epsilons) if index == 0 else []
                        files = (ABIDE,) if source == "real" else ()
                        made.append(Cell(compute, {**options, "epsilons": group, "exact_at": exact_at}, files))
    return made


def _sizes(setting: RunSetting, source: str) -> dict[str, object]:
    if source == "real":
        return {"source": source, "n_components": setting.choose(4, 20), "n_iter": setting.choose(80, 200)}
    return {
        "source": source,
        "n_components": setting.choose(6, 20),
        "n_iter": setting.choose(160, 200),
        "side": setting.choose(12, 30),
        "n_timepoints": setting.choose(100, 250),
    }


def against(results: Results, x: str, *, fixed: str, symbol: str) -> Results:
    """Return rows with column ``x`` as horizontal coordinate, and panels by source and by the ``fixed`` column."""
    return Results(
        {**r, "x": r[x], "panel": f"{str(r['panel']).rsplit(', ', 1)[0]}, {symbol}={_short(r[fixed])}"} for r in results
    )


def _short(value: Value) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def draw(results: Results, x_label: str) -> Figure:
    """Draw q_NGI with published and with verified noise, and overall epsilons below; one column per panel."""
    panels = results.values("panel")
    figure, grid = plt.subplots(
        3, len(panels), figsize=(max(3.3 * len(panels), 10.0), 10.4), squeeze=False, sharex="col", layout="constrained"
    )
    for column, panel in enumerate(panels):
        rows = results.where(panel=panel)
        for line, kind in enumerate((PUBLISHED, VERIFIED)):
            shown = [one for one in rows.series(measure=ERROR) if one.calibration in (NON_PRIVATE, kind)]
            draw_curves(grid[line, column], shown, Look("", f"q_NGI, noise {kind}"), _COLOURS)
            grid[line, column].set_ylim(bottom=0)
        look = Look(x_label, "overall ε of capeDJICA", log_y=True)
        draw_curves(grid[2, column], rows.series(measure=OVERALL), look, _COLOURS)
        grid[0, column].set_title(str(panel), fontsize="medium")
        if rows.values("source") == ["real"]:
            grid[2, column].set_title("rounds only (PCA unprotected: ε = ∞)", fontsize="small")
    legend_below(figure)
    _note(figure, results)
    return figure


def _note(figure: Figure, results: Results) -> None:
    """Write the claimed and the real epsilons of each source above the legend."""
    lines = ["as published, claimed ε (theorem 6.1; DP-djICA: its paper) → real ε of one time point at δ"]
    for source, name in {str(r["source"]): str(r["panel"]).split(",")[0] for r in results}.items():
        rows = results.where(measure=ERROR, calibration=PUBLISHED, source=source)
        lines += [f"{name}, {line}" for line in true_epsilon_lines(rows)]
    figure.legends[0].set_title("\n".join(lines))
    figure.legends[0].get_title().set(fontsize="small", multialignment="center")
