"""Figures 6.5 and 6.6: maps without noise, and maps of capeDJICA for several epsilons and numbers of people."""

from __future__ import annotations

import math
from typing import TypedDict

import numpy as np
from matplotlib.figure import Figure

from dpcape.core.arrays import FloatArray
from dpcape.core.privacy.gaussian import epsilon_of, mu_of
from dpcape.guarantee.guarantee import Guarantee
from dpcape.metrics import matched_correlations
from dpcape.report.map_plots import matched_maps, plot_maps
from dpcape_papers.experiments.data import DataFolder
from dpcape_papers.experiments.experiment import RUNS_PER_SEED, Cell, RunSetting, Verdict
from dpcape_papers.experiments.results import NON_PRIVATE, PUBLISHED, VERIFIED, Results, Row, row
from dpcape_papers.figures.ica.gain import DELTA, DELTA_ROUND
from dpcape_papers.figures.ica.methods import Found, cape_djica_found, djica, joint_ica
from dpcape_papers.figures.ica.series import seed_of, simulated
from dpcape_papers.verdicts import as_good, outcome_of

CORRELATION, MAP = "map correlation", "map"
N_SHOWN = 6
# A map resembles the true one if their correlation is at least the first value; a correlation below djICA's by at
# most the second value counts as equal.
_RESEMBLES, _EQUAL = 0.9, 0.02


class _Noise(TypedDict):
    """Settings that the published and the verified algorithm share."""

    epsilon: float
    delta: float
    seed: int


class _Frame(TypedDict):
    """Columns that all rows of one result share."""

    panel: str
    curve: str
    calibration: str
    claimed_epsilon: float | None
    verified_epsilon: float | None
    guarantee: Guarantee | None
    delta: float | None
    run: int
    asked_epsilon: float | None
    n_subjects: int
    person_factor: int


def compute(
    data: DataFolder, *, n_subjects: int, n_components: int, side: int, n_timepoints: int, n_iter: int,
    epsilon: float | None, run: int,
) -> list[Row]:  # fmt: skip
    """Return correlations of the maps with the true ones and, in run 0, the maps; no noise if epsilon is None."""
    series = simulated(
        seed_of(run), n_subjects=n_subjects, n_components=n_components, side=side, n_timepoints=n_timepoints
    )
    exact = Found(np.linalg.pinv(series.truth).astype(np.float64), series.truth)
    if epsilon is None:
        runs = {("true", NON_PRIVATE): exact, ("non-private", NON_PRIVATE): djica(series, n_components, n_iter=n_iter)}
    else:
        noise: _Noise = {"epsilon": epsilon, "delta": DELTA, "seed": 1000 + run}
        runs = {
            ("CAPE", PUBLISHED): cape_djica_found(
                series, n_components, delta_round=DELTA_ROUND, n_iter=n_iter, **noise
            ),
            ("CAPE", VERIFIED): joint_ica(series, n_components, scheme="CAPE", **noise),
        }
    found: list[Row] = []
    for (curve, kind), result in runs.items():
        frame: _Frame = {
            "panel": f"{n_subjects} people",
            "curve": curve,
            "calibration": kind,
            "claimed_epsilon": result.claimed,
            "verified_epsilon": result.verified,
            "guarantee": result.guarantee,
            "delta": None if result.claimed is None else DELTA,
            "run": run,
            "asked_epsilon": epsilon,
            "n_subjects": n_subjects,
            "person_factor": n_timepoints,
        }
        value = float(matched_correlations(result.mixing, series.truth).mean())
        x = 0.0 if epsilon is None else epsilon
        found.append(row(x=x, measure=CORRELATION, value=value, **frame))
        if run % RUNS_PER_SEED == 0:
            found += _pixels(matched_maps(result.mixing, series.truth), frame)
    return found


def _pixels(maps: FloatArray, frame: _Frame) -> list[Row]:
    scaled = maps / np.abs(maps).max(axis=0)
    return [
        row(x=pixel, measure=MAP, value=round(float(value), 4), component=component, **frame)
        for component, image in enumerate(scaled.T[:N_SHOWN])
        for pixel, value in enumerate(image)
    ]


def _sizes(setting: RunSetting) -> dict[str, int]:
    return {
        "n_components": setting.choose(6, 20),
        "side": setting.choose(16, 30),
        "n_timepoints": setting.choose(100, 250),
        "n_iter": setting.choose(160, 200),
    }


def cells_exact(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 6.5."""
    n_subjects = setting.choose(160, 1024)
    return [
        Cell(compute, {**_sizes(setting), "n_subjects": n_subjects, "epsilon": None, "run": run})
        for run in setting.run_numbers(3)
    ]


def cells_private(setting: RunSetting) -> list[Cell]:
    """Return the cells of figure 6.6."""
    epsilons = (None, *setting.choose((0.1, 1.0), (0.1, 0.5, 2.0)))
    return [
        Cell(compute, {**_sizes(setting), "n_subjects": n_subjects, "epsilon": epsilon, "run": run})
        for n_subjects in setting.choose((40, 160), (256, 1024))
        for epsilon in epsilons
        for run in setting.run_numbers(3)
    ]


def draw(results: Results) -> Figure:
    """Draw one row of images per result of the first run, with its epsilons and the mean correlation of all runs."""
    shown: dict[str, FloatArray] = {}
    first = results.where(measure=MAP)
    for people in sorted({int(people) for people in first.numbers("n_subjects")}):
        rows = first.where(n_subjects=people)
        for curve, kind, epsilon in dict.fromkeys((r["curve"], r["calibration"], r["asked_epsilon"]) for r in rows):
            chosen = rows.where(curve=curve, calibration=kind, asked_epsilon=epsilon)
            if curve == "true":
                shown.setdefault("true", _image(chosen))
                continue
            same = results.where(
                measure=CORRELATION, curve=curve, calibration=kind, asked_epsilon=epsilon, n_subjects=people
            )
            shown[f"{people} people, {_label(same)}"] = _image(chosen)
    side = math.isqrt(next(iter(shown.values())).shape[0])
    axes = plot_maps(shown, (side, side), n_shown=N_SHOWN)
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.set_size_inches(N_SHOWN + 3.2, len(shown) + 0.6)
    # The images have a fixed shape; the labels are to the left of them.
    axes.set_anchor("E")
    axes.tick_params(labelsize=8)
    axes.set_title(
        f"simulated fMRI, δ = {DELTA:g}; correlation with the true maps, mean of all runs", fontsize="medium"
    )
    return figure


def _image(rows: Results) -> FloatArray:
    values = np.array(rows.numbers("value"))
    return values.reshape(len(rows.values("component")), -1).T


def _label(rows: Results) -> str:
    kind, correlation = rows[0]["calibration"], rows.mean()
    if kind == NON_PRIVATE:
        return f"djICA\nno noise, correlation {correlation:.3f}"
    asked, claimed, real = (rows[0][name] for name in ("asked_epsilon", "claimed_epsilon", "verified_epsilon"))
    if kind == PUBLISHED:
        return (
            f"capeDJICA as published\nε {asked:g} per round: claimed {claimed:.3g},\nreal {real:.3g} for a time point; "
            f"{correlation:.3f}"
        )
    return f"CAPE verified\nε {asked:g} in total for a time point;\n{correlation:.3f}"


def judge_exact(results: Results) -> list[Verdict]:
    """Judge figure 6.5."""
    values = results.where(measure=CORRELATION, curve="non-private").numbers("value")
    outcome = as_good([value >= _RESEMBLES for value in values])
    text = (
        f"Correlation with the true maps: mean {np.mean(values):.3f}, smallest of {len(values)} runs {min(values):.3f}."
    )
    return [Verdict("The maps of djICA resemble the true ones", "section 6.5.4", outcome, text)]


def judge_private(results: Results) -> list[Verdict]:
    """Judge figure 6.6."""
    rows = results.where(measure=CORRELATION)
    most = int(max(rows.numbers("n_subjects")))
    return [
        *(_resembles(rows.where(n_subjects=most, calibration=kind), kind, most) for kind in (PUBLISHED, VERIFIED)),
        _few_need_more(rows),
        _indistinguishable(rows, most),
        _unit(rows),
    ]


def _resembles(rows: Results, kind: str, people: int) -> Verdict:
    """Judge "closely resemble the true ones even for small overall epsilon", where small means at most one."""
    found = set(zip(rows.numbers("verified_epsilon"), rows.numbers("asked_epsilon"), strict=True))
    points = [(real, rows.mean(asked_epsilon=asked)) for real, asked in sorted(found)]
    resembling = [real for real, value in points if value >= _RESEMBLES]
    # Two conditions: some maps resemble the true ones, and some do so at a small epsilon.
    outcome = outcome_of(bool(resembling) + (min(resembling, default=math.inf) <= 1), 2)
    text = ", ".join(f"{value:.3f} at real epsilon {real:.3g}" for real, value in points)
    claim = f"With many people the maps closely resemble the true ones even at a small overall epsilon ({kind})"
    return Verdict(
        claim, "section 6.5.4", outcome, f"{people} people, correlation of maps private per time point: {text}.",
        needs_size=True,
    )  # fmt: skip


def _few_need_more(rows: Results) -> Verdict:
    numbers = sorted({int(people) for people in rows.numbers("n_subjects")})
    epsilons = sorted(set(rows.where(calibration=PUBLISHED).numbers("asked_epsilon")))
    means = {
        (people, epsilon): rows.mean(n_subjects=people, asked_epsilon=epsilon, calibration=PUBLISHED)
        for people in numbers
        for epsilon in epsilons
    }
    few, many = (means[people, epsilons[0]] for people in (numbers[0], numbers[-1]))
    helped = means[numbers[0], epsilons[-1]]
    outcome = outcome_of(int(few < many and helped > few), 1)
    text = (
        f"As published: {few:.3f} for {numbers[0]} people and {many:.3f} for {numbers[-1]} at epsilon {epsilons[0]:g} "
        f"per round; {helped:.3f} for {numbers[0]} at {epsilons[-1]:g}."
    )
    return Verdict("Fewer people need a larger epsilon (as published)", "section 6.5.4", outcome, text)


def _indistinguishable(rows: Results, people: int) -> Verdict:
    exact = rows.mean(n_subjects=people, curve="non-private")
    published = rows.where(n_subjects=people, calibration=PUBLISHED)
    values = {e: published.mean(asked_epsilon=e) for e in set(published.numbers("asked_epsilon"))}
    outcome = as_good([value >= exact - _EQUAL for value in values.values()])
    text = ", ".join(f"{value:.3f} at epsilon {epsilon:g}" for epsilon, value in sorted(values.items()))
    return Verdict(
        "The maps are almost indistinguishable from those without noise (as published)", "section 6.5.4", outcome,
        f"Correlation without noise {exact:.3f}; as published, per round: {text}.", needs_size=True,
    )  # fmt: skip


def _unit(rows: Results) -> Verdict:
    published = rows.where(calibration=PUBLISHED)
    real, factor = min(published.numbers("verified_epsilon")), published.numbers("person_factor")[0]
    person = epsilon_of(DELTA, factor * mu_of(real, DELTA))
    outcome = outcome_of(int(person <= 1), 1)
    text = f"At best {real:.3g} for a time point, which is {person:.3g} for a person with {factor:g} time points."
    return Verdict("The epsilon protects individuals", "sections 6.1 and 6.5.4", outcome, text, measured=False)
